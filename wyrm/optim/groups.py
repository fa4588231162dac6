"""Groups of parameters with options of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wyrm.errors import OptionError
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.leaves import Parameter

LearningRate = float | Callable[[int], float]
# Parameters, or groups of them: mappings with the entry "parameters" and options.
ParameterGroups = Iterable[Parameter | Mapping[str, Any]]


@dataclass(frozen=True)
class ScaledRate:
    """A schedule times a factor."""

    schedule: Callable[[int], float]
    factor: float

    def __call__(self, step: int) -> float:
        return self.factor * self.schedule(step)


def scaled_rate(rate: LearningRate, factor: float) -> LearningRate:
    """Return the learning rate or schedule times a factor."""
    if factor == 1.0:
        return rate
    return ScaledRate(rate, factor) if callable(rate) else factor * rate


def split_groups(who: str, parameters: ParameterGroups) -> tuple[Any, list[Mapping[str, Any]]]:
    """Return the parameters and no groups, or the groups of a list of groups.

    Raise `TypeError` for a list of both, and `ValueError` for a group without the entry "parameters".
    """
    if isinstance(parameters, BaseNode) or not isinstance(parameters, Iterable):
        return parameters, []
    given = list(parameters)
    groups = [each for each in given if isinstance(each, Mapping)]
    if groups and len(groups) < len(given):
        raise TypeError(f"{who} takes a list of parameters or a list of groups, not a list of both")
    for position, group in enumerate(groups):
        if "parameters" not in group:
            raise OptionError(
                f'group {position} of {who} has no entry "parameters"; a group is a dict such as '
                f'{{"parameters": model.parameters(), "learning_rate": 0.1}}'
            )
    return given, groups


def check_distinct(who: str, groups: Sequence[Sequence[Parameter]]) -> None:
    """Raise `ValueError` for a parameter in two groups."""
    group_of: dict[Parameter, int] = {}
    for position, group in enumerate(groups):
        for parameter in group:
            if parameter in group_of:
                raise ValueError(f"{who} has {describe(parameter)} in groups {group_of[parameter]} and {position}")
            group_of[parameter] = position
