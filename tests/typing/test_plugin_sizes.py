"""The plugin for mypy knows the sizes that the text of a file tells: each error here is one of the run time too."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

import wyrm as wy
from tests.typing.random_values import PREAMBLE as of_values
from tests.typing.random_values import functions
from tests.typing.with_plugin import Checked
from wyrm.errors import ShapeError

PREAMBLE = """\
from __future__ import annotations
from typing import Final
import numpy as np
import wyrm as wy


class Batch(wy.Dim): ...


class Hid(wy.Dim): ...


hid = Hid(12)
x = wy.Input(dims=(Batch(), 1, 8, 8))
y = wy.Input(np.zeros((4, 7), np.float32), dims=(4, 7))
z = wy.Input(dims=(Batch(), hid))
maps = wy.nn.MaxPool2d(2)(wy.nn.Conv2d(1, 4, 3)(x))
first, second = wy.nn.Linear(7, 4), wy.nn.Linear(5, 3)
w = wy.Parameter.zeros((7, 3))
v = wy.Parameter.zeros((8, 3))
table, target = wy.Input(dims=(Batch(), 8)), wy.Input(dims=(Batch(),))
last = wy.nn.Linear(8, 1)
changed = wy.nn.Linear(7, 7)
changed = wy.nn.Linear(7, 5)
kept, grown = [5, 7], [7]
grown.append(5)
steps = []
for _ in range(3):
    steps.append(y)


class Sizes:
    INPUTS: Final = 5
    inputs = 7

    def wrong(self) -> wy.Node:
        return wy.nn.Linear(self.INPUTS, 3)(y)

    def unknown(self) -> wy.Node:
        return wy.nn.Linear(self.inputs, 3)(y)


rows = y
for _ in range(3):
    rows = wy.nn.Linear(int(rows.shape[-1]), 5)(rows)
"""

RIGHT = (
    "wy.nn.Sequential(wy.nn.Conv2d(1, 4, 3), wy.nn.relu, wy.nn.Flatten(), wy.nn.Linear(4 * 6 * 6, 3))(x)",
    "wy.nn.Linear(36, 3)(maps.flatten(1))",
    "wy.nn.Linear(36, 3)(maps.reshape(maps.shape[0], -1))",
    "y @ w",
    "y.reshape(14, 2)",
    "z.reshape(-1, 3, 4)",
    "second(changed(y))",
    "second(rows)",
    "wy.nn.Linear(kept[1], 3)(y)",
    "wy.nn.Linear(grown[0], 3)(y)",
    "wy.stack(steps, axis=1)",
    "wy.nn.ConvTranspose2d(4, 1, 2, stride=2)(maps)",
    "wy.nn.MultiHeadAttention(hid, 4)",
    "last(table).squeeze(-1) - target",
    "last(table) - target[:, None]",
    "last(table) * table",
    "target[:, None] - target",
    "target[:, None] >= target[None, :]",
    "table.mean(axis=1, keepdims=True) - target",
)
WRONG = {
    "wy.nn.Sequential(wy.nn.Conv2d(1, 4, 3), wy.nn.relu, wy.nn.Flatten(), wy.nn.Linear(145, 3))(x)": (
        "Linear of (Batch(), 144): 144 against 145"
    ),
    "wy.nn.Linear(37, 3)(maps.flatten(1))": "Linear of (Batch(), 36): 36 against 37",
    "wy.nn.Linear(37, 3)(wy.nn.Flatten()(maps))": "Linear of (Batch(), 36): 36 against 37",
    "wy.nn.Conv2d(2, 4, 3)(x)": ("Conv2d of (Batch(), 1, 8, 8): 1 against 2; the axes are (batch, channels, *sizes)"),
    "wy.nn.MaxPool2d(9)(x)": (
        "MaxPool2d of (Batch(), 1, 8, 8): a window of 9 elements with stride 9, padding (0, 0) and dilation 1 has no "
        "element of an axis of size 8"
    ),
    "y @ v": "@ of (4, 7) and (8, 3): 7 against 8",
    "y.reshape(4, 6)": "reshape(to=(4, 6)): cannot reshape (4, 7) to (4, 6): 28 elements against 24",
    "z.reshape(-1, 3, 5)": (
        "reshape(to=(-1, 3, 5)): cannot reshape (Batch(), Hid(12)) to (-1, 3, 5): 12 elements are not divisible by 15"
    ),
    "wy.nn.Linear(kept[0], 3)(y)": "Linear of (4, 7): 7 against 5",
    "second(first(y))": "Linear of (4, 4): 4 against 5",
    "(first >> second)(y)": "Linear of (4, 4): 4 against 5",
    "y + wy.Input(dims=(4, 8))": "+ of (4, 7) and (4, 8): 7 against 8",
    "wy.concatenate([y, x], axis=0)": "concatenate(axis=0): input has 4 axes, input 2",
    "wy.nn.MultiHeadAttention(hid, 5)": "MultiHeadAttention: embed_dim 12 is not divisible by num_heads 5",
    **{
        f"{left} {sign} {right}": f"{sign} of {axes}: Batch() twice in the result: remove the axis of size 1 with "
        ".squeeze(-1)"
        for left, sign, right, axes in (
            ("last(table)", "-", "target", "(Batch(), 1) and (Batch(),)"),
            ("target", "*", "last(table)", "(Batch(),) and (Batch(), 1)"),
            ("last(table)", ">=", "target", "(Batch(), 1) and (Batch(),)"),
            ("(wy.nn.Linear(8, 5) >> wy.nn.Linear(5, 1))(table)", "-", "target", "(Batch(), 1) and (Batch(),)"),
            ("table[:, :1]", "-", "target", "(Batch(), 1) and (Batch(),)"),
        )
    },
    "wy.nn.GroupNorm(3, 4)": "GroupNorm: 4 cannot be divided into 3 equal groups",
}


# The sizes of what a model takes are not known; those between its layers are.
MODELS = """\
from __future__ import annotations
from typing import Any, TypeVar
import wyrm as wy
B = TypeVar("B", bound=wy.Dim)


