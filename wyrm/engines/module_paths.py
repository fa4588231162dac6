"""The paths of parameters and buffers in the modules that built a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from wyrm.graph.base import BaseNode
from wyrm.graph.source_location import ModuleCall


def outermost_modules(nodes: Iterable[BaseNode]) -> list[Any]:
    """Return the outermost modules that built nodes, in the order of their first node, if they still exist."""
    modules: dict[int, Any] = {}
    call: ModuleCall | None
    for call in dict.fromkeys(node.origin[2] for node in nodes):
        while call is not None and call.outer is not None:
            call = call.outer
        module = call.called() if call is not None and call.called is not None else None
        if module is not None:
            modules[id(module)] = module
    return list(modules.values())


def paths_of_leaves(nodes: Iterable[BaseNode]) -> dict[BaseNode, str]:
    """Return the paths of parameters and buffers in the outermost modules that built nodes.

    They are those of `state_dict`. Where the modules are several, a path begins with the class of its module, numbered
    where several have the same, as in `linear_0.weight`.

    >>> from wyrm.engines.module_paths import paths_of_leaves
    >>> x = wy.Constant([1.0, 2.0])
    >>> first, second = wy.nn.Linear(2, 2), wy.nn.Linear(2, 1)
    >>> list(paths_of_leaves([first(x)]).values())
    ['weight', 'bias']
    >>> list(paths_of_leaves([first(x), second(x)]).values())
    ['linear_0.weight', 'linear_0.bias', 'linear_1.weight', 'linear_1.bias']
    """
    modules = outermost_modules(nodes)
    kinds = [type(module).__name__.lower() for module in modules]
    counts, numbers = Counter(kinds), Counter[str]()
    paths: dict[BaseNode, str] = {}
    for module, kind in zip(modules, kinds, strict=True):
        prefix = ""
        if len(modules) > 1:
            prefix = f"{kind}_{numbers[kind]}." if counts[kind] > 1 else f"{kind}."
            numbers[kind] += 1
        with suppress(ValueError):  # two of its parameters have the same path
            narrow = [part for path, weight in module.named_narrow_weights() for part in weight.parts(path)]
            for path, leaf in (*module.named_parameters(), *module.named_buffers(), *narrow):
                paths.setdefault(leaf, f"{prefix}{path}")
    return paths
