"""Views of arrays: indexing, slicing, and reads and writes through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wyrm.engines.native.ir.program import (
    Assign,
    Expression,
    For,
    If,
    Load,
    Number,
    Offset,
    Operation,
    Select,
    StoreAt,
    Variable,
)
from wyrm.engines.native.ir.types import BOOL, INT64, PointerType
from wyrm.engines.native.kernels.arithmetic import as_type
from wyrm.engines.native.kernels.builder import DIFFERENT_SHAPES, Builder, larger, smaller
from wyrm.engines.native.kernels.values import (
    ONE,
    ZERO,
    KernelValue,
    Layout,
    NotCompiled,
    Num,
    View,
    contiguous_strides,
    plus,
    times,
)
from wyrm.support.frozen import frozen


@frozen
class Range:
    """A slice `start:stop:step`; None for an omitted bound."""

    start: Num | None
    stop: Num | None
    step: int = 1


WHOLE = Range(None, None)


def selected(builder: Builder, view: View, entries: Sequence[Num | Range]) -> View:
    """Return the view that indices and slices select, one per axis; raise `NotCompiled` if there are too many."""
    if len(entries) > len(view.shape):
        raise NotCompiled(f"{len(entries)} indices for an array with {len(view.shape)} axes")
    entries = [*entries, *[WHOLE] * (len(view.shape) - len(entries))]
    offset: Expression = ZERO
    shape: list[Expression] = []
    strides: list[Expression] = []
    for entry, size, stride in zip(entries, view.shape, view.strides, strict=True):
        if isinstance(entry, Range):
            start, length = _bounds(builder, entry, size)
            offset = plus(offset, times(start, stride))
            shape.append(length)
            strides.append(times(Number(entry.step, INT64), stride))
        else:
            offset = plus(offset, times(_index(builder, entry, size), stride))
    pointer = view.pointer
    # An offset of 0 marks a view as a part of the array even if it starts at the array's first element.
    if offset != ZERO or (shape and any(entry != WHOLE for entry in entries)):
        pointer = Offset(pointer, offset, PointerType(view.element))
    return View(pointer, view.element, tuple(shape), tuple(strides), _layout(view, entries))


def _layout(view: View, entries: Sequence[Num | Range]) -> Layout:
    """Return the layout of the view."""
    axes = [i for i, entry in enumerate(entries) if isinstance(entry, Range)]
    steps = [entry.step for entry in entries if isinstance(entry, Range)]
    if not axes:
        return "contiguous"
    if view.layout == "any" or axes[-1] != len(entries) - 1 or steps[-1] != 1:
        return "any"
    whole = all(entry == WHOLE for entry in entries[axes[0] + 1 :])
    if view.layout == "contiguous" and whole and steps[0] == 1:
        return "contiguous"
    # One remaining axis is contiguous: it is the last one, with a step of 1.
    return "contiguous" if len(axes) == 1 else "rows"


def _index(builder: Builder, entry: Num, size: Expression) -> Expression:
    """Return an index as an offset from the start; a negative one counts from the end."""
    if entry.type.kind in "fb":
        raise NotCompiled(f"an index must be an integer, not a {entry.type}; convert it with int(x)")
    index = as_type(entry, INT64).expression
    if isinstance(index, Number):
        index = plus(index, size) if index.value < 0 else index
    elif not entry.natural and entry.type.kind != "u":
        index = builder.let(index)
        index = Select(Operation("less", (index, ZERO), BOOL), plus(index, size), index, INT64)
    if builder.checked:
        index = builder.let(index)
        builder.check(index, size)
    return index


def _bounds(builder: Builder, entry: Range, size: Expression) -> tuple[Expression, Expression]:
    """Return the start and the length of a slice, clipped to the array."""
    start = ZERO if entry.start is None else _bound(builder, entry.start, size)
    stop = size if entry.stop is None else _bound(builder, entry.stop, size)
    length = stop
    if start != ZERO:
        length = builder.let(larger(builder.let(Operation("subtract", (stop, start), INT64)), ZERO))
    if entry.step != 1:
        step = Number(entry.step, INT64)
        rounded = Operation("divide", (plus(length, Number(entry.step - 1, INT64)), step), INT64)
        length = builder.let(rounded)
    return start, length


def _bound(builder: Builder, bound: Num, size: Expression) -> Expression:
    """Return a bound of a slice, clipped to the array."""
    if bound.type.kind in "fb":
        raise NotCompiled(f"a slice bound must be an integer, not a {bound.type}; convert it with int(x)")
    index = builder.let(as_type(bound, INT64).expression)
    if index == ZERO:
        return ZERO
    if isinstance(index, Number) and index.value < 0:
        return builder.let(larger(builder.let(plus(size, index)), ZERO))
    if not bound.natural:
        from_end = builder.let(larger(builder.let(Operation("add", (index, size), INT64)), ZERO))
        index = builder.let(Select(Operation("less", (index, ZERO), BOOL), from_end, index, INT64))
    return builder.let(smaller(index, builder.let(size)))


def read(view: View) -> KernelValue:
    """Return the element of a view with no axes, and any other view itself."""
    if view.shape:
        return view
    pointer, index = _address(view)
    return Num(Load(pointer, index, view.element))


def _address(view: View) -> tuple[Expression, Expression]:
    """Return the base pointer of a view with no axes, and the index of its element."""
    if isinstance(view.pointer, Offset) and view.pointer.type.element == view.element:
        return view.pointer.pointer, view.pointer.index
    return view.pointer, ZERO


def put(builder: Builder, view: View, number: Num) -> None:
    """Write a scalar to a view with no axes."""
    pointer, index = _address(view)
    builder.add(StoreAt(pointer, index, as_type(number, view.element).expression))


def write(builder: Builder, view: View, value: KernelValue, *, no_alias: bool = False) -> None:
    """Write a scalar, or an array that broadcasts to the view's shape, to all elements of a view.

    `no_alias`: the array and the view share no memory. Raise `NotCompiled` for a value that cannot be broadcast.
    """
    if isinstance(value, View) and not value.shape:
        value = read(value)
    if isinstance(value, Num):
        if not view.shape:
            put(builder, view, value)
            return
        view = evaluated(builder, view)
        number = Num(builder.let(as_type(value, view.element).expression))
        over(builder, view.shape, lambda at: put(builder, _element(view, [each.expression for each in at]), number))
    elif isinstance(value, View) and view.shape and len(value.shape) <= len(view.shape):
        _copy(builder, evaluated(builder, view), evaluated(builder, value), no_alias)
    elif not view.shape:
        raise NotCompiled("cannot assign an array or a tuple to an element of an array")
    else:
        raise NotCompiled("a view can be assigned a scalar, or an array with at most as many axes")


def _copy(builder: Builder, view: View, source: View, no_alias: bool) -> None:
    """Copy an array to a view as memmove does: shared elements are read before they are overwritten."""
    extra = len(view.shape) - len(source.shape)
    steps = list(source.strides)
    for axis, (size, own) in enumerate(zip(source.shape, view.shape[extra:], strict=True)):
        if size == own:
            continue
        one = Operation("equal", (size, ONE), BOOL)
        if builder.checked:
            different = Operation("not_equal", (size, own), BOOL)
            builder.fail_where(
                Operation("and", (different, Operation("not", (one,), BOOL)), BOOL), DIFFERENT_SHAPES
            )  # fmt: skip
        steps[axis] = builder.let(Select(one, ZERO, steps[axis], INT64), "s")

    def copied(backwards: bool) -> tuple[For | If | Assign, ...]:
        def body(at: list[Num]) -> None:
            indices = [each.expression for each in at]
            if backwards:
                indices = [
                    Operation("subtract", (plus(size, Number(-1, INT64)), index), INT64)
                    for size, index in zip(view.shape, indices, strict=True)
                ]
            offset = ZERO if not steps else _offset(indices[extra:], steps)
            number = Num(Load(source.pointer, offset, source.element))
            put(builder, _element(view, indices), number)

        with builder.block() as block:
            over(builder, view.shape, body)
        return tuple(block)  # type: ignore[arg-type]  # `over` adds no other statements

    if no_alias:
        builder.statements += copied(backwards=False)
        return
    # As in memmove, the direction of the copy depends on which of the two comes first in memory.
    later: Expression = Operation("greater", (view.pointer, source.pointer), BOOL)
    if view.layout == "any" and len(view.shape) == 1:
        later = Operation("not_equal", (later, Operation("less", (view.strides[0], ZERO), BOOL)), BOOL)
    later = builder.let(later)
    builder.add(If(later, copied(backwards=True), copied(backwards=False)))


def _offset(indices: Sequence[Expression], strides: Sequence[Expression]) -> Expression:
    total: Expression = ZERO
    for index, stride in zip(indices, strides, strict=True):
        total = plus(total, times(index, stride))
    return total


def _element(view: View, indices: Sequence[Expression]) -> View:
    """Return the view of the element at indices in range."""
    pointer = Offset(view.pointer, _offset(indices, view.strides), PointerType(view.element))
    return View(pointer, view.element, (), (), "contiguous")


def over(
    builder: Builder, shape: Sequence[Expression], body: Callable[[list[Num]], None], indices: Sequence[Num] = ()
) -> None:
    """Add nested loops over all indices of a shape; `body` adds the statements inside."""
    if not shape:
        body(list(indices))
        return
    with builder.loop(shape[0]) as index:
        over(builder, shape[1:], body, [*indices, Num(index, natural=True)])


def at(view: View, indices: Sequence[Num]) -> KernelValue:
    """Return the element or the subarray at indices in range."""
    count = len(indices)
    offset = _offset([each.expression for each in indices], view.strides[:count])
    pointer = Offset(view.pointer, offset, PointerType(view.element))
    layout = view.layout if count < len(view.shape) else "contiguous"
    if layout == "rows" and count == len(view.shape) - 1:
        layout = "contiguous"
    return read(View(pointer, view.element, view.shape[count:], view.strides[count:], layout))


def evaluated(builder: Builder, view: View, *, copy: bool = False) -> View:
    """Compute the pointer, sizes and strides of a view here; with `copy`, later assignments cannot change them."""
    keep: Callable[..., Expression] = builder.copy if copy else builder.let
    shape = tuple(keep(size) for size in view.shape)
    if view.layout == "contiguous":
        strides = contiguous_strides(shape)
    else:
        strides = tuple(keep(stride) for stride in view.strides)
    return View(keep(view.pointer, "p"), view.element, shape, strides, view.layout)


def transposed(view: View) -> View:
    """Return the view with its axes reversed."""
    if len(view.shape) < 2:
        return view
    return View(view.pointer, view.element, view.shape[::-1], view.strides[::-1], "any")


def size_of(view: View) -> Num:
    """Return the number of elements."""
    total: Expression = ONE
    for size in view.shape:
        total = times(total, size)
    return Num(total, natural=True)


def root_of(pointer: Expression) -> str | None:
    """Return the pointer variable that an address is computed from; None if it is not a variable."""
    while isinstance(pointer, Offset):
        pointer = pointer.pointer
    return pointer.name if isinstance(pointer, Variable) else None


def overlap(views: Sequence[tuple[int, View]], written: frozenset[int]) -> bool:
    """Return whether a written array is the same as another argument or contains it; views come with their positions.

    Two views of one array do not count: kernels must only pass on views that do not overlap.
    """
    of_root: dict[str | None, list[tuple[int, View]]] = {}
    for position, view in views:
        of_root.setdefault(root_of(view.pointer), []).append((position, view))
    return any(
        first != second and first in written and isinstance(one.pointer, Variable) | isinstance(other.pointer, Variable)
        for same in of_root.values()
        if len(same) > 1
        for first, one in same
        for second, other in same
    )
