"""The numbers that an optimizer's rules take in each step, as a program of its own, and learning rate schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import FunctionType
from typing import Any

import numpy as np

from wyrm.engines.native.ir.types import FLOAT64, INT64
from wyrm.engines.native.kernels.functions import KernelFunction
from wyrm.engines.native.kernels.values import NotCompiled, NumKind
from wyrm.engines.native.llvm.calling import kind_of_argument
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.engines.totals import Totals
from wyrm.errors import OptionError, WyrmError
from wyrm.exporting.image import DataArray, Image
from wyrm.exporting.image import Kind as RegionKind
from wyrm.exporting.intrinsics import in_data, kernel
from wyrm.exporting.routines import Code
from wyrm.graph.base import BaseNode
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.node import Node
from wyrm.graph.storage import bound_array
from wyrm.ops.elementwise.comparison import where
from wyrm.optim.options import ScaledRate
from wyrm.optim.schedules import Formula, Joined


@dataclass(frozen=True)
class Formulas:
    """Scalars in float64 as functions of scalars: a result is an input, a number, or an output of the graph."""

    inputs: list[Node]
    results: list[Node | float]
    graph: NativeGraph | None

    @staticmethod
    def of(inputs: Sequence[Node], results: Sequence[Any]) -> Formulas:
        """Return the formulas of these results."""
        found = [each if isinstance(each, BaseNode) else float(each) for each in results]
        computed = [each for each in found if isinstance(each, BaseNode) and not each.is_leaf]
        graph = NativeGraph(computed, None) if computed else None
        if graph is not None and graph.source.evaluated:
            raise OptionError(f"{graph.source.evaluated[0].node.op_name()} has no native form")
        return Formulas(list(inputs), found, graph)  # type: ignore[arg-type]  # the nodes are floats

    def depends_on(self, leaf: Node) -> bool:
        """Return whether any result changes with an input."""
        leaves = [] if self.graph is None else self.graph.schedule.leaves
        return any(each is leaf for each in (*self.results, *leaves))


@dataclass(frozen=True)
class StepNumbers:
    """The numbers of a step by name, as formulas of each group's count of steps and learning rate."""

    formulas: Formulas
    # For each group that is used: its position, the position of one of its parameters, and its inputs.
    groups: list[tuple[int, int, Node, Node]]


def step_numbers(optimizer: Any, parameters: Sequence[Any], names: Sequence[str]) -> StepNumbers:
    """Trace the numbers that programs ask an optimizer for; raise `OptionError` if they are no formula of the step."""
    optimizer.numbers(1, parameters)  # refuses parameters with different counts of steps
    found: dict[str, Any] = {}
    groups: list[tuple[int, int, Node, Node]] = []
    positions = [optimizer._position[parameter] for parameter in parameters]
    for index in sorted({optimizer._group_of[position] for position in positions}):
        group = optimizer.groups[index]
        step: Any = Input(name=f"step_{index}", dtype=np.float64)
        rate: Any = Input(name=f"rate_{index}", dtype=np.float64)
        first = next(position for position in positions if optimizer._group_of[position] == index)
        groups.append((index, first, step, rate))
        # A twin whose learning rate is a node; the optimizer itself stays as it is.
        twin = object.__new__(type(group))
        twin.__dict__.update(group.__dict__ | {"_learning_rate": rate})
        try:
            found |= twin.numbers_at(step)
            if optimizer.average is not None:
                found[group.average_weight] = optimizer.average.weights(step)
        except (TypeError, ValueError, AttributeError, WyrmError) as error:
            raise OptionError(
                f"the numbers of {type(group).__name__} cannot leave Python: its hyperparameters(step) is no formula "
                f"of the step, because {error}. Write it with arithmetic and functions of NumPy, without branches"
            ) from error
    inputs = [*(step for *_, step, _ in groups), *(rate for *_, rate in groups)]
    return StepNumbers(Formulas.of(inputs, [found[name] for name in names]), groups)


