"""Recommenders that are trained by steps: programs are shared, and tables grow with the state of the optimizer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from wyrm.estimators.recommenders.base import Recommender
from wyrm.estimators.recommenders.factors import with_room
from wyrm.estimators.trials import PROGRAMS, Buildable, State

Arrays = dict[str, NDArray[Any]]


class Named(Buildable, Protocol):
    """What the code of a model depends on, and the names of the arrays that are trained, in their order."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays."""
        raise NotImplementedError


@dataclass(eq=False)
class TrainedRecommender(Recommender):
    """Base class: `self.state` has the trained arrays by name, and beside each those of the optimizer, as `own.total`.

    Models of equal forms share their programs, whatever the numbers of users and items, the rate and the seed.
    """

    # What the arrays of the optimizer start with, by name.
    moments: ClassVar[Mapping[str, float]] = {}

    _: KW_ONLY
    epochs: int = 30
    learning_rate: float = 0.05
    batch_size: int = 10
    random_state: int = 0

    @abstractmethod
    def _form(self) -> Named:
        """Return what the code of the model depends on."""

    def _trained(
        self, columns: Mapping[str, Any], held: Mapping[str, Any], rows: Mapping[str, int], threads: int = 1
    ) -> None:
        """Train for `epochs` epochs on columns of interactions, from where the last training ended.

        `rows` has how many rows count of the tables that have room for more.
        """
        form, state = self._form(), self.state
        steps, keys = int(state.get("steps", 0)), [(name, key) for name in form.names for key in self.moments]
        numbers = {name: number for number, name in enumerate(form.names)}
        counts = {name: slice(rows.get(name.removesuffix("_bias"))) for name in form.names}
        moments = {f"{numbers[name]}.{key}": state[f"{name}.{key}"][counts[name]] for name, key in keys}
        moments |= {"steps": np.array(steps), "counts": np.full(len(numbers), steps)}
        found = State([state[name][counts[name]] for name in form.names], moments, steps, int(state.get("epochs", 0)))
        history = PROGRAMS.train(
            form, found, columns, held=held, rate=self.learning_rate, seed=self.random_state, validation=None,
            epochs=self.epochs, batch_size=self.batch_size, shuffle=True, threads=threads,
        )  # fmt: skip
        if history.stopped == "interrupted":
            raise KeyboardInterrupt
        assert found.moments is not None
        self.state = state | dict(zip(form.names, found.arrays, strict=True))
        self.state |= {f"{name}.{key}": found.moments[f"{numbers[name]}.{key}"] for name, key in keys}
        self.state |= {"steps": np.array(found.steps), "epochs": np.array(found.epochs)}

    def _add_rows(self, name: str, rows: NDArray[Any], before: int = 0) -> None:
        """Put rows behind the first ones of a table, which keep their bits; the optimizer starts with these."""
        starts = {f"{name}.{key}": np.full_like(rows, start) for key, start in self.moments.items()}
        for key, values in (starts | {name: rows}).items():
            table = with_room(self.state.get(key, rows[:0]), before + len(rows))
            table[before : before + len(rows)] = values
            self.state[key] = table
