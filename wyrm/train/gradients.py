"""Gradients on the host: their sums over batches, and a step of the optimizer by them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from wyrm.graph.base import BaseNode
from wyrm.graph.leaves import Parameter
from wyrm.graph.rows import RowSparse
from wyrm.graph.storage import stored

# An array, or the touched rows of a table.
Gradient = np.ndarray | RowSparse


class Stepper(Protocol):
    """An optimizer whose `step` applies the gradients that its parameters hold."""

    parameters: list[Parameter]

    def step(self) -> None:
        """Update every parameter that has a gradient."""


def add(total: dict[BaseNode, Gradient], gradients: Mapping[BaseNode, Gradient]) -> None:
    """Add gradients to the total, in place; an empty total becomes the gradients."""
    for parameter, gradient in gradients.items():
        before = total.get(parameter)
        if isinstance(before, np.ndarray):
            before += np.asarray(gradient)
        elif isinstance(before, RowSparse) and isinstance(gradient, RowSparse):
            total[parameter] = before.joined(gradient)
        else:
            total[parameter] = gradient


def step_by(optimizer: Stepper, gradients: Mapping[BaseNode, Gradient]) -> None:
    """Do a step of the optimizer with these gradients, whatever gradients its parameters hold."""
    # A parameter that the loss does not depend on must not move.
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
