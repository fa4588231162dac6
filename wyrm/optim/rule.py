"""Running an optimizer's rule on NumPy arrays: the calls of its graph, one after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.engine.numpy_functions import numpy_function
from wyrm.errors import RegistrationError
from wyrm.node.base import BaseNode
from wyrm.node.leaves import Constant
from wyrm.node.storage import bound_array, is_leaf
from wyrm.ops.formula import parse
from wyrm.schedule.schedule import Schedule

_Call = tuple[Callable[..., Any], tuple[int, ...], int]


class Rule:
    """The graph of an elementwise update as a flat list of calls on numbered values.

    `inputs` are the leaves by name; calling the rule with an array for each gives the values of `outputs`. The arrays
    of one call broadcast against each other, so the same rule serves whole parameters and some of their rows.
    """

    def __init__(self, inputs: Mapping[str, BaseNode[Any, Any]], outputs: Sequence[BaseNode[Any, Any]]) -> None:
        schedule = Schedule(outputs)
        self.inputs = list(inputs)
        self._values: list[Any] = [None] * len(inputs)
        slot: dict[BaseNode[Any, Any], int] = {node: i for i, node in enumerate(inputs.values())}
        self._calls: list[_Call] = []
        for node in schedule.nodes:
            if node in slot:
                continue
            if isinstance(node, Constant):
                slot[node] = self._constant(bound_array(node))
            elif is_leaf(node) or node.formula is None:
                raise RegistrationError(
                    f"an optimizer's rule is elementwise and starts from its arguments; {node.op_name()} is not"
                )
            else:
                slot[node] = self._formula(node, [slot[parent] for parent in schedule.parents(node)])
        self._outputs = [slot[output] for output in schedule.outputs]

    def _constant(self, array: NDArray[Any]) -> int:
        self._values.append(array)
        return len(self._values) - 1

    def _formula(self, node: BaseNode[Any, Any], operands: list[int]) -> int:
        def constant(value: float) -> int:
            return self._constant(np.asarray(value, node.dtype))

        results: list[int] = []
        for call in parse(node.formula or ""):
            arguments = call.resolve(node, operands, results, constant)
            self._values.append(None)
            results.append(len(self._values) - 1)
            self._calls.append((numpy_function(call.function), tuple(arguments), results[-1]))
        return results[-1]

    def __call__(self, *arrays: NDArray[Any]) -> list[NDArray[Any]]:
        values = [*arrays, *self._values[len(arrays) :]]
        with np.errstate(all="ignore"):
            for function, arguments, result in self._calls:
                values[result] = function(*[values[argument] for argument in arguments])
        return [values[output] for output in self._outputs]
