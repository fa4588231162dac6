"""`prove`: claims about what can reach a node along named axes, proved on the graph before anything runs."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from typing_extensions import TypeVarTuple

from wyrm.errors import NotProved, ShapeError
from wyrm.graph.axes import Dim, Times, axis_size
from wyrm.graph.base import BaseNode, describe, format_dims, label
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Input
from wyrm.graph.node import Node
from wyrm.graph.quotients import expression_of
from wyrm.graph.traversal import topological_order
from wyrm.reach.axis import SizeAnalysis
from wyrm.reach.facts import Analysis
from wyrm.reach.refusals import Fits, described, explained, never
from wyrm.reach.symmetry import SymmetryAnalysis
from wyrm.reach.zones import SOURCE, Bounds

S = TypeVar("S")
A = TypeVar("A", bound=Dim)
N = TypeVar("N", bound=BaseNode)
Bs = TypeVarTuple("Bs")


class Causal(Node[Any, tuple[*Bs]], Generic[A, *Bs], abstract=True):
    """The type of a node that is proved causal along an axis: `Causal[Time, Batch, Time, Width]`.

    `prove(node).causal(Time)` returns it; a function with a parameter of this type takes no unproved node, says the
    type checker. The last arguments are the axes of the node, as in `Tensor`.
    """

    __slots__ = ()


class Independent(Node[Any, tuple[*Bs]], Generic[A, *Bs], abstract=True):
    """The type of a node whose rows along an axis are proved independent: `Independent[Batch, Batch, Classes]`.

    `prove(node).independent(Batch)` returns it; see `Causal`.
    """

    __slots__ = ()


class Claims(Generic[S]):
    """Claims about a node: each method proves one and returns the node, or raises `NotProved`; see `prove`.

    They hold for all values of the inputs that are finite numbers, and for all sizes of open axes.
    """

    def __init__(self, node: BaseNode) -> None:
        self.node = node
        # What the proofs suppose, as texts: scores of -1e9 have no weight, for example.
        self.assumed: list[str] = []
        self._inputs: list[BaseNode] = [
            leaf for leaf in topological_order([node]) if isinstance(leaf, Input | IndexInput) and not leaf.is_argument
        ]

    def causal(self: Claims[tuple[*Bs]], axis: type[A] | A, *, strict: bool = False) -> Causal[A, *Bs]:
        """Prove that no position along an axis depends on later positions of the inputs; nor, if `strict`, on its own.

        >>> class Time(wy.Dim): ...
        >>> x = wy.Input(dims=(Time(),))
        >>> wy.prove(x.cumsum(axis=0)).causal(Time) is not None
        True

        Raise `NotProved` where that does not follow, `ShapeError` for an axis that the node or all inputs lack.
        """
        what = "depends on " + ("its own or " if strict else "") + "later positions of"
        help = (
            "put a position before the first one and leave out the last, as in wy.pad(x, (1, 0))[:-1]" if strict else ""
        )
        proved: Causal[A, *Bs] = self._within(
            axis, "causal", -inf, -1 if strict else 0, what, "strict=True" if strict else "", help
        )
        return proved

    def independent(self: Claims[tuple[*Bs]], axis: type[A] | A) -> Independent[A, *Bs]:
        """Prove that each position along an axis depends only on that position of the inputs.

        Raise `NotProved` where that does not follow, as for batch normalization in training, whose statistics are those
        of all rows; `ShapeError` for an axis that the node or all inputs lack.
        """
        proved: Independent[A, *Bs] = self._within(axis, "independent", 0, 0, "depends on other positions of")
        return proved

    def local(self, axis: type[Dim] | Dim, *, before: int, after: int = 0) -> Node[Any, S]:
        """Prove that position i along an axis depends only on those from `i - before` to `i + after` of the inputs.

        Raise `NotProved` where that does not follow, `ShapeError` for an axis that the node or all inputs lack.
        """
        options = f"before={before}, after={after}"
        proved: Node[Any, S] = self._within(
            axis, "local", -before, after, "depends on positions outside of its window of", options
        )
        return proved

    def excludes(self, axis: type[Dim] | Dim) -> Node[Any, S]:
        """Prove that no position along an axis depends on that position of the inputs, as negatives of a batch.

        Raise `NotProved` where that does not follow, `ShapeError` for an axis that the node or all inputs lack.
        """
        help = (
            "leave out the own position before what reduces the others: with i = wy.arange(axis), as in "
            "wy.where(i[:, None] != i[None, :], scores, -np.inf), or times 1 - wy.eye(axis)"
        )
        proved: Node[Any, S] = self._within(axis, "excludes", None, None, "depends on its own position of", help=help)
        return proved

    def prefix(self, axis: type[Dim] | Dim) -> Node[Any, S]:
        """Prove that a shorter input, the first positions along an axis, gives the same numbers at these positions.

        That is more than being causal: `x * t / T` for position t of T is causal, and changes with the number T of
        positions. Raise `NotProved` where it does not follow, and `ShapeError` for an axis that the node or all inputs
        lack, or that has a size: there is no shorter input.
        """
        kind = named_axis(axis, "prefix")
        claim = f"prefix({kind.__name__})"
        place = self._place(kind, claim)
        size = axis_size(self.node.dims[place])
        if size is not None:
            raise ShapeError(
                f"{claim}: {describe(self.node)} has {size} positions for all inputs, so there is no shorter one: "
                f"leave the size to the data, {kind.__name__}()"
            )
        self._within(axis, "prefix", -inf, 0, "depends on later positions of")
        analysis = SizeAnalysis(self.node, kind)
        what = f"elements depend on the number of positions along {kind.__name__}"
        help = (
            f"count the positions so far, wy.arange({kind.__name__}()) + 1, in place of all; index from the first one"
        )
        self._decide(analysis, claim, what, help=help)
        proved: Node[Any, S] = self._proved()
        return proved

    def equivariant(self, axis: type[Dim] | Dim) -> Node[Any, S]:
        """Prove that a permutation of all inputs along an axis permutes the result in the same way.

        Raise `NotProved` where that does not follow, as for a parameter with that axis, and `ShapeError` for an axis
        that the node or all inputs lack.
        """
        proved: Node[Any, S] = self._symmetric(axis, "equivariant")
        return proved

    def invariant(self, axis: type[Dim] | Dim) -> Node[Any, S]:
        """Prove that a permutation of all inputs along an axis does not change the node, which lacks the axis.

        Raise `NotProved` where that does not follow, and `ShapeError` for an axis that the node has or all inputs lack.
        """
        proved: Node[Any, S] = self._symmetric(axis, "invariant")
        return proved

    def ignores(self, *others: BaseNode) -> Node[Any, S]:
        """Prove that the node depends on none of some nodes before it, such as the labels.

        A node that is not before it is ignored. Raise `NotProved` where that does not follow.
        """
        for other in others:
            if not isinstance(other, BaseNode):
                raise TypeError(f"ignores takes nodes, such as the input of the labels, not {other!r}")
            analysis = Analysis([self.node], {other: None})
            help = f"leave {label(other)} out of what the ops on the path read"
            self._decide(analysis, f"ignores({label(other)})", "it depends on", help=help)
        proved: Node[Any, S] = self._proved()
        return proved

    # --- the proof ------------------------------------------------------------------------------------------------

    def _within(
        self, axis: Any, name: str, low: float | None, high: float | None, what: str, options: str = "", help: str = ""
    ) -> Any:
        """Prove bounds of the position of the inputs by that of the node; without bounds, that they differ."""
        kind = named_axis(axis, name)
        claim = f"{name}({', '.join(filter(None, (kind.__name__, options)))})"
        place = self._place(kind, claim)
        sources = self._sources(kind, claim)
        analysis = Analysis([self.node], sources)
        known = analysis.known[self.node]
        entry, dim = known.axes[place], self.node.dims[place]
        if isinstance(dim, Times) and len(entry) == len(dim.parts):
            entry = tuple(atom for atom, part in zip(entry, dim.parts, strict=True) if type(part) is kind)

        def fits(bounds: Bounds, atom: int | None) -> bool:
            if atom is None:
                return False
            if low is None or high is None:
                return any(analysis.limited(bounds, u, v, -1) for u, v in ((SOURCE, atom), (atom, SOURCE)))
            upper = high == inf or analysis.limited(bounds, SOURCE, atom, high)
            return upper and (low == -inf or analysis.limited(bounds, atom, SOURCE, -low))

        atom = entry[0] if len(entry) == 1 and entry[0] > 0 else None
        if name == "local" and atom is not None:
            back, ahead = analysis.window(known.zones, atom)
            window = f"before={max(back, 0):g}, after={max(ahead, 0):g}"
            help = (
                f"claim local({kind.__name__}, {window}), or read fewer positions"
                if back < inf and ahead < inf
                else "only ops with windows are local, such as slices, shifts and convolutions"
            )
        self._decide(analysis, claim, f"a position along {kind.__name__} {what}", atom, fits, help)
        return self._proved()

    def _symmetric(self, axis: Any, name: str) -> Any:
        kind = named_axis(axis, name)
        claim = f"{name}({kind.__name__})"
        analysis = SymmetryAnalysis(self.node, kind)
        made = [axis for axis in self.node.dims if analysis.is_made_of(axis)]
        if name == "invariant" and made:
            raise ShapeError(f"{claim}: {describe(self.node)} has that axis: claim equivariant({kind.__name__})")
        if name == "equivariant":
            self._place(kind, claim)
            derived = [axis for axis in made if not analysis.is_of(axis)]
            if derived:
                raise ShapeError(f"{claim}: {describe(self.node)} has {derived[0]!r}, which is made of that axis")
        self._sources(kind, claim)
        what = f"not all positions along {kind.__name__} are treated alike, in every order"
        help = (
            f"ops that do so are sums, means, maxima and sorted elements along {kind.__name__}, and those of each "
            f"position alone, without positions, parameters and masks along it"
        )
        self._decide(analysis, claim, what, help=help)
        return self._proved()

    def _place(self, kind: type[Dim], claim: str) -> int:
        """Return the position of an axis of the node; raise `ShapeError` unless it has it once."""
        help = ""
        for axis in {axis for leaf in self._inputs for axis in leaf.dims if type(axis) is kind and axis.size}:
            places = [k for k, other in enumerate(self.node.dims) if other == axis.size]
            if len(places) == 1:
                named = (*self.node.dims[: places[0]], axis, *self.node.dims[places[0] + 1 :])
                help = f"; if it is the one of size {axis.size}, name it: .reshape({format_dims(named)})"
        if not help:
            help = self._lost_name(kind)
        found = position_of(self.node, kind, claim, help=help)
        assert found is not None
        return found

    def _lost_name(self, kind: type[Dim]) -> str:
        """Return which reshape lost an axis, and what would keep it."""
        for node in reversed(topological_order([self.node])):
            if node.same_elements and not any(_is_of(axis, kind) for axis in node.dims):
                for axis in node.parents[0].dims:
                    if _is_of(axis, kind):
                        place = f"reshape at {node.location}"
                        return f"; {place} lost it: keep it there, as in .reshape((batch, {axis!r}, -1))"
        return ""

    def _sources(self, kind: type[Dim], claim: str) -> dict[BaseNode, int]:
        """Return the inputs with an axis, and its position; raise `ShapeError` if there is none."""
        sources = {leaf: k for leaf in self._inputs if (k := position_of(leaf, kind, claim, optional=True)) is not None}
        if not sources:
            raise ShapeError(
                f"{claim}: no input of {describe(self.node)} has the axis {kind.__name__}; its inputs are "
                f"{', '.join(f'{label(leaf)} {format_dims(leaf.dims)}' for leaf in self._inputs) or 'none'}"
            )
        return sources

    def _decide(
        self,
        analysis: Analysis,
        claim: str,
        what: str,
        atom: int | None = None,
        fits: Fits = never,
        help: str = "",
    ) -> None:
        """Raise `NotProved` for the zone with the shortest path that does not fit; keep what the proof supposes."""
        wrong = [zone for zone in analysis.known[self.node].zones if not fits(zone.bounds, atom)]
        if wrong:
            text = f"not proved: {claim} of {described(self.node)}: {what}"
            raise NotProved(explained(text, self.node, analysis, min(wrong, key=lambda z: z.depth), atom, fits, help))
        self.assumed = list(dict.fromkeys([*self.assumed, *analysis.assumed]))

    def _proved(self) -> Any:
        return self.node


def named_axis(axis: object, claim: str) -> type[Dim]:
    """Return the class of an axis; raise `TypeError` for anything else."""
    if isinstance(axis, Dim):
        return type(axis)
    if isinstance(axis, type) and issubclass(axis, Dim) and axis is not Dim:
        return axis
    raise TypeError(
        f"{claim} takes the name of an axis, a class as in {claim}(Time) after class Time(wy.Dim): ..., not {axis!r}"
    )


def position_of(node: BaseNode, kind: type[Dim], claim: str, *, optional: bool = False, help: str = "") -> int | None:
    """Return the position of a named axis, or of one made of it; raise `ShapeError` unless there is one.

    `help` says what would give a node the axis that lacks it.
    """
    found = [k for k, axis in enumerate(node.dims) if _is_of(axis, kind)]
    if len(found) == 1:
        return found[0]
    if not found and optional:
        return None
    has = f"lacks that axis{help}" if not found else "has that axis twice: give one of them a class of its own"
    raise ShapeError(f"{claim}: {describe(node)} {has}")


def _is_of(axis: Any, kind: type[Dim]) -> bool:
    if not isinstance(axis, Dim):
        return False
    if isinstance(axis, Times):
        return any(_is_of(part, kind) for part in axis.parts)
    return type(axis) is kind or type(expression_of(axis)[0]) is kind


if TYPE_CHECKING:

    @overload
    def prove(node: Node[Any, S]) -> Claims[S]: ...
    @overload
    def prove(node: BaseNode[Any, S]) -> Claims[S]: ...


def prove(node: Any) -> Any:
    """Return the claims about a node that can be proved before anything runs, such as `.causal(Time)`.

    What each element may depend on follows from the graph: from formulas, reductions, index maps and masks made of
    `wy.arange`, constants, comparisons and `where`. A claim returns the node, or raises `NotProved`, which names the op
    and the line. It is proved for all finite values and for all sizes of open axes; what is not proved may still hold,
    as where terms cancel or where a mask is data.

    >>> class Time(wy.Dim): ...
    >>> time = Time()
    >>> x = wy.Input(dims=(time, 4), name="x")
    >>> t = wy.arange(time)
    >>> weights = wy.where(t[:, None] >= t[None, :], x @ x.T, -np.inf).softmax()
    >>> wy.prove(weights @ x).causal(Time) is not None
    True
    >>> weights = wy.where(t[:, None] + 1 >= t[None, :], x @ x.T, -np.inf).softmax()
    >>> try:
    ...     wy.prove(weights @ x).causal(Time)
    ... except wy.errors.NotProved as error:
    ...     print(str(error).splitlines()[0])  # doctest: +ELLIPSIS
    not proved: causal(Time) of matmul (Time(), 4) float32 (at ...): a position along Time depends on later positions...

    Raise `TypeError` for anything but a node.
    """
    if not isinstance(node, BaseNode):
        raise TypeError(f"prove takes a node, not {type(node).__name__}: build the model's output and prove that")
    return Claims(node)
