"""Seeds for the initial parameters of layers."""

from __future__ import annotations

import numpy as np

from wyrm.types.options import whole

# Each layer without a seed takes the next child of this sequence: layers differ, and a script that makes layers in the
# same order makes the same layers. None stands for seed 0: making that sequence here would import numpy.random.
_sequence: np.random.SeedSequence | None = None


def seed(number: int) -> None:
    """Restart the sequence of seeds for new layers; the default is `seed(0)`.

    `number` is at least 0, else `ValueError`. Layers made in the same order after the same seed have the same
    parameters. A layer with its own `seed` leaves the sequence unchanged.

    >>> wy.nn.seed(7)
    >>> first, second = wy.nn.Linear(2, 2), wy.nn.Linear(2, 2)
    >>> wy.nn.seed(7)
    >>> bool((wy.nn.Linear(2, 2).weight.value == first.weight.value).all())
    True
    >>> bool((second.weight.value == first.weight.value).any())
    False
    """
    global _sequence
    _sequence = np.random.SeedSequence(whole("a seed", number, 0))


def generator(number: int | None = None) -> np.random.Generator:
    """Return the generator for a new layer: of its own seed, or without one of the next of the sequence."""
    if number is not None:
        return np.random.default_rng(whole("a seed", number, 0))
    global _sequence
    if _sequence is None:
        _sequence = np.random.SeedSequence(0)
    return np.random.default_rng(_sequence.spawn(1)[0])
