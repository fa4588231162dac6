"""`compile`, which creates programs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal, overload

import numpy as np
from typing_extensions import Unpack

from wyrm.engines.jax import AxisSharding, Mesh
from wyrm.engines.native import LoopOption
from wyrm.engines.optimizer import OptimizerInterface
from wyrm.engines.registry import DEFAULT, EngineName, checked_options
from wyrm.graph.base import BaseNode
from wyrm.graph.node import IndexNode, Node, Tensor
from wyrm.graph.typing import FloatArray, IntegerArray
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import whole
from wyrm.train.arguments import EngineOptions, Metrics, apart, without_defaults
from wyrm.train.program import Program


@overload
def compile(
    outputs: Tensor[()],
    optimizer: OptimizerInterface | None = None,
    *,
    metrics: Metrics,
    **options: Unpack[EngineOptions],
) -> Program[dict[str, FloatArray], dict[str, float]]: ...
@overload
def compile(
    outputs: Tensor[()],
    optimizer: OptimizerInterface,
    **options: Unpack[EngineOptions],
) -> Program[FloatArray]: ...
@overload
def compile(
    outputs: Node,
    optimizer: None = None,
    **options: Unpack[EngineOptions],
) -> Program[FloatArray]: ...
@overload
def compile(
    outputs: IndexNode,
    optimizer: None = None,
    **options: Unpack[EngineOptions],
) -> Program[IntegerArray]: ...
@overload
def compile(
    outputs: Sequence[Node],
    optimizer: None = None,
    **options: Unpack[EngineOptions],
) -> Program[list[FloatArray], list[float]]: ...
@overload
def compile(
    outputs: Sequence[Node | IndexNode],
    optimizer: None = None,
    **options: Unpack[EngineOptions],
) -> Program[list[np.ndarray], list[float]]: ...
@explains_keywords
def compile(
    outputs: BaseNode | Sequence[BaseNode],
    optimizer: OptimizerInterface | None = None,
    *,
    metrics: Metrics | None = None,
    loop: LoopOption = "auto",
    engine: EngineName | str = DEFAULT,  # the names that an editor completes
    mesh: Mesh | None = None,
    sharding: AxisSharding | None = None,
    local_steps: int = 1,
    compute_dtype: Literal["float32", "bfloat16"] | None = None,
    precision: Literal["highest", "tf32"] = "highest",
    remat: str | Collection[str] = (),
    **options: Any,
) -> Program[Any, Any]:
    """Return compiled code that computes `outputs` or, with an optimizer, trains the single loss `outputs`.

    `engine` is "native", machine code for this processor, "jax", which compiles for the CPU, GPU or TPU that JAX has,
    or another one that `wyrm.engines.register` has named. With `mesh`, a `jax.sharding.Mesh`, and `sharding`, arrays
    are sharded over its devices: `{Batch: "data"}` divides the axes of the class `Batch` over the mesh's axis "data".
    With `local_steps`, each device trains so many steps of an epoch on its part of the batches alone, and then the
    parameters and the optimizer's state are averaged: fewer messages, and other numbers than those of whole batches.
    `compute_dtype="bfloat16"` rounds the operands of products to bfloat16, with engine "jax" all activations, and keeps
    parameters, sums, norms and losses in float32. The native engine rounds where the processor multiplies numbers of
    bfloat16 faster (AMX, or AVX512_BF16 of AMD), in products large enough to gain; elsewhere it logs that it does not.
    With engine "jax", products of float32 have all its digits on every device, and the numbers are those of the other
    engines up to the order of sums; `precision="tf32"` lets GPUs round the operands to 10 binary digits.

    `remat` names modules whose values the backward pass computes again instead of keeping them, which takes less memory
    and more time, in every engine: `remat={"attention", "feed_forward"}`. A name is an attribute or a list of the
    module that holds the others, a path such as `blocks.3.attention`, or a class. Numbers are the same. What
    takes little time, such as "activation", is not kept for the layers that read it either. `wy.checkpoint` does this
    for any function.

    Devices raise no errors of their own: with engine "jax", a matrix for which the other engines raise `LinAlgError`
    gives NaN. An index out of range is an error, after the step where a loop of the graph computes it.

    `loop` decides whether the loop over the data is compiled ("compiled") or is Python that calls compiled kernels
    ("python"); "auto" compiles it unless an op has no native form. All give the same numbers.

    `metrics` are scalars of a batch beside a single scalar output, by name. Calls then return a dict of arrays, and
    epochs a dict of means over all rows, with the output under "loss".

    Raise `OptionError` for an option that the engine does not take, or if JAX is not installed. Raise
    `NotDifferentiable` for a loss that is not a scalar, and `UnusedParameter` if it depends on none of the
    optimizer's parameters. An `OptionError` for a name of `remat` lists the modules that there are.

    >>> x, y = wy.Input(name="x"), wy.Input(name="y")
    >>> slope = wy.Parameter(0.0, name="slope")
    >>> loss = (y - slope * x).square()
    >>> train = wy.compile(loss, wy.optim.SGD(loss.parameters(), learning_rate=0.1))
    >>> data = np.linspace(-1.0, 1.0, 200)
    >>> for _ in range(5): mean_loss = train.epoch({x: data, y: 3.0 * data})
    >>> round(float(slope), 3)
    3.0
    """
    of_engines: dict[str, Any] = {
        "loop": loop,
        "mesh": mesh,
        "sharding": sharding,
        "compute_dtype": compute_dtype,
        **options,
    }
    if whole("local_steps", local_steps, 1) != 1:
        of_engines["local_steps"] = local_steps
    if precision != "highest":
        of_engines["precision"] = precision
    chosen = checked_options(engine, without_defaults(of_engines))
    return Program(outputs, optimizer, metrics=apart(metrics), engine=engine, remat=remat, **chosen)
