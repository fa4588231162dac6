"""Kernels derived from a kernel: its adjoint in one sweep forward and back, or in two calls, and its tangent."""

from __future__ import annotations

import ast
import linecache
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np

from wyrm.errors import NotDifferentiable
from wyrm.ops.adjoints.blocks import Blocks, Work, recording
from wyrm.ops.adjoints.columns import Columns, Tape, columns_of
from wyrm.ops.adjoints.factors import factored
from wyrm.ops.adjoints.neighbours import held
from wyrm.ops.adjoints.program import (
    Block,
    Kind,
    Let,
    Loop,
    Put,
    Statement,
    Store,
    Turns,
    base,
    name,
    parsed,
    rebased,
    statements_of,
)
from wyrm.ops.adjoints.reading import GENERATED
from wyrm.ops.adjoints.reverse import Restored, Reverse, Reversed
from wyrm.ops.adjoints.rules import negated, times
from wyrm.ops.adjoints.slopes import varied
from wyrm.ops.adjoints.values import Kernel
from wyrm.ops.adjoints.writing import (
    FULL,
    Counted,
    Part,
    Sizes,
    function_source,
    sizes,
    with_lines,
    with_short_names,
    written,
)


@dataclass(frozen=True)
class Derived:
    """A kernel that was made from another one.

    Its arguments are those of the kernel, `parameters`; then `scratch`, arrays of its own; the cotangents (or tangents)
    of the arrays `cotangents`; `shadows`, the cotangents of its scratch; those of its results `seeds` (of the numbers
    among the arguments for a tangent); `tapes`, names with types, and other memory `work`. It returns the results of
    the kernel, of which it has `results`, and then the gradients of the numbers `scalars` (of the results for a
    tangent).
    """

    function: Callable[..., Any]
    source: str
    parameters: tuple[str, ...]
    scratch: tuple[str, ...]
    cotangents: tuple[str, ...]
    shadows: tuple[str, ...]
    seeds: tuple[str, ...]
    tapes: tuple[tuple[str, str], ...]
    scalars: tuple[str, ...]
    results: int
    sizes: Sizes
    kinds_of_scratch: tuple[Kind, ...]
    written: frozenset[str]
    sizer: Callable[..., tuple[tuple[int, ...], ...]]
    work: tuple[Work, ...] = ()

    @property
    def known(self) -> bool:
        """Whether the sizes of all its memory are known before it runs."""
        return all(self.sizes.known)


def kind_of_value(value: object) -> Kind:
    """Return what a number or an array is to a kernel."""
    array = np.asarray(value)
    kind = {"f": "f4" if array.dtype == np.float32 else "f8", "b": "b"}.get(array.dtype.kind, "i")
    return Kind(kind, array.ndim if isinstance(value, np.ndarray) else None)


def adjoint(
    function: Callable[..., Any], kinds: Sequence[Kind], wrt: Sequence[str] | None = None, levels: int = 0
) -> Derived:
    """Return the kernel that computes the results of a kernel and adds to the cotangents of what it read.

    `kinds`: what the arguments are. `wrt`: the parameters that are differentiated, all floats by default. The
    cotangents of arrays that the kernel writes are replaced by those of what they held before. `levels`: how often the
    turns of a loop are divided into blocks, which run forward once more. Raise `NotDifferentiable`, with the line, for
    what has no adjoint.
    """
    return _adjoint_of(function, kinds, wrt, levels, 0).whole()


def forward_and_backward(
    function: Callable[..., Any], kinds: Sequence[Kind], wrt: Sequence[str] | None = None, levels: int = 0
) -> tuple[Derived, Derived]:
    """Return the two halves of the adjoint as kernels: one that records, and one that runs back.

    The second one takes the arguments and the scratch as the first one leaves them, and the tapes. See `adjoint`.
    """
    made = _adjoint_of(function, kinds, wrt, levels, 0)
    return made.forward(), made.backward()


