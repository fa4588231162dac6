"""Names that tell the leaves of a graph apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from wyrm.graph.base import BaseNode


def unique_names(leaves: Iterable[BaseNode], known: Mapping[BaseNode, str] | None = None) -> dict[BaseNode, str]:
    """Return a name for each leaf: the one in `known`, else its own, with a number where several have the same.

    >>> from wyrm.engines.jax.unique_names import unique_names
    >>> leaves = [wy.Parameter(1.0, name="weight"), wy.Parameter(2.0, name="weight"), wy.Parameter(3.0)]
    >>> list(unique_names(leaves).values())
    ['weight_0', 'weight_1', 'parameter']
    """
    known = known or {}
    wanted = {leaf: known.get(leaf) or leaf.name or type(leaf).__name__.lower() for leaf in leaves}
    counts = Counter(wanted.values())
    taken = {name for name, count in counts.items() if count == 1}
    names: dict[BaseNode, str] = {}
    numbers: Counter[str] = Counter()
    for leaf, name in wanted.items():
        unique = name
        while counts[name] > 1 and (unique == name or unique in taken):
            unique = f"{name}_{numbers[name]}"
            numbers[name] += 1
        taken.add(unique)
        names[leaf] = unique
    return names
