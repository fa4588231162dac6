"""Finds the cause of an error of native code, which only reports its kind, by repeating the step in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wyrm.engines.native.stages.memory import Binding
from wyrm.errors import IndexOutOfRange, LinAlgError, WyrmError
from wyrm.graph.base import BaseNode
from wyrm.graph.schedule import Schedule
from wyrm.graph.storage import bound_array
from wyrm.ops.control.loop_body import value_of
from wyrm.ops.kernels.scratch import DEBUG, NO_SOLUTION, OUT_OF_RANGE


def index_error(name: str, schedule: Schedule, binding: Binding, error: IndexError) -> Exception:
    """Return the error to raise for an `IndexError` of native code, which stands for a `LinAlgError` too.

    Debug mode checks every array access; there, an error that no index check raised is an access outside an array.
    """
    unsolvable = str(error) == NO_SOLUTION
    if DEBUG and not unsolvable and str(error) != OUT_OF_RANGE:
        return AssertionError(f"{name}: native code reads or writes outside of an array: {error}")
    cause = _cause(schedule, binding)
    kind, known = (LinAlgError, NO_SOLUTION) if unsolvable else (IndexOutOfRange, "an index is out of range")
    which = f": {cause}" if isinstance(cause, kind) else ""
    return kind(f"{name}: {known}{which}; no parameter has moved in this step")


def _cause(schedule: Schedule, binding: Binding) -> WyrmError | None:
    """Return the first error of the step whose data is bound; it names the node, the operands and the user's line."""
    buffers = binding.source.lowering.buffers
    values: dict[BaseNode, Any] = {}
    try:
        with np.errstate(all="ignore"):
            for node in schedule.nodes:
                if node.is_leaf:
                    values[node] = np.array(binding.array(buffers[node]) if node in buffers else bound_array(node))
                else:
                    values[node] = value_of(np, node, _parent_values(schedule, node, values), binding.sizes)
    except WyrmError as error:
        return error
    return None


def _parent_values(schedule: Schedule, node: BaseNode, values: Mapping[BaseNode, Any]) -> dict[BaseNode, Any]:
    """Return the values of the node's parents."""
    return {parent: values[schedule.representative[parent]] for parent in node.parents}
