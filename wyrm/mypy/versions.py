"""The versions of mypy that the plugin is tested with: it calls functions of mypy that are not documented."""

from __future__ import annotations

import re
import sys

TESTED = (2, 4)


def check(version: str) -> None:
    """Raise `ImportError` for an older version of mypy, which would stop at the first call; warn of a newer one.

    mypy shows an error of a plugin's import as one line, and one of a plugin's function as an error of its own.
    """
    found = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    tested = ".".join(map(str, TESTED))
    if found < TESTED:
        raise ImportError(
            f"wyrm.mypy needs mypy {tested}, and this is {version}: pip install 'mypy>={tested}', or take the plugin "
            f"out of mypy's configuration"
        )
    if found > TESTED:
        print(  # noqa: T201
            f"wyrm.mypy is tested with mypy {tested}, and this is {version}: where it fails, mypy gives the types of "
            f"the declarations",
            file=sys.stderr,
        )
