"""Random kernels whose derivatives are compared with complex steps.

`python -m tests.ops.adjoints.random_kernels --first 0 --count 5000` checks one kernel for each seed, in reverse in one
call and in two, forward, and in second order, some of them compiled too. It prints the shortest program that fails.
"""

from __future__ import annotations

import argparse
import linecache
import math
import random
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from tests.engines.native.kernels.running import compiled
from tests.ops.adjoints.checking import Case, close
from wyrm.ops.adjoints import blocks

# A statement, or the head of a block with its statements.
Tree = str | tuple[str, list["Tree"]]

HELPERS = """
import math
import numpy as np

def smooth(a, b):
    c = a * 0.3 + math.sin(b)
    return c * 0.5 + b * c * 0.1

def steep(a):
    if a > 0.3:
        return a * 0.9
    if a < -0.4:
        return -0.2 * a + 0.1
    return math.sin(a) * 0.7

def both(a, b):
    return a * 0.5 - b * b * 0.05, math.tanh(a + b)

def mixed(row, a):
    total = 0.0
    for q in range(row.size):
        row[q] = row[q] * 0.6 + a * 0.2
        total += row[q] * a
    return total * 0.3

def spread(row, other, a):
    for q in range(row.size):
        if q % 2 == 0:
            continue
        row[q] += other[q] * a * 0.4

def searched(row, a):
    v = a
    q = 0
    while v > -1.0:
        if q >= row.size:
            break
        v = v * 0.8 - row[q] * row[q] * 0.5 - 0.1
        q += 1
    return v
"""


