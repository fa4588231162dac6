"""`Engine`: what computes and trains the nodes of a program. To write one, derive from it; this file is all of it.

An engine gets the outputs (with an optimizer, the first one is the loss), the optimizer or None, and its own options.
It owes three methods: `run`, `train` and `backward`. It overrides others where it does more: a faster call, what it
shows. What it cannot do, it leaves: the methods here raise an error, in the engine's words if `refusals` has some.

What all engines share stands beside it, written once: `graph` has the nodes with their gradients, in order;
`columns` checks data before anything moves; `epochs` has the order of rows, counts steps, shows progress, reads
loaders, and knows the position that an interrupted epoch goes on from; `evaluation` is calls over batches. Programs
hold the lock, copy and pickle: an engine is made anew from the same nodes and options, and takes the counts `steps`
and `epochs`. Parameters and buffers hold their arrays (`wyrm.graph.storage`), and the optimizer holds its state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypedDict

import numpy as np

from wyrm.engines.columns import Columns, check_open_ranges, checked_inputs
from wyrm.engines.epochs import EpochPosition
from wyrm.engines.graph import ProgramGraph
from wyrm.errors import OptionError, Unavailable
from wyrm.graph.axes import Dim
from wyrm.graph.base import BaseNode

if TYPE_CHECKING:
    from wyrm.engines.epochs import Epoch, EpochOptions
    from wyrm.engines.fixed_shapes import FixedShapes


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


class Engine(ABC):
    """Runs one program; `wyrm.engines.register` gives the class a name for `wyrm.compile(..., engine=name)`.

    `steps` counts the batches that the program has computed, from which random nodes draw; `epochs` counts epochs, from
    which the shuffle follows. `position` is what is done of the current epoch.
    """

    # The options of `wyrm.compile` that only this engine takes: a `TypedDict` of them.
    Options: ClassVar[type] = NoOptions
    # What the engine cannot do or take, with the text of the error: "llvm", "profile", an option of another engine.
    refusals: ClassVar[Mapping[str, str]] = {}
    # Whether a step changes the parameters' arrays in place, so that they can be read within an epoch.
    in_place: ClassVar[bool] = True

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
        """Begin to count; a subclass takes `(outputs, optimizer, *, evaluates=False, **options)`, and makes the graph.

        `evaluates`: the outputs are nodes of an evaluation, computed beside a program with these options.
        """
        self.graph = graph
        self.steps = self.epochs = 0
        self.position = EpochPosition()

    # --- what it owes ---------------------------------------------------------------------------------------------

    @abstractmethod
    def run(self, given: dict[BaseNode, np.ndarray]) -> list[np.ndarray]:
        """Return new arrays of the outputs for inputs as wholes; with an optimizer, also do one step.

        Raise `Diverged` if the loss is not finite, and change nothing then. Count one of `steps`.
        """

    @abstractmethod
    def train(self, columns: Columns, epoch: Epoch) -> None:
        """Do the steps of an epoch on these columns, as `epoch.options` say; tell `epoch.add` of finished batches.

        An epoch has its rows in one set of columns, or in several of them, one after another. Raise `Diverged` for
        what is not finite; the parameters are then as after an earlier step. Count `steps`.
        """

    @abstractmethod
    def backward(self, columns: Columns, threads: int, weight: float, blas_threads: int) -> float:
        """Add `weight` times the gradients of the loss over all rows to the parameters' gradients; return the loss.

        Raise `Diverged` if the loss is not finite, and add nothing then. Count one of `steps`.
        """

    # --- what it may do better ------------------------------------------------------------------------------------

    def call(self, feed: object, *, checked: bool = False) -> list[np.ndarray]:
        """Return what `run` returns for data as users give it, or for arrays by input that are `checked`."""
        given: Any = feed if checked else checked_inputs(feed, self.graph.inputs)
        return self.run(given)

    def check_epoch(self, columns: Columns, options: EpochOptions, *, in_batches: bool) -> None:
        """Raise an error for data or options that `train` does not take, before anything moves.

        `in_batches`: the rows are those of a loader.
        """
        columns.check_batches(options.batch_size)
        check_open_ranges(self.graph, columns, min(columns.rows, options.batch_size))

    @classmethod
    def function(cls, outputs: Sequence[BaseNode], inputs: Sequence[BaseNode]) -> FixedShapes:
        """Return the outputs as a function of inputs whose axes all have sizes, for `wyrm.function`."""
        from wyrm.engines.fixed_shapes import CalledShapes

        made: Any = cls
        return CalledShapes(made(outputs, None), inputs)

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
        """The sizes of the named axes in a run so far, as far as the engine knows them."""
        return {}

    @property
    def sharding(self) -> object:
        """How the parameters lie on the devices of a mesh, as a table to print; None for one device."""
        return None

    @property
    def processes(self) -> tuple[int, int]:
        """The number of this process among those that train together, and how many they are."""
        return 0, 1

    def profile(self, columns: Any, **options: Any) -> Any:
        """Return a `wyrm.profile.Profile` of some steps; parameters, optimizer and counts may change.

        The arguments are those of `Program.profile`.
        """
        raise OptionError(str(self.refusal("profile")))

    @classmethod
    def rule(cls, node: BaseNode) -> object:
        """Return the form that a user may have registered for the op of a node with this engine, or None."""
        return None

    @classmethod
    def rule_name(cls, node: BaseNode) -> str | None:
        """Return the member of the op's form that computes a node; None for the op's formula or `evaluate`."""
        return None

    @classmethod
    def may_refuse(cls, node: BaseNode) -> bool:
        """Return whether there are ops like that of a node which the engine cannot compute."""
        return False

    @classmethod
    def refusal(cls, what: str) -> Unavailable:
        """Return the error for what the engine cannot do."""
        return Unavailable(cls.refusals.get(what, f"{cls.__name__} has no {what}: see program.stages()"))

    # --- copies and forks -----------------------------------------------------------------------------------------

    def after_fork(self) -> None:
        """In a forked process, forget what threads held that do not exist there."""
        return
