"""The plugin for mypy knows what programs, optimizers and functions of arrays take: each error is one at run time."""

from __future__ import annotations

from typing import Any

import pytest

import wyrm as wy
from tests.typing.with_plugin import Checked, CheckedLines

PREAMBLE = """\
from __future__ import annotations
import numpy as np
import wyrm as wy


class Batch(wy.Dim): ...


class In(wy.Dim): ...


batch, inputs = Batch(), In(3)
x = wy.Input(dims=(batch, inputs), name="x")
w = wy.Parameter.zeros((inputs,))
array = np.zeros((2, 3), np.float32)
loss = (x @ w).square().mean()
predict = wy.compile(x @ w)
train = wy.compile(loss, wy.optim.SGD([w], 0.1))
several = wy.compile([x @ w, x * 2.0])
measured = wy.compile(loss, wy.optim.SGD([w], 0.1), metrics={"same": loss})
feed = {x: array}
wrong = {x: array, w: array}
faster: wy.optim.ParameterGroup = {"parameters": [w], "learning_rate": 0.5}
unlike: wy.optim.ParameterGroup = {"parameters": [w], "betas": (0.5, 0.5)}


@wy.function
def scaled(v: wy.Node, *, by: float = 1.0) -> wy.Node:
    return v * by


@wy.function
def first(*v: wy.Node, **by: float) -> wy.Node:
    return v[0]


class Trainer:
    def __init__(self) -> None:
        self.predict = wy.compile(x @ w)
        self.train = wy.compile(loss, wy.optim.SGD([w], 0.1))

    def right(self) -> float:
        return self.train.epoch({x: array})

    def wrong(self) -> float:
        return self.predict.epoch({x: array})


"""
ARRAY = "numpy.ndarray[tuple[Any, ...], numpy.dtype[numpy.floating[Any]]]"
# With the types that mypy reveals.
RIGHT = {
    "predict({x: array})": ARRAY,
    "predict(feed)": ARRAY,
    "several({'x': array})": f"list[{ARRAY}]",
    "train.epoch({x: array}, batch_size=2)": "float",
    "train.epoch(wy.data.Dataset(x=array))": "float",
    "train.epoch(wy.data.DataLoader(wy.data.Dataset(x=array), 2))": "float",
    "train.epoch(iter([{x: array}]))": "float",
    "train.evaluate({x: array})": "float",
    "measured.epoch({x: array})": "dict[str, float]",
    "measured.evaluate(feed, metrics={'largest': (wy.metrics.MaxError(), x, x)})": "dict[str, float]",
    "train.backward({x: array})": "float",
    "wy.train.fit(train, feed, epochs=1)": "wyrm.train.callbacks.History",
    "wy.optim.SGD([{'parameters': [w], 'momentum': 0.5, 'lower': 0.0}], 0.1)": "wyrm.optim.descent.SGD",
    "wy.optim.SGD([faster], 0.1)": "wyrm.optim.descent.SGD",
    "wy.optim.AdamW([unlike], 0.1)": "wyrm.optim.moments.AdamW",
    "wy.compile(loss, engine='native')({x: array})": ARRAY,
    "scaled(array, by=2.0)": ARRAY,
    "scaled(x, by=2.0)": "wyrm.graph.node.Node[Any, Any]",
    "first(array, array, by=2.0)": ARRAY,
}
_OPTIONS = "learning_rate_factor, learning_rate, momentum, nesterov, weight_decay, clip_value, lower, upper"
_NO_OPTIMIZER = "the program has no optimizer; give wy.compile one, as in wy.optim.SGD(loss.parameters(), 0.1)"
_NO_INPUT = "a key of the data is a {}, and data is given for inputs alone"
_NO_DATA = "{} takes data by input, as in {{x: array}}, or a table, not ndarray[(int, int), dtype[floating[_32Bit]]]"
WRONG = {
    "predict.epoch({x: array})": f"epoch: {_NO_OPTIMIZER}",
    "predict.backward(feed)": f"backward: {_NO_OPTIMIZER}",
    "wy.compile(loss).epoch(feed)": f"epoch: {_NO_OPTIMIZER}",
    "wy.train.fit(predict, feed, epochs=1)": f"fit: {_NO_OPTIMIZER}",
    "train({w: array})": _NO_INPUT.format("Parameter"),
    "train.epoch({x: array, w: array})": _NO_INPUT.format("Parameter"),
    "train.evaluate(wrong)": _NO_INPUT.format("Parameter"),
    "wy.train.fit(train, wrong, epochs=1)": _NO_INPUT.format("Parameter"),
    "predict({wy.Constant(1.0): array})": _NO_INPUT.format("Constant"),
    "predict(array)": _NO_DATA.format("a program"),
    "train.epoch(array)": _NO_DATA.format("epoch"),
    "train.evaluate(array)": _NO_DATA.format("evaluate"),
    "wy.train.fit(train, array, epochs=1)": _NO_DATA.format("fit"),
    "wy.compile(loss, engine='XLA')": "engine must be 'native' or 'jax', not 'XLA'",
    "wy.compile(loss, engine='jxa')": "engine must be 'native' or 'jax', not 'jxa'; did you mean 'jax'?",
    "wy.optim.SGD([{'parameters': [w], 'lr': 0.5}], 0.1)": f"a group of SGD has no option 'lr'; it may have {_OPTIONS}",
    "wy.optim.SGD([{'parameters': [w], 'betas': (0.5, 0.5)}], 0.1)": (
        f"a group of SGD has no option 'betas'; it may have {_OPTIONS}"
    ),
    "wy.optim.SGD([unlike], 0.1)": f"a group of SGD has no option 'betas'; it may have {_OPTIONS}",
    "scaled(array, 2.0)": 'Too many positional arguments for "scaled"',
    "scaled(x, 2.0)": 'Too many positional arguments for "scaled"',
    "scaled(array, bye=2.0)": 'Unexpected keyword argument "bye" for "scaled"; did you mean "by"?',
    "scaled()": 'Missing positional argument "v" in call to "scaled"',
}
OF_PROGRAMS = CheckedLines("programs", PREAMBLE, RIGHT, WRONG)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What mypy says of each line."""
    return OF_PROGRAMS.of_lines(tmp_path_factory)


def test_what_is_right_is_no_error_and_has_its_declared_type(said: dict[str, list[str]]) -> None:
    assert {each: said[each] for each in RIGHT} == {
        each: [f'Revealed type is "{type_}"'] for each, type_ in RIGHT.items()
    }


def test_what_is_wrong_is_one_error(said: dict[str, list[str]]) -> None:
    assert {each: said[each] for each in WRONG} == {each: [text] for each, text in WRONG.items()}


def test_a_program_in_an_attribute_is_known(tmp_path_factory: pytest.TempPathFactory) -> None:
    lines, errors = PREAMBLE.splitlines(), OF_PROGRAMS.says(tmp_path_factory).items()
    found = {lines[line - 1].strip(): [text for _, text, _ in each] for line, each in errors if line <= len(lines)}
    assert found == {"return self.predict.epoch({x: array})": [f"epoch: {_NO_OPTIMIZER}"]}


def test_the_run_time_agrees() -> None:
    names: dict[str, Any] = {"wy": wy}
    exec(PREAMBLE, names)
    for each in RIGHT:
        eval(each, names)
    for each in WRONG:
        with pytest.raises((TypeError, ValueError)):
            eval(each, names)


REGISTERED = """\
from __future__ import annotations
import wyrm as wy
from wyrm.engines import register
from wyrm.engines.native.run.engine import NativeEngine

x = wy.Input(name="x")
register("mine", NativeEngine)
wy.compile(x * 2.0, engine="mine")
wy.compile(x * 2.0, engine="mien")
"""
OF_ENGINES = Checked("engines", lambda: REGISTERED)


def test_an_engine_that_a_file_registers_is_known(tmp_path_factory: pytest.TempPathFactory) -> None:
    ((number, (error,)),) = OF_ENGINES.says(tmp_path_factory).items()
    assert REGISTERED.splitlines()[number - 1] == 'wy.compile(x * 2.0, engine="mien")'
    assert error[1].startswith("engine must be 'native' or 'jax', not 'mien'")
