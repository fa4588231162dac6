"""Loops inside the graph, `scan` and `while_loop`, whose body is compiled once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, overload

from typing_extensions import TypeVar, TypeVarTuple

from wyrm.errors import ShapeError
from wyrm.functions.carries import (
    carry_and_made,
    checked_carry,
    dtype_of,
    from_floats,
    initial_carry,
    leaf_nodes,
    loop_parts,
    placeholders_of,
    scalar_condition,
    traced_step,
)
from wyrm.functions.function import function_of_nodes
from wyrm.functions.pytree import Branch, Tree, flatten, unflatten
from wyrm.functions.tracing import name_of
from wyrm.graph.axes import Axis, axis_size, ragged_axis
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.node import IndexNode, Node, Tensor
from wyrm.graph.shapes import same_sizes
from wyrm.graph.typing import HasArray, Shaped
from wyrm.graph.weak_types import chosen
from wyrm.ops.control.loop_body import ENDLESS, Iteration, LoopBody, closure_convert
from wyrm.ops.control.scan import Scan
from wyrm.support.options import whole

T = TypeVar("T")
# The shape of a carry. A variable for its axes would not do: pyright does not infer that a scalar has none.
Carried = TypeVar("Carried")
# The shape of `init`. It has its own variable because pyright infers `Carried` from a lambda before it looks at `init`,
# and does not know the types of the lambda's parameters yet.
First = TypeVar("First")
# The axes of a row, and of results.
Row = TypeVarTuple("Row")
Made = TypeVarTuple("Made")
# A carry that is a container of nodes.
Container: TypeAlias = "tuple[Any, ...] | list[Any] | dict[str, Any]"
C = TypeVar("C", bound=Container)


@overload
def scan(
    function: Callable[[Node[Any, Carried], Tensor[*Row]], tuple[Node[Any, Carried], Tensor[*Made]]],
    init: Shaped[Node[Any, Carried], First],
    xs: Tensor[T, *Row],
    length: int | None = None,
    *,
    reverse: bool = False,
) -> tuple[Node[Any, First], Tensor[T, *Made]]: ...
@overload
def scan(
    function: Callable[[Node[Any, Carried], Tensor[*Row]], tuple[Node[Any, Carried], None]],
    init: Shaped[Node[Any, Carried], First],
    xs: Tensor[T, *Row],
    length: int | None = None,
    *,
    reverse: bool = False,
) -> tuple[Node[Any, First], None]: ...
@overload
def scan(
    function: Callable[[IndexNode[Carried], Any], tuple[IndexNode[Carried], Any]],
    init: IndexNode[Carried],
    xs: Tree = None,
    length: int | None = None,
    *,
    reverse: bool = False,
) -> tuple[IndexNode[Carried], Any]: ...
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
    function: Callable[[Node[Any, Carried], Any], tuple[Node[Any, Carried], Any]],
    init: Shaped[Node[Any, Carried], First],
    xs: Branch = None,
    length: int | None = None,
    *,
    reverse: bool = False,
) -> tuple[Node[Any, First], Any]: ...
def scan(
    function: Callable[..., object],
    init: object,
    xs: object = None,
    length: int | None = None,
    *,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Run `carry, y = function(carry, x)` for each row `x` of `xs`; return the last carry and all `y`, stacked.

    `init` is the first carry; its structure and axes stay fixed. All arrays of `xs` share their first axis, the steps;
    if `xs` is None, `length` is the number of steps. Both are nodes, arrays, or nested tuples, lists and dicts of them.
    `reverse` starts with the last row; `y` keeps the order of `xs`. Values that `function` closes over are the same in
    every step.

    A scan is one node. The function runs once, on placeholders, and its code is compiled once. The gradient is another
    scan, which stores every carry and recomputes the rest of each step. Each step draws anew what random nodes inside
    draw. Axes may get their sizes from data, that of the steps too. An index node as carry, such as a counter, stays
    one in each step.

    Raise `ShapeError` if the carry changes its structure or axes or sequence lengths differ, `DTypeError` if it changes
    its dtype and for mixed float dtypes.

    >>> total, sums = wy.scan(lambda carry, x: (carry + x, carry * 10.0), wy.Constant(0.0), np.array([1.0, 2.0, 3.0]))
    >>> total.forward().item(), sums.forward().tolist()
    (6.0, [0.0, 10.0, 30.0])
    """
    plain = function_of_nodes(function, "scan takes a function")
    return scan_of(plain, init, xs, length, f"scan of {name_of(plain)}", reverse=reverse)


