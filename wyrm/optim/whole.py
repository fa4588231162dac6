"""An update rule over whole parameters as a graph, evaluated with NumPy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from wyrm.engines.numpy.reference import ReferenceRunner
from wyrm.errors import RegistrationError
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.node import Node
from wyrm.graph.schedule import Schedule
from wyrm.graph.storage import store, stored
from wyrm.optim.rule import new_values


class WholeRule:
    """The graph of an update that may reduce over a parameter and multiply matrices, for one shape and dtype.

    The inputs are as in `UpdateEvaluator`, but `parameter` and `gradient` have the axes of the parameter, and each
    state has axes of its own. Every engine runs this graph; a call runs it with NumPy.

    Raise `RegistrationError` for a rule that uses leaves other than its arguments and constants, or returns a value of
    another shape or dtype.
    """

    elementwise = False
    # Denormal state becomes zero in the graph itself.
    flushes = False

    def __init__(
        self,
        parameter: Input,
        gradient: Input,
        state: Mapping[str, Input],
        hyperparameters: Mapping[str, Input],
        update: tuple[Node, Mapping[str, Node]],
    ) -> None:
        self.parameter, self.gradient = parameter, gradient
        self.state, self.hyperparameters = dict(state), dict(hyperparameters)
        self.outputs = new_values(parameter, state, update)
        for leaf, output in zip([parameter, *state.values()], self.outputs, strict=True):
            if output.dims != leaf.dims:
                raise RegistrationError(
                    f"an optimizer's update must keep the shape of {leaf.name}, {leaf.dims}, not return "
                    f"{describe(output)}"
                )
        self._runner: ReferenceRunner | None = None
        known: set[BaseNode] = {parameter, gradient, *state.values(), *hyperparameters.values()}
        for other in Schedule(self.outputs).leaves:
            if other not in known and not isinstance(other, Constant):
                raise RegistrationError(
                    f"an optimizer's rule must use only its arguments and constants; {describe(other)} is another leaf"
                )

    def __call__(
        self,
        parameter: np.ndarray,
        gradient: np.ndarray,
        state: Mapping[str, np.ndarray],
        hyperparameters: Mapping[str, float],
        flush: bool = False,
    ) -> None:
        """Write the new values into `parameter` and the arrays of `state`; `flush` is for elementwise rules."""
        leaves = [self.parameter, self.gradient, *self.state.values(), *self.hyperparameters.values()]
        numbers = [np.asarray(hyperparameters[name], parameter.dtype) for name in self.hyperparameters]
        given = [parameter, gradient, *(state[name] for name in self.state), *numbers]
        if self._runner is None:
            for leaf, array in zip(leaves, given, strict=True):
                stored(leaf).array = np.empty_like(array)
            self._runner = ReferenceRunner(self.outputs)
        for leaf, array in zip(leaves, given, strict=True):
            store(stored(leaf), array)
        plan = self._runner.run()
        for target, output in zip([parameter, *(state[name] for name in self.state)], self.outputs, strict=True):
            target[...] = plan.value(output)