class Hid(wy.Dim): ...


class Right(wy.nn.Module):
    def __init__(self) -> None:
        self.first = wy.nn.Conv2d(1, 4, 3)
        self.second = wy.nn.Conv2d(4, 8, 3, padding=1)
        self.linear = wy.nn.Linear(8 * 6 * 6, 16)
        self.norm = wy.nn.LayerNorm(16)
        self.last = wy.nn.Linear(16, 16)
        self.attention = wy.nn.MultiHeadAttention(16, 4)

    def __call__(self, x: wy.Tensor[B, Any, Any, Any], steps: wy.Tensor[B, Any, Any]) -> wy.Tensor[B, Any, Any]:
        maps = self.second(self.first(x).relu())
        features = self.norm(self.linear(maps.flatten(1))).relu()
        same = self.last(self.last(features)) + features
        return self.last(self.attention(steps) + same[:, None]) * steps.mean(axis=1, keepdims=True)


class Wrong(wy.nn.Module):
    def __init__(self) -> None:
        self.first = wy.nn.Conv2d(1, 4, 3)
        self.second = wy.nn.Conv2d(5, 8, 3)
        self.linear = wy.nn.Linear(8 * 6 * 6, 16)
        self.last = wy.nn.Linear(17, 3)

    def __call__(self, x: wy.Tensor[B, Any, Any, Any]) -> wy.Tensor[B, Any]:
        maps = self.second(self.first(x).relu())
        return self.last(self.linear(maps.flatten(1)).relu())


class Regression(wy.nn.Module):
    def __init__(self) -> None:
        self.last = wy.nn.Linear(8, 1)

    def right(self, x: wy.Tensor[B, Any], y: wy.Tensor[B]) -> wy.Tensor[()]:
        pairs = (y[:, None] - y).square().mean()
        return (self.last(x).squeeze(-1) - y).square().mean() + (self.last(x) * x).mean() + pairs

    def wrong(self, x: wy.Tensor[B, Any], y: wy.Tensor[B]) -> wy.Tensor[()]:
        predicted = self.last(x)
        return (predicted - y).square().mean()


