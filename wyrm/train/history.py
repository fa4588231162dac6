"""`History`, which `fit` returns: the values of every epoch, and why training ended."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

from wyrm.errors import OptionError, Unavailable

Stopped = Literal["completed", "early", "interrupted"]


class EpochRecord(NamedTuple):
    """The number of an epoch, from 1, and its values by name."""

    epoch: int
    values: dict[str, float]


class History(dict[str, list[float]]):
    """The values of a training by name, each a list with a number for each epoch.

    Names are "loss" and the program's metrics, with validation "validation_loss" and so on, "learning_rate" at the
    start of the epoch, and the "seconds" of its training. `stopped` is "completed" after all epochs, "early" if a
    callback stopped the training, and "interrupted" after Ctrl-C.

    >>> history = History()
    >>> history.append({"loss": 2.0, "accuracy": 0.5})
    >>> history.append({"loss": 1.0, "accuracy": 0.75})
    >>> history["loss"], history.epochs
    ([2.0, 1.0], 2)
    >>> history.best
    EpochRecord(epoch=2, values={'loss': 1.0, 'accuracy': 0.75})
    """

    stopped: Stopped = "completed"

    @property
    def epochs(self) -> int:
        """The number of epochs."""
        return len(next(iter(self.values()), []))

    @property
    def best(self) -> EpochRecord:
        """The epoch of the lowest validation loss, or without validation of the lowest loss; the earliest of equals."""
        return self.best_by("validation_loss" if "validation_loss" in self else "loss")

    def best_by(self, name: str, *, higher_is_better: bool = False) -> EpochRecord:
        """Return the epoch of the lowest value of a name, or the highest; the earliest of equals, and NaN last.

        Raise `OptionError` for an unknown name, and without epochs.

        >>> history = History({"loss": [2.0, 1.0], "accuracy": [0.75, 0.5]})
        >>> history.best_by("accuracy", higher_is_better=True).epoch
        1
        """
        if not self.epochs:
            raise Unavailable("there is no best epoch, because no epoch has ended")
        values = self[known(name, self)]
        sign = -1.0 if higher_is_better else 1.0
        return self.record(min(range(len(values)), key=lambda i: (math.isnan(values[i]), sign * values[i])))

    def record(self, position: int) -> EpochRecord:
        """Return the values of an epoch; position 0 is epoch 1, and -1 the last."""
        number = position + 1 if position >= 0 else self.epochs + position + 1
        return EpochRecord(number, {name: values[position] for name, values in self.items()})

    def append(self, values: Mapping[str, float]) -> None:
        """Add the values of an epoch; raise `OptionError` unless the names are those of the epochs before."""
        if self.epochs and set(values) != set(self):
            raise OptionError(f"an epoch has the values {', '.join(values)}, the epochs before {', '.join(self)}")
        for name, value in values.items():
            self.setdefault(name, []).append(float(value))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={values[-1]:.6g}" for name, values in self.items() if values)
        return f"<History of {self.epochs} epochs, {self.stopped}{f'; the last: {values}' if values else ''}>"


def known(name: str, values: Mapping[str, object]) -> str:
    """Return `name`; raise `OptionError` if there is no such value."""
    if name not in values:
        raise OptionError(f"there is no value {name!r} to monitor; the values of an epoch are: {', '.join(values)}")
    return name
