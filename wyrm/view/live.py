"""The program that a live page carries: WebAssembly that computes the value of every node from those of the inputs."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wyrm.errors import OptionError
from wyrm.exporting import wasm
from wyrm.exporting.building import build
from wyrm.exporting.exported import target_named
from wyrm.exporting.interface import Role
from wyrm.exporting.plan import Given
from wyrm.graph.axes import Dim
from wyrm.graph.base import label
from wyrm.graph.ragged import refuse_ragged
from wyrm.graph.storage import bound_array, stored
from wyrm.train.compiling import compile
from wyrm.view.graph_data import GraphData

# The most bytes of parameters and buffers, and of all values together.
_MOST_BYTES = 64 << 20
_MOST_MEMORY = 1 << 30
# JavaScript's numbers are exact up to here.
_EXACT = 2**53 - 1


@dataclass(frozen=True)
class LiveProgram:
    """A program in a page: the module of JavaScript that runs it, and what the page's own script needs to know."""

    script: str
    data: dict[str, Any]


def carried_program(graph: GraphData, sizes: Mapping[type[Dim], int]) -> LiveProgram:
    """Return the program of a graph; see `wyrm.view.page` for the sizes and errors."""
    refuse_ragged(graph.outputs, "a live page")
    nodes: list[Any] = [
        node for node in graph.computed_once
        if node.dtype.name in wasm.ARRAYS and (not node.is_leaf or node.is_parameter)
    ]  # fmt: skip
    if all(node.is_leaf for node in nodes):
        raise OptionError("a live page computes values, and this graph has no operation: page(x * 2, path, live=True)")
    weights = sum(bound_array(node).nbytes for node in nodes if node.is_parameter)
    if weights > _MOST_BYTES:
        raise OptionError(
            f"the parameters take {weights / 2**20:,.0f} MiB, and a live page carries at most {_MOST_BYTES >> 20}: "
            f"show a part of the model, or leave out live=True"
        )
    built = build(
        "model", target_named("wasm32", None, None), None, {"values": compile(nodes)}, 1, sizes, embed="float32"
    )
    memory = built.interface.memory_bytes
    if memory > _MOST_MEMORY:
        raise OptionError(
            f"the values of all nodes take {memory / 2**20:,.0f} MiB, and a live page has at most "
            f"{_MOST_MEMORY >> 20}: show a part of the model, or choose smaller sizes"
        )
    module = wasm.module_of(built.interface, *built.object_file())
    plan = built.predictions["values"]
    (function,) = [each for each in built.interface.functions if each.name == "model_values"]
    outputs = [each for each in function.parameters if each.role is Role.OUTPUT]
    return LiveProgram(
        f"{wasm.script(built.interface)}\nglobalThis.carriedProgram = {{ load }};\n",
        {
            "wasm": base64.b64encode(module).decode(),
            "inputs": [_input(each, graph) for each in plan.given],
            "outputs": [
                {"name": each.name, "node": graph.position[node], "shape": [1] * each.by_rows + list(each.shape)}
                for each, node in zip(outputs, nodes, strict=True)
            ],
        },
    )


def _input(given: Given, graph: GraphData) -> dict[str, Any]:
    """Return what the page knows of an input: its numbers at first, and the range of whole numbers."""
    leaf, low, high = given.leaf, None, None
    if leaf.dtype.kind == "b":
        low, high = 0, 1
    elif leaf.dtype.kind in "iu":
        own = np.iinfo(leaf.dtype)
        low = max(int(own.min), -_EXACT, *(limit.low for limit in given.limits))
        high = min(int(own.max), _EXACT, *(limit.high - 1 for limit in given.limits))
    return {
        "name": given.name,
        "label": label(leaf),
        "node": graph.position[leaf],
        "shape": list(given.shape),
        "low": low,
        "high": high,
        "values": _begun(given).ravel().tolist(),
    }


def _begun(given: Given) -> np.ndarray:
    """Return the data that an input holds, the first row of a batch, or zeros."""
    array = stored(given.leaf).array
    if array is not None and given.by_rows and len(array):
        array = array[0]
    if array is None or array.shape != given.shape or not np.isfinite(array).all():
        return np.zeros(given.shape, given.leaf.dtype)
    return np.asarray(array)
