"""Where the random numbers of new layers come from."""

from __future__ import annotations

import numpy as np

from wyrm.errors import DTypeError

# Each layer without a seed of its own takes the next child of this sequence: layers differ, and a script that makes
# them in the same order makes them the same. None is that of seed 0, not made yet: it would import numpy.random.
_sequence: np.random.SeedSequence | None = None


def seed(number: int) -> None:
    """Start the seeds of new layers anew; a script that never calls it starts from 0.

    `number` is at least 0. Layers made in the same order after the same seed have the same parameters; a layer with a
    seed of its own neither takes one of these nor changes those of others.

    >>> wy.nn.seed(7)
    >>> first, second = wy.nn.Linear(2, 2), wy.nn.Linear(2, 2)
    >>> wy.nn.seed(7)
    >>> bool((wy.nn.Linear(2, 2).weight.value == first.weight.value).all())
    True
    >>> bool((second.weight.value == first.weight.value).any())
    False
    """
    global _sequence
    _sequence = np.random.SeedSequence(_checked(number))


def generator(number: int | None = None) -> np.random.Generator:
    """The generator for one new layer: of its own seed, or without one the next of the script's."""
    if number is not None:
        return np.random.default_rng(_checked(number))
    global _sequence
    if _sequence is None:
        _sequence = np.random.SeedSequence(0)
    return np.random.default_rng(_sequence.spawn(1)[0])


def _checked(number: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int | np.integer):
        raise DTypeError(f"a seed is a whole number, not {number!r}, a {type(number).__name__}")
    if number < 0:
        raise ValueError(f"a seed is at least 0, not {number}")
    return int(number)
