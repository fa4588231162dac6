"""A third engine: it writes the nodes of a program as lines of Python on NumPy arrays, and runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypedDict

import numpy as np

from wyrm.engines.simple import ShapeOf, SimpleEngine, ValueOf, by_numpy
from wyrm.errors import OptionError
from wyrm.graph.base import BaseNode
from wyrm.ops.elementwise.formula import FormulaCall, array_function, interpret


class WrittenOptions(TypedDict, total=False):
    """The engine's own option."""

    comments: bool


class WrittenEngine(SimpleEngine):
    """Runs a program as Python source, of which each line computes a node."""

    Options: ClassVar[type] = WrittenOptions
    refusals: ClassVar[Mapping[str, str]] = {"profile": "engine='written' has no clocks: measure calls with timeit"}

    @classmethod
    def check_options(cls, options: Mapping[str, Any]) -> None:
        if options.get("comments") not in (None, True, False):
            raise OptionError(f"comments must be True or False, not {options['comments']!r}")

    def __init__(
        self, outputs: Sequence[BaseNode], optimizer: Any, *, evaluates: bool = False, comments: bool = False
    ) -> None:
        super().__init__(outputs, optimizer, evaluates=evaluates)
        self._names: dict[str, Any] = {"np": np, "by_numpy": by_numpy, "inf": np.inf, "nan": np.nan}
        self._comments = comments
        self._source = self._written()
        exec(compile(self._source, "<written>", "exec"), self._names)

    # --- the source -----------------------------------------------------------------------------------------------

    @property
    def source(self) -> str:
        return self._source

    def compute(self, value_of: ValueOf, shape_of: ShapeOf) -> Sequence[Any]:
        values: Sequence[Any] = self._names["compute"](value_of, shape_of)
        return values

    def _written(self) -> str:
        """Return the source of `compute(leaves, shape_of)`, which returns the values of `targets.nodes`."""
        schedule = self.graph.schedule
        position, lines = schedule.position, ["def compute(leaves, shape_of):"]
        for i, (node, parents) in enumerate(zip(schedule.nodes, schedule.parent_positions, strict=True)):
            self._names[f"n{i}"] = node
            operands = [f"v{parent}" for parent in parents]
            if node.is_leaf:
                value = f"leaves(n{i})"
            elif node.formula:
                value = f"np.asarray({self._formula(node, i, operands)}, n{i}.dtype)"
            else:
                value = f"by_numpy(n{i}, [{', '.join(operands)}], shape_of(n{i}))"
            comment = f"  # {node.op_name()}" if self._comments else ""
            lines.append(f"    v{i} = {value}{comment}")
        results = ", ".join(f"v{position[node]}" for node in self.graph.targets.nodes)
        return "\n".join([*lines, f"    return [{results}]", ""])

    def _formula(self, node: BaseNode, i: int, operands: list[str]) -> str:
        def attribute(name: str) -> str:
            self._names[f"a{i}_{name}"] = getattr(node, name)
            return f"a{i}_{name}"

        def call(_: int, each: FormulaCall, arguments: list[str]) -> str:
            self._names[f"f_{each.function}"] = array_function(np, each.function)
            return f"f_{each.function}({', '.join(arguments)})"

        return interpret(node.formula, operands, attribute, repr, call)
