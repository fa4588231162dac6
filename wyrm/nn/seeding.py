"""Seeds for the initial parameters of layers and for random nodes."""

from __future__ import annotations

import numpy as np

from wyrm.errors import OptionError
from wyrm.ops.random.philox import pinned_step, restart_streams, set_step
from wyrm.support.options import whole

# Each layer without a seed takes the next child of this sequence: layers differ, and a script that makes layers in the
# same order makes the same layers. None stands for seed 0: making that sequence here would import numpy.random.
_sequence: np.random.SeedSequence | None = None


def seed(number: int) -> None:
    """Make what is built and drawn from here on repeatable; a new process begins as after `seed(0)`.

    `number` is at least 0, else `OptionError`, as inside `wy.random.at_step`. What is built in the same order after the
    same seed is the same: layers have the same parameters, and random nodes, such as those of dropout, draw the same
    numbers in the same step. The next `forward()` draws for step 0. So a cell of a notebook that begins with `seed`
    gives the same numbers each time. A layer with its own `seed` leaves the sequence of the others unchanged. What a
    random node draws in a step follows from its own `seed` and `stream`; with both given, it is the same wherever the
    node is built.

    Seed once, before a model is built: random nodes that are built in the same order after the same seed draw alike,
    also if they are joined to one graph. Programs go on with their own count of steps. Models that are loaded or
    unpickled draw what they drew where they were built.

    >>> wy.nn.seed(7)
    >>> first, second = wy.nn.Linear(2, 2), wy.nn.Linear(2, 2)
    >>> noise = wy.random.normal((3,)).forward()
    >>> wy.nn.seed(7)
    >>> again, _ = wy.nn.Linear(2, 2), wy.nn.Linear(2, 2)
    >>> bool((again.weight.value == first.weight.value).all())
    True
    >>> bool((second.weight.value == first.weight.value).any())
    False
    >>> bool((wy.random.normal((3,)).forward() == noise).all())
    True
    """
    global _sequence
    sequence = np.random.SeedSequence(whole("a seed", number, 0))
    if pinned_step() is not None:
        raise OptionError(f"wy.nn.seed({number}) inside at_step({pinned_step()}): seed before that context")
    set_step(0)
    # Graphs built after different seeds have different streams, so that they can be joined.
    restart_streams(int(sequence.generate_state(1)[0]) if number else 0)
    _sequence = sequence


def generator(number: int | None = None) -> np.random.Generator:
    """Return the random generator of a new layer: from its own seed, else from the next of the sequence."""
    if number is not None:
        return np.random.default_rng(whole("a seed", number, 0))
    global _sequence
    if _sequence is None:
        _sequence = np.random.SeedSequence(0)
    return np.random.default_rng(_sequence.spawn(1)[0])
