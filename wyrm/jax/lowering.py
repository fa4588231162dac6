"""Graphs as pure functions of JAX arrays."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wyrm.engines.graph import Targets, share_residuals
from wyrm.engines.jax.differentiable import DifferentiableLowerer
from wyrm.engines.jax.engine import JaxEngine
from wyrm.engines.jax.lower import Lowerer, Sizes, float64_node, words
from wyrm.engines.jax.namespace import narrowed
from wyrm.engines.jax.sharding import explicit_shardings, unique_names
from wyrm.engines.recomputing import checked_names, recomputed
from wyrm.errors import DTypeError, OptionError, ShapeError
from wyrm.graph.axes import Dim, is_name
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.index_operands import check_limits
from wyrm.graph.parameters import Buffer, Parameter
from wyrm.graph.ragged import refuse_ragged
from wyrm.graph.schedule import Schedule
from wyrm.graph.storage import bound_array, check_shape, not_set, stored
from wyrm.module import Module
from wyrm.ops.random.philox import ROWS_BEFORE, STEP, Counter
from wyrm.support.imports import jax, jnp, missing_package
from wyrm.support.options import whole
from wyrm.train.arguments import checked_outputs
from wyrm.train.program import Program


class LoweredFunction:
    """A graph as a pure function of JAX arrays, `function(parameters, *inputs, step=0)`; see `lower`.

    `names` has the name of each parameter and buffer, `inputs` are the nodes that the positional arguments are for.
    """

    def __init__(self, outputs: Sequence[BaseNode], inputs: Sequence[BaseNode], single: bool, model: Module | None):
        self.outputs: list[BaseNode] = list(outputs)
        self.inputs: list[BaseNode] = list(inputs)
        self._single = single
        refuse_ragged(self.outputs, "a function of JAX")
        self._schedule = Schedule(self.outputs)
        others = self._others()
        self.names: dict[BaseNode, str] = unique_names(
            [leaf for leaf in others if isinstance(leaf, Parameter | Buffer)], _paths(model)
        )

    def _others(self) -> list[BaseNode]:
        """Return the leaves that are not inputs; raise an error if one holds no data, or for an invalid input."""
        leaves = set(self._schedule.leaves)
        for node in self.inputs:
            if node not in leaves:
                what = (
                    "is not a leaf" if isinstance(node, BaseNode) and not node.is_leaf else "is no input of the graph"
                )
                raise OptionError(
                    f"lower: {describe(node) if isinstance(node, BaseNode) else repr(node)} {what}: the outputs do not "
                    f"depend on its data; inputs are leaves such as wy.Input, given as inputs=[x, y]"
                )
        given = set(self.inputs)
        if len(given) < len(self.inputs):
            raise OptionError("lower: inputs has the same node twice")
        others = [leaf for leaf in self._schedule.leaves if leaf not in given and not isinstance(leaf, Counter)]
        for leaf in others:
            if stored(leaf).array is None:
                raise not_set(leaf, "list it among inputs, or bind some with .set")
        return others

    def parameters(self) -> dict[str, Any]:
        """Return copies of the arrays that the parameters and buffers hold, by name."""
        self._check_precision()
        # `jnp.array` compiles a function for each shape.
        return {name: jax.device_put(np.array(bound_array(leaf))) for leaf, name in self.names.items()}

    def _check_precision(self) -> None:
        if jax.config.read("jax_enable_x64"):
            return
        node = float64_node(self._schedule.nodes)
        if node is not None:
            raise DTypeError(
                f"{describe(node)} computes in float64, which JAX has not enabled: call "
                f"jax.config.update('jax_enable_x64', True) first, or build the graph with dtype=np.float32"
            )

    def __call__(self, parameters: Mapping[str, Any], *inputs: Any, step: Any = 0) -> Any:
        """Return the value of the output, or a list of those of several ones.

        `parameters` has an array for each of `names`. `step`, an integer or a scalar array, chooses what random nodes
        draw, as the number of a program's step does. On a mesh with explicit axes, as `jax.make_mesh` makes them, the
        axes of the results are sharded as the same axes of the arguments.

        Raise `OptionError` for parameters or inputs that are missing or too many, `ShapeError` and `DTypeError` for
        arrays that do not fit, and `IndexOutOfRange` for indices out of range. A function that JAX traces, as
        `jax.jit` does, cannot check indices: for those out of range the result is unspecified.
        """
        self._check_precision()
        if len(inputs) != len(self.inputs):
            names = ", ".join(map(describe, self.inputs))
            raise OptionError(f"the function takes {len(self.inputs)} inputs, not {len(inputs)}: {names}")
        if not isinstance(parameters, Mapping):
            raise DTypeError(f"the function takes a dict of its parameters by name first, not {parameters!r}")
        if parameters.keys() != set(self.names.values()):
            missing = sorted(set(self.names.values()) - parameters.keys())
            unknown = sorted(parameters.keys() - set(self.names.values()))
            raise OptionError(f"parameters that are missing: {missing}; that the graph does not have: {unknown}")
        known: dict[BaseNode, Any] = {leaf: _jax_array(leaf, parameters[name]) for leaf, name in self.names.items()}
        known |= {leaf: _jax_array(leaf, value) for leaf, value in zip(self.inputs, inputs, strict=True)}
        sizes = self._schedule.bind({leaf: tuple(array.shape) for leaf, array in known.items()})
        random_step = _words(step)
        known |= {STEP: random_step, ROWS_BEFORE: jnp.zeros_like(random_step)}
        lowerer = self._lowerer(sizes)
        shardings = explicit_shardings(known, self.outputs)
        if shardings is None:
            values = lowerer.run(self._schedule, known)
        else:
            # XLA infers how intermediate values are sharded.
            leaves, arrays = list(known), list(known.values())
            run: Any = jax.sharding.auto_axes(
                lambda *given: lowerer.run(self._schedule, dict(zip(leaves, given, strict=True))),
                out_sharding=shardings,
            )
            values = run(*arrays)
        return values[0] if self._single else values

    def _lowerer(self, sizes: Sizes) -> Lowerer:
        return DifferentiableLowerer(sizes)

    def __repr__(self) -> str:
        return f"<function of {len(self.names)} parameters and {', '.join(map(describe, self.inputs)) or 'no inputs'}>"


def lower(
    outputs: BaseNode | Sequence[BaseNode],
    inputs: Sequence[BaseNode] = (),
    *,
    model: Module | None = None,
    remat: str | Collection[str] = (),
) -> tuple[LoweredFunction, dict[str, Any]]:
    """Return a pure function of JAX arrays that computes the outputs, and the arrays of its parameters.

    `function(parameters, *inputs)` returns an array for one output, a list for several. It works with `jax.jit`,
    `jax.grad`, `jax.jvp`, `jax.vmap`, `jax.shard_map`, and with libraries that take such functions, such as optax, flax
    and orbax. Derivatives are those of wyrm: gradients that a graph defines itself and stopped ones are kept, and a
    checkpoint recomputes its nodes, as modules do that `remat` names (see `wyrm.compile`). Loops with a condition and
    CTC have reverse mode alone. An open axis takes its size from the arrays given. `function(parameters, *inputs,
    step=3)` draws the random numbers, such as dropout's, of step 3.

    `parameters` is a dict of the parameters and buffers by name, in the order of first use. With `model`, a name is the
    path in that module; else it is the name of the parameter, with a number where several have the same. Other leaves
    that are not among `inputs` keep the data that they hold. The function does not update buffers.

    Raise `OptionError` unless `inputs` are leaves that the outputs depend on, `NotSet` for another input without data,
    and `DTypeError` for a float64 graph without JAX's 64-bit types.

    >>> x = wy.Input(dims=(wy.Dim(), 3), name="x")
    >>> model = wy.nn.Linear(3, 2)
    >>> function, parameters = wy.jax.lower(model(x), inputs=[x], model=model)
    >>> list(parameters), function(parameters, [[1.0, 2.0, 3.0]]).shape
    (['weight', 'bias'], (1, 2))
    """
    require_jax("wy.jax.lower")
    single = isinstance(outputs, BaseNode)
    if model is not None and not isinstance(model, Module):
        raise DTypeError(f"wy.jax.lower: model must be a module, whose parameters the names are for, not {model!r}")
    nodes, names = checked_outputs(outputs, "wy.jax.lower"), checked_names(remat)
    if names:
        nodes = recomputed(nodes, names)
    # A value and its gradient compute once what both need.
    nodes = list(share_residuals(Targets(nodes)).outputs)
    function = LoweredFunction(nodes, checked_inputs(inputs, "wy.jax.lower"), single, model)
    return function, function.parameters()


def require_jax(who: str) -> None:
    """Raise `MissingPackage` unless JAX is installed."""
    if importlib.util.find_spec("jax") is None:
        raise missing_package(who, "JAX", "jax", name="jax")


def _paths(model: Module | None) -> dict[BaseNode, str]:
    """Return the paths of a module's parameters and buffers."""
    if model is None:
        return {}
    return {leaf: path for path, leaf in (*model.named_parameters(), *model.named_buffers())}


