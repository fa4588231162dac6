"""An optimizer's rule as the text of a loop over the elements of a parameter, or over the rows that a step touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wyrm.compiler.expressions import formula_lines, number
from wyrm.node.base import BaseNode
from wyrm.node.leaves import Input, Parameter
from wyrm.node.node import Node
from wyrm.node.storage import bound_array, is_leaf
from wyrm.schedule.schedule import Schedule


class Rule(Protocol):
    """The graph of an update: `outputs` are the new parameter and the new state, made of the inputs."""

    parameter: Input[Any]
    gradient: Input[Any]
    state: dict[str, Input[Any]]
    hyper: dict[str, Input[Any]]
    outputs: list[Node[Any, Any]]


class Optimizer(Protocol):
    """What a program needs of an optimizer."""

    parameters: list[Parameter[Any]]
    steps: int

    @property
    def learning_rate(self) -> float:
        """The rate of the next step."""

    @property
    def flushes(self) -> bool:
        """Whether denormal state becomes zero where the gradient is zero."""

    def rule(self, dtype: np.dtype[Any]) -> Any:
        """The rule for parameters of one float type."""

    def numbers(self, count: int, parameters: Any) -> dict[str, NDArray[np.float64]]:
        """The numbers of the rule for the next steps of these parameters, `count` of each."""

    def state_of(self, parameter: Parameter[Any]) -> Mapping[str, NDArray[Any]]:
        """The arrays of a parameter's state."""

    def advance(self, count: int, parameters: Any) -> None:
        """Count steps that have been done with these parameters; below 0, undone."""


def update_text(name: str, rule: Rule, row_axes: int, flushes: bool) -> str:
    """The function that moves one parameter: all of it, or with `row_axes` the rows that `rows` and `count` name.

    Its arguments are the parameter, the gradient, the arrays of the state and the numbers of the step, all in the order
    of the rule; then, for rows, `rows` and `count`. Arrays are flat, or with `row_axes` have that many axes, one or
    two; the gradient of rows is set to zero for the next step.
    """
    rows = row_axes > 0
    element = ["j", "row", "row, j"][row_axes]
    schedule = Schedule(rule.outputs)
    state, hyper = list(rule.state), list(rule.hyper)
    arguments = ["parameter", "gradient", *state, *hyper, *(["rows", "count"] if rows else [])]
    places = {rule.parameter: "parameter", rule.gradient: "gradient", **{rule.state[key]: key for key in state}}
    names: dict[BaseNode[Any, Any], str] = {}
    once: list[str] = []
    each: list[str] = []
    for key in hyper:
        names[rule.hyper[key]] = f"{key}_"
        once.append(f"{key}_ = {key}[()]")
    for leaf, array in places.items():
        names[leaf] = f"{array}_"
        place = element.replace("row", "k") if leaf is rule.gradient else element
        each.append(f"{array}_ = {array}[{place}]")
    used = iter(range(10**6))
    for node in schedule.nodes:
        if node in names:
            continue
        dtype = rule.parameter.dtype
        if is_leaf(node):
            names[node] = number(bound_array(node).item(), dtype)
            continue
        assert node.formula is not None
        lines, text = formula_lines(
            node.formula,
            [names[parent] for parent in schedule.parents(node)],
            _attributes(node, dtype),
            dtype,
            lambda: f"t{next(used)}",
        )
        names[node] = f"{node.op_name()}_{next(used)}"
        (each if node.dims else once).extend([*lines, f"{names[node]} = {text}"])
    zero = number(0.0, rule.parameter.dtype)
    if flushes and state:
        # The smallest normal number where the gradient is zero; the least other gradient makes it negative. A condition
        # instead makes the loop of Adam a quarter slower.
        tiny = float(np.finfo(rule.parameter.dtype).tiny)
        least, factor = number(tiny, rule.parameter.dtype), number(1.0 / tiny, rule.parameter.dtype)
        each.append(f"limit__ = {least} - abs(gradient_) * {factor}")
    targets = ["parameter", *state]
    for target, output in zip(targets, schedule.outputs, strict=True):
        result = names[output]
        if flushes and target != "parameter":
            result = f"{zero} if abs({result}) < limit__ else {result}"
        each.append(f"{target}[{element}] = {result}")
    if rows:
        each.append(f"gradient[{element.replace('row', 'k')}] = 0")
    return "\n".join([f"def {name}({', '.join(arguments)}):", *_indented(once, 1), *_loop(each, row_axes), ""])


def _attributes(node: BaseNode[Any, Any], dtype: np.dtype[Any]) -> Any:
    return lambda name: number(getattr(node, name), dtype)


def _loop(lines: Sequence[str], row_axes: int) -> list[str]:
    if row_axes == 0:
        return ["    for j in range(parameter.shape[0]):", *_indented(lines, 2)]
    head = ["    for k in range(count[0]):", "        row = rows[k]"]
    if row_axes == 1:
        return [*head, *_indented(lines, 2)]
    return [*head, "        for j in range(gradient.shape[1]):", *_indented(lines, 3)]


def _indented(lines: Sequence[str], depth: int) -> list[str]:
    return ["    " * depth + line for line in lines]