def _adjoint_of(
    function: Callable[..., Any], kinds: Sequence[Kind], wrt: Sequence[str] | None, levels: int, depth: int
) -> _Adjoint:
    """Return the adjoint in which turns of loops that record, and that are in `depth` others, are in blocks."""
    plain = _Adjoint(function, kinds, wrt)
    divided = recording(plain.kernel.body, depth, lambda block: bool(plain.saved(block, False))) if levels else []
    return _Adjoint(function, kinds, wrt, divided, depth, levels - 1) if divided else plain


def value(function: Callable[..., Any], kinds: Sequence[Kind]) -> Derived:
    """Return the kernel itself, with the kernels that it calls inlined, and the arrays that it makes as arguments."""
    return _Value(function, kinds, ()).whole()


def tangent(function: Callable[..., Any], kinds: Sequence[Kind], wrt: Sequence[str] | None = None) -> Derived:
    """Return the kernel that computes the results of a kernel and their derivatives along tangents of the arguments."""
    return _Tangent(function, kinds, wrt).whole()


class _Made:
    """What all of them share."""

    # The prefix of cotangents and tangents.
    prefix = ""

    def __init__(self, function: Callable[..., Any], kinds: Sequence[Kind], wrt: Sequence[str] | None) -> None:
        code = function.__code__
        parameters = code.co_varnames[: code.co_argcount]
        if len(kinds) != len(parameters):
            raise NotDifferentiable(f"{function.__name__} takes {len(parameters)} arguments, not {len(kinds)}")
        given = dict(zip(parameters, kinds, strict=True))
        self.kernel = Kernel(function, given)
        self.wrt = [each for each in parameters if given[each].is_float and (wrt is None or each in wrt)]
        self.module = function.__module__

    def shadows(self, active: Collection[str]) -> list[str]:
        """Return the scratch that has cotangents or tangents."""
        return [each.name for each in self.kernel.scratch if each.name in active]

    def sizes(
        self, own: Sequence[str], tapes: Sequence[Counted] = (), like: Mapping[str, str] = MappingProxyType({}),
        parts: Sequence[Part] = (),
    ) -> Sizes:  # fmt: skip
        """Return the sizes of the scratch, of what stands beside the arrays `own` of it, of tapes, and of `like`."""
        shapes = {each.name: each.shape for each in self.kernel.scratch}
        arrays = [*shapes.items(), *((self.prefix + each, shapes[each]) for each in own)]
        for text, array in like.items():
            axes = range(self.kernel.kinds[array].axes or 0)
            given = tuple(parsed(f"{array}.shape[{axis}]") for axis in axes)
            arrays.append((text, shapes.get(array, given)))
        return sizes(self.kernel, arrays, tapes, parts)

    def derived(
        self, kind: str, body: Sequence[ast.stmt | str], out: Sequence[str], found: Sizes, *, results: int = 0,
        cotangents: Sequence[str] = (), own: Sequence[str] = (), seeds: Sequence[str] = (),
        tapes: Sequence[tuple[str, str]] = (), scalars: Sequence[str] = (), guarded: bool = True,
        work: Sequence[Work] = (),
    ) -> Derived:  # fmt: skip
        """Return the kernel of these statements, which returns `out`; see `Derived` for its arguments."""
        kernel = self.kernel
        scratch = [each.name for each in kernel.scratch]
        parameters = [
            *kernel.parameters, *scratch, *(self.prefix + each for each in (*cotangents, *own, *seeds)),
            *(text for text, _ in tapes), *(each.name for each in work),
        ]  # fmt: skip
        prefix = self.prefix or "\0"  # no name begins so
        body, out = with_short_names(body, out, kernel.own, {*parameters, *kernel.space}, prefix)
        source = function_source(f"{kernel.name}_{kind}", parameters, body, out)
        return Derived(
            function=compiled(source, kernel.space, self.module, guarded), source=source,
            parameters=tuple(kernel.parameters),
            scratch=tuple(scratch), cotangents=tuple(cotangents), shadows=tuple(self.prefix + each for each in own),
            seeds=tuple(seeds), tapes=tuple(tapes), scalars=tuple(scalars), results=results, sizes=found,
            kinds_of_scratch=tuple(kernel.kinds[each] for each in scratch), written=frozenset(kernel.written()),
            sizer=compiled(found.source, kernel.space, self.module), work=tuple(work),
        )  # fmt: skip


