"""The errors that wyrm raises: all derive from `WyrmError`, and each from the builtin that a caller expects.

>>> try:
...     wy.Input(dims=(2, 3)) @ wy.Input(dims=(4, 2))
... except wy.errors.ShapeError as error:
...     print(str(error).splitlines()[0])  # doctest: +ELLIPSIS
matmul: ...

A message names the operation, the operands with their shapes, and the line of your code that built the node.
"""

from __future__ import annotations


class WyrmError(Exception):
    """The base of all errors raised by wyrm."""


class ShapeError(WyrmError, ValueError):
    """Shapes or axes that do not fit together."""


class DTypeError(WyrmError, TypeError):
    """A dtype that an operation, a leaf or a column does not take."""


class OptionError(WyrmError, ValueError):
    """A number given for an option that is outside its range, or not finite."""


class NotDifferentiable(WyrmError, TypeError):
    """A gradient was asked of, or through, something that has none."""


class UnusedParameter(WyrmError, ValueError):
    """A gradient was asked for a node that the output does not depend on."""


class IndexOutOfRange(WyrmError, IndexError):
    """An index beyond its table or axis."""


class NotSet(WyrmError, ValueError):
    """A value was asked for before the inputs it depends on were set, or before `forward()`."""


class NotFinite(WyrmError, FloatingPointError):
    """A NaN or an infinity where only finite numbers make sense."""


class Diverged(NotFinite):
    """Training left the finite numbers."""


class RegistrationError(WyrmError, TypeError):
    """An op class that lacks one of its parts."""


class CompileError(WyrmError, RuntimeError):
    """Native code that cannot be made on this machine: llvmlite is missing, or refuses."""


class CheckpointError(WyrmError, ValueError):
    """A checkpoint that is truncated, corrupt, or made for other parameters."""


class DataError(WyrmError, ValueError):
    """A data set or a data file that cannot be used; the message names the file and the line."""


__all__ = [
    "CheckpointError",
    "CompileError",
    "DTypeError",
    "DataError",
    "Diverged",
    "IndexOutOfRange",
    "NotDifferentiable",
    "NotFinite",
    "NotSet",
    "OptionError",
    "RegistrationError",
    "ShapeError",
    "UnusedParameter",
    "WyrmError",
]