def _jax_array(leaf: BaseNode, value: Any) -> Any:
    """Return the value of a leaf as a JAX array of its dtype; raise an error if it does not fit."""
    from jax.core import Tracer

    if not isinstance(value, jax.Array):
        try:
            value = np.asarray(value)
        except ValueError as error:  # a ragged list
            raise ShapeError(f"{describe(leaf)} was given no array: {error}") from None
    real = jnp.issubdtype(value.dtype, jnp.floating)
    integer, mask = jnp.issubdtype(value.dtype, jnp.integer), value.dtype == jnp.bool_
    accepted = {"f": real or integer or mask, "b": mask}.get(leaf.dtype.kind, integer)
    if not accepted:
        raise DTypeError(f"{describe(leaf)} does not take an array of {value.dtype}")
    check_shape(leaf, tuple(value.shape))
    if leaf.dtype.kind in "iu":
        if not isinstance(value, Tracer):
            check_limits(leaf, np.asarray(value, np.int64))
        return jnp.asarray(narrowed(leaf, value) if isinstance(value, np.ndarray) else value)
    return jnp.asarray(value, leaf.dtype)


def _words(step: Any) -> Any:
    """Return a random step, given as a number or a scalar array, as two words of 32 bits, lower word first."""
    if not isinstance(step, jax.Array):
        number = step.item() if isinstance(step, np.ndarray) and step.ndim == 0 else step
        return words(whole("step", number, 0))
    if step.ndim or not jnp.issubdtype(step.dtype, jnp.integer):
        raise ShapeError(f"step must be an integer or an integer array without axes, not {step.dtype}{step.shape}")
    high = (step >> 32).astype(jnp.uint32) if step.dtype.itemsize == 8 else jnp.zeros((), jnp.uint32)
    return jnp.stack([step.astype(jnp.uint32), high])


