"""What `wyrm.compile` returns: a program that computes outputs, or trains, in native code."""

from __future__ import annotations

import copy
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from wyrm.backends.numpy.reference import checked_weight
from wyrm.compiler.pipeline import Graph
from wyrm.compiler.updates import OptimizerInterface
from wyrm.errors import CheckpointError, ShapeError
from wyrm.node.base import BaseNode, describe, label
from wyrm.node.pickling import Records, copied, flatten_all, restore_all
from wyrm.node.training_mode import modes_of, warn_of_training
from wyrm.train.feeding import check_values, columns, given_inputs
from wyrm.train.runner import NativeRunner, ProgramPlan
from wyrm.train.training import Mode, Training
from wyrm.types.options import whole
from wyrm.types.typing import Indices, Values

Feed = Mapping[Any, "Values | Indices"]


class Program:
    """Outputs, and with an optimizer the training of a loss, as native code; made by `wyrm.compile`.

    Calling it with `{input: array}` computes the outputs, and does one step where it trains. `epoch` goes through a
    whole data set. It is compiled when it is first used, and kept on disk for other processes.

    It can be copied and pickled, at any time; what is compiled is not copied but found again. `copy.deepcopy` has
    parameters and an optimizer of its own and goes on with the same numbers; it takes data for the same inputs. A
    pickled one has inputs of its own: pickle them beside it, or take them from `inputs`.
    """

    def __init__(
        self,
        outputs: BaseNode[Any, Any] | Sequence[BaseNode[Any, Any]],
        optimizer: OptimizerInterface | None = None,
        *,
        loop: Literal["auto", "compiled", "python"] = "auto",
    ) -> None:
        self._single = isinstance(outputs, BaseNode)
        if not isinstance(outputs, BaseNode | Sequence):
            raise TypeError(f"wyrm.compile takes a node or a list of nodes, not {type(outputs).__name__}")
        wanted = [outputs] if isinstance(outputs, BaseNode) else list(outputs)
        for output in wanted:
            if not isinstance(output, BaseNode):
                raise TypeError(f"wyrm.compile takes nodes, not {type(output).__name__}")
        if not wanted:
            raise ShapeError("wyrm.compile takes one output or more")
        if loop not in ("auto", "compiled", "python"):
            raise ValueError(f"loop is 'auto', 'compiled' or 'python', not {loop!r}")
        if optimizer is not None and not hasattr(optimizer, "parameters"):
            raise TypeError(
                f"wyrm.compile takes an optimizer, as in wy.optim.SGD(loss.parameters(), learning_rate=0.1), "
                f"not {optimizer!r}"
            )
        self._loop: Literal["auto", "compiled", "python"] = loop
        # Programs that train do so in training, whatever else the modules have been asked for since.
        self._modes = modes_of(wanted) if optimizer is None else []
        self._graph = Graph(wanted, optimizer)
        self._runner = NativeRunner(self._graph, loop)
        self._training = Training(self._graph, self._runner)
        # The handler of a signal, which runs between two steps, may ask for the state.
        self._lock = threading.RLock()
        _programs.add(self)

    @property
    def source(self) -> str:
        """The generated source: the kernels, and `run`, which goes through the data."""
        return self._runner.text

    @property
    def llvm(self) -> str:
        """The generated source as LLVM modules, one for each part that is compiled apart, before optimization."""
        with self._lock:
            return str(self._runner.listing().llvm)

    @property
    def assembly(self) -> str:
        """The machine code for this processor as text; compiled anew for it, which may take a second."""
        with self._lock:
            return str(self._runner.listing().assembly)

    def stages(self) -> dict[str, str]:
        """What the program is after each stage of its compilation, as text, by the name of the stage and in order.

        "graph" has the nodes of the outputs, each with the line of code that made it; "differentiate" those of
        gradients too; "decompose" has simpler nodes for composed ones; "deduplicate" equal ones once. "fuse" has the
        loops that nodes share, "materialize" the arrays that are kept. "write" is `source`, "plan memory" says where
        arrays lie. "loop program" has types, pointers and steps, "emit" is `llvm`.

        >>> x = wy.Input(dims=(3,), name="x")
        >>> stages = wy.compile(x.tanh() + x.tanh()).stages()
        >>> [text.count("tanh(x)") for text in (stages["graph"], stages["deduplicate"])]
        [2, 1]
        """
        with self._lock:
            return self._runner.stages()

    @property
    def inputs(self) -> tuple[BaseNode[Any, Any], ...]:
        """The inputs that data is given for, in the order of first use."""
        return tuple(self._graph.inputs)

    @property
    def plan(self) -> ProgramPlan:
        """The calls of a step, the buffers and their bytes, and the nodes that cost nothing.

        The bytes are those of all that was run so far, of every thread and size of batch, besides the parameters and
        the optimizer's state; before anything has run, with inputs of unknown sizes, 0.
        """
        plan = self._runner.plan()
        return plan._replace(peak_bytes=plan.peak_bytes + self._training.averaged_bytes)

    def __call__(self, feed: Feed | None = None) -> Any:
        """The outputs for these inputs: one array for one output, else a list. With an optimizer, also one step.

        Raises `ShapeError`, `DTypeError` or `IndexOutOfRange` for data that does not fit, and `Diverged` for a loss
        that is not finite; no parameter has moved then.
        """
        warn_of_training(self._modes)
        with self._lock:
            again = self._training.again(feed)
            if again is not None:
                return again[0] if self._single else again
            graph = self._graph
            given = given_inputs({} if feed is None else feed, graph.inputs)
            for leaf, array in given.items():
                if array.ndim != len(leaf.dims):
                    raise ShapeError(f"{describe(leaf)} has {len(leaf.dims)} axes, the data has shape {array.shape}")
                check_values(leaf, array, "row")
            values = self._training.once(given)
        return values[0] if self._single else values

    def epoch(
        self,
        columns_of: Feed,
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        seed: int = 0,
        threads: int = 1,
        mode: Mode = "hogwild",
        progress: bool = False,
    ) -> float:
        """One pass over a data set, `{input: column}`; returns the mean loss over its rows.

        A column has an axis of rows first; inputs have the axis of the batch first, or take one row at a time
        (`batch_size=1`). A last, smaller batch is a step too. `shuffle` goes through the rows in an order made of
        `seed` and the number of epochs so far. `threads` share the parameters: in mode "hogwild" without locks, fast
        and not reproducible; in mode "synchronized" with the same bits for the same seed and number of threads: where
        the rows of tables can be divided among the threads they are, else the rows of each batch. A batch whose axis
        has a fixed size, or whose rows depend on each other, as in batch normalization, is computed by one thread.
        `progress` shows a bar.

        Raises, before any parameter moves, `ShapeError`, `DTypeError`, `NotFinite`, or `IndexOutOfRange` naming the
        column and row; and `Diverged` for a loss that is not finite, parameters being as they last were when all was.
        """
        with self._lock:
            if self._graph.optimizer is None:
                raise ShapeError(
                    "this program has no optimizer, so there is no epoch to train; call it for its outputs"
                )
            given, rows, singly = columns(columns_of, self._graph.inputs, self._graph.ranges.limits)
            return self._training.epoch(
                given, rows, singly, batch_size=batch_size, shuffle=shuffle, seed=seed, threads=threads, mode=mode,
                progress=progress,
            )  # fmt: skip

    def backward(self, columns_of: Feed, *, threads: int = 1, weight: float = 1.0, blas_threads: int = 1) -> float:
        """Add `weight` times the gradients of the loss of a batch to those of the parameters; returns the loss.

        What `loss.backward()` does, in native code, with the rows of the batch divided among `threads`; with the same
        number of them the bits are the same in every run. A batch whose axis has a fixed size, or whose rows depend on
        each other, as in batch normalization, is computed by one thread. It is for steps that need the gradients before
        the optimizer: to clip them, or to add up those of several batches. `blas_threads`, above 1, has products
        divided instead, which is faster where they are large and takes less memory, and may round otherwise from run to
        run.

        Raises what `epoch` raises, `ValueError` for less than one thread or a weight that is not finite, `Diverged` for
        a loss that is not finite; no gradient has been added then.

        >>> class Batch(wy.Dim): ...
        >>> x, slope = wy.Input(dims=(Batch(),), name="x"), wy.Parameter(1.0)
        >>> program = wy.compile((slope * x).mean(), wy.optim.SGD([slope], 0.1))
        >>> program.backward({x: [1.0, 3.0]}), float(slope.gradient)
        (2.0, 2.0)
        """
        with self._lock:
            if self._graph.optimizer is None:
                raise ShapeError("this program has no optimizer, so it has no gradients; call it for its outputs")
            whole("blas_threads", blas_threads, 1)
            checked_weight(weight, self._graph.outputs[0].dtype)
            given, rows, singly = columns(columns_of, self._graph.inputs, self._graph.ranges.limits)
            return self._training.backward(given, rows, singly, threads, weight, blas_threads)

    def state_dict(self) -> dict[str, int]:
        """What the program counts: the `steps` that its random nodes draw for, and the `epochs` that order the rows.

        With the parameters and the optimizer's state, this is what it takes to go on elsewhere as if nothing had been.

        >>> x = wy.Input(name="x")
        >>> program = wy.compile(x * 2.0)
        >>> float(program({x: 3.0})), program.state_dict()
        (6.0, {'steps': 1, 'epochs': 0})
        """
        with self._lock:
            return {"steps": self._training.steps, "epochs": self._training.epochs}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on counting from what `state_dict` gave.

        Raises `CheckpointError` for other names, or numbers that are not whole and at least 0; nothing has changed
        then.
        """
        if not isinstance(state, Mapping) or set(state) != {"steps", "epochs"}:
            raise CheckpointError(f"the state of a program is {{'steps': ..., 'epochs': ...}}, not {state!r}")
        for name, count in state.items():
            if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
                raise CheckpointError(f"{name} of a program is a whole number of at least 0, not {count!r}")
        with self._lock:
            self._training.steps, self._training.epochs = int(state["steps"]), int(state["epochs"])

    # --- copies ---------------------------------------------------------------------------------------------------

    def __copy__(self) -> Program:
        """A program on the same nodes, with the same optimizer, that counts its own steps from here."""
        with self._lock:
            return _made(self._graph.outputs, self._single, self._graph.optimizer, self._loop, self.state_dict())

    def __deepcopy__(self, memo: dict[int, Any]) -> Program:
        """A program with parameters, buffers and an optimizer of its own.

        The inputs are the same nodes, unless they are copied beside it, for it is called with them.
        """
        with self._lock:
            for leaf in self._graph.inputs:
                memo.setdefault(id(leaf), leaf)
            outputs = [copied(output, memo) for output in self._graph.outputs]
            optimizer = copy.deepcopy(self._graph.optimizer, memo)
            return _made(outputs, self._single, optimizer, self._loop, self.state_dict())

    def __reduce__(self) -> tuple[Any, ...]:
        with self._lock:
            records, roots = flatten_all(self._graph.outputs)
            return _restored, (records, roots, self._single, self._graph.optimizer, self._loop, self.state_dict())

    def _after_fork(self) -> None:
        """Be free in a process that was forked while another thread was inside: that thread is not there."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = threading.RLock()
            self._training.after_fork()

    def __repr__(self) -> str:
        what = ", ".join(map(label, self._graph.outputs))
        return f"<Program {what}{'' if self._graph.optimizer is None else f', trained by {self._graph.optimizer!r}'}>"


