"""What the library says on its own: lines for people, through Python's logger "wyrm", and the bars of progress.

Python writes such a line to stderr where nothing is configured, and where a program configures `logging`, it goes where
the program's other messages go. A package that is built on wyrm turns all of it off, bars too, by the logger's level:

    logging.getLogger("wyrm").setLevel(logging.ERROR)

Warnings and exceptions are no notices: `warnings` has its own filters.
"""

from __future__ import annotations

import sys
from typing import Any


def say(text: str) -> None:
    """Log a line of the level `WARNING`, the lowest that Python shows where `logging` is not configured.

    It begins with the name of the library, because Python then shows the text alone.
    """
    import logging  # here, because most processes have nothing to say

    logging.getLogger("wyrm").warning("wyrm: %s", text)


def is_silent() -> bool:
    """Return whether the level of the logger "wyrm", or of one above it, turns off lines and bars.

    >>> import logging
    >>> logging.getLogger("wyrm").setLevel(logging.ERROR)
    >>> say("nobody reads this")
    >>> is_silent()
    True
    >>> logging.getLogger("wyrm").setLevel(logging.NOTSET)
    >>> is_silent()
    False
    """
    logging: Any = sys.modules.get("logging")  # who changed a level has imported it
    return logging is not None and not logging.getLogger("wyrm").isEnabledFor(logging.WARNING)
