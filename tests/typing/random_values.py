"""Random programs in which lists of sizes are changed or only read, by names, attributes and functions."""

from __future__ import annotations

import random
from collections.abc import Iterator

# What a class or another function does with a list that it gets.
PREAMBLE = """\
from __future__ import annotations
import wyrm as wy
y = wy.Input(dims=(4, 7))


def keep(sizes: list[int]) -> None: ...


def grow(sizes: list[int]) -> None:
    sizes.insert(0, 7)


class Sizes:
    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes


"""
# Statements about the list `a`, its other name `b` and the number `n`; about half of them change what is read later.
_STATEMENTS = (
    "a.append(7)", "a.insert(0, 7)", "a.extend([7, 3])", "a += [7]", "a[0] = 7", "del a[0]", "a = [7, *a]",
    "a.reverse()", "a[1:] = [7]", "b.append(7)", "b[0] = 7", "grow(a)", "grow(b)", "keep(a)", "Sizes(a).sizes[0] = 7",
    "n = 7", "n += 1", "(n := 7)", "for n in a: pass", "[n := each for each in a]", "print(len(a), end='')",
    "wy.Input(dims=(a[0], n))", "c = (*a, n)", "d = a + [n]", "y.reshape(-1, 7)", "max(a)", "assert a == a",
)  # fmt: skip
_READS = ("a[0]", "a[-1]", "b[0]", "b[-1]", "n", "(a + b)[1]", "(a, n)[1]")


def functions(count: int) -> Iterator[str]:
    """Yield functions without arguments, the same in each run, whose last line makes a layer and calls it."""
    chosen = random.Random(0)
    for number in range(count):
        other = chosen.choice(("a", "a", "[*a]", "[7, 3]"))
        lines = [f"def made_{number}() -> wy.Node:", f"    a = [{chosen.choice((3, 7))}, 3, 7]", f"    b = {other}"]
        lines.append(f"    n = {chosen.choice((3, 7))}")
        lines += [f"    {chosen.choice(_STATEMENTS)}" for _ in range(chosen.randrange(3))]
        yield "\n".join([*lines, f"    return wy.nn.Linear({chosen.choice(_READS)}, 2)(y)"]) + "\n"
