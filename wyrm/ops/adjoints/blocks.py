"""Blocks of turns, for tapes that are not long: the backward sweep runs each block forward again, and then back.

The forward sweep keeps the state at the start of each block on the tape: the variables that the loop carries, and the
arrays that it reads and the kernel writes. A block of turns is a kernel, whose adjoint records one block. Where the
number of turns is known before the loop, a block has about its square root; else `TURNS`.

A block that runs again writes to arrays of its own, so the arrays of the kernel stay as the forward sweep left them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from wyrm.ops.adjoints.program import (
    Block,
    Keep,
    Kind,
    Let,
    Loop,
    Put,
    Store,
    Turns,
    base,
    blocks_of,
    every,
    expressions,
    loads,
    name,
    names,
    parsed,
    statements_of,
)
from wyrm.ops.adjoints.writing import FULL, function_source, written
from wyrm.ops.kernels.sums import natural

if TYPE_CHECKING:
    from wyrm.ops.adjoints.columns import Tape
    from wyrm.ops.adjoints.derived import Derived
    from wyrm.ops.adjoints.reverse import Reverse

# Given the source of the kernel of a block, what its parameters are, and those that are differentiated: its adjoint.
AdjointOfBlock: TypeAlias = "Callable[[str, dict[str, Kind], list[str]], Derived]"
# The turns of a block of a loop whose number of turns only running it tells.
TURNS = 64


@dataclass(frozen=True)
class Work:
    """Memory of the backward sweep: an array like another one, or a tape of a block.

    `like`: the array. `number`: which of the sizes of the block's adjoint it has.
    """

    name: str
    type: str
    like: str = ""
    number: int = -1


@dataclass
class Blocks:
    """A loop whose turns are divided into blocks.

    `length`: the variable with the number of turns of a block. `state`: the variables that the loop carries. `given`:
    the other numbers that its turns read. `arrays`: those that they use, `kept` of these whose elements are on the
    tape, and `again` the arrays of a block in their place.
    """

    reverse: Reverse
    loop: Loop
    length: str
    state: list[str] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    arrays: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    again: dict[str, str] = field(default_factory=dict)
    tapes: list[Work] = field(default_factory=list)
    derived: Derived | None = None
    # What the block's adjoint, and the function of its sizes, are called.
    called: str = ""
    sizer: str = ""

    # --- the forward sweep --------------------------------------------------------------------------------------------

    def numbers(self) -> list[tuple[Tape, list[str]]]:
        """Return the variables of the state on each tape."""
        found: dict[int, tuple[Tape, list[str]]] = {}
        for each in self.state:
            tape = self.reverse.tape_of(each)
            found.setdefault(id(tape), (tape, []))[1].append(each)
        return list(found.values())

    def keep(self) -> list[ast.stmt]:
        """Return the statements that keep the state, at the start of each turn that begins a block."""
        lines = [f"if ({self.loop.trips} - 1) % {self.length} == 0:"]
        for tape, mine in self.numbers():
            tape.used = True
            lines += [f"    if {tape.place} + {len(mine)} > {tape.array}.size:"]
            lines += [f"        raise IndexError({FULL!r})"]
            lines += [f"    {tape.at(i)} = {each}" for i, each in enumerate(mine)]
            lines += [f"    {tape.place} += {len(mine)}"]
        for each in self.kept:
            tape = self.reverse.tape_of(each)
            tape.used = True
            lines += [f"    if {tape.place} + {each}.size > {tape.array}.size:"]
            lines += [f"        raise IndexError({FULL!r})"]
            lines += [f"    {line}" for line in self._moved(each, tape, True)]
        return statements_of("\n".join(lines)) if len(lines) > 1 else []

    def _moved(self, array: str, tape: Tape, pushes: bool) -> Iterator[str]:
        """Yield the lines that copy an array to the tape, or from there, and move the place past it."""
        axes = self.reverse.kernel.kinds[array].axes or 0
        goal = array if pushes else self.again[array]
        at = [self.reverse.local("at") for _ in range(axes)]
        for depth, each in enumerate(at):
            yield f"{'    ' * depth}for {each} in range({goal}.shape[{depth}]):"
        element, place = f"{goal}[{', '.join(at)}]", f"{tape.array}[{tape.place} + {at[-1]}]"
        yield f"{'    ' * axes}{place} = {element}" if pushes else f"{'    ' * axes}{element} = {place}"
        yield f"{'    ' * (axes - 1)}{tape.place} += {goal}.shape[{axes - 1}]"

    def count(self, tape: Tape) -> tuple[int, list[str]]:
        """Return how many numbers, and which arrays, a block keeps on a tape."""
        mine = [each for held, found in self.numbers() if held is tape for each in found]
        return len(mine), [each for each in self.kept if self.reverse.tape_of(each) is tape]

    # --- the backward sweep -------------------------------------------------------------------------------------------

    def backward(self) -> list[ast.stmt]:
        """Return the loop over the blocks, the last one first."""
        derived, reverse, loop = self.derived, self.reverse, self.loop
        assert derived is not None
        block, first, turns = reverse.local("block"), reverse.local("first"), reverse.local("turns")
        lines = [f"{first} = {block} * {self.length}", f"{turns} = min({self.length}, {loop.trips} - {first})"]
        for each in reversed(self.kept):
            tape = reverse.tape_of(each)
            size = f"{self.again[each]}.size"
            lines += [f"{tape.place} -= {size}", *self._moved(each, tape, False), f"{tape.place} -= {size}"]
        was = {each: reverse.local("was") for each in self.state}
        for tape, mine in reversed(self.numbers()):
            lines += [f"{tape.place} -= {len(mine)}"]
            lines += [f"{was[each]} = {tape.at(i)}" for i, each in enumerate(mine)]
        given = [*(self.again.get(each, each) for each in self.arrays), *self.given, *was.values()]
        if isinstance(loop, Turns):
            start, _, step = map(ast.unparse, loop.bounds)
            lines += [f"{first} = {start} + {first} * ({step})"]
            given.append(first)
        cotangents = [f"{reverse.prefix}{each}" for each in derived.cotangents]
        seeds = [f"{reverse.prefix}{each}" for each in self.results()]
        arguments = [*given, turns, *cotangents, *seeds, *(each.name for each in self.tapes)]
        results = [reverse.local("value") for _ in range(derived.results)]
        parts = {each: reverse.local("g") for each in derived.scalars}
        goals = ", ".join([*results, *parts.values()])
        lines += [f"{f'{goals} = ' if goals else ''}{self.called}({', '.join(arguments)})"]
        for each, part in parts.items():
            lines += [f"{reverse.prefix}{each} {'' if each in self.state else '+'}= {part}"]
        count = parsed(f"range(({loop.trips} + {self.length} - 1) // {self.length} - 1, -1, -1)")
        return [ast.For(name(block), count, statements_of("\n".join(lines)), [], lineno=0)]

    # --- the kernel of a block ----------------------------------------------------------------------------------------

    def source(self) -> tuple[str, dict[str, Kind], list[str]]:
        """Return the source of the kernel of a block, what its parameters are, and those that are differentiated."""
        kernel, loop, active = self.reverse.kernel, self.loop, self.reverse.slopes.active
        body = written([each for each in loop.body if not isinstance(each, Keep)])
        turn, turns = self.reverse.local("turn"), self.reverse.local("turns")
        parameters = [*self.arrays, *self.given, *self.state]
        kinds = {each: kernel.kinds[each] for each in parameters}
        if isinstance(loop, Turns):
            first = self.reverse.local("first")
            parameters.append(first)
            step = ast.unparse(loop.bounds[2])
            held = f"natural({first})" if self.reverse.elements.is_natural(loop.bounds[0]) else first
            if step == "1":
                turn, bounds = loop.name, f"{held}, {first} + {turns}"
            elif step == "-1":
                turn, bounds = loop.name, f"{first}, {first} - {turns}, -1"
            else:
                bounds = turns
                body = [*statements_of(f"{loop.name} = {first} + {turn} * ({step})"), *body]
            kinds[first] = Kind("i")
        else:
            bounds = turns
        kinds[turns] = Kind("i")
        views = [ast.Assign([name(each.name)], each.value, lineno=0) for each in self._views()]
        code = [*views, ast.For(name(turn), parsed(f"range({bounds})"), body or [ast.Pass()], [], lineno=0)]
        results = self.results()
        wrt = [each for each in parameters if each in active]
        return function_source(f"{kernel.name}_block", [*parameters, turns], code, results), kinds, wrt

    def results(self) -> list[str]:
        """Return the variables of the state that have a cotangent: the results of the kernel of a block."""
        return [each for each in self.state if each in self.reverse.slopes.active]

    def _views(self) -> list[Let]:
        """Return the views that turns use and that stand before the loop, in their order."""
        kernel = self.reverse.kernel
        found: set[str] = set()
        waiting = [each for each in self._used() if each in kernel.views]
        while waiting:
            text = waiting.pop()
            if text not in found and self.loop not in kernel.views[text].loops:
                found.add(text)
                waiting += [each for each in names(kernel.views[text].value) if each in kernel.views]
        return sorted((kernel.views[each] for each in found), key=lambda let: let.number)

    def _used(self) -> set[str]:
        """Return the names that turns use."""
        found: set[str] = set()
        for each in every(self.loop.body):
            found |= names(*expressions(each))
            if isinstance(each, Store):
                found |= names(each.target)
            elif isinstance(each, Loop) and each.stop is not None:
                found |= names(each.stop)
        return found

    def find(self) -> None:
        """Find what the turns of the loop use."""
        kernel, loop = self.reverse.kernel, self.loop
        body = list(every(loop.body))
        puts = [each for each in body if isinstance(each, Put)]
        self.state = sorted({each.name for each in puts if each.carried and each.loops[-1] is loop})
        inside = {each.name for each in body if isinstance(each, Let | Put | Turns)} - set(self.state)
        if isinstance(loop, Turns):
            inside.add(loop.name)
        used = self._used() | {each for view in self._views() for each in names(view.value)}
        if isinstance(loop, Turns) and ast.unparse(loop.bounds[2]) not in ("1", "-1"):
            used |= names(loop.bounds[2])
        known = {each for each in used - inside if each in kernel.kinds}
        self.given = sorted(each for each in known if not kernel.kinds[each].is_array and each not in self.state)
        stored = {kernel.root(base(each.target)) for each in body if isinstance(each, Store)}
        arrays = {kernel.root(each) for each in used | stored if each in kernel.kinds and kernel.kinds[each].is_array}
        self.arrays = sorted(arrays)
        first = (*loop.loops, loop)[0].number  # what stands before it does not run again
        stores = [each for each in every(kernel.body) if isinstance(each, Store) and each.number > first]
        changed = {kernel.root(base(each.target)) for each in stores}
        read = {kernel.root(base(load)) for each in body for e in expressions(each) for load in loads(e)}
        self.kept = [each for each in self.arrays if each in changed and each in read]
        self.again = {
            each: self.again.get(each) or self.reverse.local("again") for each in self.arrays if each in changed
        }

    def derive(self, adjoint: AdjointOfBlock) -> None:
        """Derive the adjoint of a block."""
        space = self.reverse.kernel.space
        space.setdefault("natural", natural)
        source, kinds, wrt = self.source()
        self.derived = derived = adjoint(source, kinds, wrt)
        self.called = self.called or self.reverse.local(f"{self.reverse.kernel.name}_block_adjoint")
        self.sizer = self.sizer or self.reverse.local(f"{self.reverse.kernel.name}_block_sizes")
        space[self.called], space[self.sizer] = derived.function, derived.sizer
        self.tapes = [
            *(
                Work(self.reverse.local("part_of_tape"), type, number=derived.sizes.names.index(text))
                for text, type in derived.tapes
            ),
            *(
                Work(self.reverse.local("again" if each.like else "part_of_tape"), each.type, each.like,
                     -1 if each.like else derived.sizes.names.index(each.name))
                for each in derived.work
            ),
        ]  # fmt: skip

    def work(self) -> list[Work]:
        """Return the memory that the backward sweep needs for this loop."""
        kinds = self.reverse.kernel.kinds
        return [*(Work(again, kinds[each].type, like=each) for each, again in self.again.items()), *self.tapes]


def length_of(loop: Loop) -> ast.expr:
    """Return how many turns a block of a loop has."""
    if not isinstance(loop, Turns):
        return ast.Constant(TURNS)
    start, stop, _ = map(ast.unparse, loop.bounds)
    return parsed(f"int(math.sqrt(abs({stop} - {start}))) + 1")


def recording(block: Block, depth: int, records: Callable[[Block], bool]) -> list[int]:
    """Return which of the loops in so many others record something, by their positions."""
    return [i for i, each in enumerate(loops_at(block, depth)) if _records(each.body, records)]


def _records(block: Block, records: Callable[[Block], bool]) -> bool:
    return records(block) or any(_records(inner, records) for each in block for inner in blocks_of(each))


def loops_at(block: Block, depth: int) -> Iterator[Loop]:
    """Yield the loops that are in so many others."""
    for each in block:
        if isinstance(each, Loop) and not depth:
            yield each
        else:
            for inner in blocks_of(each):
                yield from loops_at(inner, depth - isinstance(each, Loop))
