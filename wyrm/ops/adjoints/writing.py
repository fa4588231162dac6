"""The source of derived kernels, and the sizes of the memory that they need."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from wyrm.ops.adjoints.program import (
    Block,
    Branch,
    Fail,
    Keep,
    Let,
    Loop,
    Put,
    Statement,
    Store,
    Turns,
    While,
    blocks_of,
    comment,
    duplicate,
    loads,
    name,
    names,
    names_read,
    parsed,
    replaced,
    statements_of,
    with_comments,
)
from wyrm.ops.adjoints.values import Kernel

# The error of a tape that is full, where only running a kernel tells how many values it needs.
FULL = "the tape of a kernel is full"
# What is written around a statement of the kernel: before and after it.
Around = Callable[[Statement], tuple[list[ast.stmt], list[ast.stmt]]]
# What is written at the end of a block, before variables get their values for the next turn.
AtEnd = Callable[[Block], list[ast.stmt]]


def nothing_around(_: Statement) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Write nothing around a statement."""
    return [], []


def with_lines(lines: Mapping[str, str], around: Around = nothing_around) -> Around:
    """Write the user's line, as a comment, before the statements that come from it."""
    said = ""

    def found(s: Statement) -> tuple[list[ast.stmt], list[ast.stmt]]:
        nonlocal said
        before, after = around(s)
        if s.where == said or (isinstance(s, Put) and s.role != "start"):
            return before, after
        said = s.where
        return [*comment(lines.get(said, "")), *before], after

    return found


def written(block: Block, around: Around = nothing_around, at_end: AtEnd = lambda _: []) -> list[ast.stmt]:
    """Return the statements of a block as Python."""
    out: list[ast.stmt] = []
    tail = len(block)
    while tail and isinstance(last := block[tail - 1], Put) and last.carried:
        tail -= 1
    for i, each in enumerate(block):
        if i == tail:
            out += at_end(block)
        before, after = around(each)
        out += before
        match each:
            case Let(name=text, value=value) | Put(name=text, value=value):
                out.append(_assignment(name(text), value))
            case Store(target=target, value=value, sign=0):
                out.append(_assignment(target, value))
            case Store(target=target, value=value, sign=sign):
                out.append(ast.AugAssign(duplicate(target), ast.Add() if sign > 0 else ast.Sub(), value))
            case Fail(error=error):
                out.append(error)
            case Keep(code=code):
                out += code()
            case Branch(test=test, body=body, orelse=orelse):
                first = written(body, around, at_end) or [ast.Pass()]
                out.append(ast.If(duplicate(test), first, written(orelse, around, at_end)))
            case Loop():
                out += _loop(each, written(each.body, around, at_end))
        out += after
    if tail == len(block):
        out += at_end(block)
    return out


def _assignment(target: ast.expr, value: ast.expr) -> ast.stmt:
    """Return an assignment, as `x += y` where the target is a variable that the value adds to."""
    match target, value:
        case ast.Name(id=text), ast.BinOp(left=ast.Name(id=left), op=ast.Add() | ast.Sub() as op) if text == left:
            return ast.AugAssign(target, op, duplicate(value.right))
    return ast.Assign([duplicate(target)], duplicate(value), lineno=0)


def _loop(loop: Loop, body: list[ast.stmt]) -> list[ast.stmt]:
    out: list[ast.stmt] = []
    if loop.trips:
        out += statements_of(f"{loop.trips} = 0")
        body = [*statements_of(f"{loop.trips} += 1"), *body]
    if loop.stop is not None and not (isinstance(loop.stop, ast.Constant) and loop.stop.value is False):
        body = [*body, ast.If(duplicate(loop.stop), [ast.Break()], [])]
    body = body or [ast.Pass()]
    if isinstance(loop, While):
        return [*out, ast.While(duplicate(loop.test), body, [])]
    assert isinstance(loop, Turns)
    return [*out, ast.For(name(loop.name), range_of(loop), body, [], lineno=0)]


