"""Parts of arrays: elements, rows, slices, and what is written to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wyrm.compiler.arithmetic import as_type
from wyrm.compiler.builder import Builder, larger, reads, smaller
from wyrm.compiler.errors import NotCompiled
from wyrm.compiler.values import ONE, ZERO, Layout, Num, Value, View, contiguous_strides, plus, times
from wyrm.ir.program import Expression, Load, Number, Offset, Operation, Select, Store
from wyrm.ir.types import BOOL, INT64, Pointer


@dataclass(frozen=True, slots=True)
class Range:
    """A slice, whose parts may be left out."""

    start: Num | None
    stop: Num | None


WHOLE = Range(None, None)


def part(builder: Builder, view: View, entries: Sequence[Num | Range]) -> View:
    """The part of an array that entries choose, an axis each from the first on."""
    if len(entries) > len(view.shape):
        raise NotCompiled(f"{len(entries)} indices of an array with {len(view.shape)} axes")
    entries = [*entries, *[WHOLE] * (len(view.shape) - len(entries))]
    offset: Expression = ZERO
    shape: list[Expression] = []
    strides: list[Expression] = []
    whole = [isinstance(entry, Range) and entry.start is None and entry.stop is None for entry in entries]
    for entry, size, stride in zip(entries, view.shape, view.strides, strict=True):
        if isinstance(entry, Range):
            start, length = _bounds(builder, entry, size)
            offset = plus(offset, times(start, stride))
            shape.append(length)
            strides.append(stride)
        else:
            offset = plus(offset, times(_index(builder, entry, size), stride))
    pointer = view.pointer
    if offset != ZERO:
        pointer = Offset(pointer, offset, Pointer(view.element))
    return View(pointer, view.element, tuple(shape), tuple(strides), _layout(view, entries, whole))


def _layout(view: View, entries: Sequence[Num | Range], whole: Sequence[bool]) -> Layout:
    """How the part of an array lies in memory."""
    kept = [i for i, entry in enumerate(entries) if isinstance(entry, Range)]
    if not kept:
        return "contiguous"
    if view.layout == "any" or kept[-1] != len(entries) - 1:
        return "any"
    if view.layout == "contiguous" and kept == list(range(kept[0], len(entries))) and all(whole[kept[0] + 1 :]):
        return "contiguous"
    # A part of the rows alone of an array whose rows lie apart has one axis.
    return "contiguous" if len(kept) == 1 else "rows"


def _index(builder: Builder, entry: Num, size: Expression) -> Expression:
    """An index, counted from the end where it is negative."""
    if entry.type.kind == "f":
        raise NotCompiled("an index is a float")
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
    if entry.start is None and entry.stop is None:
        return ZERO, size
    start = ZERO if entry.start is None else _bound(builder, entry.start, size)
    stop = size if entry.stop is None else _bound(builder, entry.stop, size)
    if start == ZERO:
        return ZERO, stop
    return start, builder.let(larger(builder.let(Operation("subtract", (stop, start), INT64)), ZERO))


def _bound(builder: Builder, bound: Num, size: Expression) -> Expression:
    """An end of a slice, inside the array."""
    if bound.type.kind == "f":
        raise NotCompiled("a slice by a float")
    index = builder.let(as_type(bound, INT64).expression)
    if isinstance(index, Number) and index.value < 0:
        return builder.let(larger(builder.let(plus(size, index)), ZERO))
    if index == ZERO:
        return ZERO
    if not bound.natural:
        from_end = builder.let(larger(builder.let(plus(index, size)), ZERO))
        index = builder.let(Select(Operation("less", (index, ZERO), BOOL), from_end, index, INT64))
    return builder.let(smaller(index, builder.let(size)))


def element(view: View) -> Num:
    """The only element of a part that has no axes."""
    return Num(Load(view.pointer, ZERO, view.element))


def split(view: View) -> tuple[Expression, Expression]:
    """The array that a part without axes lies in, and the index there."""
    if isinstance(view.pointer, Offset):
        return view.pointer.pointer, view.pointer.index
    return view.pointer, ZERO


def read(view: View) -> Value:
    """A part of an array: its element where it has no axes."""
    if view.shape:
        return view
    pointer, index = split(view)
    return Num(Load(pointer, index, view.element))


def write(builder: Builder, view: View, value: Value) -> None:
    """Write a number, or an array whose shape fits, to all elements of a part."""
    if isinstance(value, View) and not value.shape:
        value = read(value)
    if not view.shape:
        if not isinstance(value, Num):
            raise NotCompiled("an element takes a number")
        pointer, index = split(view)
        builder.add(Store(pointer, index, as_type(value, view.element).expression))
        return
    view = held(builder, view)
    if isinstance(value, Num):
        given = builder.let(as_type(value, view.element).expression)

        def fill(indices: list[Num]) -> None:
            write(builder, part(builder, view, indices), Num(given))

        over(builder, view.shape, fill)
    elif isinstance(value, View) and len(value.shape) <= len(view.shape):
        source, extra = held(builder, value), len(view.shape) - len(value.shape)

        def copy(indices: list[Num]) -> None:
            write(builder, part(builder, view, indices), read(part(builder, source, indices[extra:])))

        over(builder, view.shape, copy)
    else:
        raise NotCompiled("a part of an array takes a number, or an array of no more axes")


def over(
    builder: Builder, shape: Sequence[Expression], body: Callable[[list[Num]], None], indices: Sequence[Num] = ()
) -> None:
    """Loops over all indices of a shape, with what `body` makes of them inside."""
    if not shape:
        body(list(indices))
        return
    with builder.loop(shape[0]) as index:
        over(builder, shape[1:], body, [*indices, Num(index, natural=True)])


def held(builder: Builder, view: View) -> View:
    """The same part, all that it is made of computed here."""
    shape = tuple(builder.let(size) for size in view.shape)
    if view.layout == "contiguous":
        strides = contiguous_strides(shape)
    else:
        strides = tuple(builder.let(stride) for stride in view.strides)
    return View(builder.let(view.pointer, "p"), view.element, shape, strides, view.layout)


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


__all__ = [
    "WHOLE", "Range", "element", "held", "over", "part", "read", "reads", "size_of", "split", "transposed", "write",
]  # fmt: skip