def _made(
    outputs: Sequence[BaseNode[Any, Any]],
    single: bool,
    optimizer: Any,
    loop: Literal["auto", "compiled", "python"],
    state: Mapping[str, int],
) -> Program:
    program = Program(outputs[0] if single else outputs, optimizer, loop=loop)
    program.load_state_dict(state)
    return program


def _restored(records: Records, roots: Sequence[int], *rest: Any) -> Program:
    nodes = restore_all(records)
    return _made([nodes[root] for root in roots], *rest)


_programs: weakref.WeakSet[Program] = weakref.WeakSet()


def _after_fork() -> None:
    for program in list(_programs):
        program._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def compile(
    outputs: BaseNode[Any, Any] | Sequence[BaseNode[Any, Any]],
    optimizer: OptimizerInterface | None = None,
    *,
    loop: Literal["auto", "compiled", "python"] = "auto",
) -> Program:
    """Native code that computes `outputs`, or, with an optimizer, trains the one loss that `outputs` is.

    `loop` says whether the loop over the data is compiled with everything else, or is plain Python that calls compiled
    kernels; by default it is compiled unless an op has no native form. Both give the same numbers.

    Raises `NotDifferentiable` for a loss that is no scalar, and `UnusedParameter` where it depends on none of the
    optimizer's parameters.

    >>> x, y = wy.Input(name="x"), wy.Input(name="y")
    >>> slope = wy.Parameter(0.0, name="slope")
    >>> loss = (y - slope * x).square()
    >>> train = wy.compile(loss, wy.optim.SGD(loss.parameters(), learning_rate=0.1))
    >>> data = np.linspace(-1.0, 1.0, 200)
    >>> for _ in range(5): mean_loss = train.epoch({x: data, y: 3.0 * data})
    >>> round(float(slope), 3)
    3.0
    """
    return Program(outputs, optimizer, loop=loop)
