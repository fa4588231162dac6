"""Norms of parameters and their gradients by module, the size of updates, and histograms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wyrm.graph.parameters import Parameter
from wyrm.graph.rows import RowSparse
from wyrm.graph.storage import bound_array
from wyrm.optim.clipping import global_norm

# The most elements of a parameter, evenly spaced, from which its updates and its histogram are computed.
_UPDATE_SAMPLE, _HISTOGRAM_SAMPLE = 1 << 20, 1 << 16
_BINS = 40


class Parameters:
    """The named parameters of a model, grouped by the modules that hold them.

    The module of `blocks.0.hidden.weight` is `blocks.0.hidden`; a parameter without a module stands alone.
    """

    def __init__(self, named: Mapping[str, Parameter]) -> None:
        self.named = dict(named)
        self._groups: dict[str, list[Parameter]] = {}
        for name, parameter in self.named.items():
            self._groups.setdefault(name.rpartition(".")[0] or name, []).append(parameter)
        self.modules = list(self._groups)
        self.sizes = [sum(math.prod(p.shape) for p in group) for group in self._groups.values()]
        self._held: dict[Parameter, np.ndarray] = {}

    @property
    def elements(self) -> int:
        """The number of elements of all parameters."""
        return sum(self.sizes)

    def weights(self) -> list[float]:
        """Return the Euclidean norm of each module's parameters."""
        return [_norm([bound_array(parameter) for parameter in group]) for group in self._groups.values()]

    def gradients(self, found: Mapping[Parameter, np.ndarray | RowSparse]) -> list[float]:
        """Return the Euclidean norm of each module's gradients."""
        return [
            _norm([_own_elements(found[parameter]) for parameter in group if parameter in found])
            for group in self._groups.values()
        ]

    def hold(self) -> None:
        """Keep the parameters as they are, for `updates`."""
        self._held = {parameter: _sample(parameter, _UPDATE_SAMPLE).copy() for parameter in self.named.values()}

    @property
    def holds(self) -> bool:
        """Whether parameters are kept."""
        return bool(self._held)

    def updates(self) -> list[float]:
        """Return by module the norm of the change since `hold`, relative to the norm of the parameters then.

        A parameter with more than a million elements is sampled, evenly spaced.
        """
        held, self._held = self._held, {}
        ratios = []
        for group in self._groups.values():
            before = _norm([held[parameter] for parameter in group])
            after = [_sample(parameter, _UPDATE_SAMPLE) for parameter in group]
            change = _norm([now - held[parameter] for parameter, now in zip(group, after, strict=True)])
            ratios.append(change / before if before else math.nan if change else 0.0)
        return ratios

    def histograms(self, found: Mapping[Parameter, np.ndarray | RowSparse]) -> dict[str, dict[str, list[Any]]]:
        """Return the histograms of the parameters and of gradients, by the parameters' names."""
        return {
            "weights": {name: histogram(bound_array(parameter)) for name, parameter in self.named.items()},
            "gradients": {
                name: histogram(_own_elements(found[parameter]))
                for name, parameter in self.named.items()
                if parameter in found
            },
        }


def current_gradients(parameters: Sequence[Parameter]) -> dict[Parameter, np.ndarray | RowSparse]:
    """Return the gradients that parameters hold after a backward pass, without copies."""
    held = {parameter: parameter._storage.gradient for parameter in parameters}
    return {parameter: gradient for parameter, gradient in held.items() if gradient is not None}


def histogram(values: np.ndarray) -> list[Any]:
    """Return the lowest and the highest element, the counts of 40 equal bins between, and how many are not finite.

    An array with more than 65,536 elements is sampled, evenly spaced.

    >>> histogram(np.array([0.0, 1.0, 1.0, np.inf]))[:2], sum(histogram(np.array([0.0, 1.0]))[2])
    ([0.0, 1.0], 2)
    """
    flat = _spaced(values, _HISTOGRAM_SAMPLE)
    finite = flat[np.isfinite(flat)].astype(np.float64)
    if not finite.size:
        return [0.0, 0.0, [0] * _BINS, int(flat.size)]
    low, high = float(finite.min()), float(finite.max())
    # If all numbers are equal, the bins would have no width.
    counts = np.histogram(finite, _BINS, (low, high) if high > low else (low - 0.5, low + 0.5))[0]
    return [low, high, counts.tolist(), int(flat.size - finite.size)]


def _own_elements(gradient: np.ndarray | RowSparse) -> np.ndarray:
    """Return the elements of a gradient that can differ from zero."""
    return gradient.summed().values if isinstance(gradient, RowSparse) else gradient


def _sample(parameter: Parameter, most: int) -> np.ndarray:
    return _spaced(bound_array(parameter), most)


def _spaced(values: np.ndarray, most: int) -> np.ndarray:
    """Return the elements, or at most `most` of them, evenly spaced."""
    flat = values.reshape(-1)
    # An odd step, so that a matrix with an even number of columns is not sampled in a few of them.
    return flat if flat.size <= most else flat[:: -(-flat.size // most) | 1]


def _norm(arrays: Sequence[np.ndarray]) -> float:
    return global_norm(arrays) if arrays else 0.0
