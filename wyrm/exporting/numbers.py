"""The numbers that an optimizer's rules take in each step, as a program of its own, and outputs for all rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.errors import OptionError, WyrmError
from wyrm.graph.base import BaseNode
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.node import Node
from wyrm.graph.storage import bound_array
from wyrm.ops.elementwise.comparison import where
from wyrm.optim.state import AVERAGE_WEIGHT


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
                found[f"{AVERAGE_WEIGHT}{group._suffix}"] = _weights(optimizer.average, step)
        except (TypeError, ValueError, AttributeError, WyrmError) as error:
            raise OptionError(
                f"the numbers of {type(group).__name__} cannot leave Python: its hyperparameters(step) is no formula "
                f"of the step, because {error}. Write it with arithmetic and functions of NumPy, without branches"
            ) from error
    inputs = [leaf for *_, step, rate in groups for leaf in (step, rate)]
    return StepNumbers(Formulas.of(inputs, [found[name] for name in names]), groups)


def _weights(average: Any, step: Any) -> Any:
    """Return `Average.weights` of a step, a float."""
    since = step - float(average.start)
    place: Any = np.floor(since / float(average.every))
    counts = (since >= 0.0) & (since == place * float(average.every))
    return where(counts, average.weight((place + 1.0).maximum(1.0)), 0.0)


def means(totals: Any, parts: Mapping[BaseNode, Node]) -> list[Any]:
    """Return the outputs for all rows as formulas of the means and sums that they are computed from.

    See `Totals.of_all_rows`, which computes them in Python.
    """
    results: list[Any] = [parts[node] for node in totals.nodes[: len(totals._outputs)]]
    for position, function in enumerate(totals._functions):
        if function is None:
            continue
        values: dict[BaseNode, Any] = dict(parts)
        for node in function:
            if node in totals._quotients:
                total, weight = (values[part] for part in totals._quotients[node])
                some = weight != 0.0
                values[node] = where(some, total / where(some, weight, 1.0), 0.0)
            elif node.is_leaf:
                values[node] = Constant(np.asarray(bound_array(node), np.float64))
            elif node.same_value:
                values[node] = values[node.parents[0]]
            else:
                operands = tuple(values[parent] for parent in node.parents)
                values[node] = type(node).rebuild(operands, node.attribute_values(), node.name)
        results[position] = values[function[-1]]
    return results
