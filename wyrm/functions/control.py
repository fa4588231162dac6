"""Control flow inside the graph: loops whose steps are compiled once, and branches of which one is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, overload

import numpy as np
from typing_extensions import TypeVar, TypeVarTuple

from wyrm.errors import DTypeError, ShapeError
from wyrm.functions.function import over_nodes
from wyrm.functions.pytree import Branch, PyTreeDef, Tree, flatten, leaf_paths, unflatten
from wyrm.functions.tracing import name_of, standing
from wyrm.node.base import BaseNode, describe, format_dims
from wyrm.node.index_leaves import IndexConstant
from wyrm.node.leaves import Constant, as_constant
from wyrm.node.node import Node, Tensor
from wyrm.node.source_location import building
from wyrm.ops.loop_body import LoopBody, closure_convert, placeholder_like
from wyrm.ops.pass_through import alias
from wyrm.ops.scan import Scan
from wyrm.ops.shape import zeros_like
from wyrm.ops.steps import ENDLESS, Steps
from wyrm.types.dims import Axis, axis_size
from wyrm.types.typing import HasArray

T = TypeVar("T")
# The axes of what a loop carries or a branch takes, of a row, and of what comes of them.
Carry = TypeVarTuple("Carry")
Second = TypeVarTuple("Second")
Row = TypeVarTuple("Row")
Made = TypeVarTuple("Made")
# What a loop carries, or a branch gives, where it is a container of nodes.
C = TypeVar("C", bound="tuple[Any, ...] | list[Any] | dict[str, Any]")
# A mask without axes, or what is known while the graph is built.
Condition: TypeAlias = "Tensor[()] | bool | np.bool_"


def dtype_of(leaves: Sequence[object]) -> np.dtype:
    """The float type of what is there: that of the nodes, else of the arrays, else float32."""
    for kind in (BaseNode, np.ndarray):
        for leaf in leaves:
            if isinstance(leaf, kind) and leaf.dtype.kind == "f":
                return np.dtype(leaf.dtype)
    return np.dtype(np.float32)


def as_nodes(leaves: Sequence[object], dtype: np.dtype) -> list[Any]:
    """Leaves as nodes: integers of arrays choose rows, all other numbers are of the float type."""
    found: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, BaseNode):
            found.append(leaf)
        elif isinstance(leaf, np.ndarray) and leaf.dtype.kind in "iu":
            found.append(IndexConstant(leaf))
        elif isinstance(leaf, np.ndarray) and leaf.dtype.kind == "b":
            found.append(Constant(leaf))
        else:
            found.append(as_constant(leaf, dtype))
    return found


def _givens(nodes: Sequence[BaseNode], structure: PyTreeDef, name: str, axes: int = 0) -> list[Any]:
    """Inputs that stand for nodes, or for their rows, named by where they are."""
    return [
        placeholder_like(node, node.dims[axes:], where)
        for node, where in zip(nodes, leaf_paths(structure, name), strict=True)
    ]


def _carried_on(
    value: object, givens: Sequence[BaseNode], structure: PyTreeDef, what: str, dtype: np.dtype
) -> list[Any]:
    """What a step hands on as nodes like what it was given, or an error that says where they differ."""
    leaves, found = flatten(value, what)
    if found != structure:
        raise ShapeError(f"{what} has another structure than what it was given: {value!r}")
    nodes = as_nodes(leaves, dtype)
    for given, node in zip(givens, nodes, strict=True):
        if given.shape != node.shape:
            raise ShapeError(
                f"{what}: {given.name} has the axes {format_dims(given.dims)} and becomes {describe(node)}; it keeps "
                f"its axes from step to step"
            )
        if given.dtype != node.dtype:
            raise DTypeError(
                f"{what}: {given.name} is {given.dtype} and becomes {describe(node)}; cast it with .astype"
            )
    return nodes


def _carry(init: object, beside: Sequence[object], what: str) -> tuple[list[Any], PyTreeDef, np.dtype]:
    """What a loop starts from as float nodes."""
    leaves, structure = flatten(init, f"init of {what}")
    if not leaves:
        raise ShapeError(f"{what}: there is nothing in init to carry from step to step")
    dtype = dtype_of([*leaves, *beside])
    if structure.has_module:
        raise DTypeError(f"{what}: a module is no carry; hand on what its parameters hold, and use it from outside")
    nodes = [as_constant(leaf, dtype) if not isinstance(leaf, BaseNode) else leaf for leaf in leaves]
    for node in nodes:
        if node.dtype.kind != "f":
            raise DTypeError(f"{what}: {describe(node)} is carried and not float; cast it with .astype(np.float32)")
    return nodes, structure, nodes[0].dtype


@overload
def scan(
    function: Callable[[Tensor[*Carry], Tensor[*Row]], tuple[Tensor[*Carry], None]],
    init: Tensor[*Carry],
    xs: Tensor[T, *Row],
    length: int | None = None,
    *,
    reverse: bool = False,
) -> tuple[Tensor[*Carry], None]: ...
@overload
def scan(
    function: Callable[[Tensor[*Carry], Tensor[*Row]], tuple[Tensor[*Carry], Tensor[*Made]]],
    init: Tensor[*Carry],
    xs: Tensor[T, *Row],
    length: int | None = None,
    *,
    reverse: bool = False,
) -> tuple[Tensor[*Carry], Tensor[T, *Made]]: ...
@overload
def scan(
    function: Callable[[Any, Any], tuple[Any, Any]],
    init: Branch,
    xs: Tree = None,
    length: int | None = None,
    *,
    reverse: bool = False,
) -> tuple[Any, Any]: ...
@overload
def scan(
    function: Callable[[Tensor[*Carry], Any], tuple[Tensor[*Carry], Any]],
    init: Tensor[*Carry],
    xs: Branch = None,
    length: int | None = None,
    *,
    reverse: bool = False,
) -> tuple[Tensor[*Carry], Any]: ...
def scan(
    function: Callable[..., object],
    init: object,
    xs: object = None,
    length: int | None = None,
    *,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """The steps `carry, y = function(carry, x)` for each row `x` of `xs`: the last carry, and all `y` stacked.

    `init` is the first carry and keeps its structure and axes; `xs` are arrays with one first axis, that of the steps,
    or None, and then `length` is the number of steps. All are nodes, arrays, or nested tuples, lists and dicts of them.
    `reverse` begins with the last row; `y` stays in its place. What `function` uses besides is the same in every step.

    It is one node: the function is run once, on inputs that stand for a step's, its code is compiled once, and the
    gradient is a loop of this kind again, which keeps every carry and computes the rest of a step anew. A random node
    inside draws the same in every step. Axes inside need sizes.

    Raises `ShapeError` for a carry that changes its structure or axes, and for sequences of two lengths; `DTypeError`
    for a carry of integers and for two float types.

    >>> total, sums = wy.scan(lambda carry, x: (carry + x, carry * 10.0), wy.Constant(0.0), np.array([1.0, 2.0, 3.0]))
    >>> total.forward().item(), sums.forward().tolist()
    (6.0, [0.0, 10.0, 30.0])
    """
    plain = over_nodes(function, "scan takes a function")
    what = f"scan of {name_of(plain)}"
    given, rows_structure = flatten(xs, f"xs of {what}")
    carry, structure, dtype = _carry(init, given, what)
    rows = as_nodes(given, dtype)
    time = _time(rows, length, what)
    givens, given_rows = _givens(carry, structure, "carry"), _givens(rows, rows_structure, "x", axes=1)
    with standing([*givens, *given_rows]), building() as built:
        result = plain(unflatten(structure, givens), unflatten(rows_structure, given_rows))
    if not isinstance(result, tuple) or len(result) != 2:
        raise ShapeError(f"{what}: a step returns a pair, the next carry and what it makes or None, not {result!r}")
    following = _carried_on(result[0], givens, structure, what, dtype)
    made, made_structure = flatten(result[1], f"the result of {what}")
    made = as_nodes(made, dtype)
    outside, stand, outputs = closure_convert([*following, *made], [*givens, *given_rows], built=built)
    steps = Steps(LoopBody([*givens, *given_rows, *stand], outputs), time, len(carry), len(rows), reverse=reverse)
    loop = Scan(steps, *carry, *rows, *outside)
    last = [loop.last(i) for i in range(len(carry))]
    return unflatten(structure, last), unflatten(made_structure, [loop.made(i) for i in range(len(made))])


def _time(rows: Sequence[BaseNode], length: int | None, what: str) -> Axis:
    for row in rows:
        if not row.dims:
            raise ShapeError(f"{what}: {describe(row)} is in xs and has no axis to go along")
    if not rows and length is None:
        raise ShapeError(f"{what}: with no xs to go along, give the number of steps as length=")
    if length is not None and (isinstance(length, bool) or not isinstance(length, int | np.integer)):
        raise DTypeError(f"{what}: length is a whole number, not {length!r}")
    time: Axis = rows[0].dims[0] if rows else int(length or 0)
    sizes = {axis_size(row.dims[0]) for row in rows} | ({length} if length is not None else set())
    if None in sizes:
        raise ShapeError(f"{what}: the first axis of xs, {time!r}, needs a size; give it one, as in Time(100)")
    if len(sizes) > 1:
        raise ShapeError(f"{what}: its sequences have the lengths {', '.join(map(str, sorted(map(str, sizes))))}")
    if (axis_size(time) or 0) < 0:
        raise ShapeError(f"{what}: length is at least 0, not {length}")
    return time


def _condition(mask: object, what: str) -> Node:
    if not isinstance(mask, Node) or mask.dtype.kind != "b" or mask.dims != ():
        found = describe(mask) if isinstance(mask, BaseNode) else repr(mask)
        raise DTypeError(f"{what} takes a condition that is one mask, such as x.sum() > 0.0, not {found}")
    return mask


@overload
def while_loop(
    condition: Callable[[Tensor[*Carry]], Tensor[()]],
    function: Callable[[Tensor[*Carry]], Tensor[*Carry]],
    init: Tensor[*Carry],
    *,
    max_steps: int | None = None,
) -> Tensor[*Carry]: ...
@overload
def while_loop(
    condition: Callable[[Any], Tensor[()]],
    function: Callable[[Any], C],
    init: C,
    *,
    max_steps: int | None = None,
) -> C: ...
@overload
def while_loop(
    condition: Callable[[Any], Any],
    function: Callable[[Any], Any],
    init: float | HasArray,
    *,
    max_steps: int | None = None,
) -> Node: ...
def while_loop(
    condition: Callable[..., object], function: Callable[..., object], init: object, *, max_steps: int | None = None
) -> Any:
    """`carry = function(carry)` from `init` on as long as `condition(carry)`, a mask without axes, is true.

    The carry is as that of `scan`. With `max_steps` the loop ends after so many steps at the latest, and has a
    gradient, by the steps that were done; there is memory for all of `max_steps`. Without it there is no gradient.

    Raises `DTypeError` for a condition that is no mask, `ShapeError` for a carry that changes its structure or axes,
    and, where its gradient is asked for, `NotDifferentiable` for a loop without `max_steps`.

    >>> wy.while_loop(lambda x: x < 100.0, lambda x: x * 2.0, wy.Constant(3.0)).forward().item()
    192.0
    """
    step, goes_on = (over_nodes(given, "while_loop takes a function") for given in (function, condition))
    what = f"while_loop of {name_of(step)}"
    if max_steps is not None and (isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1):
        raise ValueError(f"{what}: max_steps is a whole number of at least 1, not {max_steps!r}")
    carry, structure, dtype = _carry(init, (), what)
    givens = _givens(carry, structure, "carry")
    with standing(givens), building() as built:
        following = _carried_on(step(unflatten(structure, givens)), givens, structure, what, dtype)
        again = _condition(goes_on(unflatten(structure, following)), what)
    outside, stand, outputs = closure_convert([*following, again], givens, built=built)
    most = ENDLESS if max_steps is None else max_steps
    steps = Steps(LoopBody([*givens, *stand], outputs), most, len(carry), 0, limited=True, stops=True)
    limit = _condition(goes_on(unflatten(structure, carry)), what).astype(dtype) * float(most)
    loop = Scan(steps, limit, *carry, *outside)
    return unflatten(structure, [loop.last(i) for i in range(len(carry))])


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
    """`true(*operands)` where the condition, a mask without axes, is true, else `false(*operands)`.

    Only one is computed. Both give float nodes of the same structure and axes. The gradient goes through the branch
    that was taken. For a condition that is known while the graph is built, a Python bool, it is that branch alone. To
    choose by element take `wy.where`, which computes both.

    Raises `DTypeError` for a condition that is no mask, `ShapeError` for branches whose results differ in structure or
    axes.

    >>> x = wy.Parameter(4.0)
    >>> root = wy.cond(x > 0.0, lambda x: x.sqrt(), lambda x: x * 0.0, x)
    >>> root.forward().item(), wy.grad(root, x).forward().item()
    (2.0, 0.25)
    """
    first, second = (over_nodes(branch, "cond takes a function") for branch in (true, false))
    if isinstance(condition, bool | np.bool_):
        return first(*operands) if condition else second(*operands)
    what = f"cond of {name_of(first)} and {name_of(second)}"
    mask = _condition(condition, what)
    given, structure = flatten(operands, f"the operands of {what}")
    nodes = [alias(node) for node in as_nodes(given, dtype_of(given))]
    with building() as taken:
        value = first(*unflatten(structure, nodes))
    with building() as not_taken:
        other = second(*unflatten(structure, nodes))
    leaves, shape = flatten(value, f"the result of {name_of(first)}")
    if not leaves:
        return value
    other_leaves = flatten(other, f"the result of {name_of(second)}")[0]
    dtype = dtype_of([*leaves, *other_leaves, *given, *mask.parents])
    results = as_nodes(leaves, dtype)
    for result in results:
        if result.dtype.kind != "f":
            raise DTypeError(f"{what}: {describe(result)} is what a branch gives, and not float; cast it with .astype")
    others = _carried_on(other, _givens(results, shape, f"the result of {name_of(first)}"), shape, what, dtype)
    carry = [zeros_like(x) for x in results]
    chosen = mask.astype(dtype)
    for limit, outputs, inner in ((chosen, results, taken), (1.0 - chosen, others, not_taken)):
        givens = _givens(carry, shape, "result")
        outside, stand, made = closure_convert(outputs, givens, inner, built=[*nodes, *inner])
        steps = Steps(LoopBody([*givens, *stand], made), 1, len(carry), 0, limited=True)
        loop = Scan(steps, limit, *carry, *outside)
        carry = [loop.last(i) for i in range(len(carry))]
    return unflatten(shape, carry)
