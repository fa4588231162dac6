"""`Engine`: what computes and trains the nodes of a program. To write an engine, derive from it; read only this file.

An engine gets the outputs (with an optimizer, the first one is the loss), the optimizer or None, and its own options.
It must define three methods: `run`, `train` and `backward`. The others have defaults, which an engine may override;
those for what only some engines can do raise an error, with the text that `refusals` has for it.

The modules beside this one serve all engines: `graph` adds gradients to the nodes and orders them; `columns` checks
data before any parameter changes; `epochs` orders rows, counts steps, shows progress, reads loaders and resumes
interrupted epochs; `evaluation` computes means over a data set. `Program` locks, copies and pickles: it makes the copy
a new engine from the same nodes and options, and sets its counts `steps` and `epochs`. The engine keeps no parameters:
parameters and buffers hold their arrays (`wyrm.graph.storage`), and the optimizer holds its state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypedDict

import numpy as np

from wyrm.engines.columns import Columns, check_open_ranges, checked_inputs
from wyrm.engines.epochs import EpochPosition
from wyrm.engines.graph import ProgramGraph
from wyrm.errors import IndexOutOfRange, OptionError, ShapeError, Unavailable
from wyrm.graph.axes import Dim
from wyrm.graph.base import BaseNode

if TYPE_CHECKING:
    from wyrm.engines.epochs import Done, Epoch, EpochOptions


class NoOptions(TypedDict):
    """The options of an engine that has none."""


class ProgramPlan(NamedTuple):
    """Statistics of a program: see `Program.plan`."""

    calls: int
    buffers: int
    peak_bytes: int
    merged: list[str]
    dropped: list[str]

    def __str__(self) -> str:
        lines = [
            f"{self.calls} calls a step, {self.buffers} buffers in "
            + (f"{self.peak_bytes:,} bytes" if self.peak_bytes else "a number of bytes that depends on the data"),
            f"merged with an equal node: {', '.join(self.merged) or 'none'}",
            f"never stored: {', '.join(self.dropped) or 'none'}",
        ]
        return "\n".join(lines)


class FixedShapeFunction(Protocol):
    """What `wyrm.function` calls: outputs as a function of inputs of fixed shapes, one array for each.

    `fast_call`, unless None, does the same for arrays and numbers that it checks itself, and returns None for others.
    """

    fast_call: Callable[[Any, int], list[Any] | None] | None = None

    @property
    def draws(self) -> bool:
        """Whether there are random nodes, which need a step number."""
        ...

    @property
    def source(self) -> str:
        """The generated source."""
        ...

    def prepare(self) -> None:
        """Compile or load the code; raise `CompileError` if that fails."""
        return

    def release(self) -> None:
        """Free all arrays; the next call allocates them again."""
        return

    def __call__(self, arrays: Sequence[Any], step: int = 0) -> list[Any]:
        """Return the outputs, scalars as numbers; `arrays` must have the shapes and dtypes of the inputs."""
        ...


# What a step is refused for whose loss is finite, in a message.
TOO_LARGE = "a gradient, a parameter, a buffer or a number of the optimizer's state became NaN or infinite"


# How many shapes an engine knows to fit: those of whole and of last batches, of data sets with a few numbers of rows.
_KEPT_SHAPES = 8


class Engine(ABC):
    """Runs one program; `wyrm.engines.register` gives the class a name for `wyrm.compile(..., engine=name)`.

    `steps` counts computed batches, `epochs` finished epochs: random nodes and the shuffle are seeded with them.
    `position` is what is done of the current epoch.
    """

    # The options of `wyrm.compile` that only this engine takes: a `TypedDict` of them.
    Options: ClassVar[type] = NoOptions
    # Texts of errors by what the engine lacks: a method such as "llvm" or "profile", or an option of another engine.
    refusals: ClassVar[Mapping[str, str]] = {}
    # Whether a step changes the parameters' arrays in place, so that they can be read within an epoch.
    in_place: ClassVar[bool] = True
    # Whether threads may call `call` at the same time if there is no optimizer; else `Program` lets one in at a time.
    concurrent: ClassVar[bool] = False

    # --- what an engine gets --------------------------------------------------------------------------------------

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether the packages that the engine needs are installed."""
        return True

    @classmethod
    def check_options(cls, options: Mapping[str, Any]) -> None:
        """Raise an error for values of options that the engine does not take, and if it cannot run here."""
        return

    def __init__(self, graph: ProgramGraph) -> None:
        """Start the counts. A subclass takes `(outputs, optimizer, *, evaluates=False, **options)` and makes the graph.

        `evaluates`: `Program.evaluate` makes this engine for the nodes of an evaluation, with the program's options.
        """
        self.graph = graph
        self.steps = self.epochs = 0
        self.position: EpochPosition = EpochPosition()
        # Shapes of inputs that fitted the graph in the last epochs.
        self._fitting: deque[dict[BaseNode, tuple[int, ...]]] = deque(maxlen=_KEPT_SHAPES)

    # --- what it must define --------------------------------------------------------------------------------------

    @abstractmethod
    def run(self, given: dict[BaseNode, np.ndarray]) -> list[np.ndarray]:
        """Return new arrays of the outputs, for one array for each input; with an optimizer, also do one step.

        Add 1 to `steps`. Raise `Diverged` for a loss, a gradient or a new parameter that is not finite; nothing has
        changed then.
        """

    @abstractmethod
    def train(self, columns: Columns, epoch: Epoch) -> None:
        """Let `epoch.drive` have the steps of an epoch on these columns done, with `epoch.options`.

        An epoch on a loader calls this several times, with the next rows each time. Add the number of batches to
        `steps`. Raise `Diverged` for numbers that are not finite; the parameters are then those after an earlier step.
        """

    @abstractmethod
    def backward(self, columns: Columns, threads: int, weight: float, blas_threads: int) -> float:
        """Add `weight` times the gradients of the loss over all rows to the parameters' gradients; return the loss.

        Add 1 to `steps`. Raise `Diverged` if the loss is not finite, before anything changes.
        """

    # --- what it may override -------------------------------------------------------------------------------------

    def call(self, feed: object, *, checked: bool = False) -> list[np.ndarray]:
        """Check the data of a user's call, and return the outputs of `run`; `checked` data needs no check."""
        given: Any = feed
        if not checked:
            with self.checking():
                given = checked_inputs(feed, self.graph.inputs)
        values, flat = self.run(given), self.graph.flat
        return values if flat is None else flat.as_rows(self.graph.outputs, values, given)

    def check_epoch(self, columns: Columns, options: EpochOptions, *, in_batches: bool) -> None:
        """Raise an error for data or options that `train` does not take, before any parameter changes.

        `in_batches`: the rows come from a loader.
        """
        columns.check_batches(options.batch_size)
        check_open_ranges(self.graph, columns, min(columns.rows, options.batch_size))

    def checking(self) -> AbstractContextManager[None]:
        """Return a context for checks of data, such as `check_epoch`; several processes raise the same error."""
        return nullcontext()

    def end_batches(self) -> None:
        """Check that the batches of all processes that train together end; every process calls it."""
        return

    def train_several(self, columns: Columns, epoch: Epoch, most: int) -> list[Done]:
        """Do up to `most` epochs on these columns as one, the first one `epoch`; return what was done in each.

        An engine that does not, or not for such an epoch, returns none: `train` does it then. So it does for an epoch
        that would end with an error. Nothing acts between these epochs, and no bar shows them.
        """
        return []

    def gather(self) -> None:
        """Let each process read all parameters, buffers and the optimizer's state; every process calls it."""
        return

    def agreed(self, value: float) -> float:
        """Return the value that the first of the processes that train together gives; every process calls it."""
        return value

    def check_sizes(self, columns: Columns, batches: Sequence[int], *, in_batches: bool) -> None:
        """Raise the error of a run for batches of one of these sizes; the second is that of a smaller last batch."""
        for batch in batches:
            shapes = columns.shapes(self.graph.fed, batch)
            if shapes in self._fitting:
                continue
            try:
                self.graph.schedule.bind(shapes)
            except (ShapeError, IndexOutOfRange) as error:
                if batch == batches[0]:
                    raise
                rows = f"{batch:,} row{'s' * (batch > 1)}"
                raise type(error)(f"{error}\n  in the last batch, of {rows}") from None
            self._fitting.append(shapes)

    @classmethod
    def function(cls, outputs: Sequence[BaseNode], inputs: Sequence[BaseNode]) -> FixedShapeFunction:
        """Return the outputs as a function of inputs whose axes all have sizes, for `wyrm.function`."""
        made: Any = cls
        return _RunFunction(made(outputs, None), inputs)

    # --- what it shows --------------------------------------------------------------------------------------------

    @property
    def source(self) -> str:
        """The generated source, as text."""
        raise self.refusal("source")

    @property
    def llvm(self) -> str:
        """The LLVM modules before optimization."""
        raise self.refusal("llvm")

    @property
    def assembly(self) -> str:
        """The machine code."""
        raise self.refusal("assembly")

    def stages(self) -> dict[str, str]:
        """Return the program after each stage of compilation as text, by the stage's name and in order."""
        return self.graph.stages()

    def plan(self) -> ProgramPlan:
        """Return statistics of the program."""
        return ProgramPlan(1, 0, 0, [], [])

    @property
    def sizes(self) -> Mapping[type[Dim], int]:
        """The sizes of named axes that the engine knows from the last run."""
        return {}

    @property
    def sharding(self) -> object:
        """A table to print of how parameters are divided among the devices of a mesh; None for one device."""
        return None

    @property
    def processes(self) -> tuple[int, int]:
        """The index of this process among those that train together, and their number."""
        return 0, 1

    def profile(self, columns: Any, **options: Any) -> Any:
        """Return a `wyrm.profile.Profile` of some steps; parameters, optimizer and counts may change.

        The arguments are those of `Program.profile`.
        """
        raise OptionError(str(self.refusal("profile")))

    @classmethod
    def rule(cls, node: BaseNode) -> object:
        """Return the form registered with this engine for the op of a node; None for an engine without forms."""
        return None

    @classmethod
    def rule_name(cls, node: BaseNode) -> str | None:
        """Return the name of the method of the op's form that computes a node; None for formula or `evaluate`."""
        return None

    @classmethod
    def refusal(cls, what: str) -> Unavailable:
        """Return the error for a property or method that the engine lacks."""
        return Unavailable(cls.refusals.get(what, f"{cls.__name__} has no {what}: see program.stages()"))

    # --- forks ----------------------------------------------------------------------------------------------------

    def after_fork(self) -> None:
        """Reset locks and pools in a forked process, which lacks the threads that held them."""
        return


class _RunFunction(FixedShapeFunction):
    """A function that calls `Engine.run`."""

    def __init__(self, engine: Engine, inputs: Sequence[BaseNode]) -> None:
        self._engine = engine
        read = set(engine.graph.fed)
        self._read = [(position, leaf) for position, leaf in enumerate(inputs) if leaf in read]

    @property
    def draws(self) -> bool:
        """Whether there are random nodes, which need a step number."""
        return self._engine.graph.draws

    @property
    def source(self) -> str:
        """The generated source."""
        return self._engine.source

    def __call__(self, arrays: Sequence[Any], step: int = 0) -> list[Any]:
        """Return the outputs, scalars as numbers."""
        self._engine.steps = step
        given = {leaf: np.asarray(arrays[position], leaf.dtype) for position, leaf in self._read}
        return [array if array.shape else array[()] for array in self._engine.run(given)]
