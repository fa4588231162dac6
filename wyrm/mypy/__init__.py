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

Of programs, optimizers and layers it knows what these refuse: a parameter as a key of the data, an epoch without an
optimizer, an engine or an option of a group that there is not, layers of a `Sequential` that do not follow.

`float ** float`, which is `Any` for mypy because it may be complex, is a float with the plugin, and a function of NumPy
of one number is a float64: a node divided by `width**0.5` or by `np.sqrt(width)` keeps its axes.

An exception in the plugin leaves what mypy does without it; with `WYRM_MYPY_RAISES` in the environment mypy stops.
"""

from __future__ import annotations

from mypy.version import __version__

from wyrm.mypy.versions import check

check(__version__)  # before the plugin is imported, which takes names from mypy that other versions lack

from wyrm.mypy.plugin import plugin  # noqa: E402

__all__ = ["plugin"]
