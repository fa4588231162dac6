"""The update rule of an optimizer as a graph, which every engine runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial

import numpy as np

from wyrm.engines.numpy.calls import BLOCK, BlockPlan
from wyrm.engines.numpy.reference import ReferenceRunner
from wyrm.engines.optimizer import Elements
from wyrm.errors import RegistrationError
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.node import Node
from wyrm.graph.rows import RowSparse
from wyrm.graph.schedule import Schedule
from wyrm.graph.source_location import place_of
from wyrm.graph.storage import store, stored
from wyrm.ops.elementwise.comparison import where
from wyrm.support.texts import nearest

Values = Mapping[str, Node]
"""The state, or the hyperparameters, by name."""
Update = tuple[Node, dict[str, Node]]
"""The new parameter, and the new state by name, as nodes."""
_Run = Callable[[list[np.ndarray], np.ndarray, list[float]], None]


class Named(dict[str, Node]):
    """The nodes that an `update` is given by name; the error for another name lists them and the place of `update`."""

    def __init__(self, what: str, nodes: Mapping[str, Node], update: Callable[..., object]) -> None:
        super().__init__(nodes)
        self._what, self._update = what, update

    def __missing__(self, name: str) -> Node:
        raise RegistrationError(
            f"{self._update.__qualname__} ({place_of(self._update)}) reads the {self._what} {name!r}; there is "
            f"{', '.join(self) or 'none'}{nearest(name, self)}"
        )


class Rule:
    """The graph of an update, from the parameter, gradient, state and scalars to the new values.

    The inputs of an elementwise rule have any number of elements. Those of another rule have the axes of a parameter,
    and each state has axes of its own. The `hyperparameters` are scalar inputs. `outputs` are the new parameter and the
    new state, in the order of `state`. If the rule `flushes`, denormal state may become zero. The state in `squares` is
    never negative. Where the hyperparameter `idle_at_zero` is 0, nothing changes.

    Raise `RegistrationError` for a rule that uses leaves other than its arguments and constants, that does not return
    the declared state in the parameter's dtype and in its shapes, or that is not elementwise and does not say so.
    """

    def __init__(
        self,
        parameter: Input,
        gradient: Input,
        state: Mapping[str, Input],
        hyperparameters: Mapping[str, Input],
        update: tuple[Node, Mapping[str, Node]],
        elementwise: bool,
        flushes: bool,
        squares: frozenset[str] = frozenset(),
        idle_at_zero: str | None = None,
    ) -> None:
        self.parameter = parameter
        self.gradient = gradient
        self.state: dict[str, Input] = dict(state)
        self.hyperparameters: dict[str, Input] = dict(hyperparameters)
        self.elementwise = elementwise
        self.flushes = flushes
        self.squares = squares
        self.idle_at_zero = idle_at_zero
        self.outputs: list[Node] = self._checked_outputs(*update)
        self._check_nodes()
        # The functions that compute `outputs` and `flushing`, made on first use.
        self._runs: list[_Run | None] = [None, None]

    @cached_property
    def flushing(self) -> list[Node]:
        """The outputs of a rule that `flushes`, with denormal state set to zero where the gradient is zero."""
        moved, *changed = self.outputs
        return [moved, *(flushed(state, self.gradient) for state in changed)] if self.flushes else self.outputs

    def _checked_outputs(self, value: Node, changed: Mapping[str, Node]) -> list[Node]:
        if changed.keys() != self.state.keys():
            raise RegistrationError(
                f"an optimizer's update must return the state that initial_state declares, "
                f"{', '.join(self.state) or 'none'}; it returned {', '.join(changed) or 'none'}"
            )
        outputs = [value, *(changed[name] for name in self.state)]
        for leaf, output in zip([self.parameter, *self.state.values()], outputs, strict=True):
            if output.dtype != self.parameter.dtype:
                raise RegistrationError(
                    f"an optimizer's update must keep the dtype {self.parameter.dtype}, not return {describe(output)}"
                )
            if not self.elementwise and output.dims != leaf.dims:
                raise RegistrationError(
                    f"an optimizer's update must keep the shape of {leaf.name}, {leaf.dims}, not return "
                    f"{describe(output)}"
                )
        return outputs

    def _check_nodes(self) -> None:
        inputs: set[BaseNode] = {self.parameter, self.gradient, *self.state.values(), *self.hyperparameters.values()}
        for node in Schedule(self.outputs).nodes:
            if node in inputs or (isinstance(node, Constant) and not (self.elementwise and node.dims)):
                continue
            if self.elementwise and (node.is_leaf or not node.formula):
                raise RegistrationError(
                    f"an optimizer's rule must be elementwise and use only its arguments and constants; "
                    f"{describe(node)} is not. A rule over whole parameters declares `elementwise = False`"
                )
            if node.is_leaf:
                raise RegistrationError(
                    f"an optimizer's rule must use only its arguments and constants; {describe(node)} is another leaf"
                )

    def move(
        self,
        parameter: np.ndarray,
        gradient: np.ndarray | RowSparse,
        state: Mapping[str, np.ndarray],
        hyperparameters: Mapping[str, float],
        flush: bool = False,
    ) -> None:
        """Write the new values into `parameter` and the arrays of `state`, which are contiguous.

        The rows of a row-sparse gradient occur once. With `flush`, denormal state becomes zero where the gradient is.
        """
        arrays = [parameter, *[state[name] for name in self.state]]
        scalars = [hyperparameters[name] for name in self.hyperparameters]
        if self.idle_at_zero is not None and not hyperparameters[self.idle_at_zero]:
            return
        flush = flush and self.flushes and not isinstance(gradient, RowSparse)
        run = self._runs[flush] or self._prepare(flush)
        if not isinstance(gradient, RowSparse):
            run(arrays, gradient, scalars)
        elif not self.elementwise:
            run(arrays, gradient.dense(), scalars)
        else:
            stride = max(1, BLOCK * parameter.shape[0] // max(1, parameter.size))
            for start in range(0, len(gradient.rows), stride):
                rows = gradient.rows[start : start + stride]
                gathered = [array.take(rows, axis=0) for array in arrays]
                run(gathered, gradient.values[start : start + stride], scalars)
                for array, values in zip(arrays, gathered, strict=True):
                    array[rows] = values

    def _prepare(self, flush: bool) -> _Run:
        """Return a function that replaces the parameter and its state, given these arrays, the gradient and scalars."""
        leaves, numbers = [self.parameter, *self.state.values()], list(self.hyperparameters.values())
        outputs = self.flushing if flush else self.outputs
        run: _Run = (
            BlockPlan([*leaves, self.gradient], numbers, outputs).run
            if self.elementwise
            else partial(_run_whole, ReferenceRunner(outputs), [*leaves, self.gradient, *numbers])
        )
        self._runs[flush] = run
        return run


def _run_whole(
    runner: ReferenceRunner, leaves: list[Input], arrays: list[np.ndarray], gradient: np.ndarray, scalars: list[float]
) -> None:
    given = [*arrays, gradient, *(np.asarray(scalar, gradient.dtype) for scalar in scalars)]
    for leaf, array in zip(leaves, given, strict=True):
        if stored(leaf).array is None:
            stored(leaf).array = np.empty_like(array)
        store(stored(leaf), array)
    plan = runner.run()
    for target, output in zip(arrays, runner.schedule.outputs, strict=True):
        target[...] = plan.value(output)


def averaging_rule(dtype: np.dtype, weight: str) -> Rule:
    """Return the rule `average + weight * (parameter - average)`; `weight` is the name of that number.

    The rule's parameter is the average, and its gradient the averaged parameter. An average that approaches 0 becomes 0
    instead of a denormal number, which is slow.
    """
    axes = (Elements(),)
    average, parameter = Input(name="average", dims=axes, dtype=dtype), Input(name="parameter", dims=axes, dtype=dtype)
    factor = Input(name=weight, dtype=dtype)
    new = average + factor * (parameter - average)
    kept = where(new.abs() < float(np.finfo(dtype).tiny), 0.0, new)
    return Rule(average, parameter, {}, {weight: factor}, (kept, {}), True, False, idle_at_zero=weight)


def flushed(state: Node, gradient: Node) -> Node:
    """Return the state, or zero where it is denormal and the gradient is zero."""
    tiny = float(np.finfo(state.dtype).tiny)
    limit = tiny - gradient.abs() * (1.0 / tiny)
    return where(state.abs() < limit, 0.0, state)


def blend(decay: float, old: Node, new: Node) -> Node:
    """Return the moving average of a value: `decay * old + (1 - decay) * new`."""
    return decay * old + (1.0 - decay) * new


def decayed(decay: float, parameter: Node, gradient: Node) -> Node:
    """Return the gradient plus `decay` times the parameter."""
    return gradient + decay * parameter if decay else gradient


def norm(x: Node) -> Node:
    """Return the Euclidean norm of all elements."""
    return x.square().sum().sqrt()
