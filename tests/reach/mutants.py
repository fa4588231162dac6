"""Wrong versions of the analysis, each of which a comparison with random graphs must notice.

`python -m tests.reach.mutants` searches for the first graph that notices each, for the table below.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, NamedTuple

from tests.reach.fuzz import check
from tests.reach.graphs import GENERATORS
from wyrm.ops.attention.attention import _AttentionReach
from wyrm.ops.control.scan_reach import _Loop
from wyrm.ops.products.product import _MatMulReach
from wyrm.ops.shaping.arange import _ArangeReach
from wyrm.reach import constants, extremes, formulas, reading, relations, ways, zones
from wyrm.reach.axis import SizeAnalysis
from wyrm.reach.facts import Analysis
from wyrm.reach.moves import Move
from wyrm.reach.rules import Along, Leading
from wyrm.reach.symmetry import SymmetryAnalysis
from wyrm.reach.zones import Atoms


class Mutant(NamedTuple):
    """A function with a text to replace, and a generator and a seed of a graph that notices it."""

    function: Any
    old: str
    new: str
    generator: str = ""
    seed: int = -1

    @property
    def name(self) -> str:
        return f"{self.function.__qualname__}: {self.new}"


@contextmanager
def mutated(mutant: Mutant) -> Iterator[None]:
    """Replace the code of the function within the block."""
    function: Any = getattr(mutant.function, "__wrapped__", mutant.function)
    source = textwrap.dedent(inspect.getsource(function))
    source = source[source.index("def ") :]
    assert source.count(mutant.old) >= 1, f"{mutant.name}: {mutant.old!r} is not in the function"
    changed = "from __future__ import annotations\n" + source.replace(mutant.old, mutant.new, 1)
    names: dict[str, Any] = {}
    exec(compile(changed, f"<{mutant.name}>", "exec"), function.__globals__, names)
    (made,) = (each for each in names.values() if isinstance(each, FunctionType))
    before = function.__code__
    _forget()
    try:
        function.__code__ = made.__code__
        yield
    finally:
        function.__code__ = before
        _forget()


def _forget() -> None:
    formulas.reduces_to.cache_clear()


def noticed(mutant: Mutant, most: int = 80) -> tuple[str, int] | None:
    """Return the generator and the seed of the first graph that notices a mutant, of at most so many of each."""
    with mutated(mutant):
        for first in range(0, most, 20):
            for generator in GENERATORS:
                try:
                    found = check(generator, first, 20)
                except Exception as error:  # an analysis that fails is noticed too, but shows less
                    return f"{generator} raises {error!r}", first
                if found is not None:
                    return generator, int(found.split(":")[0].split()[1])
    return None


def _of(function: Callable[..., Any], old: str, new: str, generator: str = "", seed: int = -1) -> Mutant:
    return Mutant(function, old, new, generator, seed)


MUTANTS = [
    _of(zones.linked, "(v, u, -low)", "(v, u, -low - 1)", "programs", 2),
    _of(zones.linked, "(u, v, high)", "(u, v, high - 1)", "programs", 2),
    _of(Atoms.projected, "limit = first + second", "limit = first + second - 1", "programs", 0),
    _of(Atoms.united, "return [self.hull(kept)]", "return kept[:1]", "views", 48),
    _of(Atoms.hull, "max(c.get", "min(c.get", "views", 48),
    _of(Atoms.met, "return list(zones)", "return []", "programs", 0),
    _of(Atoms.image, "not in visible)", "not in visible and atom % 2)", "programs", 0),
    _of(formulas.known_of_formula, "met(zones[1], outside(0, 0.0))", "met(zones[1], outside(0, 1.0))", "programs", 0),
    _of(formulas.known_of_formula, "met(zones[2], outside(0, 1.0))]", "met(zones[2], outside(0, 0.0))]",
        "sequences", 0),
    _of(formulas.known_of_formula, 'if formula == "x & y" else (1.0, 0.0)', 'if formula == "x | y" else (1.0, 0.0)',
        "sequences", 0),
    _of(formulas.known_of_formula, "met(zones[0], outside(1, -inf))", "met(zones[0], outside(1, 0.0))",
        "programs", 1),
    _of(formulas._at_most, "up - low + most", "up - low + most - 1", "sequences", 0),
    _of(formulas._at_most, "(u, b), (v, a)", "(v, a), (u, b)", "sequences", 0),
    _of(formulas.summed, "a, b, down, up = b, a, -up, -down", "pass", "sequences", 1),
    _of(formulas.reduces_to, "return False\n    except", "return True\n    except", "sequences", 47),
    _of(constants._limits, ".max())", ".max()) - 1", "views", 0),
    _of(constants._limits, ".max())", ".min())", "views", 0),
    _of(constants._numbers, "int(beside.min())", "int(beside.max())", "programs", 17),
    _of(relations.related, "made.append(found)", "made or made.append(found)", "cells", 0),
    _of(relations._part, "limit == zone.bounds.get((v, u)) == 0", "limit == 0", "cells", 0),
    _of(relations._put_in, "operand.zones, names", "operand.zones[:1], names", "cells", 1),
    _of(relations._put_in, "in relation.parts", "in relation.parts[:1]", "cells", 0),
    _of(reading.gathered, "zones += moved.zones", "pass", "programs", 0),
    _of(reading._axes_of_gather, "(-x.axes[k][0],)", "(x.axes[k][0],)", "sequences", 4),
    _of(reading.scattered, "made.zones += analysis.image(node, x.zones, {})", "pass", "programs", 25),
    _of(reading._times, "numbers, -1)", "numbers, 1)", "sequences", 11),
    _of(reading.reshaped, "analysis.sizes[parts[-1]]", "analysis.sizes[parts[0]]", "layers", 0),
    _of(ways.grouped, "have[0] < want[0]", "have[0] > want[0]"),
    _of(Atoms.whole_of, "self.wholes[parts]\n", "next(iter(self.wholes.values()))\n", "views", 50),
    _of(Atoms.moved_whole, "self.whole_of((new, factors), size)", "whole", "views", 50),
    _of(Atoms.factors, "found[-1] * number", "found[-1]", "views", 32),
    _of(Move._of_wholes, "new)], low, high)", "new)], -high, -low)", "views", 2),
    _of(Move._of_wholes, "for k in moving) for i in", "for k in moving[:1]) for i in"),
    _of(Move.link, "-high, -low", "low, high", "views", 2),
    _of(Move.link, "low - start, high - start", "low, high"),
    _of(reading._flattened, "if factors == analysis.factors(parts)", "if factors"),
    _of(extremes.highest, "not any(not analysis.tidy(zone).bounds for zone in rows)", "False", "views", 19),
    _of(extremes._span_of_formula, "x | turned(y)", "x | y"),
    _of(extremes._span_of_formula, "[turned(x)]", "[x]"),
    _of(extremes.span_of, "NUMBER if all(", "NUMBER if not all("),
    _of(formulas.known_of_formula, '"x + y" else (other, large)', '"x - y" else (other, large)', "views", 19),
    _of(SymmetryAnalysis._is_sorted, "is x and", "is not None and"),
    _of(SymmetryAnalysis._is_sorted, "or self.known[x].zones", "", "views", 7),
    _of(SymmetryAnalysis._is_symmetric, "[1, 0, *range(2, size)], [*range(1, size), 0]", "[1, 0, *range(2, size)],"),
    _of(SymmetryAnalysis._is_lost, "len(long) > 1", "len(long) > 2", "sequences", 16),
    _of(SymmetryAnalysis._is_lost, "> How.REDUCED", "> How.COUNTED", "sequences", 1),
    _of(SizeAnalysis._is_lost, "is How.ANY", "> How.ANY", "layers", 12),
    _of(ways._is_flat, "isinstance(base, Times) or factor != 1", "False"),
    _of(ways._ways_of_gather, "How.COUNTED", "How.SAME", "sequences", 25),
    _of(ways._ways_of_scatter, "max(said", "min(said"),
    _of(ways._ways_of_scatter, "elif axis_size(inner) is None", "elif False"),
    _of(ways._ways_of_reshape, "len(left) == len(right) == 1", "len(left) == 1"),
    _of(ways._ways_of_reshape, "len(right) > 1", "len(right) > 2"),
    _of(ways.ways_of_form, "in _ANY_ORDER", "not in _ANY_ORDER"),
    _of(SymmetryAnalysis._start_of, "np.array_equal(array, np.arange(len(array)))", "True"),
    _of(Analysis.without, "out = set(gone)", "out = set(gone) - {1}"),
    _of(Analysis.along, "low, high = -high, -low", "pass"),
    _of(Analysis.along, "(low, high)}", "(-high, -low)}"),
    _of(Analysis.windowed, "window.extent - 1 - window.before", "window.extent - 2 - window.before"),
    _of(Analysis.windowed, "multiple(axes[-1][0], window.stride)", "axes[-1][0]"),
    _of(Analysis.everything, "for z in self.image(node, each.zones, {})", "for z in []"),
    _of(Analysis.joined, "if not used.isdisjoint(map(abs, entry)):", "if False:"),
    _of(Along.reached, "low, high = -high, -low", "pass"),
    _of(Leading.ways, "- self.core", "- self.core + 1"),
    _of(_MatMulReach.reached, '"x * y"', '"x + y"'),
    _of(_MatMulReach.reached, "y.insert(len(y) - 2, ())", "y.insert(len(y) - 1, ())"),
    _of(_AttentionReach.reached, "Zone({(key, query): 0})", "Zone({(key, query): -1})"),
    _of(_AttentionReach.reached, "[[(part, at.ZERO, 0)]", "[[(at.ZERO, part, -1)]"),
    _of(_ArangeReach.reached, "limits for atom", "(limits[0] + 1, limits[1] + 1) for atom"),
    _of(_Loop._shifted, "limit + self.ahead", "limit + 2 * self.ahead"),
    _of(_Loop._grows, "return True", "return False"),
    _of(_Loop._row, "names[abs(entry[0])] = self.step", "names[abs(entry[0])] = self.step + 10**6"),
    _of(_Loop._last, "analysis.image(node, initial.zones, names[2])", "[]"),
]  # fmt: skip


def main(first: int = 0) -> int:
    """Search for a graph that notices each mutant from a first one on; return 1 if one is missed."""
    missed = 0
    for mutant in MUTANTS[first:]:
        found = noticed(mutant)
        missed += found is None
        sys.stdout.write(f"{mutant.name!r}: {found}\n")
        sys.stdout.flush()
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main(*(int(each) for each in sys.argv[1:])))
