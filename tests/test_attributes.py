"""Looking at an object never fails: `hasattr`, `dir`, `inspect.getmembers` and the completion of plain Python."""

from __future__ import annotations

import inspect
import rlcompleter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.samples import SAMPLES
from wyrm.errors import MissingShape, MissingValue, NotSet, OptionError, ShapeError, Unavailable


class Batch(wy.Dim): ...


class Doubling(wy.nn.Module):
    def __call__(self, x: Any) -> Any:
        return x + x


OPEN: Any = wy.Input(dims=(Batch(), 3), name="open")
TABLE: Any = wy.Parameter(np.ones((3, 2), np.float32), name="table")
VECTOR: Any = wy.Parameter(np.ones(3, np.float32), name="vector")
LOSS: Any = (OPEN @ TABLE).sum()


def _ran() -> Any:
    program = wy.compile(LOSS, wy.optim.SGD([TABLE], 0.0))
    program.epoch({OPEN: np.ones((2, 3))}, batch_size=1)
    return program


def _called() -> Any:
    function: Any = wy.function(lambda x: (x * x).sum())
    function(np.ones(3))
    return function


# One object of each kind, made when its test runs.
OBJECTS: dict[str, Callable[[], object]] = {
    "Batch": lambda: Batch,
    "Batch()": Batch,
    "Batch(3)": lambda: Batch(3),
    "One": wy.graph.axes.One,
    "derived axis": lambda: OPEN.reshape(-1).dims[0],
    "input of an open axis": lambda: OPEN,
    "input without data": lambda: wy.Input(dims=(2, 2)),
    "scalar input": wy.Input,
    "parameter": lambda: TABLE,
    "vector": lambda: VECTOR,
    "scalar": lambda: wy.Parameter(1.0),
    "buffer": lambda: wy.Buffer(np.ones(3)),
    "constant": lambda: wy.Constant([1.0]),
    "computed": lambda: (OPEN @ TABLE).relu(),
    "mask": lambda: OPEN > 0.0,
    "row-sparse gradient": lambda: wy.grad(TABLE.index([0, 1]).sum(), TABLE),
    "draws": lambda: wy.random.normal((Batch(), 3)),
    "index input": lambda: wy.IndexInput(dims=(Batch(),)),
    "scalar index input": wy.IndexInput,
    "index constant": lambda: wy.IndexConstant([1, 2]),
    "computed integers": lambda: wy.IndexInput(dims=(Batch(),)) + 1,
    "drawn integers": lambda: wy.random.index(3, (Batch(),)),
    "updates": lambda: TABLE.at,
    "updates at": lambda: TABLE.at[0],
    "module": Doubling,
    "linear": lambda: wy.nn.Linear(3, 2),
    "lstm": lambda: wy.nn.StackedLSTM(3, 2, 2),
    "dropout": lambda: wy.nn.Dropout(0.5),
    "batch norm": lambda: wy.nn.BatchNorm(3),
    "gpt2": lambda: wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=5, n_positions=4, n_embd=4, n_layer=1, n_head=1)),
    "optimizer": lambda: wy.optim.Adam([TABLE]),
    "combined": lambda: wy.optim.Combined([wy.optim.SGD([TABLE], 0.1)]),
    "schedule": lambda: wy.optim.WarmupCosine(1e-3, warmup=2, steps=10),
    "average": lambda: wy.optim.EMA(0.9),
    "program": lambda: wy.compile(LOSS),
    "program that ran": _ran,
    "program of JAX": lambda: wy.compile(LOSS, engine="jax"),
    "function": lambda: wy.function(lambda x: x),
    "function that ran": _called,
    "dataset": lambda: wy.data.Dataset(x=[1, 2, 3]),
    "loader": lambda: wy.data.DataLoader(wy.data.Dataset(x=[1, 2, 3]), batch_size=2),
    "history": wy.train.History,
    "stopping": lambda: wy.train.EarlyStopping(patience=1),
    "summary": lambda: wy.summary(wy.nn.Linear(3, 2), wy.Input(dims=(1, 3))),
    "package": lambda: wy,
}


@pytest.mark.parametrize("name", OBJECTS)
def test_looking_at_an_object_never_fails(name: str) -> None:
    found = OBJECTS[name]()
    kind = found if isinstance(found, type) else type(found)
    names = {*dir(found), *(name for base in kind.__mro__ for name in vars(base))}
    for each in sorted(names):
        hasattr(found, each)
    inspect.getmembers(found)
    rlcompleter.Completer({"found": found}).attr_matches("found.")


@pytest.mark.parametrize(
    ("node", "name", "error", "message"),
    [
        (VECTOR, "mT", MissingShape, r"vector \(3,\) .* has no mT: it takes two axes or more"),
        (OPEN, "size", MissingShape, r"open \(Batch\(\), 3\) .* has no size yet: axis Batch has no size of its own"),
        (OPEN, "value", MissingValue, r"has no data: bind some with \.set"),
        (LOSS, "value", MissingValue, r"has no value yet: call \.forward\(\)"),
        (wy.train.History(), "best", Unavailable, "no epoch has ended"),
    ],
)
def test_an_absent_property_says_why(node: Any, name: str, error: type[Exception], message: str) -> None:
    assert not hasattr(node, name) and getattr(node, name, None) is None
    with pytest.raises(error, match=message):
        getattr(node, name)


@pytest.mark.parametrize(
    ("error", "base"), [(MissingShape, ShapeError), (MissingValue, NotSet), (Unavailable, OptionError)]
)
def test_such_an_error_is_that_of_a_method_too(error: type[Exception], base: type[Exception]) -> None:
    assert issubclass(error, base) and issubclass(error, AttributeError)


@pytest.mark.parametrize("opened", [False, True])
def test_looking_at_a_node_of_any_op_never_fails(opened: bool) -> None:
    seen: set[type] = set()
    for sample in SAMPLES:
        if opened and any(operand.ndim == 0 for operand in sample.operands):
            continue
        leaves: list[Any] = []
        for operand in sample.operands:
            kind: Any = wy.IndexInput if operand.dtype.kind == "i" else wy.Input
            options = {} if operand.dtype.kind == "i" else {"dtype": operand.dtype}
            dims = (Batch(), *operand.shape[1:])
            leaves.append(kind(dims=dims, **options) if opened else kind(operand))
        try:
            node = sample.build(*leaves)
        except (ShapeError, TypeError, ValueError):  # the op takes no axis whose size data decides
            assert opened
            continue
        if type(node) not in seen:
            seen.add(type(node))
            for name in {name for base in type(node).__mro__ for name in vars(base)}:
                hasattr(node, name)
            inspect.getmembers(node)
            rlcompleter.Completer({"found": node}).attr_matches("found.")
    assert len(seen) > 150
