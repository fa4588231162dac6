"""Conditionals inside the graph, which compute one branch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, overload

import numpy as np
from typing_extensions import TypeVar, TypeVarTuple

from wyrm.errors import DTypeError
from wyrm.functions.carries import (
    as_floats,
    checked_carry,
    dtype_of,
    from_floats,
    leaf_nodes,
    placeholders_of,
    scalar_condition,
)
from wyrm.functions.function import function_of_nodes
from wyrm.functions.pytree import Branch, Tree, flatten, unflatten
from wyrm.functions.tracing import name_of
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.node import IndexNode, Node, Tensor
from wyrm.graph.source_location import building
from wyrm.graph.typing import HasArray
from wyrm.graph.weak_types import chosen
from wyrm.ops.control.loop_body import Iteration, LoopBody, closure_convert
from wyrm.ops.control.pass_through import alias
from wyrm.ops.control.scan import Scan
from wyrm.ops.shaping.shape import zeros_like

# The axes of a branch's operands and of its results.
Carry = TypeVarTuple("Carry")
Second = TypeVarTuple("Second")
Made = TypeVarTuple("Made")
# The result of a branch that is a container of nodes.
Container: TypeAlias = "tuple[Any, ...] | list[Any] | dict[str, Any]"
C = TypeVar("C", bound=Container)
# A scalar mask, or a bool that is known while the graph is built.
Condition: TypeAlias = "Tensor[()] | bool | np.bool_"


@overload
def cond(
    condition: Condition, true: Callable[[], Tensor[*Carry] | float], false: Callable[[], Tensor[*Carry] | float], /
) -> Tensor[*Carry]: ...
@overload
def cond(
    condition: Condition,
    true: Callable[[Tensor[*Carry]], Tensor[*Second] | float],
    false: Callable[[Tensor[*Carry]], Tensor[*Second] | float],
    operand: Tensor[*Carry],
    /,
) -> Tensor[*Second]: ...
@overload
def cond(
    condition: Condition,
    true: Callable[[Tensor[*Carry], Tensor[*Second]], Tensor[*Made] | float],
    false: Callable[[Tensor[*Carry], Tensor[*Second]], Tensor[*Made] | float],
    first: Tensor[*Carry],
    second: Tensor[*Second],
    /,
) -> Tensor[*Made]: ...
@overload
def cond(
    condition: Condition,
    true: Callable[[Tensor[*Carry]], C],
    false: Callable[[Tensor[*Carry]], C],
    operand: Tensor[*Carry],
    /,
) -> C: ...
@overload
def cond(
    condition: Condition,
    true: Callable[[Tensor[*Carry], Tensor[*Second]], C],
    false: Callable[[Tensor[*Carry], Tensor[*Second]], C],
    first: Tensor[*Carry],
    second: Tensor[*Second],
    /,
) -> C: ...
@overload
def cond(condition: Condition, true: Callable[[], C], false: Callable[[], C], /) -> C: ...
@overload
def cond(
    condition: Condition, true: Callable[..., object], false: Callable[..., object], first: Branch, /, *operands: Tree
) -> Any: ...
@overload
def cond(
    condition: Condition,
    true: Callable[..., object],
    false: Callable[..., object],
    first: Node,
    second: Tree,
    third: Tree,
    /,
    *operands: Tree,
) -> Any: ...
@overload
def cond(condition: Condition, true: Callable[[], HasArray], false: Callable[[], HasArray], /) -> Node: ...
def cond(condition: object, true: Callable[..., Any], false: Callable[..., Any], *operands: object) -> Any:
    """Return `true(*operands)` if the condition, a scalar mask, is true, else `false(*operands)`.

    Only the chosen branch is computed, and the gradient goes through it. Both branches return nodes of the same
    structure, axes and dtypes. If the condition is a Python bool, the graph contains that branch alone. To select
    elementwise, use `wy.where`, which computes both.

    Raise `DTypeError` for a condition that is not a scalar mask, `ShapeError` if the branches' results differ in
    structure or axes.

    >>> x = wy.Parameter(4.0)
    >>> root = wy.cond(x > 0.0, lambda x: x.sqrt(), lambda x: x * 0.0, x)
    >>> root.forward().item(), wy.grad(root, x).forward().item()
    (2.0, 0.25)
    """
    first, second = (function_of_nodes(branch, "cond takes a function") for branch in (true, false))
    if isinstance(condition, bool | np.bool_):
        return first(*operands) if condition else second(*operands)
    what = f"cond of {name_of(first)} and {name_of(second)}"
    mask = scalar_condition(condition, what)
    return _chosen_result([first, second], lambda: [mask, ~mask], mask.parents, operands, what)


def _chosen_result(
    branches: Sequence[Callable[..., Any]],
    masks: Callable[[], Sequence[Node]],
    beside: Sequence[BaseNode],
    operands: tuple[object, ...],
    what: str,
) -> Any:
    """Return the result of the branch whose mask is true; each branch is a loop of at most one step.

    Numbers take the dtype of the nodes among the results, else of those among the operands and `beside`.
    """
    given, structure = flatten(operands, f"the operands of {what}")
    nodes = [alias(node) for node in leaf_nodes(given, dtype_of(given))]
    values, built = [], []
    for branch in branches:
        with building() as inner:
            values.append(branch(*unflatten(structure, nodes)))
        built.append(inner)
    parts = [flatten(x, f"the result of {name_of(branch)}") for x, branch in zip(values, branches, strict=True)]
    shape = parts[0][1]
    dtype = chosen(dtype_of([*(leaf for leaves, _ in parts for leaf in leaves), *given, *beside]))
    results = leaf_nodes(parts[0][0], dtype)
    like = placeholders_of(results, shape, f"the result of {name_of(branches[0])}")
    carry: list[Any] = []
    if not results:
        return values[0]
    for position, (inner, mask) in enumerate(zip(built, masks(), strict=True)):
        outputs = checked_carry(values[position], like, shape, what, dtype) if position else results
        with building() as converted:
            floats = as_floats(outputs, dtype)
        carry = carry or [zeros_like(x) for x in floats]
        placeholders = placeholders_of(carry, shape, "result")
        own = [*inner, *converted]
        outside, captured, made = closure_convert(floats, placeholders, own, built=[*nodes, *own])
        body = LoopBody([*placeholders, *captured], made)
        steps = Iteration(body, 1, len(carry), 0, limited=True, written_as=what.partition(" ")[0])
        loop = Scan(steps, mask.astype(dtype), *carry, *outside)
        carry = [loop.last(i) for i in range(len(carry))]
    return unflatten(shape, from_floats(carry, results))


@overload
def switch(
    index: IndexNode[tuple[()]] | int, branches: Sequence[Callable[[], Tensor[*Made] | float]], /
) -> Tensor[*Made]: ...
@overload
def switch(
    index: IndexNode[tuple[()]] | int,
    branches: Sequence[Callable[[Tensor[*Carry]], Tensor[*Made] | float]],
    operand: Tensor[*Carry],
    /,
) -> Tensor[*Made]: ...
@overload
def switch(
    index: IndexNode[tuple[()]] | int,
    branches: Sequence[Callable[[Tensor[*Carry], Tensor[*Second]], Tensor[*Made] | float]],
    first: Tensor[*Carry],
    second: Tensor[*Second],
    /,
) -> Tensor[*Made]: ...
@overload
def switch(
    index: IndexNode[tuple[()]] | int, branches: Sequence[Callable[[Tensor[*Carry]], C]], operand: Tensor[*Carry], /
) -> C: ...
@overload
def switch(
    index: IndexNode[tuple[()]] | int,
    branches: Sequence[Callable[[Tensor[*Carry], Tensor[*Second]], C]],
    first: Tensor[*Carry],
    second: Tensor[*Second],
    /,
) -> C: ...
@overload
def switch(index: IndexNode[tuple[()]] | int, branches: Sequence[Callable[[], C]], /) -> C: ...
@overload
def switch(
    index: IndexNode[tuple[()]] | int, branches: Sequence[Callable[..., object]], first: Branch, /, *operands: Tree
) -> Any: ...
@overload
def switch(
    index: IndexNode[tuple[()]] | int,
    branches: Sequence[Callable[..., object]],
    first: Node,
    second: Tree,
    third: Tree,
    /,
    *operands: Tree,
) -> Any: ...
@overload
def switch(index: IndexNode[tuple[()]] | int, branches: Sequence[Callable[[], HasArray]], /) -> Node: ...
def switch(index: object, branches: Sequence[Callable[..., Any]], /, *operands: object) -> Any:
    """Return `branches[index](*operands)`, with an index below 0 or too large clamped to the first or last branch.

    Only the chosen branch is computed, and the gradient goes through it. All branches return nodes of the same
    structure, axes and dtypes. If the index is a Python integer, the graph contains that branch alone.

    Raise `DTypeError` for an index that is not a scalar of integers, `ShapeError` if the branches' results differ in
    structure or axes, `ValueError` without branches.

    >>> x = wy.Parameter(3.0)
    >>> power = wy.switch(wy.IndexConstant(2), [lambda x: x, lambda x: x * x, lambda x: x * x * x], x)
    >>> power.forward().item(), wy.grad(power, x).forward().item()
    (27.0, 27.0)
    """
    plain = [function_of_nodes(branch, "switch takes functions") for branch in branches]
    if not plain:
        raise ValueError("switch: branches must hold at least one function")
    last = len(plain) - 1
    if isinstance(index, int | np.integer) and not isinstance(index, bool):
        return plain[min(max(int(index), 0), last)](*operands)
    what = f"switch of {', '.join(map(name_of, plain))}"
    if not isinstance(index, IndexNode) or index.dims != ():
        found = describe(index) if isinstance(index, BaseNode) else repr(index)
        raise DTypeError(f"{what} needs a scalar index node, not {found}")
    if last == 0:
        return plain[0](*operands)
    chosen: Any = index

    def masks() -> list[Node]:
        return [chosen <= 0, *(chosen == position for position in range(1, last)), chosen >= last]

    return _chosen_result(plain, masks, (), operands, what)