def range_of(loop: Turns) -> ast.expr:
    """Return the range of a loop."""
    start, stop, step = map(ast.unparse, loop.bounds)
    if step == "1":
        return parsed(f"range({stop})" if start == "0" else f"range({start}, {stop})")
    return parsed(f"range({start}, {stop}, {step})")


def function_source(
    text: str, parameters: Sequence[str], body: Sequence[ast.stmt | str], results: Sequence[str]
) -> str:
    """Return the source of a function; strings in the body are comments."""
    lines = [f"def {text}({', '.join(parameters)}):"]
    for each in body:
        if isinstance(each, str):
            lines += ["", f"    # {each}"] if len(lines) > 1 else [f"    # {each}"]
        else:
            lines.append(textwrap.indent(ast.unparse(ast.fix_missing_locations(each)), "    "))
    if results:
        lines.append(f"    return {', '.join(results)}")
    elif len(lines) == 1:
        lines.append("    pass")
    return with_comments("\n".join(lines) + "\n")


def with_short_names(
    body: Sequence[ast.stmt | str], results: Sequence[str], own: Collection[str], taken: Collection[str], prefix: str
) -> tuple[list[ast.stmt | str], list[str]]:
    """Return the body and the results of a function with its generated names, such as `i_2`, as short as they can be.

    The user's `own` names, and those that are `taken`, stay; a cotangent, after the prefix, goes with its variable.
    """
    found: dict[str, str] = {}
    code = [each for each in body if not isinstance(each, str)]
    present = dict.fromkeys(each.id for s in code for each in ast.walk(s) if isinstance(each, ast.Name))
    variables = dict.fromkeys(each.removeprefix(prefix) for each in present)
    fixed = {each for each in variables if each in taken or each in own or not re.search(r"_\d+$", each)}
    used = fixed | set(taken)
    for each in variables:
        if each in fixed:
            continue
        stem = re.sub(r"(_\d+)+$", "", each)
        short, count = stem, 1
        while short in used or f"{prefix}{short}" in taken:
            short, count = f"{stem}_{count}", count + 1
        used.add(short)
        found[each] = short
    new = found | {f"{prefix}{each}": f"{prefix}{short}" for each, short in found.items()}
    new = {key: value for key, value in new.items() if key not in taken}
    shorter = [each if isinstance(each, str) else replaced(each, new) for each in body]
    return shorter, [new.get(each, each) for each in results]


@dataclass(frozen=True)
class Sizes:
    """The source of a function of a kernel's parameters that returns the shapes of its memory, as a tuple of tuples.

    `names`: the arrays, in this order. `known`: False for those whose size shapes and numbers do not tell.
    """

    source: str
    names: tuple[str, ...]
    known: tuple[bool, ...]


@dataclass(frozen=True)
class Counted:
    """A tape: the numbers that a run of a block adds, those at the start, and what blocks of a loop's turns add."""

    name: str
    count: Callable[[Block], int]
    start: int
    kept: Callable[[Loop], tuple[int, list[str]]]


@dataclass(frozen=True)
class Part:
    """The tape of one block of a loop's turns, with the size of this number of the block's adjoint."""

    name: str
    loop: Loop
    number: int


