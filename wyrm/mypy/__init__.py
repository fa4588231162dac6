"""A plugin for mypy that knows the axes of every result; it needs mypy.

    [tool.mypy]
    plugins = ["wyrm.mypy"]

Type annotations alone give the axes of common calls and leave the others unknown. With the plugin, mypy builds the node
of each call from operands with the same axes, so that one rule gives the axes at run time and for mypy. Errors name two
axes, and have the code `axes`:

    + of (Batch, Pixels) and (Batch, Hidden): Pixels against Hidden  [axes]
"""

from __future__ import annotations

from wyrm.mypy.plugin import plugin

__all__ = ["plugin"]
