"""An optimizer's rule as a loop over the elements of a parameter, or over the rows that a step touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

import numpy as np

from wyrm.engines.native.ir.arrays import (
    Apply,
    ArrayFunction,
    ArraySize,
    CountedLoop,
    Element,
    Expression,
    Let,
    Literal,
    Name,
    Statement,
    Store,
)
from wyrm.engines.native.stages.formulas import formula_steps, number
from wyrm.engines.optimizers import UpdateRule
from wyrm.graph.base import BaseNode
from wyrm.graph.schedule import Schedule
from wyrm.graph.storage import bound_array


def update(name: str, rule: UpdateRule, row_axes: int, row_size: int | None) -> ArrayFunction:
    """Return the function that updates one parameter: all of it, or with `row_axes` the touched rows.

    Its arguments are the parameter, the gradient, the arrays of the state and the numbers of the step, all in the order
    of the rule; for rows also `rows` and `count`. Arrays are flat, or have `row_axes` axes, which is one or two. The
    gradient of rows is reset to zero for the next step. `row_size` specializes the code for rows of that many elements.
    """
    row, j, k = Name("row"), Name("j"), Name("k")
    element = [(j,), (row,), (row, j)][row_axes]
    gradient_index = [(j,), (k,), (k, j)][row_axes]  # of the gradient
    schedule = Schedule(rule.outputs)
    state, hyperparameters, dtype = list(rule.state), list(rule.hyperparameters), rule.parameter.dtype
    arguments = ["parameter", "gradient", *state, *hyperparameters, *(["rows", "count"] if row_axes else [])]
    arrays = {rule.parameter: "parameter", rule.gradient: "gradient", **{rule.state[key]: key for key in state}}
    values: dict[BaseNode, Expression] = {}
    once: list[Statement] = []
    each: list[Statement] = []
    for key in hyperparameters:
        values[rule.hyperparameters[key]] = Name(f"{key}_")
        once.append(Let(f"{key}_", Element(key, ())))
    for leaf, array in arrays.items():
        values[leaf] = Name(f"{array}_")
        each.append(Let(f"{array}_", Element(array, gradient_index if leaf is rule.gradient else element)))
    used = count()
    for node in schedule.nodes:
        if node in values:
            continue
        if node.is_leaf:
            values[node] = number(bound_array(node).item(), dtype)
            continue
        assert node.formula is not None
        operands = [values[parent] for parent in schedule.parents(node)]
        steps, result = formula_steps(
            node.formula, operands, _attributes(node, dtype), dtype, lambda: f"t{next(used)}"
        )  # fmt: skip
        variable = f"{node.op_name()}_{next(used)}"
        values[node] = Name(variable)
        (each if node.dims else once).extend([*steps, Let(variable, result)])
    flushed = _flushing(dtype) if rule.flushes and not row_axes and state else None
    if flushed is not None:
        each.append(flushed[0])
    for target, output in zip(["parameter", *state], schedule.outputs, strict=True):
        moved = values[output]
        if flushed is not None and target != "parameter":
            moved = Apply("where", (Apply("less", (Apply("abs", (moved,)), flushed[1])), number(0.0, dtype), moved))
        each.append(Store(target, element, moved))
    if row_axes:
        each.append(Store("gradient", gradient_index, Literal(0)))
    return ArrayFunction(name, tuple(arguments), (*once, _loop(each, row_axes, row_size)))


def _attributes(node: BaseNode, dtype: np.dtype) -> Callable[[str], Expression]:
    return lambda name: number(getattr(node, name), dtype)


def _flushing(dtype: np.dtype) -> tuple[Let, Name]:
    """Return the limit below which state becomes zero: the smallest normal number if the gradient is zero, else < 0.

    A branch instead would make the loop of Adam a quarter slower.
    """
    tiny = float(np.finfo(dtype).tiny)
    factor = Apply("multiply", (Apply("abs", (Name("gradient_"),)), number(1.0 / tiny, dtype)))
    return Let("limit__", Apply("subtract", (number(tiny, dtype), factor))), Name("limit__")


def _loop(body: Sequence[Statement], row_axes: int, row_size: int | None) -> CountedLoop:
    if row_axes == 0:
        return CountedLoop("j", ArraySize("parameter", 0), tuple(body))
    row = Let("row", Apply("natural", (Element("rows", (Name("k"),)),)))
    size = ArraySize("gradient", 1) if row_size is None else Literal(row_size)
    inner = tuple(body) if row_axes == 1 else (CountedLoop("j", size, tuple(body)),)
    return CountedLoop("k", Element("count", (Literal(0),)), (row, *inner))