def compiled(source: str, space: Mapping[str, Any], module: str | None, guarded: bool = True) -> Callable[..., Any]:
    """Return the function of a source, which tools find by its line like any other.

    `guarded`: native code checks its indices, which are those of users and not proved to be in range.
    """
    found = re.match(r"def (\w+)\(", source)
    assert found is not None
    file = f"{GENERATED}{found[1]} {abs(hash(source)):x}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    scope: dict[str, Any] = {**space, "np": np, "__name__": module or "__main__"}
    exec(compile(source, file, "exec"), scope)  # the source is made here
    function: Callable[..., Any] = scope[found[1]]
    vars(function)["guarded"] = guarded
    return function


class _Adjoint(_Made):
    """The adjoint of a kernel.

    The turns of the loops at the positions `divided`, among those in `depth` others, are in blocks, and those of the
    loops in them in turn, `levels` times.
    """

    def __init__(
        self, function: Callable[..., Any], kinds: Sequence[Kind], wrt: Sequence[str] | None,
        divided: Collection[int] = (), depth: int = 0, levels: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(function, kinds, wrt)

        def of_block(source: str, kinds: Mapping[str, Kind], wrt: Sequence[str]) -> Derived:
            function = compiled(source, self.kernel.space, self.module)
            return _adjoint_of(function, list(kinds.values()), wrt, levels, 1).whole()

        self.reverse = Reverse(self.kernel, self.wrt, divided, depth, of_block)
        self.prefix = self.reverse.prefix
        self._saved: dict[int, list[str]] = {}

    @property
    def tapes(self) -> list[tuple[Tape, str]]:
        found = self.reverse.floats
        rest = [(self.reverse.bools, "b"), (self.reverse.integers, "i")]
        return [(found["f8"], "f8"), (found["f4"], "f4"), *rest]

    def saved(self, block: Block, split: bool) -> list[str]:
        if not split and block is self.kernel.body:
            return []
        if id(block) not in self._saved:
            self._saved[id(block)] = self.reverse.saved(block)
        return self._saved[id(block)]

    def mine(self, tape: Tape, block: Block, split: bool) -> list[str]:
        """Return the values of a block that go to this tape."""
        return [each for each in self.saved(block, split) if self.reverse.tape_of(each) is tape]

    @cached_property
    def columns(self) -> dict[int, Columns]:
        """The columns of the tapes between two calls, by the blocks of their loops."""
        return columns_of(self.kernel, self.reverse.elements, [tape for tape, _ in self.tapes],
                          lambda tape, block: self.mine(tape, block, True))  # fmt: skip

    def _columns(self, block: Block, split: bool) -> Columns | None:
        return self.columns.get(id(block)) if split else None

    def pushes(self, split: bool) -> Callable[[Block], list[ast.stmt]]:
        def at_end(block: Block) -> list[ast.stmt]:
            out: list[ast.stmt] = []
            columns = self._columns(block, split)
            for tape, _ in self.tapes:
                mine = self.mine(tape, block, split)
                tape.used |= bool(mine)
                for i, each in enumerate(mine):
                    if columns is None:
                        out += statements_of(f"{tape.at(i)} = {each}")
                    elif each not in columns.first:
                        out += statements_of(f"{columns.places[each]} = {each}")
                if mine and columns is None:
                    out += statements_of(f"{tape.place} += {len(mine)}")
            return out

        return at_end

    def pops(self, block: Block, split: bool) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        columns = self._columns(block, split)
        for tape, _ in self.tapes:
            mine = self.mine(tape, block, split)
            tape.used |= bool(mine)
            if mine and columns is None:
                out += statements_of(f"{tape.place} -= {len(mine)}")
            for i, each in enumerate(mine):
                place = tape.at(i) if columns is None else columns.places[each]
                out += statements_of(f"{each} = {place}")
        return out

    def around(self, s: Statement) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """Return what stands before and after a statement of the call that records."""
        columns = self._columns(s.body, True) if isinstance(s, Turns) else None
        if columns is None:
            return [], []
        sizes = self._sizes(True, (), [tape for tape, _ in self.tapes])
        unknown = {text for text, known in zip(sizes.names, sizes.known, strict=True) if not known}
        rooms = [
            f"if {tape.place} + {columns.size(tape)} > {tape.array}.size:\n    raise IndexError({FULL!r})"
            for tape, _ in self.tapes
            if tape.array in unknown and columns.size(tape) != "0"
        ]
        before = [each for text in rooms for each in statements_of(text)]
        return [*before, *columns.views(), *columns.at_first()], columns.moved("+")

    def restored(self, block: Block, split: bool) -> list[ast.stmt]:
        """Return what begins the reversed block: values from the tape or computed again, and cotangents of zero."""
        top = block is self.kernel.body
        out = self.pops(block, split)
        shadows = self._shadows()
        for each in block:
            if not isinstance(each, Let):
                continue
            view = self.kernel.kinds[each.name].is_array
            if (split or not top) and each.name in self.reverse.needed and not self.reverse.must_save(each.name):
                out.append(ast.Assign([name(each.name)], each.value, lineno=0))
            if view and each.name in shadows:
                out.append(ast.Assign([name(self.prefix + each.name)], rebased(each.value, self.prefix), lineno=0))
        zeros = [
            text
            for text, home in self.reverse.cotangent_home.items()
            if home is block and text in self.reverse.slopes.active and not self.kernel.kinds[text].is_array
            and text not in self.kernel.results
        ]  # fmt: skip
        for text in zeros:
            out += statements_of(f"{self.prefix}{text} = 0.0")
        return out

    def _shadows(self) -> set[str]:
        found: set[str] = set()
        for text in self.reverse._shadowed:
            while text in self.kernel.views:
                found.add(text)
                text = base(self.kernel.views[text].value) or ""
        return found

    def backward_code(self, split: bool) -> list[ast.stmt]:
        def walk(code: Sequence[ast.stmt]) -> list[ast.stmt]:
            out: list[ast.stmt] = []
            for each in code:
                if isinstance(each, Restored):
                    out += self.restored(each.block, split)
                elif isinstance(each, ast.If):
                    out.append(ast.If(each.test, walk(each.body) or [ast.Pass()], walk(each.orelse)))
                elif isinstance(each, Reversed):
                    found = ast.For(each.target, each.iter, walk(each.body), [], lineno=0)
                    loop = each.loop
                    if not split:
                        out.append(found)
                        continue
                    columns = self._columns(loop.body, True)
                    if columns is not None:
                        out += [*columns.moved("-"), *columns.views()]
                    out += held(found, self.kernel, self.reverse.elements, self.prefix)
                else:
                    out.append(each)
            return out

        code = self.reverse.backward_code or [Restored(block=self.kernel.body)]
        code = _first_sums_assigned(walk(code), self.prefix)
        code = factored(code, self.kernel, self.prefix, self.reverse.slopes.temporaries)
        return _sums_reordered(code, self.prefix)

    def _cotangents(self) -> list[str]:
        """Return the parameters that have cotangents."""
        kernel, written_to = self.kernel, self.kernel.written()
        return [
            each
            for each in kernel.parameters
            if kernel.kinds[each].is_array and kernel.kinds[each].is_float
            and (each in self.wrt or (each in self.reverse.slopes.active and each in written_to))
        ]  # fmt: skip

    def _derived(self, kind: str, body: Sequence[ast.stmt | str], *, forward: bool, backward: bool) -> Derived:
        kernel, split = self.kernel, forward != backward
        active = self.reverse.slopes.active
        tapes = [(tape, type) for tape, type in self.tapes if tape.used or (split and type == "i")]
        own, results, out = self.shadows(active) if backward else [], len(kernel.results) if forward else 0, list[str]()
        if forward:
            out += [f"value_of_{i}" for i in range(results)] if backward else kernel.results
        given: dict[str, Any] = {}
        if backward:
            scalars = [each for each in self.wrt if not kernel.kinds[each].is_array]
            out += [f"{self.prefix}{each}" if each in active else "0.0" for each in scalars]
            seeds = [each for each in kernel.results if kernel.kinds[each].is_float]
            given = {"cotangents": self._cotangents(), "own": own, "seeds": seeds, "scalars": scalars}
        blocks = self.reverse.divided() if backward else []
        work = [each for loop in blocks for each in loop.work()]
        found = self._sizes(split, own, [tape for tape, _ in tapes], blocks)
        names = [(tape.array, type) for tape, type in tapes]
        # A backward sweep reads and writes elements that the forward sweep did, which checked its indices.
        return self.derived(kind, body, out, found, results=results, tapes=names, guarded=forward,
                            work=work, **given)  # fmt: skip

    def _sizes(self, split: bool, own: Sequence[str], tapes: Sequence[Tape], blocks: Sequence[Blocks] = ()) -> Sizes:
        # Between two calls the notes begin with the places on all tapes.
        first = len(self.tapes) if split else 0
        notes = self.reverse.integers
        counted = [
            Counted(each.array, self._count(each, split), first * (each is notes), partial(_kept, each))
            for each in tapes
        ]
        like = {each.name: each.like for loop in blocks for each in loop.work() if each.like}
        parts = [Part(each.name, found.loop, each.number) for found in blocks for each in found.tapes if not each.like]
        return self.sizes(own, counted, like, parts)

    def _count(self, tape: Tape, split: bool) -> Callable[[Block], int]:
        def count(block: Block) -> int:
            columns = self._columns(block, split)
            own = len(self.mine(tape, block, split)) if columns is None else len(columns.made[tape.array])
            inside = [self._columns(each.body, split) for each in block if isinstance(each, Turns)]
            return own + sum(each.more(tape) for each in inside if each is not None)

        return count

    def _guarded(self, split: bool) -> Callable[[Block], list[ast.stmt]]:
        """Return the pushes, with a test of the room on the tape in loops of which the number of turns is not known."""
        push = self.pushes(split)
        sizes = self._sizes(split, (), [tape for tape, _ in self.tapes])
        known = dict(zip(sizes.names, sizes.known, strict=True))

        def at_end(block: Block) -> list[ast.stmt]:
            out: list[ast.stmt] = []
            for tape, _ in self.tapes:
                count = len(self.mine(tape, block, split))
                if count and not known[tape.array] and self._columns(block, split) is None:
                    test = f"if {tape.place} + {count} > {tape.array}.size:"
                    out += statements_of(f"{test}\n    raise IndexError({FULL!r})")
            return [*out, *push(block)]

        return at_end

    def _without_last_zeros(self, code: list[ast.stmt]) -> list[ast.stmt]:
        """Leave out the last statements that set cotangents to zero which nothing wants."""
        wanted = {f"{self.prefix}{each}" for each in self.wrt}

        def is_idle(s: ast.stmt) -> bool:
            if isinstance(s, ast.For):
                return all(map(is_idle, s.body))
            if not _is_zero(s) or not isinstance(s, ast.Assign) or not isinstance(s.targets[0], ast.Subscript):
                return isinstance(s, ast.Expr)  # a comment
            goal = base(s.targets[0]) or ""
            return f"{self.prefix}{self.kernel.root(goal.removeprefix(self.prefix))}" not in wanted

        while code and is_idle(code[-1]):
            code = code[:-1]
        return code

    def _zeros(self) -> list[ast.stmt]:
        """Return the statements that set the cotangents of numbers among the arguments, and of scratch, to zero."""
        active, kinds = self.reverse.slopes.active, self.kernel.kinds
        scalars = [text for text in self.wrt if not kinds[text].is_array and text in active]
        goals = [*scalars, *(f"{text}[...]" for text in self.shadows(active))]
        return [each for goal in goals for each in statements_of(f"{self.prefix}{goal} = 0.0")]

    def whole(self) -> Derived:
        kernel = self.kernel
        forward = written(kernel.body, with_lines(kernel.lines), self._guarded(False))
        back = self.backward_code(False)
        starts = [each for tape, _ in self.tapes if tape.used for each in statements_of(f"{tape.place} = 0")]
        values = [each for i, text in enumerate(kernel.results) for each in statements_of(f"value_of_{i} = {text}")]
        said = "Forward, recording what is overwritten." if starts else "Forward."
        body: list[ast.stmt | str] = [*starts, said, *forward, *values, "Backward.", *self._zeros(), *back]
        return self._derived("adjoint", body, forward=True, backward=True)

    def forward(self) -> Derived:
        body = written(self.kernel.body, with_lines(self.kernel.lines, self.around), self._guarded(True))
        notes = self.reverse.integers
        starts = [f"{tape.place} = {len(self.tapes) if tape is notes else 0}" for tape, _ in self.tapes]
        ends = [f"{notes.array}[{i}] = {tape.place}" for i, (tape, _) in enumerate(self.tapes)]
        body = [*statements_of("\n".join(starts)), *body, *statements_of("\n".join(ends))]
        return self._derived("forward", body, forward=True, backward=False)

    def backward(self) -> Derived:
        notes = self.reverse.integers
        starts = [f"{tape.place} = {notes.array}[{i}]" for i, (tape, _) in enumerate(self.tapes)]
        body = [*statements_of("\n".join(starts)), *self._zeros(), *self._without_last_zeros(self.backward_code(True))]
        return self._derived("backward", body, forward=False, backward=True)


def _kept(tape: Tape, loop: Loop) -> tuple[int, list[str]]:
    """Return how many numbers, and which arrays, the blocks of a loop's turns keep on a tape."""
    found: tuple[int, list[str]] = loop.blocks.count(tape)
    return found


def _first_sums_assigned(code: list[ast.stmt], prefix: str) -> list[ast.stmt]:
    """Write `d = x` in place of `d = 0.0` and then `d += x`, where nothing between them uses d."""
    new: dict[int, ast.stmt] = {}
    gone: set[int] = set()
    for i, each in enumerate(code):
        for field in ("body", "orelse"):
            inner = getattr(each, field, None)
            if inner:
                setattr(each, field, _first_sums_assigned(inner, prefix))
        if not (_is_zero(each) and isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)):
            continue
        goal = each.targets[0].id
        if not goal.startswith(prefix):
            continue
        for later in code[i + 1 :]:
            found = [n for n in ast.walk(later) if isinstance(n, ast.Name) and n.id == goal]
            if not found:
                continue
            if (
                isinstance(later, ast.AugAssign) and isinstance(later.target, ast.Name) and later.target.id == goal
                and len(found) == 1
            ):  # fmt: skip
                value = later.value if isinstance(later.op, ast.Add) else ast.UnaryOp(ast.USub(), later.value)
                new[id(later)] = ast.Assign([name(goal)], value, lineno=0)
                gone.add(id(each))
            break
    return [new.get(id(each), each) for each in code if id(each) not in gone]


