"""The states of callbacks in a checkpoint: what each remembers beside the history."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from wyrm.train.callbacks import Callback


def _by_key(callbacks: Sequence[Callback]) -> dict[str, Callback]:
    """Return callbacks by the name of their class, with a number for a second one of it.

    >>> list(_by_key([Callback(), Callback()]))
    ['Callback', 'Callback 2']
    """
    found: dict[str, Callback] = {}
    counts: dict[str, int] = {}
    for callback in callbacks:
        name = type(callback).__qualname__
        counts[name] = counts.get(name, 0) + 1
        found[name if counts[name] == 1 else f"{name} {counts[name]}"] = callback
    return found


def states_of(callbacks: Sequence[Callback]) -> dict[str, dict[str, Any]]:
    """Return the states of the callbacks that have one."""
    states = {key: callback.state_dict() for key, callback in _by_key(callbacks).items()}
    return {key: state for key, state in states.items() if state}


def load_states(callbacks: Sequence[Callback], states: Mapping[str, Mapping[str, Any]]) -> None:
    """Give callbacks their states; warn of a state without a callback, and of a callback without its state."""
    known = _by_key(callbacks)
    for key in states.keys() - known.keys():
        warnings.warn(
            f"the checkpoint holds the state of a callback {key}, which this training does not have: it ends as it "
            f"would without a break only with the callbacks of the training that saved the checkpoint",
            RuntimeWarning,
            stacklevel=4,
        )
    for key, callback in known.items():
        if key in states:
            callback.load_state_dict(states[key])
        elif callback.state_dict():
            warnings.warn(
                f"the checkpoint holds no state of {key}, which was not among the callbacks of the training that saved "
                f"it: of the epochs before, it knows what the history tells",
                RuntimeWarning,
                stacklevel=4,
            )
