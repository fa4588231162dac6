"""The engines of programs: native code, and JAX."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from wyrm.engines.optimizer import OptimizerInterface
from wyrm.errors import DTypeError, OptionError
from wyrm.graph.axes import Dim
from wyrm.graph.base import BaseNode

if TYPE_CHECKING:
    from jax.sharding import Mesh

    from wyrm.engines.jax.epoch import JaxTraining

Engine = Literal["native", "jax"]
# The axis of a mesh, or several, over which the axes of arrays with a name are sharded.
AxisSharding = Mapping[type[Dim], "str | tuple[str, ...]"]


class EngineOptions(TypedDict, total=False):
    """The options of `wyrm.compile` that choose an engine, and the devices that it runs on.

    - `engine`: "native", machine code for this processor, or "jax", which compiles for the devices that JAX has.
    - `mesh`, `sharding`: a `jax.sharding.Mesh`, and for the classes of axes the axis of the mesh that they are sharded
      over. Axes without an entry are not sharded.
    - `compute_dtype`: "bfloat16" computes activations and products in bfloat16, with parameters, sums, norms and losses
      in float32.
    """

    engine: Engine
    mesh: Mesh | None
    sharding: AxisSharding | None
    compute_dtype: Literal["float32", "bfloat16"] | None


def checked_engine(options: EngineOptions, loop: str = "auto") -> EngineOptions:
    """Return the options; raise `OptionError` for a value that is none of these, or that the engine does not take."""
    if unknown := options.keys() - EngineOptions.__annotations__.keys():
        raise TypeError(f"wyrm.compile() got an unexpected keyword argument {sorted(unknown)[0]!r}")
    engine = options.get("engine", "native")
    if engine not in ("native", "jax"):
        raise OptionError(f"engine must be 'native' or 'jax', which computes on the devices of JAX, not {engine!r}")
    own = [name for name in ("mesh", "sharding", "compute_dtype") if options.get(name) is not None]
    if own and engine != "jax":
        raise OptionError(f"{own[0]} is an option of engine='jax'; give that too")
    if (options.get("mesh") is None) != (options.get("sharding") is None):
        raise OptionError("mesh and sharding belong together: sharding={Batch: 'data'} names axes of the mesh")
    _check_mesh(options)
    if options.get("compute_dtype") not in (None, "float32", "bfloat16"):
        raise OptionError(f"compute_dtype must be 'float32' or 'bfloat16', not {options.get('compute_dtype')!r}")
    if engine == "jax" and loop != "auto":
        raise OptionError(f"loop={loop!r} is an option of engine='native'; XLA compiles the loops of engine='jax'")
    if engine == "jax" and importlib.util.find_spec("jax") is None:
        raise OptionError("engine='jax' needs JAX: pip install 'wyrm-autodiff[jax]'")
    return options


def _check_mesh(options: EngineOptions) -> None:
    """Raise `DTypeError` unless `mesh` is a mesh and `sharding` a mapping, where they are given."""
    mesh, sharding = options.get("mesh"), options.get("sharding")
    if sharding is not None and not isinstance(sharding, Mapping):
        raise DTypeError(
            f"sharding must map classes of axes to axes of the mesh, such as sharding={{Batch: 'data'}}, not "
            f"{sharding!r}; FSDP is {{Batch: 'data', Features: 'data'}}, with an axis of the parameters"
        )
    if mesh is not None and not hasattr(mesh, "axis_names"):
        raise DTypeError(f"mesh must be a jax.sharding.Mesh, such as jax.make_mesh((8,), ('data',)), not {mesh!r}")


def jax_training(
    outputs: Sequence[BaseNode],
    optimizer: OptimizerInterface | None,
    options: EngineOptions,
    *,
    evaluates: bool = False,
) -> JaxTraining:
    """Return the engine `jax` of a program, or of nodes that it `evaluates`, which may lack some of its axes."""
    from wyrm.engines.jax.epoch import JaxTraining
    from wyrm.engines.jax.graph import JaxGraph
    from wyrm.engines.jax.state import Placement

    graph = JaxGraph(outputs, optimizer)
    sharding: Any = None
    axes, mesh = options.get("sharding"), options.get("mesh")
    if mesh is None and optimizer is not None:
        _check_alone()
    if mesh is not None and axes is not None:
        from wyrm.engines.jax.sharding import Sharding

        sharding = Sharding(mesh, axes)
        leaves = [*graph.trained, *graph.held, *graph.inputs]
        sharding.check(leaves, graph.schedule.nodes, may_lack_axes=evaluates)
    narrow = None
    if options.get("compute_dtype") == "bfloat16":
        import jax.numpy as jnp

        narrow = jnp.bfloat16
    return JaxTraining(graph, Placement(sharding), narrow)


def _check_alone() -> None:
    """Raise `OptionError` if this process is one of several: without a mesh, each would train its own parameters."""
    import jax

    if jax.distributed.is_initialized() and jax.process_count() > 1:
        raise OptionError(
            f"this is process {jax.process_index()} of {jax.process_count()}: give mesh, such as "
            f"jax.make_mesh((jax.device_count(),), ('data',)), and sharding={{Batch: 'data'}}, to train together"
        )