def sizes(
    kernel: Kernel, arrays: Sequence[tuple[str, tuple[ast.expr, ...]]], counted: Sequence[Counted],
    parts: Sequence[Part] = (),
) -> Sizes:  # fmt: skip
    """Return the sizes of arrays of these shapes, and of tapes."""
    shapes: list[str] = []
    known: list[bool] = []
    integers = _Integers(kernel)
    for text, shape in arrays:
        if any(True for each in shape for _ in loads(each)) or not integers.resolve(names(*shape), kernel.body, ()):
            kernel.fail(
                f"the shape of {text} depends on what the kernel computes, or on elements of arrays: make it from "
                f"sizes and numbers"
            )
        shapes.append(f"({', '.join(map(ast.unparse, shape))},)")
        known.append(True)
    counts: list[ast.stmt] = []
    tapes: list[Counted | Part] = [*counted, *parts]
    for each in tapes:
        total = f"size_of_{each.name}"
        start = 0 if isinstance(each, Part) else each.start
        inner: list[ast.stmt] = []
        try:
            if isinstance(each, Part):
                inner = _largest(kernel.body, each, total, integers, ())
            else:
                inner, number = _counted(kernel.body, each, total, integers, ())
                start += number
            known.append(True)
        except _Unknown:
            known.append(False)
        counts += [*statements_of(f"{total} = {start}"), *inner]
        shapes.append(f"({total},)")
    inside = [_with_lets(each, integers.found) for each in counts]
    body = [*_lets(kernel.body, integers.found), *inside]
    found = [text for text, _ in arrays] + [each.name for each in tapes]
    result = f"({''.join(f'{each}, ' for each in shapes)})"
    source = function_source(f"{kernel.name}_sizes", kernel.parameters, body, [result])
    return Sizes(source, tuple(found), tuple(known))


class _Unknown(Exception):
    """Only running the kernel tells."""


class _Counting(ast.For):
    """A loop of sizes with the loop that it counts."""

    of: Turns


def _counted(
    block: Block, tape: Counted, total: str, integers: _Integers, around: tuple[Turns, ...]
) -> tuple[list[ast.stmt], int]:
    """Return the statements that count what the loops in a block add, and the number that it adds itself."""
    out: list[ast.stmt] = []
    number = tape.count(block)
    for each in block:
        if isinstance(each, Loop) and each.blocks is not None:
            numbers, arrays = tape.kept(each)
            if numbers or arrays:
                sizes = " + ".join([str(numbers), *(integers.size(text) for text in arrays)])
                out += statements_of(f"{total} += {_blocks(each, integers, block, around)} * ({sizes})")
        if isinstance(each, Branch):
            first, a = _counted(each.body, tape, total, integers, around)
            second, b = _counted(each.orelse, tape, total, integers, around)
            out += [*first, *second]
            number += max(a, b)
        elif isinstance(each, Loop):
            inner, turn = _counted(
                each.body, tape, total, integers, (*around, each) if isinstance(each, Turns) else around
            )
            if not inner and not turn:
                continue
            elements = isinstance(each, Turns) and any(True for bound in each.bounds for _ in loads(bound))
            if elements or not isinstance(each, Turns) or not integers.resolve(names(*each.bounds), block, around):
                raise _Unknown
            turns = ast.unparse(range_of(each))
            if not inner:
                out += statements_of(f"{total} += {turn} * len({turns})")
                continue
            loop = _Counting(name(each.name), range_of(each), inner, [], lineno=0)
            loop.of = each
            if turn:
                loop.body = [*statements_of(f"{total} += {turn}"), *inner]
            out.append(loop)
    return out, number


def _blocks(loop: Loop, integers: _Integers, block: Block, around: tuple[Turns, ...]) -> str:
    """Return the number of blocks of a loop, as a text."""
    if not isinstance(loop, Turns) or any(True for bound in loop.bounds for _ in loads(bound)):
        raise _Unknown
    if not integers.resolve({loop.blocks.length, *names(*loop.bounds)}, block, around):
        raise _Unknown
    return f"-(-len({ast.unparse(range_of(loop))}) // {loop.blocks.length})"


def _largest(block: Block, part: Part, total: str, integers: _Integers, around: tuple[Turns, ...]) -> list[ast.stmt]:
    """Return the statements that find the size of a tape for the largest block of a loop in a block."""
    for each in block:
        if each is part.loop:
            return _largest_of(part, total, integers, block, around)
        if isinstance(each, Turns):
            inner = _largest(each.body, part, total, integers, (*around, each))
            if inner:
                if not integers.resolve(names(*each.bounds), block, around):
                    raise _Unknown
                loop = _Counting(name(each.name), range_of(each), inner, [], lineno=0)
                loop.of = each
                return [loop]
        elif isinstance(each, Branch | While):
            for inside in blocks_of(each):
                inner = _largest(inside, part, total, integers, around)
                if inner:
                    return inner
    return []


