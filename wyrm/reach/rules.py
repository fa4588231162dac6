"""`Reach`: the rule of an op that says which positions of its operands its elements depend on.

Most ops need none: a composition, a formula, a reduction or index maps say it already. An op with none of these and
without a rule is taken to depend on everything, which is always right.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from wyrm.graph.loop_form import LOOPS
from wyrm.graph.op import NUMPY
from wyrm.graph.registration import Rules
from wyrm.reach.ways import How, Way, aligned, nothing_said, ways_by, ways_of_form

if TYPE_CHECKING:
    from wyrm.graph.base import BaseNode
    from wyrm.reach.facts import Analysis
    from wyrm.reach.zones import Bound, Size, Variable, Zone

# The positions along an axis: several where axes are flattened, the last one the fastest; none along one of size 1. An
# atom with a minus counts from the end.
Entry: TypeAlias = tuple[int, ...]
# For (u, v), the least and the greatest `value - u + v` of integers.
Numbers: TypeAlias = "dict[tuple[Variable, Variable], tuple[float, float]]"
LOW, HIGH = "low", "high"
"""The values at most -1e4, and those at least 1e4."""
# Of LOW, HIGH and other numbers outside of 0 to 1, those that elements may be.
Span: TypeAlias = frozenset[str]


def own_names(axes: Iterable[Entry]) -> dict[int, int]:
    """Return the atoms of axes, each as its own name."""
    return {abs(atom): abs(atom) for entry in axes for atom in entry}


class Reached:
    """What is known of a node: its axes, and the zones outside of which its elements do not depend on the source.

    `values` has for each of 0, 1, -inf, `LOW` and `HIGH` zones outside of which all elements have that value; `numbers`
    are bounds of integers, and `cases` those of a constant along one axis, by parts of it. `span` says how large
    elements may be, None for any number; `fixed` whether each stays as it is if the inputs are permuted along an axis.
    `parts` and `after` are what is known of the parts of a loop's residuals.
    """

    __slots__ = ("after", "axes", "cases", "fixed", "numbers", "parts", "span", "values", "zones")

    def __init__(
        self,
        axes: tuple[Entry, ...],
        zones: list[Zone] | None = None,
        values: dict[float | str, list[Zone]] | None = None,
        numbers: Numbers | None = None,
        cases: Sequence[tuple[list[Bound], Numbers]] = (),
    ) -> None:
        self.axes: tuple[Entry, ...] = axes
        self.numbers: Numbers | None = numbers
        self.cases: Sequence[tuple[list[Bound], Numbers]] = cases
        self.zones: list[Zone] = [] if zones is None else zones
        self.values: dict[float | str, list[Zone]] = {} if values is None else values
        self.span: Span | None = None
        self.fixed = False
        self.parts: Sequence[Reached] = ()
        self.after: Sequence[Reached] = ()

    def replaced(
        self, *, zones: list[Zone] | None = None, values: dict[float | str, list[Zone]] | None = None
    ) -> Reached:
        """Return this with other zones or values."""
        zones, values = self.zones if zones is None else zones, self.values if values is None else values
        found = Reached(self.axes, zones, values, self.numbers, self.cases)
        found.span, found.fixed, found.parts, found.after = self.span, self.fixed, self.parts, self.after
        return found

    @property
    def atoms(self) -> dict[int, int]:
        """The atoms of the axes, each as its own name."""
        return own_names(self.axes)

    @property
    def is_known(self) -> bool:
        """Whether anything is known of the elements but their axes."""
        return bool(self.zones or self.values or self.numbers)


class Reach:
    """The rule of an op: how its axes meet, and from what is known of its operands what is known of the result.

    A class derives from the base that says how the op reads its operands (`SamePlace`, `Along`, `Windowed`), or defines
    `ways`, or `reached` where it has more to say. `check_op` compares a rule with what happens when operands change.

        REACH.register(MySmoothing)(Along(-2, 0))
    """

    # Whether what is known of a node is what its composition says, perhaps of operands of which more is known.
    composes: bool = False
    # Whether elements are the positions along the only axis, counted from the operand.
    counts: bool = False
    # Whether elements are the positions along the axis of the first operand in the order of its elements.
    sorts: bool = False

    def reached(self, node: Any, operands: Sequence[Reached], analysis: Analysis) -> Reached | None:
        """Return what is known of the node; None leaves it to the op's formula, composition or loop form.

        Unless a rule says more, an element depends on all positions but along axes whose positions stay the same.
        """
        ways = None if self.composes else self.ways(node)
        return None if ways is None else analysis.by_ways(node, operands, ways)

    def ways(self, node: Any) -> list[Way] | None:
        """Return how the axes of the operands meet in the result; None leaves it to the composition or loop form.

        Claims of order and of size need it: a rule that does not define it says nothing of them.
        """
        return None if type(self) is Reach or self.composes else nothing_said(node)

    def help(self, node: Any) -> str:
        """Return what would help where elements depend on more than they should; empty if nothing is known."""
        return ""

    def value(self, node: BaseNode, arrays: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray | None:
        """Return the value of the node for these operands; None if it is not computed here."""
        return None if node.formula else np.asarray(node.evaluate_for({})(NUMPY, *arrays, shape=shape))


class SamePlace(Reach):
    """The rule of an op whose elements depend on those at the same place of the broadcast operands."""

    def ways(self, node: Any) -> list[Way] | None:
        return aligned(node)

    def reached(self, node: Any, operands: Sequence[Reached], analysis: Analysis) -> Reached | None:
        return analysis.pointwise(node, operands)


class Along(Reach):
    """The rule of an op along one axis: element i depends on those from `i + low` to `i + high`, None for no limit.

    The axis is `node.axis`; positions count from the end where `node.reverse` is true. All operands have that axis.
    """

    def __init__(self, low: int | None = None, high: int | None = None) -> None:
        self.low: int | None = low
        self.high: int | None = high

    def ways(self, node: Any) -> list[Way] | None:
        earlier = self.high is not None and self.high <= 0 and not getattr(node, "reverse", False)
        places = [(k, range(x.ndim)) for k, x in enumerate(node.parents) if x.ndim == node.ndim]
        return ways_by(node, places, {self.axis(node): How.COUNTED if earlier else How.ANY})

    def axis(self, node: Any) -> int:
        """Return the position of the axis."""
        axis: int = node.axis
        return axis

    def reached(self, node: Any, operands: Sequence[Reached], analysis: Analysis) -> Reached | None:
        low, high = -inf if self.low is None else self.low, inf if self.high is None else self.high
        if getattr(node, "reverse", False):
            low, high = -high, -low
        return analysis.along(node, operands, self.axis(node), low, high)


class Leading(Reach):
    """The rule of an op on the last `core` axes of its operands, as on matrices; the axes before them broadcast."""

    def __init__(self, core: int = 2) -> None:
        self.core: int = core

    def ways(self, node: Any) -> list[Way] | None:
        ranks = [max(0, parent.ndim - self.core) for parent in node.parents]
        rank = max(ranks)
        places = [
            (k, [*range(rank - own, rank), *[None] * (parent.ndim - own)])
            for k, (own, parent) in enumerate(zip(ranks, node.parents, strict=True))
        ]
        return ways_by(node, places, dict.fromkeys(range(rank, node.ndim), How.ANY))


KEPT: Final = "kept"
"""In place of a window: each element of the result depends on those of the operand at the same position."""


class Windowed(Reach):
    """The rule of an op with windows: element i along an axis depends on some elements of its window.

    Other operands than the first one reach every element.
    """

    def help(self, node: Any) -> str:
        return (
            "a window reads later positions unless all zeros stand before the first position: pad by wy.pad on that "
            "side, and say padding=0"
        )

    def windows(self, node: Any) -> Sequence[Any]:
        """Return for each axis its `Window`, `KEPT`, or None where an element depends on all positions."""
        raise NotImplementedError

    def ways(self, node: Any) -> list[Way] | None:
        how = dict[Hashable, How]()
        for k, window in enumerate(self.windows(node)):
            if window != KEPT:
                earlier = window is not None and window.extent - 1 - window.before <= 0
                how[k] = How.COUNTED if earlier else How.ANY
        return ways_by(node, [(0, range(node.parents[0].ndim))], how)

    def reached(self, node: Any, operands: Sequence[Reached], analysis: Analysis) -> Reached | None:
        return analysis.windowed(node, operands, self.windows(node))


REACH: Rules[Reach] = Rules("REACH", Reach())
"""The rules of ops that say what their elements depend on: `@wy.REACH.register(MyOp)` above a class registers one."""


def ways_of(node: BaseNode, parts: Sequence[tuple[int, Size]] | None = None) -> list[Way] | None:
    """Return how the axes of the operands meet in the result; None if the ops that a node is made of say it.

    `parts` are the sizes of which the axes of the operand of a reshape are made, each with the axis, if they are known.
    """
    found = aligned(node) if node.formula else REACH.of(node).ways(node)
    if found is not None:
        return found
    form = LOOPS.of(node)
    if form.reducer is None and (node.composition() is not None or form.decompose(node) is not None):
        return None
    return ways_of_form(node, parts)
