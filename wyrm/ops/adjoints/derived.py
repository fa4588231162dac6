"""Kernels derived from a kernel: its adjoint in one sweep forward and back, or in two calls, and its tangent."""

from __future__ import annotations

import ast
import linecache
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from wyrm.errors import NotDifferentiable
from wyrm.ops.adjoints.program import (
    Block,
    Kind,
    Let,
    Put,
    Statement,
    Store,
    base,
    every,
    name,
    number_all,
    replaced,
    statements_of,
)
from wyrm.ops.adjoints.reading import GENERATED
from wyrm.ops.adjoints.reverse import Reverse, Tape, _Restored
from wyrm.ops.adjoints.rules import negated
from wyrm.ops.adjoints.slopes import Slopes
from wyrm.ops.adjoints.values import Kernel
from wyrm.ops.adjoints.writing import Sizes, function_source, sizes, with_short_names, written

# The error of a tape that is full, where only running a kernel tells how many values it needs.
FULL = "the tape of a kernel is full"


@dataclass(frozen=True)
class Derived:
    """A kernel that was made from another one.

    Its arguments are those of the kernel, `parameters`; then `scratch`, arrays of its own; the cotangents (or tangents)
    of the arrays `cotangents`; `shadows`, the cotangents of its scratch; those of its results `seeds` (of the numbers
    among the arguments for a tangent); and `tapes`, names with types. It returns the results of the kernel, of which it
    has `results`, and then the gradients of the numbers `scalars` (of the results for a tangent).
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

    @property
    def known(self) -> bool:
        """Whether the sizes of all its memory are known before it runs."""
        return all(self.sizes.known)


def kind_of_value(value: object) -> Kind:
    """Return what a number or an array is to a kernel."""
    array = np.asarray(value)
    kind = {"f": "f4" if array.dtype == np.float32 else "f8", "b": "b"}.get(array.dtype.kind, "i")
    return Kind(kind, array.ndim if isinstance(value, np.ndarray) else None)


def adjoint(function: Callable[..., Any], kinds: Sequence[Kind], wrt: Sequence[str] | None = None) -> Derived:
    """Return the kernel that computes the results of a kernel and adds to the cotangents of what it read.

    `kinds`: what the arguments are. `wrt`: the parameters that are differentiated, all floats by default. The
    cotangents of arrays that the kernel writes are replaced by those of what they held before. Raise
    `NotDifferentiable`, with the line, for what has no adjoint.
    """
    return _Adjoint(function, kinds, wrt).whole()


def forward_and_backward(
    function: Callable[..., Any], kinds: Sequence[Kind], wrt: Sequence[str] | None = None
) -> tuple[Derived, Derived]:
    """Return the two halves of the adjoint as kernels: one that records, and one that runs back.

    The second one takes the arguments and the scratch as the first one leaves them, and the tapes.
    """
    made = _Adjoint(function, kinds, wrt)
    return made.forward(), made.backward()


def value(function: Callable[..., Any], kinds: Sequence[Kind]) -> Derived:
    """Return the kernel itself, with the kernels that it calls inlined, and the arrays that it makes as arguments."""
    return _Value(function, kinds, ()).whole()


def tangent(function: Callable[..., Any], kinds: Sequence[Kind], wrt: Sequence[str] | None = None) -> Derived:
    """Return the kernel that computes the results of a kernel and their derivatives along tangents of the arguments."""
    return _Tangent(function, kinds, wrt).whole()


class _Made:
    """What both modes share."""

    def __init__(self, function: Callable[..., Any], kinds: Sequence[Kind], wrt: Sequence[str] | None) -> None:
        code = function.__code__
        parameters = code.co_varnames[: code.co_argcount]
        if len(kinds) != len(parameters):
            raise NotDifferentiable(f"{function.__name__} takes {len(parameters)} arguments, not {len(kinds)}")
        given = dict(zip(parameters, kinds, strict=True))
        self.kernel = Kernel(function, given)
        self.wrt = [each for each in parameters if given[each].is_float and (wrt is None or each in wrt)]
        self.module = function.__module__

    def scratch(self) -> list[tuple[str, tuple[ast.expr, ...]]]:
        return [(each.name, each.shape) for each in self.kernel.scratch]

    def function(self, source: str) -> Callable[..., Any]:
        return compiled(source, self.kernel.space, self.module)


def compiled(source: str, space: Mapping[str, Any], module: str | None) -> Callable[..., Any]:
    """Return the function of a source, which tools find by its line like any other."""
    found = re.match(r"def (\w+)\(", source)
    assert found is not None
    file = f"{GENERATED}{found[1]} {abs(hash(source)):x}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    scope: dict[str, Any] = {**space, "np": np, "__name__": module or "__main__"}
    exec(compile(source, file, "exec"), scope)  # the source is made here
    function: Callable[..., Any] = scope[found[1]]
    # Indices of users are not proved to be in range, so native code checks them.
    vars(function)["guarded"] = True
    return function


class _Adjoint(_Made):
    def __init__(self, function: Callable[..., Any], kinds: Sequence[Kind], wrt: Sequence[str] | None) -> None:
        super().__init__(function, kinds, wrt)
        self.reverse = Reverse(self.kernel, self.wrt)

    @cached_property
    def prefix(self) -> str:
        return self.reverse.prefix

    def tape_of(self, text: str) -> Tape:
        kind = self.kernel.kinds[text]
        return self.reverse.floats[kind.type] if kind.is_float else self.reverse.integers

    @property
    def tapes(self) -> list[tuple[Tape, str]]:
        found = self.reverse.floats
        return [(found["f8"], "f8"), (found["f4"], "f4"), (self.reverse.integers, "i")]

    def saved(self, block: Block, split: bool) -> list[str]:
        return self.reverse.saved(block) if split or block is not self.kernel.body else []

    def pushes(self, split: bool) -> Callable[[Block], list[ast.stmt]]:
        def at_end(block: Block) -> list[ast.stmt]:
            out: list[ast.stmt] = []
            for tape, _ in self.tapes:
                mine = [each for each in self.saved(block, split) if self.tape_of(each) is tape]
                for i, each in enumerate(mine):
                    value = f"int({each})" if self.kernel.kinds[each].type == "b" else each
                    out += statements_of(f"{tape.array}[{tape.place}{f' + {i}' if i else ''}] = {value}")
                if mine:
                    tape.used = True
                    out += statements_of(f"{tape.place} += {len(mine)}")
            return out

        return at_end

    def pops(self, block: Block, split: bool) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for tape, _ in self.tapes:
            mine = [each for each in self.saved(block, split) if self.tape_of(each) is tape]
            if mine:
                tape.used = True
                out += statements_of(f"{tape.place} -= {len(mine)}")
            for i, each in enumerate(mine):
                value = f"{tape.array}[{tape.place}{f' + {i}' if i else ''}]"
                value = f"{value} != 0" if self.kernel.kinds[each].type == "b" else value
                out += statements_of(f"{each} = {value}")
        return out

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
                value = replaced(each.value, {base(each.value) or "": self.prefix + (base(each.value) or "")})
                out.append(ast.Assign([name(self.prefix + each.name)], value, lineno=0))
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
                if isinstance(each, _Restored):
                    out += self.restored(each.block, split)
                elif isinstance(each, ast.If):
                    out.append(ast.If(each.test, walk(each.body) or [ast.Pass()], walk(each.orelse)))
                elif isinstance(each, ast.For):
                    out.append(ast.For(each.target, each.iter, walk(each.body), [], lineno=0))
                else:
                    out.append(each)
            return out

        code = self.reverse.backward_code or [_Restored(block=self.kernel.body)]
        return _sums_reordered(_first_sums_assigned(walk(code), self.prefix), self.prefix)

    def _arrays(self) -> tuple[list[str], list[str]]:
        """Return the parameters and the scratch that have cotangents."""
        active = self.reverse.slopes.active
        written_to = self.kernel.written()
        cotangents = [
            each
            for each in self.kernel.parameters
            if self.kernel.kinds[each].is_array and self.kernel.kinds[each].is_float
            and (each in self.wrt or (each in active and each in written_to))
        ]  # fmt: skip
        return cotangents, [each.name for each in self.kernel.scratch if each.name in active]

    def _derived(self, kind: str, body: Sequence[ast.stmt | str], *, forward: bool, backward: bool) -> Derived:
        kernel = self.kernel
        cotangents, own = self._arrays() if backward else ([], [])
        split = forward != backward
        active = self.reverse.slopes.active
        seeds = [each for each in kernel.results if kernel.kinds[each].is_float] if backward else []
        scalars = [each for each in self.wrt if not kernel.kinds[each].is_array] if backward else []
        tapes = [(tape, type) for tape, type in self.tapes if tape.used or (split and type == "i")]
        scratch = [each.name for each in kernel.scratch]
        parameters = [
            *kernel.parameters, *scratch, *(self.prefix + each for each in [*cotangents, *own]),
            *(self.prefix + each for each in seeds), *(tape.array for tape, _ in tapes),
        ]  # fmt: skip
        out: list[str] = []
        if forward:
            out += kernel.results if not backward else [f"value_of_{i}" for i in range(len(kernel.results))]
        out += [f"{self.prefix}{each}" if each in active else "0.0" for each in scalars]
        body, out = with_short_names(body, out, kernel.own, {*parameters, *kernel.space}, self.prefix)
        source = function_source(f"{kernel.name}_{kind}", parameters, body, out)
        shapes = dict(self.scratch())
        found = sizes(
            kernel,
            [*shapes.items(), *((self.prefix + each, shapes[each]) for each in own)],
            [(tape.array, self._count(tape, split)) for tape, _ in tapes],
            len(self.tapes) if split else 0,
        )
        return Derived(
            self.function(source), source, tuple(kernel.parameters), tuple(scratch), tuple(cotangents),
            tuple(self.prefix + each for each in own), tuple(seeds), tuple((tape.array, type) for tape, type in tapes),
            tuple(scalars), len(kernel.results) if forward else 0, found,
            tuple(kernel.kinds[each] for each in scratch), frozenset(kernel.written()),
            compiled(found.source, kernel.space, self.module),
        )  # fmt: skip

    def _count(self, tape: Tape, split: bool) -> Callable[[Block], int]:
        return lambda block: sum(self.tape_of(each) is tape for each in self.saved(block, split))

    def _starts(self) -> list[ast.stmt]:
        return [each for tape, _ in self.tapes if tape.used for each in statements_of(f"{tape.place} = 0")]

    def _guarded(self, split: bool) -> Callable[[Block], list[ast.stmt]]:
        """Return the pushes, with a test of the room on the tape in loops of which the number of turns is not known."""
        push = self.pushes(split)
        sizes = self._sizes(split)
        known = dict(zip(sizes.names, sizes.known, strict=True))

        def at_end(block: Block) -> list[ast.stmt]:
            out: list[ast.stmt] = []
            for tape, _ in self.tapes:
                count = self._count(tape, split)(block)
                if count and not known[tape.array]:
                    test = f"if {tape.place} + {count} > {tape.array}.size:"
                    out += statements_of(f"{test}\n    raise IndexError({FULL!r})")
            return [*out, *push(block)]

        return at_end

    def _sizes(self, split: bool) -> Sizes:
        shapes = dict(self.scratch())
        own = self._arrays()[1]
        return sizes(
            self.kernel,
            [*shapes.items(), *((self.prefix + each, shapes[each]) for each in own)],
            [(tape.array, self._count(tape, split)) for tape, _ in self.tapes],
            len(self.tapes) if split else 0,
        )

    def whole(self) -> Derived:
        kernel = self.kernel
        forward = written(kernel.body, at_end=self._guarded(False))
        back = self.backward_code(False)
        values = [each for i, text in enumerate(kernel.results) for each in statements_of(f"value_of_{i} = {text}")]
        active = self.reverse.slopes.active
        zeros = [
            each
            for text in self.wrt
            if not kernel.kinds[text].is_array and text in active
            for each in statements_of(f"{self.prefix}{text} = 0.0")
        ]
        zeros += [each for text in self._arrays()[1] for each in statements_of(f"{self.prefix}{text}[...] = 0.0")]
        said = "Forward, recording what is overwritten." if any(t.used for t, _ in self.tapes) else "Forward."
        return self._derived(
            "adjoint",
            [*self._starts(), said, *forward, *values, "Backward.", *zeros, *back],
            forward=True,
            backward=True,
        )

    def forward(self) -> Derived:
        body = written(self.kernel.body, at_end=self._guarded(True))
        notes = self.reverse.integers
        start = statements_of(
            "\n".join(f"{tape.place} = {len(self.tapes) if tape is notes else 0}" for tape, _ in self.tapes)
        )
        ends = [f"{notes.array}[{i}] = {tape.place}" for i, (tape, _) in enumerate(self.tapes)]
        return self._derived("forward", [*start, *body, *statements_of("\n".join(ends))], forward=True, backward=False)

    def backward(self) -> Derived:
        notes = self.reverse.integers
        start = statements_of("\n".join(f"{tape.place} = {notes.array}[{i}]" for i, (tape, _) in enumerate(self.tapes)))
        active = self.reverse.slopes.active
        zeros = [
            each
            for text in self.wrt
            if not self.kernel.kinds[text].is_array and text in active
            for each in statements_of(f"{self.prefix}{text} = 0.0")
        ]
        zeros += [each for text in self._arrays()[1] for each in statements_of(f"{self.prefix}{text}[...] = 0.0")]
        return self._derived("backward", [*start, *zeros, *self.backward_code(True)], forward=False, backward=True)


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
        scratch = [each.name for each in kernel.scratch]
        parameters = [*kernel.parameters, *scratch]
        body, out = with_short_names(
            written(kernel.body), kernel.results, kernel.own, {*parameters, *kernel.space}, "\0"
        )
        source = function_source(f"{kernel.name}_value", parameters, body, out)
        found = sizes(kernel, self.scratch(), [], 0)
        return Derived(
            self.function(source), source, tuple(kernel.parameters), tuple(scratch), (), (), (), (), (),
            len(kernel.results), found,
            tuple(kernel.kinds[each] for each in scratch), frozenset(kernel.written()),
            compiled(found.source, kernel.space, self.module),
        )  # fmt: skip


class _Tangent(_Made):
    """The derivative along a direction: each active value has a tangent, computed beside it."""

    def whole(self) -> Derived:
        kernel = self.kernel
        number_all(kernel.body)
        active = self._active()
        self.slopes = Slopes(kernel, active)
        count = 1
        while any(each.startswith("d" * count + "_") for each in kernel.used):
            count += 1
        self.prefix = "d" * count + "_"
        body = written(kernel.body, self._around)
        arrays = [each for each in kernel.parameters if kernel.kinds[each].is_array and each in active]
        own = [each.name for each in kernel.scratch if each.name in active]
        scalars = [each for each in self.wrt if not kernel.kinds[each].is_array]
        scratch = [each.name for each in kernel.scratch]
        parameters = [*kernel.parameters, *scratch, *(self.prefix + each for each in [*arrays, *own, *scalars])]
        floats = [each for each in kernel.results if kernel.kinds[each].is_float]
        out = [*kernel.results, *(f"{self.prefix}{each}" if each in active else "0.0" for each in floats)]
        short, out = with_short_names(body, out, kernel.own, {*parameters, *kernel.space}, self.prefix)
        source = function_source(f"{kernel.name}_tangent", parameters, short, out)
        shapes = dict(self.scratch())
        found = sizes(kernel, [*shapes.items(), *((self.prefix + each, shapes[each]) for each in own)], [], 0)
        return Derived(
            self.function(source), source, tuple(kernel.parameters), tuple(scratch), tuple(arrays),
            tuple(self.prefix + each for each in own), tuple(scalars), (), tuple(floats), len(kernel.results), found,
            tuple(kernel.kinds[each] for each in scratch), frozenset(kernel.written()),
            compiled(found.source, kernel.space, self.module),
        )  # fmt: skip

    def _active(self) -> set[str]:
        kernel = self.kernel
        slopes = Slopes(kernel, set(self.wrt))
        changed = True
        while changed:
            changed = False
            for each in every(kernel.body):
                if isinstance(each, Let | Put) and not kernel.kinds[each.name].is_array:
                    goal = each.name
                elif isinstance(each, Store):
                    goal = kernel.root(base(each.target))
                else:
                    continue
                if kernel.kinds[goal].is_float and goal not in slopes.active and slopes.is_active(each.value):
                    slopes.active.add(goal)
                    changed = True
        return slopes.active

    def _d(self, node: ast.expr) -> ast.expr:
        found = base(node) or ""
        changed: ast.expr = replaced_base(node, found, self.prefix + found)
        return changed

    def _around(self, s: Statement) -> tuple[list[ast.stmt], list[ast.stmt]]:
        active, kernel = self.slopes.active, self.kernel
        if isinstance(s, Let) and kernel.kinds[s.name].is_array:
            held = base(s.value) or ""
            if kernel.root(held) not in active:
                return [], []
            value = replaced(s.value, {held: self.prefix + held})
            return [ast.Assign([name(self.prefix + s.name)], value, lineno=0)], []
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
            from wyrm.ops.adjoints.rules import times

            terms.append(times(g, self._d(x)))
            return []

        before = self.slopes.parts(e, ast.Constant(1.0), leaf, s.where, value)
        if not terms:
            return before, ast.Constant(0.0)
        total = terms[0]
        for each in terms[1:]:
            total = ast.BinOp(total, ast.Add(), each)
        return before, total


def replaced_base(node: ast.expr, old: str, new: str) -> ast.expr:
    """Return an element with another array in place of its own, its indices unchanged."""
    if isinstance(node, ast.Subscript):
        return ast.Subscript(replaced_base(node.value, old, new), node.slice, node.ctx)
    if isinstance(node, ast.Attribute):
        return ast.Attribute(replaced_base(node.value, old, new), node.attr, node.ctx)
    assert isinstance(node, ast.Name) and node.id == old
    return ast.Name(new, node.ctx)
