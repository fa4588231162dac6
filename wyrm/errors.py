"""The errors that wyrm raises: subclasses of `WyrmError`, each also a subclass of the builtin that fits."""

from __future__ import annotations


class WyrmError(Exception):
    """The base of all errors raised by wyrm."""


class ShapeError(WyrmError, ValueError):
    """Shapes or axes that do not match."""


class DTypeError(WyrmError, TypeError):
    """A dtype that an operation, a leaf or a column does not accept."""


class OptionError(WyrmError, ValueError):
    """An option that is out of range or not finite."""


class NotDifferentiable(WyrmError, TypeError):
    """A gradient of something, or through something, that is not differentiable."""


class UnusedParameter(WyrmError, ValueError):
    """A gradient with respect to a node that the output does not depend on."""


class IndexOutOfRange(WyrmError, IndexError):
    """An index outside its table or axis."""


class NotSet(WyrmError, ValueError):
    """A value that was read before the inputs it depends on were set, or before `forward()`."""


class NotFinite(WyrmError, FloatingPointError):
    """A NaN or an infinity where only finite numbers are valid."""


class Diverged(NotFinite):
    """A loss or parameter that became NaN or infinite in training."""


class RegistrationError(WyrmError, TypeError):
    """An op class that lacks a required part."""


class CompileError(WyrmError, RuntimeError):
    """A program that cannot be compiled on this machine: llvmlite is missing, or rejects it."""


class CheckpointError(WyrmError, ValueError):
    """A checkpoint that is truncated, corrupt, or saved for other parameters."""


class DataError(WyrmError, ValueError):
    """A data set or a data file that cannot be used; the message names the file and the line."""
