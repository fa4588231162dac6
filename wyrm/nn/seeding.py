"""Seeds for the initial parameters of layers and for random nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from wyrm.errors import OptionError
from wyrm.ops.random.philox import pinned_step, seeds, seeds_from, set_step
from wyrm.support.options import whole


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
    checked = whole("a seed", number, 0)
    if pinned_step() is not None:
        raise OptionError(f"wy.nn.seed({number}) inside at_step({pinned_step()}): seed before that context")
    set_step(0)
    seeds().restart(checked)


@contextmanager
def seeded(number: int) -> Iterator[None]:
    """Return a context in which what is built is what `seed(number)` would have made; outside, nothing changes.

    It is for code that others import: their layers and random nodes are the same whether or not yours are built between
    them, and yours whatever they built before. It holds in its own thread or task alone; contexts can be nested, and
    `seed` inside of one holds until its end. What runs does not depend on it: `forward()` goes on with its steps, and
    an epoch shuffles by its own `seed`. A `wy.function` builds its nodes when it is called: call it inside of one, or
    give its random nodes a `seed` and a `stream`.

    Raise `OptionError` for a number below 0, `DTypeError` for one that is no integer.

    >>> wy.nn.seed(7)
    >>> first, second = wy.nn.Linear(2, 2), wy.nn.Linear(2, 2)
    >>> wy.nn.seed(7)
    >>> again = wy.nn.Linear(2, 2)
    >>> with wy.nn.seeded(7):
    ...     inside, dropped = wy.nn.Linear(2, 2), wy.nn.Dropout(0.5)
    >>> bool((inside.weight.value == first.weight.value).all())
    True
    >>> bool((wy.nn.Linear(2, 2).weight.value == second.weight.value).all())
    True
    """
    with seeds_from(whole("a seed", number, 0)):
        yield


def generator(number: int | None = None) -> np.random.Generator:
    """Return the random generator of a new layer: from its own seed, else from the next of the sequence.

    So layers differ, and a script that makes layers in the same order makes the same layers.
    """
    if number is not None:
        return np.random.default_rng(whole("a seed", number, 0))
    return np.random.default_rng(seeds().sequence.spawn(1)[0])
