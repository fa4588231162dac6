"""Checks of what is recorded, so that a mistake is an error of the call that makes it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wyrm.errors import DTypeError, OptionError, WyrmError
from wyrm.graph.leaves import Parameter
from wyrm.support.options import whole
from wyrm.watch.records import MOST_STEPS


def count(name: str, value: object) -> int:
    """Return a number of steps, rows or epochs; raise `DTypeError` or `OptionError` if readers would refuse it.

    >>> count("step", -1)
    Traceback (most recent call last):
    wyrm.errors.OptionError: step must be an integer of at least 0, not -1
    """
    result = whole(name, value, 0)
    if result >= MOST_STEPS:
        raise OptionError(f"{name} must be an integer below {MOST_STEPS:,}")
    return result


def text(name: str, value: object) -> str:
    """Return a text; raise `DTypeError` for anything else."""
    if not isinstance(value, str):
        raise DTypeError(f"{name} must be text, not {value!r}")
    return value


def folder_or_none(value: object) -> Path | None:
    """Return the folder of a run as a path; raise `DTypeError` if it is none."""
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if path is not None and not isinstance(path, str):
        raise DTypeError(f'folder must be the path of a folder, such as "runs/first", not {value!r}')
    return None if path is None else Path(path)


def check_tensorboard(value: object) -> None:
    """Raise `DTypeError` unless the option is True, False or None."""
    if value is not None and not isinstance(value, bool):
        raise DTypeError(f"tensorboard must be True, False, or None for where it is installed, not {value!r}")


def numbers(values: object) -> dict[str, float]:
    """Return values as floats by name; raise `DTypeError` unless they are single real numbers by names.

    >>> numbers({"loss": np.float32(0.5), "accuracy": None})
    Traceback (most recent call last):
    wyrm.errors.DTypeError: the value of 'accuracy' must be a number, not None
    """
    if not isinstance(values, Mapping):
        raise DTypeError(f'values must be a dict from names to numbers, such as {{"loss": 0.5}}, not {values!r}')
    return {text("the name of a value", name): _float(name, value) for name, value in values.items()}


def _float(name: str, value: Any) -> float:
    if type(value) is float:
        return value
    # Text and arrays of one element could become floats too.
    if not isinstance(value, str | bytes | bytearray) and not getattr(value, "shape", ()):
        try:
            return float(value)
        except OverflowError:
            raise OptionError(f"the value of {name!r} is too large for a float") from None
        except WyrmError:  # a node that has no value yet says why
            raise
        except (TypeError, ValueError):
            pass
    raise DTypeError(f"the value of {name!r} must be a number, not {value!r}")


def named_parameters(taker: str, parameters: Any) -> dict[str, Parameter]:
    """Return the parameters of a model, or of a mapping, by name; raise `TypeError` for anything else.

    A mapping with other keys than names, or with other values than parameters, raises `DTypeError` or `OptionError`.
    """
    if parameters is None:
        return {}
    if not isinstance(parameters, Mapping):
        if not hasattr(parameters, "named_parameters"):
            kind = type(parameters).__name__
            raise TypeError(f"{taker} takes a module, or a dict from names to parameters, not {kind}")
        return dict(parameters.named_parameters())
    for name, parameter in parameters.items():
        if not isinstance(parameter, Parameter):
            raise OptionError(f"{name!r} is {parameter!r}; only parameters have updates")
        text("the name of a parameter", name)
    return dict(parameters)
