"""Parts of arrays: elements, rows, slices, and what is written to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wyrm.ir.program import Assign, Expression, For, If, Load, Number, Offset, Operation, Select, Store, Variable
from wyrm.ir.types import BOOL, INT64, PointerType
from wyrm.kernels.arithmetic import as_type
from wyrm.kernels.builder import DIFFERENT_SHAPES, Builder, larger, smaller
from wyrm.kernels.errors import NotCompiled
from wyrm.kernels.values import ONE, ZERO, Layout, Num, Value, View, contiguous_strides, plus, times


@dataclass(frozen=True, slots=True)
class Range:
    """A slice, whose ends may be left out; it takes every `step`-th element."""

    start: Num | None
    stop: Num | None
    step: int = 1


WHOLE = Range(None, None)


def part(builder: Builder, view: View, entries: Sequence[Num | Range]) -> View:
    """The part of an array that entries choose, an axis each from the first on."""
    if len(entries) > len(view.shape):
        raise NotCompiled(f"{len(entries)} indices of an array with {len(view.shape)} axes")
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
    # A part that begins where the array does is told from the whole by an offset of 0.
    if offset != ZERO or (shape and any(entry != WHOLE for entry in entries)):
        pointer = Offset(pointer, offset, PointerType(view.element))
    return View(pointer, view.element, tuple(shape), tuple(strides), _layout(view, entries))


def _layout(view: View, entries: Sequence[Num | Range]) -> Layout:
    """How the part of an array lies in memory."""
    kept = [i for i, entry in enumerate(entries) if isinstance(entry, Range)]
    steps = [entry.step for entry in entries if isinstance(entry, Range)]
    if not kept:
        return "contiguous"
    if view.layout == "any" or kept[-1] != len(entries) - 1 or steps[-1] != 1:
        return "any"
    whole = all(entry == WHOLE for entry in entries[kept[0] + 1 :])
    if view.layout == "contiguous" and whole and steps[0] == 1:
        return "contiguous"
    # A part of the rows alone of an array whose rows lie apart has one axis.
    return "contiguous" if len(kept) == 1 else "rows"


def _index(builder: Builder, entry: Num, size: Expression) -> Expression:
    """An index, counted from the end where it is negative."""
    if entry.type.kind in "fb":
        raise NotCompiled(f"an index is an integer, not a {entry.type}; int(x) makes one of a number")
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
    """Where a slice begins, and how long it is."""
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
    """An end of a slice, inside the array."""
    if bound.type.kind in "fb":
        raise NotCompiled(f"an end of a slice is an integer, not a {bound.type}; int(x) makes one of a number")
    index = builder.let(as_type(bound, INT64).expression)
    if index == ZERO:
        return ZERO
    if isinstance(index, Number) and index.value < 0:
        return builder.let(larger(builder.let(plus(size, index)), ZERO))
    if not bound.natural:
        from_end = builder.let(larger(builder.let(Operation("add", (index, size), INT64)), ZERO))
        index = builder.let(Select(Operation("less", (index, ZERO), BOOL), from_end, index, INT64))
    return builder.let(smaller(index, builder.let(size)))


def read(view: View) -> Value:
    """A part of an array: its element where it has no axes."""
    if view.shape:
        return view
    pointer, index = _place(view)
    return Num(Load(pointer, index, view.element))


def _place(view: View) -> tuple[Expression, Expression]:
    """The array that a part without axes lies in, and the index there."""
    if isinstance(view.pointer, Offset):
        return view.pointer.pointer, view.pointer.index
    return view.pointer, ZERO


def put(builder: Builder, view: View, number: Num) -> None:
    """Write a number to a part that is an element."""
    pointer, index = _place(view)
    builder.add(Store(pointer, index, as_type(number, view.element).expression))


def write(builder: Builder, view: View, value: Value, *, apart: bool = False) -> None:
    """Write a number, or an array whose shape fits, to all elements of a part.

    `apart`: an array shares no memory with the part that it is written to.
    """
    if isinstance(value, View) and not value.shape:
        value = read(value)
    if isinstance(value, Num):
        if not view.shape:
            put(builder, view, value)
            return
        view = held(builder, view)
        given = Num(builder.let(as_type(value, view.element).expression))
        over(builder, view.shape, lambda at: put(builder, _element(view, [each.expression for each in at]), given))
    elif isinstance(value, View) and view.shape and len(value.shape) <= len(view.shape):
        _copy(builder, held(builder, view), held(builder, value), apart)
    elif not view.shape:
        raise NotCompiled("an element of an array takes a number, not an array or a tuple")
    else:
        raise NotCompiled("a part of an array takes a number, or an array with no more axes")


def _copy(builder: Builder, view: View, source: View, apart: bool) -> None:
    """Copy an array to a part; what both share is copied before it is overwritten."""
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
            places = [each.expression for each in at]
            if backwards:
                places = [
                    Operation("subtract", (plus(size, Number(-1, INT64)), place), INT64)
                    for size, place in zip(view.shape, places, strict=True)
                ]
            offset = ZERO if not steps else _offset(places[extra:], steps)
            number = Num(Load(source.pointer, offset, source.element))
            put(builder, _element(view, places), number)

        with builder.block() as block:
            over(builder, view.shape, body)
        return tuple(block)  # type: ignore[arg-type]

    if apart:
        builder.statements += copied(backwards=False)
        return
    # Along the memory or against it, whichever reads a number before it is overwritten.
    later: Expression = Operation("greater", (view.pointer, source.pointer), BOOL)
    if view.layout == "any" and len(view.shape) == 1:
        later = Operation("not_equal", (later, Operation("less", (view.strides[0], ZERO), BOOL)), BOOL)
    later = builder.let(later)
    builder.add(If(later, copied(backwards=True), copied(backwards=False)))


def _offset(places: Sequence[Expression], steps: Sequence[Expression]) -> Expression:
    total: Expression = ZERO
    for place, step in zip(places, steps, strict=True):
        total = plus(total, times(place, step))
    return total


def _element(view: View, places: Sequence[Expression]) -> View:
    """The element at indices that are inside."""
    pointer = Offset(view.pointer, _offset(places, view.strides), PointerType(view.element))
    return View(pointer, view.element, (), (), "contiguous")


def over(
    builder: Builder, shape: Sequence[Expression], body: Callable[[list[Num]], None], indices: Sequence[Num] = ()
) -> None:
    """Loops over all indices of a shape, with what `body` makes of them inside."""
    if not shape:
        body(list(indices))
        return
    with builder.loop(shape[0]) as index:
        over(builder, shape[1:], body, [*indices, Num(index, natural=True)])


def at(view: View, indices: Sequence[Num]) -> Value:
    """The element, or the part, at indices that are inside."""
    count = len(indices)
    offset = _offset([each.expression for each in indices], view.strides[:count])
    pointer = Offset(view.pointer, offset, PointerType(view.element))
    layout = view.layout if count < len(view.shape) else "contiguous"
    if layout == "rows" and count == len(view.shape) - 1:
        layout = "contiguous"
    return read(View(pointer, view.element, view.shape[count:], view.strides[count:], layout))


def held(builder: Builder, view: View, *, copy: bool = False) -> View:
    """The same part, all that it is made of computed here; a `copy` stays the same whatever is assigned."""
    keep: Callable[..., Expression] = builder.copy if copy else builder.let
    shape = tuple(keep(size) for size in view.shape)
    if view.layout == "contiguous":
        strides = contiguous_strides(shape)
    else:
        strides = tuple(keep(stride) for stride in view.strides)
    return View(keep(view.pointer, "p"), view.element, shape, strides, view.layout)


def transposed(view: View) -> View:
    """The axes in reverse."""
    if len(view.shape) < 2:
        return view
    return View(view.pointer, view.element, view.shape[::-1], view.strides[::-1], "any")


def size_of(view: View) -> Num:
    """How many elements there are."""
    total: Expression = ONE
    for size in view.shape:
        total = times(total, size)
    return Num(total, natural=True)


def root_of(pointer: Expression) -> str | None:
    """The variable that says where an array lies which this is a part of."""
    while isinstance(pointer, Offset):
        pointer = pointer.pointer
    return pointer.name if isinstance(pointer, Variable) else None
