"""The reference engine: NumPy, nothing compiled; the oracle, and what `forward()` and `backward()` use."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm._interrupts import deferred
from wyrm.backends.numpy.observe import observer
from wyrm.backends.numpy.plan import Plan
from wyrm.errors import NotDifferentiable, NotSet, OptionError, ShapeError, UnusedParameter
from wyrm.grad.reverse import pull_back
from wyrm.node.base import BaseNode, describe
from wyrm.node.leaves import Input, Parameter
from wyrm.node.modes import modes_of, warn_of_training
from wyrm.node.node import Node
from wyrm.node.site import made_at
from wyrm.node.storage import FLOATS, Storage, is_leaf, not_set, store, stored
from wyrm.ops.random import STEP, advance_step, at_step, step_is_announced
from wyrm.ops.updating import updates_of
from wyrm.schedule.schedule import Schedule
from wyrm.types.dims import axis_size
from wyrm.types.options import number
from wyrm.types.rows import RowSparse

# Plans for other sizes of the data are kept too: a last, smaller batch comes back every epoch.
_KEPT_PLANS = 4
_LARGEST = {dtype: float(np.finfo(dtype).max) for dtype in FLOATS}


class Runner:
    """Runs some outputs, in stages, with a plan for each combination of data sizes."""

    def __init__(self, *stages: Sequence[BaseNode[Any, Any]]) -> None:
        self.stages = stages
        self.schedule = Schedule([output for outputs in stages for output in outputs])
        self.random = any(leaf is STEP for leaf in self.schedule.leaves)
        self.dynamic: list[Storage] = [
            stored(leaf) for leaf in self.schedule.leaves if any(axis_size(axis) is None for axis in leaf.dims)
        ]
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self._last: Plan | None = None

    def plan(self) -> Plan:
        """The plan for the sizes of the data that is bound now."""
        key = tuple([None if s.array is None else s.array.shape for s in self.dynamic])
        plan = self._plans.get(key)
        if plan is None or plan is not self._last:
            plan = self._plans.pop(key, None) or Plan(self.schedule, self.stages)
            if len(self._plans) >= _KEPT_PLANS:
                self._plans.pop(next(iter(self._plans)))
            self._plans[key] = self._last = plan  # the last used come last
        plan.activate()
        return plan

    def run(self, stage: int = 0) -> Plan:
        """Bring one stage up to date and return the plan that holds the values."""
        plan = self.plan()
        plan.run(stage, observer())
        return plan


class _Forward:
    """How to run one node.

    It runs a twin of the node, so that nothing here refers to the node itself, which holds this: without a cycle, what
    a graph holds is freed as soon as nobody uses it.
    """

    def __init__(self, node: BaseNode[Any, Any]) -> None:
        self.twin = _twin(node)
        self.runner = Runner([self.twin])
        self.modes = modes_of([node])
        self.step: int | None = None  # what its random nodes drew for last

    def run(self, node: BaseNode[Any, Any], stage: int = 0) -> Plan:
        """Bring one stage up to date, for `node` to read from."""
        if self.twin._cell is not node._cell:
            object.__setattr__(self.twin, "_cell", node._cell)
        plan = self.runner.run(stage)
        plan.stand_in(node, self.twin)
        return plan


def _twin(node: BaseNode[Any, Any]) -> Any:
    """The same operation on the same parents."""
    if is_leaf(node):
        return node
    with made_at(node.site):
        return type(node).rebuild(node.parents, node.attribute_values(), node.name)


class _Backward(_Forward):
    """Forward and backward of one loss: the first stage computes the loss, the second the gradients."""

    def __init__(self, loss: Node[Any, Any]) -> None:
        self.twin = _twin(loss)
        self.parameters = loss.parameters()
        if not self.parameters:
            raise UnusedParameter(
                f"{describe(loss)} depends on no parameter, so backward() has nothing to add to; make a leaf a "
                f"wy.Parameter, or take a gradient by others with wy.grad(loss, wrt)"
            )
        self.weight = Input(1.0, name="weight", dtype=loss.dtype, finite=False)
        found = pull_back([self.twin], [self.weight], self.parameters)
        self.gradients = [gradient for gradient in found if gradient is not None]
        self.updates = updates_of([self.twin])
        self.runner = Runner([self.twin], [*self.gradients, *self.updates.values()])
        self.modes = modes_of([loss])
        self.step: int | None = None


def _frozen(value: Any) -> NDArray[Any]:
    """A copy that cannot be mistaken for the place where values are changed."""
    array = value.dense() if isinstance(value, RowSparse) else np.array(value)
    array.flags.writeable = False
    return array


def value(node: BaseNode[Any, Any]) -> NDArray[Any]:
    """The value of a leaf, or what the last run cached."""
    if is_leaf(node):
        array = stored(node).array
        if array is None:
            raise not_set(node, "bind some with .set(value)")
        return _frozen(array)
    if node._cell is None or node._cell.value is None:
        raise NotSet(f"{describe(node)} has no value yet: call .forward() on it, or on a node that depends on it")
    return _frozen(node._cell.value)


def forward(node: BaseNode[Any, Any]) -> NDArray[Any]:
    """Compute a node, only what changed since the last time."""
    if is_leaf(node):
        return value(node)
    held: _Forward | None = node._plan
    if held is None:
        held = _Forward(node)
        object.__setattr__(node, "_plan", held)
    warn_of_training(held.modes)
    if held.runner.random:
        held.step = advance_step()
    return _frozen(held.run(node).value(held.twin))


def backward(loss: Node[Any, Any], weight: float = 1.0) -> None:
    """Add `weight` times the gradient of a scalar to each parameter's gradient."""
    if len(loss.dims) != 0:
        raise ShapeError(
            f"backward() takes a scalar, not {describe(loss)}: reduce it with .sum() or .mean() first, "
            f"or weight its elements with wy.vjp(output, wrt, cotangent)"
        )
    if loss.dtype.kind != "f":
        raise NotDifferentiable(f"{describe(loss)} is {loss.dtype}; only float32 and float64 have gradients")
    given = checked_weight(weight, loss.dtype)
    previous = loss._plan  # kept until the new plan has run, which takes over the values that are computed already
    if isinstance(previous, _Backward):
        held = previous
    else:
        held = _Backward(loss)
        held.step = None if previous is None else previous.step
        object.__setattr__(loss, "_plan", held)
    if held.runner.random and (held.step is None or step_is_announced()):
        held.step = advance_step()
    if stored(held.weight).array != given:
        held.weight.set(given)
    # The masks of the last forward(), even if another graph has moved on to other steps since.
    with nullcontext() if held.step is None else at_step(held.step):
        held.run(loss, 0)
        plan = held.run(loss, 1)
    becoming = [np.array(plan.value(becomes)) for becomes in held.updates.values()]
    with deferred:
        for parameter, gradient in zip(held.parameters, held.gradients, strict=True):
            accumulate(parameter, plan.value(gradient))
        for buffer, array in zip(held.updates, becoming, strict=True):
            store(stored(buffer), array)


