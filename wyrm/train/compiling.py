"""`compile`, which creates programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from wyrm.compiler.updates import OptimizerInterface
from wyrm.foreign_names import answering
from wyrm.node.base import BaseNode
from wyrm.node.node import IndexNode, Node, Tensor
from wyrm.train.arguments import Metrics, apart
from wyrm.train.program import Loop, Program
from wyrm.types.typing import FloatArray, IntegerArray


@overload
def compile(outputs: Tensor[()], optimizer: OptimizerInterface, *, loop: Loop = "auto") -> Program[FloatArray]: ...
@overload
def compile(
    outputs: Tensor[()], optimizer: OptimizerInterface | None = None, *, metrics: Metrics, loop: Loop = "auto"
) -> Program[dict[str, FloatArray], dict[str, float]]: ...
@overload
def compile(outputs: Node, optimizer: None = None, *, loop: Loop = "auto") -> Program[FloatArray]: ...
@overload
def compile(outputs: IndexNode, optimizer: None = None, *, loop: Loop = "auto") -> Program[IntegerArray]: ...
@overload
def compile(
    outputs: Sequence[Node], optimizer: None = None, *, loop: Loop = "auto"
) -> Program[list[FloatArray], list[float]]: ...
@overload
def compile(
    outputs: Sequence[Node | IndexNode], optimizer: None = None, *, loop: Loop = "auto"
) -> Program[list[np.ndarray], list[float]]: ...
@answering
def compile(
    outputs: BaseNode | Sequence[BaseNode],
    optimizer: OptimizerInterface | None = None,
    *,
    metrics: Metrics | None = None,
    loop: Loop = "auto",
) -> Program[Any, Any]:
    """Return native code that computes `outputs` or, with an optimizer, trains the single loss `outputs`.

    `loop` decides whether the loop over the data is compiled ("compiled") or is Python that calls compiled kernels
    ("python"); "auto" compiles it unless an op has no native form. All give the same numbers.

    `metrics` are scalars of a batch beside a single scalar output, by name. Calls then return a dict of arrays, and
    epochs a dict of means over all rows, with the output under "loss".

    Raise `NotDifferentiable` for a loss that is not a scalar, and `UnusedParameter` if it depends on none of the
    optimizer's parameters.

    >>> x, y = wy.Input(name="x"), wy.Input(name="y")
    >>> slope = wy.Parameter(0.0, name="slope")
    >>> loss = (y - slope * x).square()
    >>> train = wy.compile(loss, wy.optim.SGD(loss.parameters(), learning_rate=0.1))
    >>> data = np.linspace(-1.0, 1.0, 200)
    >>> for _ in range(5): mean_loss = train.epoch({x: data, y: 3.0 * data})
    >>> round(float(slope), 3)
    3.0
    """
    return Program(outputs, optimizer, metrics=apart(metrics), loop=loop)