def _sums_reordered(code: list[ast.stmt], prefix: str) -> list[ast.stmt]:
    """Let the compiler choose the order of sums over the turns of a loop, of cotangents that the loop only adds to."""
    for each in code:
        for field in ("body", "orelse"):
            inner = getattr(each, field, None)
            if inner:
                setattr(each, field, _sums_reordered(inner, prefix))
        if isinstance(each, ast.For):
            added: Counter[str] = Counter()
            found: Counter[str] = Counter()
            for inside in ast.walk(each):
                if isinstance(inside, ast.AugAssign) and isinstance(inside.target, ast.Name):
                    added[inside.target.id] += 1
                elif isinstance(inside, ast.Name):
                    found[inside.id] += 1
            alone = {text for text, count in added.items() if text.startswith(prefix) and found[text] == count}
            each.body = _accumulated(each.body, alone)
    return code


def _accumulated(code: list[ast.stmt], sums: set[str]) -> list[ast.stmt]:
    out: list[ast.stmt] = []
    for each in code:
        for field in ("body", "orelse"):
            inner = getattr(each, field, None)
            if inner:
                setattr(each, field, _accumulated(inner, sums))
        if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name) and each.target.id in sums:
            term = each.value if isinstance(each.op, ast.Add) else negated(each.value)
            call = ast.Call(name("accumulated"), [name(each.target.id), term], [])
            out.append(ast.Assign([each.target], call, lineno=0))
        else:
            out.append(each)
    return out


