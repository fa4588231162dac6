"""The options that all optimizers share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from wyrm.errors import DTypeError, OptionError
from wyrm.optim.averaging import Average
from wyrm.support.foreign_names import explain_keywords
from wyrm.support.options import number


class StepOptions(TypedDict, total=False):
    """Options of every optimizer: limits of the gradients, bounds of the parameters, and averages of them.

    `max_norm` scales all gradients by one factor so that their global norm, over all groups, is at most `max_norm`;
    each of the threads of mode "hogwild" scales its own gradients by their own norm.
    `clip_value` then clips every element of a gradient to `[-clip_value, clip_value]`. `lower` and `upper` bound every
    element of a parameter after its step. `average`, an `EMA` or `SWA`, keeps averages of the parameters. A group may
    have its own `clip_value`, `lower` and `upper`.
    """

    max_norm: float | None
    clip_value: float | None
    lower: float | None
    upper: float | None
    average: Average | None


# The options that a group of parameters may have.
GROUP_OPTIONS = ("clip_value", "lower", "upper")
STEP_OPTIONS = ("max_norm", *GROUP_OPTIONS, "average")


def check_names(who: str, names: Iterable[str], known: Sequence[str] = STEP_OPTIONS) -> None:
    """Raise `TypeError` unless all these are names of the known options."""
    for name in names:
        if name not in known:
            error = TypeError(f"{who}.__init__() got an unexpected keyword argument {name!r}")
            explain_keywords(error, who, [name], known)
            raise error


def checked_options(who: str, options: StepOptions) -> dict[str, Any]:
    """Return all options; raise `OptionError` or `DTypeError` for values out of range, `TypeError` for other names."""
    check_names(who, options)
    given: Mapping[str, Any] = options
    found = {name: given.get(name) for name in STEP_OPTIONS}
    for name in ("max_norm", "clip_value"):
        if found[name] is not None:
            limit(name, found[name])
    for name in ("lower", "upper"):
        if found[name] is not None:
            found[name] = number(name, found[name])
    lower, upper = found["lower"], found["upper"]
    if lower is not None and upper is not None and not lower <= upper:
        raise OptionError(f"lower must be at most upper={upper:g}, not {lower:g}")
    if found["average"] is not None and not isinstance(found["average"], Average):
        raise DTypeError(f"average must be an average, as in wy.optim.EMA(0.999), not {found['average']!r}")
    return found


def limit(name: str, value: object) -> None:
    """Raise `OptionError` unless the limit is above 0, `DTypeError` unless it is a number; infinity clips nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise DTypeError(f"{name} must be a number, not {value!r}")
    if not value > 0.0:
        raise OptionError(f"{name} must be above 0, not {value}")
