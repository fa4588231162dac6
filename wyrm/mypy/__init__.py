"""A plugin for mypy that knows the axes of every result; it needs mypy.

    [tool.mypy]
    plugins = ["wyrm.mypy"]

Type annotations alone give the axes of common calls and leave the others unknown. With the plugin, mypy builds the node
of each call from operands with the same axes, so that one rule gives the axes at run time and for mypy. Errors name two
axes, and have the code `axes`:

    + of (Batch, Pixels) and (Batch, Hidden): Pixels against Hidden  [axes]

Types hold no sizes. Where the text of one file tells them, as `Conv2d(1, 4, 3)` and `Input(dims=(Batch(), 1, 8, 8))`
do, in variables and attributes that are assigned once, the plugin makes these layers and nodes and runs their calls:

    Linear of (Batch(), 144): 144 against 145  [axes]

An exception in the plugin leaves what mypy does without it; with `WYRM_MYPY_RAISES` in the environment mypy stops.
"""

from __future__ import annotations

from wyrm.mypy.plugin import plugin

__all__ = ["plugin"]
