"""Which index was out of range, where native code has only told that one was: the step once more, by NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wyrm.engine.native.binding import Binding
from wyrm.errors import IndexOutOfRange, WyrmError
from wyrm.node.base import BaseNode
from wyrm.node.storage import bound_array, is_leaf
from wyrm.ops.body import value_of
from wyrm.schedule.schedule import Schedule


def wrong_index(schedule: Schedule, binding: Binding) -> str | None:
    """The node, the value, its position and the op that chooses by it, of the step whose data a binding has."""
    slots = binding.source.lowering.slots
    found: dict[BaseNode[Any, Any], Any] = {}
    try:
        with np.errstate(all="ignore"):
            for node in schedule.nodes:
                if is_leaf(node):
                    found[node] = np.array(binding.array(slots[node]) if node in slots else bound_array(node))
                else:
                    found[node] = value_of(np, node, _of_parents(schedule, node, found), binding.sizes)
    except IndexOutOfRange as error:
        return str(error)
    except WyrmError:  # a value that only the reference engine refuses: there is no more to tell
        return None
    return None


def _of_parents(
    schedule: Schedule, node: BaseNode[Any, Any], found: Mapping[BaseNode[Any, Any], Any]
) -> dict[BaseNode[Any, Any], Any]:
    """The values of the parents, by the parents themselves."""
    return {parent: found[schedule.representative[parent]] for parent in node.parents}