def _largest_of(part: Part, total: str, integers: _Integers, body: Block, around: tuple[Turns, ...]) -> list[ast.stmt]:
    loop = part.loop
    blocks = loop.blocks
    read = names_read(blocks.derived.sizes.source)
    if not blocks.derived.sizes.known[part.number] or read & set(blocks.state):
        raise _Unknown
    if not integers.resolve({blocks.length, *(read & set(blocks.given))}, body, around):
        raise _Unknown
    arguments = [*map(integers.like, blocks.arrays), *(each if each in read else "0" for each in blocks.given)]
    arguments += ["0"] * len(blocks.state)
    if not isinstance(loop, Turns):
        size = f"{blocks.sizer}({', '.join([*arguments, blocks.length])})[{part.number}][0]"
        return statements_of(f"{total} = max({total}, {size})")
    count, (start, _, step) = _blocks(loop, integers, body, around), map(ast.unparse, loop.bounds)
    turns = f"min({blocks.length}, len({ast.unparse(range_of(loop))}) - block * {blocks.length})"
    arguments += [f"{start} + block * {blocks.length} * ({step})", turns]
    size = f"{blocks.sizer}({', '.join(arguments)})[{part.number}][0]"
    return statements_of(f"for block in range({count}):\n    {total} = max({total}, {size})")


class _Integers:
    """The variables that sizes need: they follow from shapes of arrays and numbers among the arguments."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.found: set[str] = set()

    def size(self, array: str) -> str:
        """Return the size of an array, as a text."""
        made = next((each for each in self.kernel.scratch if each.name == array), None)
        if made is None:
            return f"{array}.size"
        self.resolve(names(*made.shape), self.kernel.body, ())
        return " * ".join(f"({ast.unparse(each)})" for each in made.shape)

    def like(self, array: str) -> str:
        """Return an array without elements of its own that has the shape of an array, as a text."""
        made = next((each for each in self.kernel.scratch if each.name == array), None)
        if made is None:
            return array
        self.resolve(names(*made.shape), self.kernel.body, ())
        return f"np.broadcast_to(np.int8(0), ({', '.join(map(ast.unparse, made.shape))},))"

    def resolve(self, wanted: set[str], block: Block, around: tuple[Turns, ...]) -> bool:
        """Note what is needed for these names; return False if elements of arrays, or the run, tell them."""
        kernel = self.kernel
        turning = {each.name for each in around}
        places = [kernel.body, *(each.body for each in around)]
        found: set[str] = set()
        waiting = [each for each in wanted if each in kernel.kinds]
        while waiting:
            text = waiting.pop()
            if text in found or text in turning or text in kernel.parameters:
                continue
            let = kernel.definitions.get(text)
            if let is None or not any(let in place for place in places):
                return False
            if not kernel.kinds[text].is_array and any(True for _ in loads(let.value)):
                return False
            found.add(text)
            waiting += [each for each in names(let.value) if each in kernel.kinds]
        self.found |= found
        return True


def _lets(block: Block, wanted: set[str]) -> list[ast.stmt]:
    return [_assignment(name(each.name), each.value) for each in block if isinstance(each, Let) and each.name in wanted]


def _with_lets(s: ast.stmt, lets: set[str]) -> ast.stmt:
    """Return a loop of sizes with the assignments in its body that its inner loops need."""
    if isinstance(s, _Counting):
        inner = [_with_lets(each, lets) for each in s.body]
        found: ast.stmt = ast.For(s.target, s.iter, [*_lets(s.of.body, lets), *inner], [], lineno=0)
        return found
    return s
