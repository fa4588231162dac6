"""Several optimizers as one."""

from __future__ import annotations

from collections.abc import Sequence

from wyrm.errors import OptionError
from wyrm.optim.optimizer import LearningRate, Optimizer, Rate
from wyrm.optim.options import Average, check_step_options


class _RatesOfGroups(Rate):
    """The learning rate of the first optimizer; each of the `groups` has one of its own."""

    def of_next_step(self, instance: Optimizer) -> float:
        assert isinstance(instance, Combined)
        return instance.groups[0].learning_rate

    def __set__(self, instance: Optimizer, value: LearningRate) -> None:
        raise AttributeError("the optimizers of Combined have learning rates of their own: set those of its groups")


class Combined(Optimizer):
    """Optimizers of different parameters that step together, such as Muon for matrices and AdamW for the others.

    They become its `groups`, which keep their learning rates and other options; their state moves here. `max_norm`
    bounds the global norm of all gradients together, and `average` averages all parameters.

    Raise `ValueError` for a parameter that two of them have, for one that has already done steps, and for one with a
    `max_norm` or `average` of its own.

    >>> model = wy.nn.Linear(2, 3)
    >>> matrices, others = wy.optim.Muon([model.weight], 0.02), wy.optim.AdamW([model.bias], 1e-3)
    >>> optimizer = Combined([matrices, others], max_norm=1.0)
    >>> [type(group).__name__ for group in optimizer.groups]
    ['Muon', 'AdamW']
    """

    learning_rate = _RatesOfGroups()

    def __init__(
        self, optimizers: Sequence[Optimizer], *, max_norm: float | None = None, average: Average | None = None
    ) -> None:
        given = list(optimizers)
        for optimizer in given:
            if not isinstance(optimizer, Optimizer):
                raise TypeError(f"Combined takes optimizers, not {type(optimizer).__name__}")
            optimizer._check_usable()
            if optimizer.max_norm is not None or optimizer.average is not None:
                raise OptionError("max_norm and average are about all parameters: give them to Combined")
            if optimizer.steps or any(optimizer._counts):
                raise OptionError(f"Combined takes new optimizers; this {type(optimizer).__name__} has done steps")
        if not given:
            raise OptionError("Combined was given no optimizers")
        self.max_norm: float | None = max_norm
        self.average: Average | None = average
        check_step_options(self)
        self.steps: int = 0
        self._rules = {}
        states = [state for optimizer in given for state in optimizer._arrays]
        self._join([member for optimizer in given for member in optimizer.groups], states)
        for optimizer in given:
            optimizer._is_member, optimizer._state = True, []

    def options(self) -> dict[str, object]:
        """Return the options of Combined itself; each of the `groups` has others."""
        return {name: value for name, value in super().options().items() if name in ("max_norm", "average")}
