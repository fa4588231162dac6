"""Imports of modules of the earlier layout, and pickles that name them, say where they have moved."""

from __future__ import annotations

import importlib
import pickle
from pathlib import Path

import pytest

import wyrm
from wyrm.support.imports import _JOINED


@pytest.mark.parametrize(
    ("module", "place"),
    [("wyrm.node.leaves", "wyrm.graph"), ("wyrm.backends.llvm.store", "wyrm.engines"), ("wyrm.types", "wyrm.graph"),
     ("wyrm.ops.arithmetic", "a folder of wyrm.ops"), ("wyrm.train.runner", "wyrm.engines"),
     ("wyrm.nn.lstm_state", "other modules of wyrm.nn"), ("wyrm.data.tokens", "other modules of wyrm.data"),
     ("wyrm.optim.adam_variants", "other modules of wyrm.optim"), ("wyrm.train.profiled", "wyrm.engines"),
     ("wyrm.engines.fixed_shapes", "other modules of wyrm.engines"),
     ("wyrm.engines.jax.checks", "other modules of wyrm.engines"),
     ("wyrm.graph.index_checks", "other modules of wyrm.graph"), ("wyrm.train.history", "other modules of wyrm.train")],
)  # fmt: skip
def test_a_module_of_the_earlier_layout_says_where_it_is(module: str, place: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"earlier versions are in {place}"):
        importlib.import_module(module)


def test_no_module_that_exists_is_said_to_be_gone() -> None:
    root = Path(wyrm.__file__).parent
    named = [root / room / f"{module}.py" for room, modules in _JOINED.items() for module in modules.split()]
    assert not [path for path in named if path.exists()]


def test_a_pickle_of_the_earlier_layout_says_that_it_does_not_load() -> None:
    with pytest.raises(ModuleNotFoundError, match="A pickle that names one does not load"):
        pickle.loads(b"cwyrm.node.leaves\nParameter\n.")


@pytest.mark.parametrize("module", ["wyrm.trian", "wyrm.nn.liner", "wyrmm"])
def test_other_modules_are_unknown_as_ever(module: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"^No module named '{module}'$"):
        importlib.import_module(module)
