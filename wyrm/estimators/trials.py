"""Programs of models that are trained again and again with other data, rates and seeds: each is compiled once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from wyrm.graph.base import BaseNode
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Input
from wyrm.graph.node import Node
from wyrm.graph.parameters import Buffer, Parameter
from wyrm.graph.traversal import replaced
from wyrm.nn.seeding import seeded
from wyrm.optim import Adam, Optimizer
from wyrm.train.callbacks import History
from wyrm.train.compiling import compile
from wyrm.train.fitting import fit
from wyrm.train.program import Program

# The most forms of which programs wait to be used again, those that were used last.
_MOST = 32
# The rows that a prediction computes at once: its memory does not grow with the data.
_ROWS = 4096
# The bits of a step's number that count; those above are the seed.
_STEP_BITS = 32


@dataclass
class Model:
    """The graph of a model: its inputs by name, the loss of a batch with and without dropout, and the output.

    `trained` are the parameters and buffers, whose arrays have this order everywhere. `held` are leaves that stay while
    a training lasts, by name: a factor that the loss reads, or a table.
    """

    inputs: Mapping[str, BaseNode]
    loss: Node
    evaluated: Node
    output: Node
    trained: Sequence[Parameter | Buffer]
    held: Mapping[str, Input | IndexInput | Buffer] = field(default_factory=dict)
    optimizer: Callable[..., Optimizer] = Adam


class Buildable(Hashable, Protocol):
    """What the code of a model depends on: models of equal forms share their programs."""

    def build(self) -> Model:
        """Return the graph of a model."""
        raise NotImplementedError


class Structured(Protocol):
    """A model: its form, and the sizes of its parameters."""

    @property
    def form(self) -> Buildable:
        """What the code depends on."""
        ...

    def drawn(self, random: np.random.Generator) -> list[np.ndarray]:
        """Return the first values of the parameters, in the order of `Model.trained`."""
        raise NotImplementedError


@dataclass
class State:
    """What a training leaves: the arrays of the parameters and buffers, those of the optimizer, and how long it was."""

    arrays: list[np.ndarray]
    moments: dict[str, np.ndarray] | None = None
    steps: int = 0
    epochs: int = 0


class Trial:
    """The programs of one model: one training uses them at a time."""

    def __init__(self, model: Model) -> None:
        self._model = model
        parameters = [leaf for leaf in model.trained if isinstance(leaf, Parameter)]
        self._optimizer = model.optimizer(parameters)
        self._program: Program[Any, Any] = compile(model.loss, self._optimizer)
        self._evaluation: Program[Any, Any] | None = None

    def train(
        self,
        state: State,
        columns: Mapping[str, Any],
        *,
        rate: float,
        held: Mapping[str, Any],
        seed: int,
        validation: Mapping[str, Any] | None,
        **options: Any,
    ) -> History:
        """Train from a state on, which is then that after the training; return the history."""
        model = self._model
        for leaf, array in zip(model.trained, state.arrays, strict=True):
            leaf.set(array)
        if state.moments is None:
            self._optimizer._restart()
        else:
            self._optimizer.load_state_dict(state.moments)
        self._optimizer.learning_rate = rate
        for name, value in held.items():
            model.held[name].set(value)
        # Random nodes draw by the number of the step: the seed chooses where they begin.
        first = seed << _STEP_BITS
        self._program.load_state_dict({"steps": first + state.steps, "epochs": state.epochs})
        if validation is not None:
            self._evaluation = self._evaluation or compile(model.evaluated)
            options |= {"validation": self._of_inputs(validation), "evaluation": self._evaluation}
            options |= {"validation_batch_size": min(_ROWS, count(validation))}
        history = fit(self._program, self._of_inputs(columns), seed=seed, **options)
        state.arrays = [np.array(leaf.value) for leaf in model.trained]
        state.moments = self._optimizer.state_dict()
        done = self._program.state_dict()
        state.steps, state.epochs = done["steps"] - first, done["epochs"]
        return history

    def _of_inputs(self, columns: Mapping[str, Any]) -> dict[BaseNode, Any]:
        inputs = self._model.inputs
        return {inputs[name]: column for name, column in columns.items() if name in inputs}


class Scorer:
    """The program of the output of a model, which takes the parameters as data."""

    def __init__(self, model: Model) -> None:
        held = [Input(dims=leaf.dims, dtype=leaf.dtype) for leaf in model.trained]
        output: Any = replaced([model.output], dict(zip(model.trained, held, strict=True)))[0]
        self._held, self._inputs = held, model.inputs
        self._program: Program[np.ndarray, Any] = compile(output)
        self._read = set(self._program.inputs)

    def __call__(self, arrays: Sequence[np.ndarray], columns: Mapping[str, Any]) -> np.ndarray:
        """Return the output for all rows."""
        fixed = {leaf: array for leaf, array in zip(self._held, arrays, strict=True) if leaf in self._read}
        found = []
        for first in range(0, count(columns), _ROWS):
            rows = slice(first, first + _ROWS)
            data = {self._inputs[name]: column[rows] for name, column in columns.items()}
            found.append(self._program({**fixed, **data}))
        return np.concatenate(found)


def count(columns: Mapping[str, Any]) -> int:
    """Return the number of rows of columns."""
    return len(next(iter(columns.values())))


def _forget_oldest(kept: OrderedDict[Hashable, Any], used: Hashable) -> None:
    """Note that a form was used, and forget those that were used the longest time ago."""
    kept.move_to_end(used)
    while len(kept) > _MOST:
        kept.popitem(last=False)


def _built(form: Buildable) -> Model:
    """Return the graph of a model, which draws the same numbers whenever it is built."""
    with seeded(0):
        return form.build()


class Programs:
    """Programs by the forms of their models. Threads may take them at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: OrderedDict[Hashable, list[Trial]] = OrderedDict()
        self._scorers: OrderedDict[Hashable, Scorer] = OrderedDict()

    def train(self, form: Buildable, state: State, columns: Mapping[str, Any], **options: Any) -> History:
        """Train from a state on, with programs that nothing else uses meanwhile; they are kept unless that fails."""
        with self._lock:
            waiting = self._free.get(form)
            trial = waiting.pop() if waiting else None
        trial = trial or Trial(_built(form))
        history = trial.train(state, columns, **options)
        with self._lock:
            self._free.setdefault(form, []).append(trial)
            _forget_oldest(self._free, form)
        return history

    def scorer(self, form: Buildable) -> Scorer:
        """Return the program of the output."""
        with self._lock:
            if form not in self._scorers:
                self._scorers[form] = Scorer(_built(form))
            _forget_oldest(self._scorers, form)
            return self._scorers[form]

    def clear(self) -> None:
        """Let go of all programs, and of the memory of their arrays."""
        with self._lock:
            self._free.clear()
            self._scorers.clear()


PROGRAMS = Programs()