def jax_engine(program: object, who: str, trains: bool = True) -> JaxEngine:
    """Return the engine of a program; raise an error unless it computes, and with `trains` has an optimizer, in JAX."""
    if not isinstance(program, Program):
        raise DTypeError(
            f"{who} takes a program, such as wy.compile(loss, optimizer, engine='jax'), not {shown(program)}"
        )
    engine = program._engine
    if not isinstance(engine, JaxEngine) or (trains and program.optimizer is None):
        does, remedy = ("train", "an optimizer and ") if trains else ("run", "")
        raise OptionError(f"{who}: {program!r} does not {does} with JAX: compile it with {remedy}engine='jax'")
    return engine


def checked_path(path: object, who: str, name: str) -> Path:
    """Return a path; raise `DTypeError` for anything else."""
    if not isinstance(path, str | os.PathLike):
        raise DTypeError(f"{who}: {name} must be a path, not {path!r}")
    return Path(path)


def checked_inputs(inputs: object, who: str) -> list[BaseNode]:
    """Return inputs as a list; raise `DTypeError` unless they are nodes."""
    if isinstance(inputs, BaseNode) or not isinstance(inputs, Iterable):
        raise DTypeError(f"{who}: inputs must be a list of leaves, such as inputs=[x, y], not {shown(inputs)}")
    return list(inputs)


def checked_sizes(sizes: object, who: str) -> dict[type[Dim], int]:
    """Return the sizes of axes; raise an error unless they are a mapping from classes of axes to sizes."""
    if sizes is None:
        return {}
    if not isinstance(sizes, Mapping) or not all(map(is_name, sizes)):
        raise DTypeError(f"{who}: sizes must map classes of axes to sizes, such as sizes={{Batch: 32}}, not {sizes!r}")
    return {name: whole(f"{who}: the size of {name.__name__}", size, 0) for name, size in sizes.items()}


def shown(value: object) -> str:
    """Return a wrong argument as text for an error."""
    return describe(value) if isinstance(value, BaseNode) else repr(value)