def scan_of(
    plain: Callable[..., Any],
    init: object,
    xs: object,
    length: int | None,
    what: str,
    *,
    reverse: bool = False,
    called: Callable[[str], str] = str,
) -> tuple[Any, Any]:
    """Return what `scan` returns.

    In messages `what` names the loop, and `called(path)` a carry or a row, whose path is one such as `carry[0]`.
    """
    given, rows_structure = flatten(xs, f"xs of {what}")
    carry, structure, dtype = initial_carry(init, given, what)
    rows = leaf_nodes(given, dtype)
    time = _time(rows, length, what)
    count, made_structure = len(carry), rows_structure

    def stand_in(nodes: Sequence[Any], weak: bool) -> list[Any]:
        before = placeholders_of(nodes[:count], structure, "carry", weak=weak, called=called)
        return before + placeholders_of(nodes[count:], rows_structure, "x", axes=1, weak=weak, called=called)

    def step(placeholders: Sequence[Any]) -> list[Any]:
        nonlocal made_structure
        before, row = placeholders[:count], placeholders[count:]
        result = plain(unflatten(structure, before), unflatten(rows_structure, row))
        following, y = carry_and_made(result, what)
        leaves, made_structure = flatten(y, f"the result of {what}")
        return checked_carry(following, before, structure, what, dtype) + leaf_nodes(leaves, dtype)

    operands, placeholders, results, built = traced_step([*carry, *rows], stand_in, step)
    carry, rows, made = operands[:count], operands[count:], results[count:]
    loop_carry, results = loop_parts(carry, placeholders[:count], results, built)
    inputs = [*loop_carry.placeholders, *placeholders[count:]]
    outside, captured, outputs = closure_convert(results, inputs, built=built)
    carried = loop_carry.init
    steps = Iteration(LoopBody([*inputs, *captured], outputs), time, len(carried), len(rows), reverse=reverse)
    loop = Scan(steps, *carried, *rows, *outside)
    last = from_floats([loop.last(i) for i in range(count)], carry)
    stacked = from_floats([loop.output(i) for i in range(len(made))], made)
    return unflatten(structure, last), unflatten(made_structure, stacked)


def _time(rows: Sequence[BaseNode], length: int | None, what: str) -> Axis:
    for row in rows:
        if not row.dims:
            raise ShapeError(f"{what}: {describe(row)} is in xs and has no axis to scan over")
        if ragged_axis(row.dims) is not None:
            raise ShapeError(f"{what}: {describe(row)} in xs has rows of different lengths; use wy.row_scan")
    if not rows and length is None:
        raise ShapeError(f"{what}: without xs, give the number of steps as length=")
    if length is not None:
        length = whole(f"{what}: length", length, 0, ShapeError)
    times: list[Axis] = [*(row.dims[0] for row in rows), *([] if length is None else [length])]
    for time in times:
        if not same_sizes((time,), (times[0],)):
            found = sorted({repr(each) if (size := axis_size(each)) is None else str(size) for each in times})
            raise ShapeError(f"{what}: sequence lengths differ: {', '.join(found)}")
    return times[0]


@overload
def while_loop(
    condition: Callable[[Node[Any, First]], Tensor[()]],
    function: Callable[[Node[Any, Carried]], Node[Any, Carried]],
    init: Shaped[Node[Any, Carried], First],
    *,
    max_steps: int | None = None,
) -> Node[Any, First]: ...
@overload
def while_loop(
    condition: Callable[[IndexNode[Carried]], Tensor[()]],
    function: Callable[[IndexNode[Carried]], IndexNode[Carried]],
    init: IndexNode[Carried],
    *,
    max_steps: int | None = None,
) -> IndexNode[Carried]: ...
@overload
def while_loop(
    condition: Callable[[Any], Tensor[()]],
    function: Callable[[Any], Container],
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
    """Repeat `carry = function(carry)` from `init` while `condition(carry)`, a scalar mask, is true; return the carry.

    The carry and random nodes are as in `scan`. With `max_steps` the loop stops after that many steps at the latest and
    has a gradient, which goes back through the steps that ran; it allocates memory for `max_steps` steps. Without it
    the loop has no gradient.

    Raise `DTypeError` for a condition that is not a scalar mask, `ShapeError` if the carry changes its structure or
    axes, and `NotDifferentiable` for a gradient without `max_steps`.

    >>> wy.while_loop(lambda x: x < 100.0, lambda x: x * 2.0, wy.Constant(3.0)).forward().item()
    192.0
    """
    step, keep_going = (function_of_nodes(given, "while_loop takes a function") for given in (function, condition))
    what = f"while_loop of {name_of(step)}"
    if max_steps is not None:
        max_steps = whole(f"{what}: max_steps", max_steps, 1)
    carry, structure, dtype = initial_carry(init, (), what)

    def stand_in(nodes: Sequence[Any], weak: bool) -> list[Any]:
        return placeholders_of(nodes, structure, "carry", weak=weak)

    def one_step(before: Sequence[Any]) -> list[Any]:
        following = checked_carry(step(unflatten(structure, before)), before, structure, what, dtype)
        return [*following, scalar_condition(keep_going(unflatten(structure, following)), what)]

    carry, before, (*following, again), built = traced_step(carry, stand_in, one_step)
    loop_carry, results = loop_parts(carry, before, following, built, [again])
    inputs = loop_carry.placeholders
    outside, captured, outputs = closure_convert(results, inputs, built=built)
    most = ENDLESS if max_steps is None else max_steps
    body = LoopBody([*inputs, *captured], outputs)
    steps = Iteration(body, most, len(inputs), 0, limited=True, stops=True, written_as="while_loop")
    dtype = chosen(dtype_of([*carry, *following]))
    limit = scalar_condition(keep_going(unflatten(structure, carry)), what).astype(dtype) * float(most)
    loop = Scan(steps, limit, *loop_carry.init, *outside)
    return unflatten(structure, from_floats([loop.last(i) for i in range(len(carry))], carry))