def named(x: wy.Tensor[B, Hid], y: wy.Tensor[B], z: wy.Tensor[B, Hid], u: wy.Tensor[Hid]) -> None:
    layer = wy.nn.Linear(Hid(8), 1)
    layer(x) - z
    layer(x) - u
    y - layer(x)
"""


OF_MODELS = Checked("models", lambda: MODELS)


def test_sizes_between_the_layers_of_a_model_are_known(tmp_path_factory: pytest.TempPathFactory) -> None:
    said_of = OF_MODELS.says(tmp_path_factory)
    found = {MODELS.splitlines()[line - 1].strip(): said for line, said in said_of.items()}
    assert {line: [text for _, text, _ in said] for line, said in found.items()} == {
        "maps = self.second(self.first(x).relu())": [
            "Conv2d of (B(), 4, Any-2, Any-2): 4 against 5; the axes are (batch, channels, *sizes)"
        ],
        "return self.last(self.linear(maps.flatten(1)).relu())": ["Linear of (B(), 16): 16 against 17"],
        "return (predicted - y).square().mean()": [
            "- of (B(), 1) and (B(),): B() twice in the result: remove the axis of size 1 with .squeeze(-1)"
        ],
        "y - layer(x)": [
            "- of (B(),) and (B(), 1): B() twice in the result: remove the axis of size 1 with .squeeze(-1)"
        ],
    }


OF_SIZES = Checked("sizes", lambda: PREAMBLE + "\n".join([*RIGHT, *WRONG]) + "\n")


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The errors of each expression."""
    lines, found = [*RIGHT, *WRONG], OF_SIZES.says(tmp_path_factory)
    start = PREAMBLE.count("\n") + 1
    return {
        each: [text for kind, text, _ in found.get(start + i, []) if kind == "error"] for i, each in enumerate(lines)
    }


def test_what_fits_is_no_error(said: dict[str, list[str]]) -> None:
    assert [(each, said[each]) for each in RIGHT if said[each]] == []


def test_what_does_not_fit_is_an_error(said: dict[str, list[str]]) -> None:
    assert {each: said[each] for each in WRONG} == {each: [text] for each, text in WRONG.items()}


def test_only_a_final_attribute_of_a_class_is_known(tmp_path_factory: pytest.TempPathFactory) -> None:
    lines = PREAMBLE.splitlines()
    errors = OF_SIZES.says(tmp_path_factory).items()
    said = {lines[line - 1].strip(): each for line, each in errors if line <= len(lines) and each[0][2] == "axes"}
    assert said == {"return wy.nn.Linear(self.INPUTS, 3)(y)": [("error", "Linear of (4, 7): 7 against 5", "axes")]}


def test_the_run_time_agrees() -> None:
    names: dict[str, Any] = {"wy": wy}
    exec(PREAMBLE, names)
    for each in RIGHT:
        eval(each, names)
    for each in WRONG:
        with pytest.raises(ShapeError):
            eval(each, names)


@cache
def _functions() -> list[str]:
    return list(functions(400))


OF_VALUES = Checked("values", lambda: of_values + "\n\n".join(_functions()))


def test_what_the_plugin_says_of_lists_that_change_is_so_at_run_time(tmp_path_factory: pytest.TempPathFactory) -> None:
    names: dict[str, Any] = {"wy": wy}
    exec(of_values + "\n\n".join(_functions()), names)
    said, line = OF_VALUES.says(tmp_path_factory), of_values.count("\n")
    judged = []
    for number, source in enumerate(_functions()):
        line += source.count("\n")
        is_error = any(code == "axes" for _, _, code in said.get(line, []))
        judged.append((_fits(names[f"made_{number}"]), is_error, source))
        line += 2
    assert [source for fits, is_error, source in judged if fits and is_error] == []
    # Half of the functions change nothing that their last lines read.
    assert sum(is_error for _, is_error, _ in judged) > 40
    assert sum(fits for fits, _, _ in judged) > 100


def _fits(function: Callable[[], object]) -> bool:
    try:
        function()
    except ShapeError:
        return False
    return True
