"""Which index was out of range, where native code has only told that one was: the step once more, by NumPy."""

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
    """What to raise for an `IndexError` of native code.

    One that no check of an index has raised comes from the debug mode, where every access to an array is checked.
    """
    if DEBUG and str(error) != OUT_OF_RANGE:
        return AssertionError(f"{name}: native code reads or writes outside of an array: {error}")
    reason = _wrong_index(schedule, binding)
    which = "" if reason is None else f": {reason}"
    return IndexOutOfRange(f"{name}: an index is out of range{which}; no parameter has moved in this step")


def _wrong_index(schedule: Schedule, binding: Binding) -> str | None:
    """The node, the value, its position and the op that chooses by it, of the step whose data a binding has."""
    buffers = binding.source.lowering.buffers
    found: dict[BaseNode, Any] = {}
    try:
        with np.errstate(all="ignore"):
            for node in schedule.nodes:
                if node.is_leaf:
                    found[node] = np.array(binding.array(buffers[node]) if node in buffers else bound_array(node))
                else:
                    found[node] = value_of(np, node, _of_parents(schedule, node, found), binding.sizes)
    except IndexOutOfRange as error:
        return str(error)
    except WyrmError:  # a value that only the reference engine refuses: there is no more to tell
        return None
    return None


def _of_parents(schedule: Schedule, node: BaseNode, found: Mapping[BaseNode, Any]) -> dict[BaseNode, Any]:
    """The values of the parents, by the parents themselves."""
    return {parent: found[schedule.representative[parent]] for parent in node.parents}
