"""What an engine needs of an optimizer: update rules, which are graphs, their hyperparameters and their state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wyrm.graph.axes import Dim
from wyrm.graph.base import BaseNode
from wyrm.graph.leaves import Input
from wyrm.graph.node import Node
from wyrm.graph.parameters import Parameter
from wyrm.graph.rows import RowSparse
from wyrm.graph.storage import Undrawn, stored

# The factor that limits the global norm of the gradients: a number of the rules, which a program computes each step.
GRADIENT_SCALE = "gradient__scale"
# The average of a parameter among the arrays of its state.
AVERAGE = "averaged_parameter"


class Elements(Dim):
    """The elements of a parameter, or of the rows that a gradient touches, flattened."""


class UpdateRule(Protocol):
    """The graph of an update; `outputs` are the new parameter and the new state, computed from the inputs.

    `flushing` are the same outputs, but state that is denormal where the gradient is zero becomes zero.
    """

    parameter: Input
    gradient: Input
    state: dict[str, Input]
    hyperparameters: dict[str, Input]
    outputs: list[Node]
    flushing: list[Node]
    # The names of state that is never negative: sums and averages of squares.
    squares: frozenset[str]
    # The number that is 0 in a step in which the rule changes nothing, if there is one.
    idle_at_zero: str | None

    @property
    def elementwise(self) -> bool:
        """Whether the graph updates one element of a parameter; otherwise it updates a whole parameter of one shape."""
        ...


class OptimizerInterface(Protocol):
    """The interface of an optimizer that a program needs."""

    steps: int

    # Both are Any, because pyright compares the descriptors of an optimizer with these types, not what they return.
    @property
    def parameters(self) -> Any:
        """The parameters of all groups, a list."""
        ...

    @property
    def learning_rate(self) -> Any:
        """The learning rate of the next step, a number."""
        ...

    @property
    def has_schedule(self) -> bool:
        """Whether a learning rate is a function of the steps."""
        ...

    @property
    def average(self) -> object:
        """The average of the parameters that the optimizer keeps, or None."""
        ...

    @property
    def max_norm(self) -> float | None:
        """The largest global norm of the gradients; the rules multiply gradients by the number `GRADIENT_SCALE`."""
        ...

    def rule(self, parameter: Parameter) -> Any:
        """Return the rule of a parameter, the same for parameters with the same one."""
        ...

    def numbers(self, count: int, parameters: Any) -> dict[str, NDArray[np.float64]]:
        """Return the rules' numbers for the next `count` steps of these parameters."""
        ...

    def average_rule(self, parameter: Parameter) -> Any:
        """Return the rule of the array `AVERAGE` of a parameter's state, or None without averages.

        The rule's parameter is the average, and its gradient the parameter's new value, all of it.
        """
        ...

    def state_of(self, parameter: Parameter) -> Mapping[str, np.ndarray]:
        """Return the arrays of a parameter's state."""
        ...

    def first_state_of(self, parameter: Parameter) -> Mapping[str, np.ndarray | Undrawn]:
        """Return the arrays of a parameter's state for a copy on a device; what nobody has read is not drawn."""
        ...

    def hold_on_device(self, newer: Callable[[], None]) -> None:
        """Note that the newest state is on a device; `newer` copies it to the host, on the first read there."""
        ...

    def numbers_on_device(self, count: int, parameters: Any) -> dict[str, NDArray[np.float64]]:
        """Return `numbers` for a program that holds the state on a device, and leave it there."""
        ...

    def step_counts(self) -> list[int]:
        """Return the steps of the optimizer, then those of each parameter."""
        ...

    def load_step_counts(self, counts: Sequence[int]) -> None:
        """Go on counting from a result of `step_counts`."""
        ...

    def advance(self, count: int, parameters: Any) -> None:
        """Count finished steps of these parameters; a negative `count` takes steps back."""
        ...

    def step(self) -> None:
        """Update every parameter with the gradient that it holds."""
        ...


# --- gradients on the host --------------------------------------------------------------------------------------------

# An array, or the touched rows of a table.
GradientArray = np.ndarray | RowSparse


def add(total: dict[BaseNode, GradientArray], gradients: Mapping[BaseNode, GradientArray]) -> None:
    """Add gradients to the total, in place; an empty total becomes the gradients."""
    for parameter, gradient in gradients.items():
        before = total.get(parameter)
        if isinstance(before, np.ndarray):
            before += np.asarray(gradient)
        elif isinstance(before, RowSparse) and isinstance(gradient, RowSparse):
            total[parameter] = before.joined(gradient)
        else:
            total[parameter] = gradient


def step_by(optimizer: OptimizerInterface, gradients: Mapping[BaseNode, GradientArray]) -> None:
    """Do a step of the optimizer with these gradients; the gradients that its parameters hold stay as they are."""
    # A parameter without a gradient here must not move, even if it holds one.
    held = {storage: storage.gradient for storage in map(stored, optimizer.parameters)}
    try:
        for storage in held:
            storage.gradient = None
        for parameter, gradient in gradients.items():
            stored(parameter).gradient = gradient
        optimizer.step()
    finally:
        for storage, before in held.items():
            storage.gradient = before
