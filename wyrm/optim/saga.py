"""SAGA: steps that lose the noise of single rows, because each row of data has its last slope remembered."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from wyrm.errors import NotDifferentiable
from wyrm.graph.base import describe, label
from wyrm.graph.leaves import Constant
from wyrm.graph.node import Node
from wyrm.ops.cross_entropy.labels import check_axes
from wyrm.ops.gradients.reverse import pull_back
from wyrm.optim.optimizer import Optimizer, Rate, Update, Values, option, with_options
from wyrm.support.options import whole

# Until this step, float32 counts exactly.
_LAST_COUNTED = 2**24


@with_options
class SAGA(Optimizer):
    """SAGA (Defazio et al., 2014): steps at a constant rate to the minimum of a sum over rows of data and a penalty.

    The loss is what `remembered` returns: its gradient is what has changed since the rows of a batch came last. Beside
    the mean of what is remembered of all rows, it is the gradient of the whole data without the noise of single rows:

        parameter -= learning_rate * (gradient + mean); mean += gradient / steps_per_epoch

    `steps_per_epoch` is the number of steps in a pass over the data. A step has the penalty `l1 * abs(x) + l2 * x ** 2
    / 2` of each element `x`; its proximal step makes exact zeros by `l1`. A rate of `1 / (3 * L)` is safe, where a step
    of length 1 changes the gradient of a step's loss by at most `L`.

    Rows that a row-sparse gradient does not touch keep their values and state. A row that one of ten steps touches
    moves ten times as far by `mean` and by the penalty, so that the minimum is the same (Pedregosa, Leblond and
    Lacoste-Julien, 2017).

    Raise `ValueError` for a negative argument, or if `steps_per_epoch` is below 1.

    >>> x, slopes = wy.Parameter(0.0), wy.Parameter.zeros((2,))
    >>> row, target = wy.IndexInput(dims=(1,), name="row"), wy.Input(dims=(1,), name="target")
    >>> scores = x + 0.0 * target
    >>> loss = wy.optim.remembered((0.5 * (scores - target).square()).sum(), scores, slopes.index(row))
    >>> optimizer = wy.optim.Combined([SAGA([x], 0.5, steps_per_epoch=2), wy.optim.SGD([slopes], 1.0)])
    >>> train = wy.compile(loss, optimizer)
    >>> for _ in range(30):
    ...     _ = train.epoch({row: np.array([0, 1]), target: np.array([1.0, 5.0])}, batch_size=1)
    >>> round(float(x), 5), slopes.value.round(3).tolist()
    (3.0, [2.0, -2.0])
    """

    learning_rate: Rate
    steps_per_epoch: int
    l1: float = option(0.0)
    l2: float = option(0.0)

    def __post_init__(self) -> None:
        self.steps_per_epoch = whole("steps_per_epoch", self.steps_per_epoch, 1)
        super().__post_init__()

    def initial_state(self) -> Mapping[str, float]:
        return {"mean": 0.0, "touched": 0.0}

    def hyperparameters(self, step: int) -> dict[str, float]:
        counted = {"steps": np.minimum(step, _LAST_COUNTED), "counts": np.where(step > _LAST_COUNTED, 0.0, 1.0)}
        return {"learning_rate": self.learning_rate, **counted}

    def update(self, parameter: Node, gradient: Node, state: Values, hyperparameters: Values) -> Update:
        touched, mean = (state["touched"] + hyperparameters["counts"]).maximum(1.0), state["mean"]
        # 1, or how many steps pass for one that touches the row: at most those of a pass over the data.
        weight = (hyperparameters["steps"] / touched).minimum(float(self.steps_per_epoch))
        rate = hyperparameters["learning_rate"]
        moved: Node = parameter - rate * (gradient + weight * mean)
        if self.l1:
            limit = self.l1 * (rate * weight)
            moved = moved - moved.maximum(-limit).minimum(limit)
        if self.l2:
            moved = moved / (1.0 + self.l2 * (rate * weight))
        return moved, {"mean": mean + gradient * (1.0 / self.steps_per_epoch), "touched": touched}


def remembered(loss: Node, scores: Node, last: Node) -> Node:
    """Return the loss with the gradient that `SAGA` takes: what has changed in its slopes since they came last.

    `scores` are linear in the parameters of SAGA, as `x @ weights + bias`, and the loss reads the parameters through
    them alone; penalties are options of SAGA. `last` has their axes: the slopes of the loss by these scores that are
    remembered, rows of a table that begins with zeros and has a row for each row of data, which a batch has once. An
    `SGD` of the table with a rate of 1 writes the new slopes: its gradient is the old ones without the new ones. A loss
    that is a sum over rows may have a shorter last batch; for one that is a mean, all batches have one size.

    Raises:
        ShapeError: the axes of `last` are not those of `scores`.
        NotDifferentiable: the loss is no scalar, or does not depend on the scores.

    >>> weight, slopes = wy.Parameter(2.0), wy.Parameter([0.0, 3.0])
    >>> row = wy.IndexConstant([1])
    >>> scores = weight * wy.Constant([10.0])
    >>> loss = remembered((0.5 * scores.square()).sum(), scores, slopes.index(row))
    >>> float(loss.forward()), float(wy.grad(loss, weight).forward())  # (20 - 3) * 10
    (200.0, 170.0)
    >>> wy.grad(loss, slopes).forward().tolist()
    [0.0, -17.0]
    """
    check_axes("remembered: last must have the axes of scores", last, scores.dims, {"scores": scores, "last": last})
    if loss.dims != () or loss.dtype.kind != "f":
        raise NotDifferentiable(f"remembered takes a scalar float loss, not {describe(loss)}: reduce it with .sum()")
    (slopes,) = pull_back([loss], [Constant(1.0, dtype=loss.dtype)], [scores])
    if slopes is None:
        raise NotDifferentiable(f"remembered: the loss {label(loss)} does not depend on the scores, {describe(scores)}")
    change = (slopes - last).stop_gradient()
    # The slope of this by the scores and by `last`, with the value 0.
    moves: Node = (change * (scores - last)).sum()
    return loss.stop_gradient() + (moves - moves.stop_gradient())
