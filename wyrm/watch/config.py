"""The options that a run records, for the table of runs: plain values by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np

from wyrm.errors import DTypeError, OptionError

Option = str | int | float | bool | None
# The most options of a run, and characters of one.
_MOST, _LONGEST = 1_000, 1_000


def checked_config(config: object) -> dict[str, Option]:
    """Return options as plain values by name; those of a mapping inside have its name before theirs.

    Raise `DTypeError` for anything but a mapping from names to numbers, texts, booleans, None, paths, sequences of
    them and mappings of them, and `OptionError` for more than a thousand options.

    >>> checked_config({"learning_rate": np.float32(0.5), "model": {"sizes": (64, 10)}})
    {'learning_rate': 0.5, 'model.sizes': '64, 10'}
    >>> checked_config([("seed", 1)])
    Traceback (most recent call last):
    wyrm.errors.DTypeError: config must be a dict from names to values, such as {"seed": 0}, not a list
    """
    if config is None:
        return {}
    found: dict[str, Option] = {}
    _add_option(found, "", config)
    if len(found) > _MOST:
        raise OptionError(f"config has {len(found):,} options, more than {_MOST:,}: leave out what no run differs in")
    return found


def _add_option(found: dict[str, Option], before: str, config: object) -> None:
    if not isinstance(config, Mapping):
        # The options of argparse, and objects of data classes.
        advice = ": give vars(...) of it" if hasattr(config, "__dict__") else ""
        kind = type(config).__name__
        raise DTypeError(f'config must be a dict from names to values, such as {{"seed": 0}}, not a {kind}{advice}')
    for name, value in config.items():
        if not isinstance(name, str):
            raise DTypeError(f"the name of an option in config must be text, not {name!r}")
        if isinstance(value, Mapping):
            _add_option(found, f"{before}{name}.", value)
        else:
            found[f"{before}{name}"] = _plain(f"{before}{name}", value)


def _plain(name: str, value: Any) -> Option:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | str):
        return value[:_LONGEST] if isinstance(value, str) else value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, PurePath):
        return str(value)[:_LONGEST]
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return ", ".join(str(_plain(name, member)) for member in value)[:_LONGEST]
    raise DTypeError(
        f"the option {name!r} in config must be a number, text, True, False, None, or a list or dict of them, not "
        f"{type(value).__name__}: give a text that names it"
    )
