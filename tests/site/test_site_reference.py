"""The reference: every public name once, with short types and all options; every package opens with an example."""

from __future__ import annotations

import importlib
import re
from types import ModuleType

import pytest

import wyrm as wy
import wyrm.engines
from tests.site.reference import contents, reference, texts

_HEADS = re.compile(r"^`+\{py:(?:function|class|data)\} ([\w.]+)(.*)$", re.MULTILINE)


def public_modules() -> list[ModuleType]:
    """Return `wyrm` and the modules that it exports, recursively, with those that `*` leaves out."""
    modules = [wy, wy.jax, wy.numba, wyrm.engines]
    for module in modules:
        members = [getattr(module, name) for name in module.__all__]
        modules += [member for member in members if isinstance(member, ModuleType) and member not in modules]
    return modules


def heads() -> list[tuple[str, str]]:
    """Return the names that the pages describe, each with its signature."""
    return [found for text in texts().values() for found in _HEADS.findall(text)]


def test_every_public_name_is_in_the_reference_once() -> None:
    described = [name for name, _ in heads()]
    assert len(described) == len(set(described))
    missing = []
    for module in public_modules():
        for name in module.__all__:
            member = getattr(module, name)
            if not isinstance(member, ModuleType) and f"{module.__name__}.{name}" not in described:
                missing.append(f"{module.__name__}.{name}")
    # An error and a class stand once, at the place that `__all__` of the top level or of `wyrm.errors` gives.
    again = {name for name in missing if getattr(*_place(name)).__name__ in {each.split(".")[-1] for each in described}}
    assert set(missing) == again


def _place(full: str) -> tuple[object, str]:
    module, _, name = full.rpartition(".")
    return importlib.import_module(module), name


def test_options_are_spelled_out() -> None:
    signatures = dict(heads())
    assert not [name for name, text in signatures.items() if "Unpack[" in text or "TypedDict" in text]
    conv = signatures["wyrm.nn.Conv2d"]
    assert all(f"{option}: " in conv for option in ("stride", "padding", "dilation", "groups", "bias", "seed", "dtype"))
    assert conv.startswith("(in_channels: Dim | int, out_channels: Dim | int, kernel_size: int | Sequence[int], ")
    assert "seed: int | None = None" in signatures["wyrm.nn.LSTM"]
    assert "reduction: Literal['mean', 'sum', 'none'] = 'mean'" in signatures["wyrm.losses.mse"]


def test_what_a_base_describes_is_not_repeated() -> None:
    layers = texts()["layers"]
    assert layers.count("{py:method} load_state_dict(") == 1  # that of `Module`
    assert "Base: {py:obj}`wyrm.nn.Layer`" in layers.partition("{py:class} wyrm.nn.Linear(")[2]


def test_types_are_short() -> None:
    signatures = dict(heads())
    assert signatures["wyrm.sum"] == (
        "(x: Node | IndexNode | float | ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False)"
        " -> Node | IndexNode"
    )
    assert signatures["wyrm.exp"] == "(x: Node | float | ArrayLike) -> Node"
    assert not [name for name, text in signatures.items() if re.search(r"\b(Shaped|OfShape|Unnamed)\[", text)]
    assert "embed: bool | Literal['float32', 'float16', 'int8'] = False" in signatures["wyrm.export"]
    # Where what runs is no node, no type is the name of an op.
    assert not [name for name, text in signatures.items() if ": Node = False" in text or ": Node = True" in text]


def test_layers_show_what_they_are_called_with() -> None:
    entry = texts()["layers"].partition("{py:class} wyrm.nn.Linear(")[2]
    assert re.search(r"\{py:method\} __call__\(x: Tensor\[", entry.partition("{py:class}")[0])


def test_the_methods_of_nodes_are_listed_once() -> None:
    text = texts()["node-methods"]
    assert "| `x.sum(axis: " in text and "{py:method} wyrm.Node.cross_entropy(" in text
    assert "{py:method} wyrm.Node.sum(" not in text


def test_no_page_is_too_long() -> None:
    assert max(len(text) for text in texts().values()) < 60_000  # about 300 KB of HTML


def test_names_of_contributors_come_last() -> None:
    last = contents()[contents().index("op-classes") :]
    assert {"testing", "engines"} < set(last)
    assert not [name for name in last if name in ("layers", "train", "optimizers")]
    assert len(reference().names) > 700


@pytest.mark.parametrize("module", [module.__name__ for module in public_modules()])
def test_every_package_opens_with_an_example(module: str) -> None:
    assert ">>> " in (importlib.import_module(module).__doc__ or "")


def test_the_glossary_names_what_there_is_and_fits_a_page() -> None:
    assert wy.__doc__ is not None
    glossary = wy.__doc__.partition("## Glossary")[2]
    assert len(glossary.splitlines()) <= 60
    rooms = [importlib.import_module(name) for name in ("wyrm", "wyrm.graph.base", "wyrm.functions.pytree")]
    names = {name for name in re.findall(r"`([A-Za-z_.]+)`", wy.__doc__) if name != "evaluate"}
    ops = wy.graph.base.BaseNode
    for name in names:
        first, *rest = name.split(".")
        owner = next((room for room in (*rooms, ops, wy.LoopForm) if hasattr(room, first)), None)
        assert owner is not None, name
        member = getattr(owner, first)
        for part in rest:
            member = getattr(member, part)