def means(totals: Totals, parts: Mapping[BaseNode, Node]) -> list[Node]:
    """Return the outputs for all rows as formulas of the means and sums that they are computed from."""

    def quotient(total: Node, weight: Node) -> Node:
        some = weight != 0.0
        return where(some, total / where(some, weight, 1.0), 0.0)

    def leaf(constant: BaseNode) -> Node:
        return Constant(np.asarray(bound_array(constant), np.float64))

    def value(node: BaseNode, operands: Sequence[Any]) -> Any:
        return node.rebuild(operands)

    return totals.outputs(parts, quotient, leaf, value)


@dataclass(eq=False)
class PlannedRate:
    """A schedule whose functions are translated: `factor` times a number, a formula of the step, or its parts.

    Each part has the step at which it begins, and from which it counts.
    """

    factor: float = 1.0
    value: float | None = None
    formula: KernelFunction | None = None
    arguments: tuple[float | DataArray, ...] = ()
    parts: tuple[tuple[int, PlannedRate], ...] = ()


def planned(schedule: Any, code: Code, image: Image) -> PlannedRate:
    """Return a schedule or a number as code; raise `OptionError` for a function that cannot be translated."""
    if isinstance(schedule, ScaledRate):
        return PlannedRate(schedule.factor, parts=((0, planned(schedule.schedule, code, image)),))
    if isinstance(schedule, Joined):
        parts = [planned(each, code, image) for each in schedule.schedules]
        return PlannedRate(parts=tuple(zip((0, *schedule.boundaries), parts, strict=True)))
    if not callable(schedule):
        return PlannedRate(value=float(schedule))
    function, given = (type(schedule).formula, _typed(schedule)) if isinstance(schedule, Formula) else (schedule, ())
    return PlannedRate(
        formula=_formula(function, given, code, schedule), arguments=tuple(_argument(each, image) for each in given)
    )


@kernel
def rate_at(rate: PlannedRate, block: Any, step: int) -> float:
    """Return the value of a schedule at a step."""
    if rate.value is not None:
        return rate.value
    if rate.formula is not None:
        return float(rate.formula(step, *tuple(in_data(block, each) for each in rate.arguments)))
    found = 0.0
    for begin, part in rate.parts:
        if step >= begin:
            found = rate.factor * rate_at(part, block, step - begin)
    return found


def _typed(schedule: Formula) -> tuple[Any, ...]:
    """Return the arguments of a formula; each number has the type that its field declares."""
    found: list[Any] = []
    for field, value in zip(fields(schedule), schedule.arguments, strict=True):  # type: ignore[arg-type]  # a dataclass
        declared = str(field.type)
        if declared.startswith("Sequence"):
            found.append(np.array(value, np.float64 if "float" in declared else np.int64))
        else:
            found.append(float(value) if declared == "float" else int(value))
    return tuple(found)


def _argument(value: Any, image: Image) -> float | DataArray:
    """Return a number as it is, and an array as one of the data."""
    if not isinstance(value, np.ndarray):
        return float(value) if isinstance(value, float) else int(value)
    return image.add(value.nbytes, RegionKind.CONSTANT, value.tobytes()), value.dtype, value.shape


def _formula(function: Any, arguments: Sequence[Any], code: Code, schedule: object) -> KernelFunction:
    """Return a function of the step and of constants as a kernel that can be translated."""
    try:
        if not isinstance(function, FunctionType):
            raise NotCompiled("it is no function that is written with def")
        found = KernelFunction(function)
        result = code.translated(found, (NumKind(INT64), *map(kind_of_argument, arguments))).result
        if result not in (NumKind(FLOAT64), NumKind(INT64), NumKind(INT64, natural=True)):
            raise NotCompiled("it returns no number")
    except NotCompiled as error:
        raise OptionError(
            f"the learning rate {schedule!r} cannot leave Python: {error}. Use a schedule of wy.optim, or a function "
            f"of the step, written with def in a file, that uses numbers, math and names of its module alone"
        ) from None
    return found