def checked_weight(weight: float, dtype: np.dtype[Any]) -> Any:
    """The weight of a gradient as a number of a dtype; `OptionError` where it is none that is finite."""
    found = number("weight", weight)
    if abs(found) > _LARGEST[dtype]:
        raise OptionError(f"weight is {weight}, which is too large for {dtype}")
    return dtype.type(found)


def accumulate(parameter: Parameter[Any], gradient: NDArray[Any] | RowSparse) -> None:
    """Add to a parameter's gradient; it stays row-sparse as long as all that is added is."""
    storage = stored(parameter)
    held = storage.gradient
    if isinstance(gradient, RowSparse):
        if held is None:
            storage.gradient = RowSparse(gradient.rows.copy(), gradient.values.copy(), gradient.shape)
        elif isinstance(held, RowSparse):
            joined = held.joined(gradient)
            storage.gradient = joined if len(joined.rows) <= joined.shape[0] else joined.summed()
        else:
            gradient.add_to(held)
    elif held is None:
        storage.gradient = np.array(gradient)
    elif isinstance(held, RowSparse):
        storage.gradient = held.dense() + gradient
    else:
        held += gradient


def zero_gradient(node: Node[Any, Any]) -> None:
    """Set the gradients of all parameters of a node to zero."""
    held = node._plan
    parameters = held.parameters if isinstance(held, _Backward) else node.parameters()
    for parameter in parameters:
        parameter.clear_gradient()


def run(nodes: Sequence[BaseNode[Any, Any]]) -> list[NDArray[Any]]:
    """The values of several nodes, computed together: what they share is computed once.

    >>> x = wy.Constant(2.0)
    >>> [value.item() for value in wy.run([x * x, x + x])]
    [4.0, 4.0]
    """
    runner = Runner(list(nodes))
    warn_of_training(modes_of(nodes))
    if runner.random:
        advance_step()
    plan = runner.run()
    return [_frozen(plan.value(node)) for node in nodes]