def _is_zero(s: ast.stmt) -> bool:
    return isinstance(s, ast.Assign) and isinstance(s.value, ast.Constant) and s.value.value == 0.0


class _Value(_Made):
    """The kernel in the simple form."""

    def whole(self) -> Derived:
        kernel = self.kernel
        return self.derived(
            "value",
            written(kernel.body, with_lines(kernel.lines)),
            kernel.results,
            self.sizes(()),
            results=len(kernel.results),
        )


class _Tangent(_Made):
    """The derivative along a direction: each active value has a tangent, computed beside it."""

    def whole(self) -> Derived:
        kernel = self.kernel
        self.slopes = varied(kernel, self.wrt)
        self.prefix = kernel.prefix()
        active = self.slopes.active
        body = written(kernel.body, with_lines(kernel.lines, self._around))
        own = self.shadows(active)
        floats = [each for each in kernel.results if kernel.kinds[each].is_float]
        out = [*kernel.results, *(f"{self.prefix}{each}" if each in active else "0.0" for each in floats)]
        return self.derived(
            "tangent", body, out,
            self.sizes(own), results=len(kernel.results), own=own,
            cotangents=[each for each in kernel.parameters if kernel.kinds[each].is_array and each in active],
            seeds=[each for each in self.wrt if not kernel.kinds[each].is_array], scalars=floats,
        )  # fmt: skip

    def _d(self, node: ast.expr) -> ast.expr:
        return rebased(node, self.prefix)

    def _around(self, s: Statement) -> tuple[list[ast.stmt], list[ast.stmt]]:
        active, kernel = self.slopes.active, self.kernel
        if isinstance(s, Let) and kernel.kinds[s.name].is_array:
            if kernel.root(base(s.value)) not in active:
                return [], []
            return [ast.Assign([name(self.prefix + s.name)], rebased(s.value, self.prefix), lineno=0)], []
        if isinstance(s, Let | Put) and s.name in active:
            goal, value_of = name(self.prefix + s.name), name(s.name) if isinstance(s, Let) else None
            code = self._sum(s.value, s, value_of)
            return ([], [*code[0], ast.Assign([goal], code[1], lineno=0)]) if value_of is not None else (
                [*code[0], ast.Assign([goal], code[1], lineno=0)], [])  # fmt: skip
        if isinstance(s, Store) and kernel.root(base(s.target)) in active:
            before, total = self._sum(s.value, s, None)
            goal_ = self._d(s.target)
            assert isinstance(goal_, ast.Subscript)
            if s.sign:
                op = ast.Add() if s.sign > 0 else ast.Sub()
                return [*before, ast.AugAssign(goal_, op, total)], []
            return [*before, ast.Assign([goal_], total, lineno=0)], []
        return [], []

    def _sum(self, e: ast.expr, s: Statement, value: ast.expr | None) -> tuple[list[ast.stmt], ast.expr]:
        """Return the derivative of an expression: the statements before it, and the expression."""
        terms: list[ast.expr] = []
        before: list[ast.stmt] = []

        def leaf(x: ast.expr, g: ast.expr) -> list[ast.stmt]:
            terms.append(times(g, self._d(x)))
            return []

        before = self.slopes.parts(e, ast.Constant(1.0), leaf, s.where, value)
        if not terms:
            return before, ast.Constant(0.0)
        total = terms[0]
        for each in terms[1:]:
            total = ast.BinOp(total, ast.Add(), each)
        return before, total
