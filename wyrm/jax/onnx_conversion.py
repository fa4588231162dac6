"""What jax2onnx and onnx_ir do in another way while they convert a graph of wyrm."""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from wyrm.support.imports import unread

# Takes the function of a package and returns the one that stands in its place.
Adapter = Callable[[Callable[..., Any]], Callable[..., Any]]


def _with_named_axes(original: Callable[..., Any]) -> Callable[..., Any]:
    """Take JAX's open axes in shapes by their names: `onnx_ir` asks them for integers, which they have not."""
    from jax.export import is_symbolic_dim

    def convert(dim: Any) -> Any:
        return original(str(dim) if is_symbolic_dim(dim) else dim)

    return convert


def _without_guesses(original: Callable[..., Any]) -> Callable[..., Any]:
    """Do not guess that an open first axis has the size of the first axis of an operand."""
    return lambda value: None


def _connected_by_its_graph(original: Callable[..., Any]) -> Callable[..., Any]:
    """Ask a value for its graph: jax2onnx compares it, after each operation, with the values of all before."""

    def is_connected(ctx: Any, value: Any) -> bool:
        graph, producer = ctx.builder.nodes, value.producer()
        if producer is None:
            is_found = value.graph is graph and (value.is_graph_input() or value.is_initializer())
        else:
            is_found = producer.graph is graph
        return bool(is_found or original(ctx, value))

    return is_connected


def _producer_by_its_value(original: Callable[..., Any]) -> Callable[..., Any]:
    """Ask a value for the node that computes it: jax2onnx makes a set of all nodes first, and searches their names."""

    def producer_of(nodes: Sequence[Any], value: Any) -> Any:
        if value is None or isinstance(value, str):
            return original(nodes, value)
        producer = value.producer()
        if producer is None and (value.is_graph_input() or value.is_initializer()):
            return None
        return producer if producer in nodes else original(nodes, value)

    return producer_of


def _consumers_by_their_value(original: Callable[..., Any]) -> Callable[..., Any]:
    """Ask a value for the nodes that read it, as for the one that computes it."""

    def consumers_of(nodes: Sequence[Any], value: Any) -> Any:
        if value is None or isinstance(value, str):
            return original(nodes, value)
        return [node for node in value.consumers() if node in nodes] or original(nodes, value)

    return consumers_of


# What stands in place of functions of jax2onnx, by their names and those of their parameters.
_OF_JAX2ONNX: dict[tuple[str, ...], Adapter] = {
    ("get_axis0_override", "value"): _without_guesses,
    ("_value_is_graph_connected", "ctx", "value"): _connected_by_its_graph,
    ("_producer_node", "nodes", "value_or_name"): _producer_by_its_value,
    ("_consumer_nodes", "nodes", "value_or_name"): _consumers_by_their_value,
}


@contextmanager
def adapted() -> Iterator[None]:
    """Return a context in which jax2onnx converts graphs with open axes, and large ones in linear time.

    Functions that another version of jax2onnx or `onnx_ir` lacks, or has with other parameters, stay as they are.
    """
    unread("jax2onnx.plugins.plugin_system").import_all_plugins()
    modules = [module for name, module in sys.modules.items() if name.startswith("jax2onnx.")]
    wanted: list[tuple[Any, tuple[str, ...], Adapter]] = [
        (unread("onnx_ir._core"), ("_maybe_convert_to_symbolic_dim", "dim"), _with_named_axes)
    ]
    wanted += [(module, key, adapter) for key, adapter in _OF_JAX2ONNX.items() for module in modules]
    kept = [
        (module, name, getattr(module, name), adapter)
        for module, (name, *parameters), adapter in wanted
        if hasattr(module, name) and [*inspect.signature(getattr(module, name)).parameters] == parameters
    ]
    for module, name, original, adapter in kept:
        setattr(module, name, adapter(original))
    try:
        with _untyped_values():
            yield
    finally:
        for module, name, original, _ in kept:
            setattr(module, name, original)


@contextmanager
def _untyped_values() -> Iterator[None]:
    """Let `onnx_ir` not warn of values to which jax2onnx gives a shape without a type: a file keeps neither of them."""

    def is_other(record: logging.LogRecord) -> bool:
        return not record.msg.startswith("The value type for shape")

    logger = logging.getLogger("onnx_ir.serde")
    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)


__all__ = ["adapted"]
