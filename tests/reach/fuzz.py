"""The analysis of reach compared with random graphs: `python -m tests.reach.fuzz 20000` checks so many."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

import wyrm as wy
from tests.reach.graphs import GENERATORS, Graph, graphs
from wyrm.engines.numpy.reference import ReferenceRunner
from wyrm.errors import NotProved, ShapeError
from wyrm.graph.axes import axis_size
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.index_leaves import IndexInput
from wyrm.reach.rules import Reached
from wyrm.reach.symmetry import SymmetryAnalysis
from wyrm.testing.reaching import Wrong, unsound


def wrong(graph: Graph, seed: int) -> Wrong | None:
    """Return what an analysis of a graph says that is not so."""
    compute = _Computer(graph)
    found = unsound(graph.nodes, graph.leaves, compute, graph.sizes, seed)
    return found or _ordered(graph, compute, seed) or _shortened(graph, compute)


class _Computer:
    """The values of the nodes of a graph, for arrays of its leaves."""

    def __init__(self, graph: Graph) -> None:
        self.nodes, self.runner = graph.nodes, ReferenceRunner(graph.nodes)

    def __call__(self, leaves: Mapping[BaseNode, np.ndarray]) -> Sequence[np.ndarray]:
        for leaf, array in leaves.items():
            leaf.set(array)  # type: ignore[attr-defined]  # leaves that take data
        wy.random.set_step(0)
        with np.errstate(all="ignore"):
            plan = self.runner.run()
        return [np.array(plan.value(node)) for node in self.nodes]


def axes_of(node: BaseNode, kind: type[wy.Dim]) -> list[int]:
    """Return the positions of the axes of a class."""
    return [k for k, axis in enumerate(node.dims) if type(axis) is kind]


def permuted(array: np.ndarray, node: BaseNode, kind: type[wy.Dim], order: np.ndarray) -> np.ndarray:
    """Return an array of a node in another order along all axes of a class."""
    for k in axes_of(node, kind):
        array = np.take(array, order, k)
    return array


def unordered(graph: Graph, kind: type[wy.Dim]) -> tuple[list[BaseNode], list[BaseNode]]:
    """Return the nodes that are said to be permuted as the inputs are along an axis, and those to stay as they are."""
    known, alike, fixed = dict[BaseNode, tuple[SymmetryAnalysis, Reached]](), list[BaseNode](), list[BaseNode]()
    for node in reversed(graph.nodes):
        if node not in known:
            analysis = SymmetryAnalysis(node, kind)
            known |= {each: (analysis, reached) for each, reached in analysis.known.items()}
        analysis, reached = known[node]
        if not reached.zones and all(analysis.is_of(axis) or not analysis.is_made_of(axis) for axis in node.dims):
            alike.append(node)
        if reached.fixed:
            fixed.append(node)
    return alike, fixed


def by_rounding(nodes: Sequence[BaseNode], values: Mapping[BaseNode, np.ndarray], rounding: float) -> set[BaseNode]:
    """Return the nodes at and behind an order of elements that only rounding decides, as two of them are almost equal.

    Elements that are exactly equal have an order of their own.
    """
    found = set[BaseNode]()
    for node in nodes:
        (x, *_) = node.parents or (node,)
        if node.dtype.kind == "i" and x.dtype.kind == "f" and x in values and hasattr(node, "axis"):
            with np.errstate(invalid="ignore"):  # equal infinities
                gaps = np.diff(np.sort(values[x], axis=node.axis), axis=node.axis)
            if ((gaps > 0) & (gaps <= rounding)).any():
                found.add(node)
        if not found.isdisjoint(node.parents):
            found.add(node)
    return found


def _ordered(graph: Graph, compute: _Computer, seed: int) -> Wrong | None:
    """Return the first node that changes with the order of the inputs in another way than is said."""
    inputs = [leaf for leaf in graph.leaves if isinstance(leaf, wy.Input | IndexInput)]
    before, random = compute(graph.leaves), np.random.default_rng(seed)
    # Sums in another order are rounded in another way, also where they cancel; 1e6 is below masked scores.
    rounding = 1e-12 * max(float(np.abs(each[np.abs(each) < 1e6]).max(initial=1.0)) for each in before)
    for kind in {type(axis) for leaf in inputs for axis in leaf.dims if isinstance(axis, wy.Dim)} & graph.sizes.keys():
        alike, fixed = map(set, unordered(graph, kind))
        for _ in range(2 if alike or fixed else 0):
            order = random.permutation(graph.sizes[kind])
            turned: dict[BaseNode, np.ndarray] = {
                leaf: permuted(graph.leaves[leaf], leaf, kind, order) for leaf in inputs
            }
            after = compute({**graph.leaves, **turned})
            unsure = set[BaseNode]().union(
                *(
                    by_rounding(graph.nodes, dict(zip(graph.nodes, each, strict=True)), rounding)
                    for each in (before, after)
                )
            )
            for node, old, new in zip(graph.nodes, before, after, strict=True):
                if node in unsure:
                    continue
                expected = [permuted(old, node, kind, order)] * (node in alike) + [old] * (node in fixed)
                if not all(np.allclose(each, new, 1e-9, rounding, True) for each in expected):
                    return Wrong(node, f"it depends on the order {order} of {kind.__name__}, which it is said not to")
    return None


def prefixes(graph: Graph, kind: type[wy.Dim]) -> list[BaseNode]:
    """Return the last nodes with an axis that are proved to begin with the results of a shorter input."""
    found: list[BaseNode] = []
    for node in graph.nodes[-8:]:
        if len(axes_of(node, kind)) == 1:
            with suppress(NotProved, ShapeError):
                found.append(wy.prove(node).prefix(kind))
    return found


def _shortened(graph: Graph, compute: _Computer) -> Wrong | None:
    """Return the first node whose first elements are others for a shorter input, though that is proved not to be."""
    for kind in {type(axis) for leaf in graph.leaves for axis in leaf.dims if axis_size(axis) is None}:
        end = graph.sizes[kind] - 1
        proved = set(prefixes(graph, kind))
        if not proved:
            continue
        short = {leaf: beginning(array, leaf, kind, end) for leaf, array in graph.leaves.items()}
        whole = compute(graph.leaves)
        try:
            part = compute(short)
        except wy.WyrmError:  # a slice that needs more positions
            continue
        for node, old, new in zip(graph.nodes, whole, part, strict=True):
            if node in proved and not np.allclose(beginning(old, node, kind, end), new, 1e-9, 1e-9, True):
                return Wrong(node, f"it depends on the number of positions along {kind.__name__}")
    return None


def beginning(array: np.ndarray, node: BaseNode, kind: type[wy.Dim], end: int) -> np.ndarray:
    """Return the first elements of an array of a node along the axes of a class."""
    return array[tuple(slice(end) if type(axis) is kind else slice(None) for axis in node.dims)]


def check(name: str, first: int, count: int, ops: Counter[str] | None = None) -> str | None:
    """Return the first graph of a generator of which an analysis says something that is not so."""
    for seed, graph in graphs(name, first, count):
        if ops is not None:
            ops.update({type(node).__name__ for node in graph.nodes})
        found = wrong(graph, seed)
        if found is not None:
            return f"{name} {seed}: {describe(found.node)}: {found.text}"
    return None


def main(count: int, first: int = 0) -> int:
    """Check graphs of all generators in turn; return 1 if one is wrong."""
    ops: Counter[str] = Counter()
    failed, share = 0, max(1, count // len(GENERATORS))
    for name in GENERATORS:
        seed, end = first, first + share
        while seed < end:
            found = check(name, seed, min(100, end - seed), ops)
            if found is not None:
                failed += 1
                sys.stdout.write(f"{found}\n")
                sys.stdout.flush()
                seed = int(found.split(":")[0].split()[1]) + 1
            else:
                seed += 100
        sys.stdout.write(f"{name}: {share} graphs\n")
        sys.stdout.flush()
    sys.stdout.write(f"{failed} unsound; {len(ops)} classes of ops: {', '.join(sorted(ops))}\n")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main(*(int(each) for each in sys.argv[1:])))
