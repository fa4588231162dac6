"""Finds out which index was out of range by repeating a step in NumPy; native code only reports that one was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wyrm.compiler.arguments import Binding
from wyrm.errors import IndexOutOfRange, WyrmError
from wyrm.node.base import BaseNode
from wyrm.node.storage import bound_array
from wyrm.ops.loop_body import value_of
from wyrm.ops.scratch import DEBUG, OUT_OF_RANGE
from wyrm.schedule.schedule import Schedule


def index_error(name: str, schedule: Schedule, binding: Binding, error: IndexError) -> Exception:
    """Return the error to raise for an `IndexError` of native code.

    Debug mode checks every array access; there, an error that no index check raised is an access outside an array.
    """
    if DEBUG and str(error) != OUT_OF_RANGE:
        return AssertionError(f"{name}: native code reads or writes outside of an array: {error}")
    reason = _wrong_index(schedule, binding)
    which = "" if reason is None else f": {reason}"
    return IndexOutOfRange(f"{name}: an index is out of range{which}; no parameter has moved in this step")


def _wrong_index(schedule: Schedule, binding: Binding) -> str | None:
    """Describe the first invalid index of the step whose data is bound: node, value, position and the op using it."""
    buffers = binding.source.lowering.buffers
    values: dict[BaseNode, Any] = {}
    try:
        with np.errstate(all="ignore"):
            for node in schedule.nodes:
                if node.is_leaf:
                    values[node] = np.array(binding.array(buffers[node]) if node in buffers else bound_array(node))
                else:
                    values[node] = value_of(np, node, _parent_values(schedule, node, values), binding.sizes)
    except IndexOutOfRange as error:
        return str(error)
    except WyrmError:  # the reference engine rejects another value: no more is known
        return None
    return None


def _parent_values(schedule: Schedule, node: BaseNode, values: Mapping[BaseNode, Any]) -> dict[BaseNode, Any]:
    """Return the values of the node's parents."""
    return {parent: values[schedule.representative[parent]] for parent in node.parents}
