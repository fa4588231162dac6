"""The plugin for mypy knows which layers follow each other in a `Sequential`, and which parameters a layer has."""

from __future__ import annotations

from typing import Any

import pytest

import wyrm as wy
from tests.typing.with_plugin import Checked

PREAMBLE = """\
from __future__ import annotations
from typing import Generic
import numpy as np
from typing_extensions import TypeVar
import wyrm as wy
from wyrm.nn import *


class A(wy.Dim): ...


class B(wy.Dim): ...


class C(wy.Dim): ...


I = TypeVar("I", bound=wy.Dim)
H = TypeVar("H", bound=wy.Dim)
a, b, c = A(2), B(3), C(4)


def made() -> Linear[A, B]:
    return Linear(a, b)


class Model(wy.nn.Module, Generic[I, H]):
    def __init__(self, inputs: I, hidden: H, biased: bool) -> None:
        self.right = Sequential(Linear(inputs, hidden), relu, Linear(hidden, inputs))
        self.wrong = Sequential(Linear(inputs, hidden), relu, Linear(inputs, hidden))
        self.last = Linear(inputs, hidden)
        self.other = Linear(inputs, hidden, bias=biased)
        reveal_type(self.last.bias)
        reveal_type(self.other.bias)


"""
RIGHT = (
    "Sequential(Linear(a, b), relu, Linear(b, c))",
    "Sequential(Linear(a, b), Sequential(Linear(b, c), relu), Linear(c, a))",
    "Sequential(Linear(a, b), Flatten(), Linear(a, c))",
    "Sequential(Linear(a, 4), Linear(4, b))",
    "Sequential(Linear(3, 4), LayerNorm(4), Linear(4, 5), Dropout(0.5), Linear(5, 1))",
    "Sequential(Conv2d(1, 4, 3), BatchNorm2d(4), relu, MaxPool2d(2), Flatten(), Linear(144, 3))",
    "Sequential(Embedding(20, 12), Linear(12, 3))",
    "Sequential(Linear(3, 4), Flatten(), Linear(20, 5))",
    "Sequential(Linear(3, 4), BatchNorm1d(7))",
    "Sequential(*[Linear(3, 3), Linear(3, 3)])",
    "Linear(b, c)(np.zeros((2, 3), np.float32)).sum()",
)
WRONG = {
    "Sequential(Linear(a, b), relu, Linear(c, b))": "Sequential of Linear and Linear: B against C",
    "Sequential(Linear(a, b), Linear(c, b))": "Sequential of Linear and Linear: B against C",
    "Sequential(Linear(a, b), LayerNorm(c), Linear(c, b))": "Sequential of Linear and LayerNorm: B against C",
    "Sequential(Linear(3, 4), relu, Linear(5, 2))": "Linear of (Any, 4): 4 against 5",
    "Sequential(Linear(8, 8), Linear(8, 8), Linear(7, 8))": "Linear of (Any, 8): 8 against 7",
    "Sequential(Embedding(20, 12), relu, Linear(3, 4), Linear(5, 2))": "Linear of (Any, 4): 4 against 5",
    "Sequential(Linear(a, 4), tanh, Linear(5, b))": "Linear of (Any, 4): 4 against 5",
    "Sequential(Conv2d(1, 4, 3), relu, Conv2d(5, 2, 3))": (
        "Conv2d of (Any, 4, Any-2, Any-2): 4 against 5; the axes are (batch, channels, *sizes)"
    ),
}
PARAMETERS = {
    "Linear(a, b).bias": "Parameter[tuple[B]]",
    "Linear(a, b, bias=True).bias": "Parameter[tuple[B]]",
    "Linear(a, b, bias=False).bias": "None",
    "Conv2d(3, 4, 3).bias": "Parameter[tuple[Any]]",
    "LayerNorm(3).bias": "Parameter[tuple[Any]]",
    "BatchNorm1d(3).weight": "Parameter[tuple[Any]]",
    "BatchNorm1d(3, affine=False).weight": "None",
    "made().bias": "Parameter[tuple[B]] | None",
}
OF_LAYERS = Checked(
    "layers",
    lambda: PREAMBLE + "".join(f"{each}\n" for each in (*RIGHT, *WRONG, *(f"reveal_type({p})" for p in PARAMETERS))),
)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What mypy says of each line."""
    found, start = OF_LAYERS.says(tmp_path_factory), PREAMBLE.count("\n") + 1
    lines = enumerate((*RIGHT, *WRONG, *PARAMETERS), start)
    return {each: [text for _, text, _ in found.get(number, [])] for number, each in lines}


def test_layers_that_may_follow_are_no_error(said: dict[str, list[str]]) -> None:
    assert [(each, said[each]) for each in RIGHT if said[each]] == []


def test_a_gap_between_layers_is_an_error(said: dict[str, list[str]]) -> None:
    assert {each: said[each] for each in WRONG} == {each: [text] for each, text in WRONG.items()}


def test_the_run_time_agrees() -> None:
    names: dict[str, Any] = {}
    exec(PREAMBLE.replace("reveal_type", "repr"), names)
    for each in RIGHT:
        eval(each, names)
    for each in WRONG:
        model = eval(each, names)
        for x in (wy.Input(dims=(5, int(n))) for n in (2, 3, 8)):
            with pytest.raises((wy.errors.ShapeError, wy.errors.DTypeError)):
                model(x)


def test_a_parameter_that_an_option_decides_is_known(said: dict[str, list[str]]) -> None:
    found = {each: said[each][0].replace("wyrm.graph.parameters.", "").split('"')[1] for each in PARAMETERS}
    assert {each: type_.replace("program_layers.", "") for each, type_ in found.items()} == PARAMETERS


def test_axes_and_parameters_of_a_generic_module_are_known(tmp_path_factory: pytest.TempPathFactory) -> None:
    lines, messages = PREAMBLE.splitlines(), OF_LAYERS.says(tmp_path_factory).items()
    found = {lines[line - 1].strip(): [text for _, text, _ in each] for line, each in messages if line <= len(lines)}
    parameter = "wyrm.graph.parameters.Parameter[tuple[H]]"
    assert found == {
        "self.wrong = Sequential(Linear(inputs, hidden), relu, Linear(inputs, hidden))": [
            "Sequential of Linear and Linear: H against I"
        ],
        "reveal_type(self.last.bias)": [f'Revealed type is "{parameter}"'],
        "reveal_type(self.other.bias)": [f'Revealed type is "{parameter} | None"'],
    }