class Generator:
    """Draws a kernel `f(x, y, z, s, r, idx, n)`: vectors, a matrix, numbers, indices below n, and the size n."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.floats = ["s", "r"]
        self.integers = ["n - 1", "0", "1"]
        self.turning: list[str] = []
        self.depth = 0
        self.budget = 4 + seed % 12
        self.views: list[str] = []
        self.calls = seed % 3 > 0

    def of(self, *words: str) -> str:
        """Draw one of several words."""
        return self.random.choice(words)

    def chance(self, share: float) -> bool:
        """Draw whether something is so."""
        return self.random.random() < share

    def index(self) -> str:
        """Draw an index below n, or one that counts from the end."""
        kinds = [*self.turning] * 3 + ["0", "n - 1", "-1", "idx[0]", "1"]
        if self.turning:
            i = self.of(*self.turning)
            kinds += [
                f"{i} - 1",
                f"idx[{i}]",
                f"({i} + 1) % n",
                f"n - 1 - {i}",
                f"{i} // 2",
                f"max({i} - 1, 0)",
                f"min({i} + 1, n - 1)",
            ]
        kinds += [each for each in self.integers if each.startswith("m")]
        return self.of(*kinds)

    def element(self) -> str:
        """Draw an element of an array."""
        kinds = [f"x[{self.index()}]", f"y[{self.index()}, {self.index()}]", f"z[{self.index()}]", f"w[{self.index()}]"]
        kinds += [f"{each}[{self.index()}]" for each in self.views]
        return self.of(*kinds)

    def value(self, depth: int = 0) -> str:
        """Draw an expression of floats that is not large for operands that are not."""
        if depth > 2 or self.chance(0.35):
            return self.of(*self.floats) if self.chance(0.5) else self.element()
        a, b = self.value(depth + 1), self.value(depth + 1)
        match self.random.randrange(14):
            case 0:
                return f"(0.6 * {a} + 0.5 * {b})"
            case 1:
                return f"({a} - 0.4 * {b})"
            case 2 | 3:
                return f"{a} * {b} * 0.4"
            case 4:
                return f"math.sin({a})"
            case 5:
                return f"math.tanh({a} + {b})"
            case 6:
                return f"{a} / (1.5 + {b} * {b})"
            case 7:
                return f"math.exp(-{a} * {a})"
            case 8:
                return f"max({a}, {b} - 0.1234)"
            case 9:
                return f"({a} if {self.test()} else {b})"
            case 10:
                return f"abs({a} + 0.3717)"
            case 11:
                return f"({a} * 0.5) ** {self.of('2', '3')}"
            case 12:
                return f"math.log(1.1 + {a} * {a})"
            case _:
                if self.calls:
                    return self.of(f"smooth({a}, {b})", f"steep({a})", f"searched(x, {a})")
                return f"np.sqrt(0.2 + {a} * {a})"

    def test(self) -> str:
        """Draw a condition."""
        kinds = [f"{self.of(*self.floats)} > {self.random.uniform(-0.6, 0.6):.3f}", f"{self.element()} < 0.213"]
        if self.turning:
            i = self.of(*self.turning)
            kinds += [f"{i} % 2 == 0", f"{i} > 0 and {self.element()} > -0.117", f"not {i} == 1"]
        return self.of(*kinds)

    def target(self) -> str:
        """Draw a variable to assign."""
        return self.of(*self.floats) if self.chance(0.6) else self.of("s", "a", "b", "c", "v")

    def statement(self) -> Iterator[Tree]:
        """Draw statements."""
        self.budget -= 1
        kind = self.random.randrange(22)
        if kind < 5:
            goal, value = self.target(), self.value()
            yield f"{goal} = {value}"
            self._have(goal)
        elif kind < 7:
            goal = self.of(*self.floats)
            yield self.of(f"{goal} += {self.value()} * 0.5", f"{goal} -= {self.value()} * 0.3", f"{goal} *= 0.7")
            if self.chance(0.3):
                yield f"{goal} = math.sin({goal})"
        elif kind < 11:
            array = self.of("x", "w", "w", *self.views)
            place = self.of(
                f"{array}[{self.index()}]", f"y[{self.index()}, {self.index()}]", f"{array}[{self.index()}]"
            )
            yield self.of(
                f"{place} = math.sin({self.value()})",
                f"{place} += {self.value()} * 0.3",
                f"{place} = {self.value()} * 0.5",
                f"{place} -= {place} * {self.value()} * 0.2",
                f"{place} *= 0.8",
                f"{place} = {place} * 0.5 + {self.value()} * 0.2",
            )
        elif kind < 15 and self.depth < 3 and self.budget > 0:
            yield self._for()
        elif kind < 16 and self.depth < 2 and self.budget > 0:
            yield from self._while()
        elif kind < 18 and self.budget > 0:
            yield from self._if()
        elif kind == 18:
            first, second = self.of(*self.floats), self.of(*self.floats)
            if first != second:
                yield f"{first}, {second} = {self.of(second, self.value())}, {self.of(first, self.value())} * 0.9"
        elif kind == 19 and self.calls:
            yield from self._call()
        elif kind == 20:
            known = [each for each in self.integers if each.startswith("m")]
            name = self.of("m", "m2", *known)
            base = self.of(*known, *self.turning, "1") if known or self.turning else "1"
            yield f"{name} = ({base} + {self.of('1', '2', 'n')}) % n"
            if name not in self.integers:
                self.integers.append(name)
        else:
            yield from self._view()

    def _have(self, goal: str) -> None:
        if goal not in self.floats:
            self.floats.append(goal)

    def _inside(self, count: int) -> list[Tree]:
        """Draw a block; what it assigns first is unknown after it."""
        floats, integers, views = list(self.floats), list(self.integers), list(self.views)
        self.depth += 1
        out: list[Tree] = []
        for _ in range(count):
            out += list(self.statement())
        self.depth -= 1
        self.floats, self.integers, self.views = floats, integers, views
        return out or ["pass"]

    def _for(self) -> Tree:
        i = self.of("i", "j", "k")
        while i in self.turning:
            i = self.of("i", "j", "k")
        low = self.of(*self.turning, "0") if self.turning else "0"
        heads = [
            "range(n)",
            f"range({low}, n)",
            "range(n - 1, -1, -1)",
            "range(0, n, 2)",
            "range(n - 1, -1, -2)",
            "range(1, n)",
            "range(x.size)",
            f"range({low} + 1)",
            f"range(1, n - {low})",
        ]
        head = self.of(*heads)
        self.turning.append(i)
        body = self._inside(self.random.randint(1, 3))
        if self.chance(0.2):
            leave = self.of("break", "continue")
            place = self.random.randint(0, len(body))
            body.insert(place, (f"if {self.test()}:", [leave]))
            if self.chance(0.3):
                body.insert(place, (f"if {self.test()}:", ["s = s * 0.9", (f"if {self.test()}:", [leave])]))
        self.turning.remove(i)
        return f"for {i} in {head}:", body

    def _while(self) -> Iterator[Tree]:
        count = f"count{self.budget}"
        goal = self.of(*self.floats)
        body = self._inside(self.random.randint(1, 2))
        head = self.of(f"while {goal} > -0.5 and {count} < 5:", f"while {count} < 4:", "while True:")
        guard: list[Tree] = [f"{count} += 1", (f"if {count} > {self.of('3', '4')}:", ["break"])]
        yield f"{count} = 0"
        yield head, [*(guard if self.chance(0.5) else []), *body, *guard]

    def _if(self) -> Iterator[Tree]:
        test = self.test()
        yield f"if {test}:", self._inside(self.random.randint(1, 2))
        if self.chance(0.5):
            yield "else:", self._inside(self.random.randint(1, 2))

    def _call(self) -> Iterator[Tree]:
        a = self.value()
        match self.random.randrange(5):
            case 0:
                yield f"s = mixed(y[{self.index()}], {a})"
            case 1:
                yield f"spread(w, x, {a})"
            case 2:
                yield f"a, b = both({a}, {self.of(*self.floats)})"
                self._have("a")
                self._have("b")
            case 3:
                yield f"w[{self.index()}] = smooth({a}, s) * 0.5"
            case _:
                yield f"s = searched(y[{self.index()}], {a})"

    def _view(self) -> Iterator[Tree]:
        name = f"row{self.budget}"
        if name in self.views or self.budget < 1:
            return
        yield f"{name} = {self.of(f'y[{self.index()}]', f'y[:, {self.index()}]', 'x[:]', 'w[:n]')}"
        self.views.append(name)

    def kernel(self) -> list[Tree]:
        """Draw the body of a kernel."""
        body: list[Tree] = [self.of("w = np.zeros(n)", "w = np.full(n, 0.25)", "w = np.zeros(x.size)")]
        while self.budget > 0:
            body += list(self.statement())
        body.append(
            self.of(
                f"return {self.of(*self.floats)}",
                f"return {self.value(2)}, {self.of(*self.floats)}",
                f"return s + w[{self.index()}] * {self.element()}",
            )
        )
        return body


def text_of(body: list[Tree], indent: str = "    ") -> str:
    """Return the source of a block."""
    out = ""
    for each in body:
        if isinstance(each, str):
            out += f"{indent}{each}\n"
        else:
            head, inner = each
            out += f"{indent}{head}\n" + text_of(inner or ["pass"], indent + "    ")
    return out


def made(body: list[Tree]) -> Callable[..., Any]:
    """Return the kernel with this body."""
    source = HELPERS + "\ndef f(x, y, z, s, r, idx, n):\n" + text_of(body)
    file = f"<random kernel {abs(hash(source)):x}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    scope: dict[str, Any] = {"__name__": "random_kernels"}
    exec(compile(source, file, "exec"), scope)
    function: Callable[..., Any] = scope["f"]
    return function


def arguments_of(seed: int) -> list[Any]:
    """Return arguments of a kernel."""
    random = np.random.default_rng(seed)
    n = 3 + seed % 3
    return [
        random.uniform(-1, 1, n), random.uniform(-1, 1, (n, n)), random.uniform(-1, 1, n), float(random.uniform(-1, 1)),
        float(random.uniform(-1, 1)), random.integers(0, n, n), n,
    ]  # fmt: skip


class Wrong(Exception):  # what the check finds, not an error of the program
    """A derivative that is wrong."""


def native(function: Callable[..., Any], arguments: list[Any]) -> Any:
    """Call a kernel compiled with its bounds checked."""
    return compiled(function, *arguments, checked=True)(*arguments)


def check(body: list[Tree], seed: int, machine: bool = False) -> str:
    """Compare the derivatives of a kernel; return what was compared, and raise `Wrong` for a difference."""
    function, arguments = made(body), arguments_of(seed)
    try:
        case = Case(function, arguments, seed)
        expected = case.expected()
    except (ArithmeticError, ValueError, IndexError, NameError) as error:
        return f"skipped: {error}"
    if not all(math.isfinite(each) and abs(each) < 1e3 for each in [*case.values, expected]):
        return "skipped: large"
    modes: dict[str, Callable[[], float]] = {"reverse": case.reverse, "halves": case.in_halves, "forward": case.forward}
    modes |= {f"in blocks, {levels}": partial(case.in_halves, levels=levels) for levels in (1, 2)}
    if machine:
        modes |= {"reverse, compiled": lambda: case.reverse(native), "halves, compiled": lambda: case.in_halves(native)}
        modes |= {"forward, compiled": lambda: case.forward(native)}
        modes |= {"in blocks, compiled": lambda: case.in_halves(native, levels=1)}
    for mode, run in modes.items():
        found = run()
        if not close(found, expected, 1.0):
            raise Wrong(f"{mode}: {found!r}, not {expected!r}")
    again = case.second(seed + 1)
    wanted = again.expected()
    if not math.isfinite(wanted) or abs(wanted) > 1e6:
        return "first order"
    for mode, run in {"second order, forward": again.forward, "second order, reverse": again.reverse}.items():
        found = run()
        if not close(found, wanted, max(map(abs, again.values)), 1e-8):
            raise Wrong(f"{mode}: {found!r}, not {wanted!r}")
    return "both orders"


def failure(body: list[Tree], seed: int, machine: bool) -> str | None:
    """Return what is wrong with the derivatives of a kernel, None if they are right or it is refused as others are."""
    signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, 1.0 + 20.0 * machine)
    try:
        check(body, seed, machine)
    except Wrong as wrong:
        return f"Wrong: {wrong}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    return None


def _too_long(*_: object) -> None:
    raise TimeoutError("a kernel without its guard loops on")


def smaller(body: list[Tree]) -> Iterator[list[Tree]]:
    """Yield bodies with one statement less, or with a block in place of a loop or branch."""
    for i, each in enumerate(body):
        yield body[:i] + body[i + 1 :]
        if not isinstance(each, str):
            head, inner = each
            yield [*body[:i], *inner, *body[i + 1 :]]
            for less in smaller(inner):
                yield [*body[:i], (head, less), *body[i + 1 :]]


def shrunk(body: list[Tree], seed: int, machine: bool) -> list[Tree]:
    """Return a body as short as possible that fails in the same way."""
    found = failure(body, seed, machine)
    assert found is not None
    word = found.split(":")[0]
    going = True
    while going:
        going = False
        for each in smaller(body):
            try:
                made(each)
            except SyntaxError:
                continue
            other = failure(each, seed, machine)
            if other is not None and other.split(":")[0] == word:
                body, going = each, True
                break
    return body


def _say(*words: object, flush: bool = False) -> None:
    print(*words, flush=flush)  # noqa: T201  # its output


def main() -> int:
    """Check the kernels of a range of seeds; return 1 if one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--compiled", type=int, default=25, help="compile one kernel of so many, 0 for none")
    options = parser.parse_args()
    blocks.TURNS = 2  # these loops have few turns
    counts: dict[str, int] = {}
    failures = []
    for seed in range(options.first, options.first + options.count):
        body = Generator(seed).kernel()
        machine = options.compiled > 0 and seed % options.compiled == 0
        try:
            found = check(body, seed, machine).split(":")[0]
        except Exception as error:
            found = "wrong" if isinstance(error, Wrong) else type(error).__name__
            failures.append(seed)
            if len(failures) <= 5:
                _say(f"--- seed {seed}: {type(error).__name__}: {str(error)[:300]}")
                if not isinstance(error, Wrong) and "--trace" in sys.argv:
                    traceback.print_exc()
                less = shrunk(body, seed, machine)
                _say(text_of(less), failure(less, seed, machine), flush=True)
        counts[found] = counts.get(found, 0) + 1
    _say(counts, "failing seeds:", failures[:50])
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
