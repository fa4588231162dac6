"""The errors that wyrm raises: all derive from `WyrmError`, and each from the builtin that a caller expects.

>>> try:
...     wy.Input(dims=(2, 3)) @ wy.Input(dims=(4, 2))
... except wy.errors.ShapeError as error:
...     print(str(error).splitlines()[0])  # doctest: +ELLIPSIS
matmul: ...

A message names the operation, the operands with their shapes, and the line of your code that built the node.
`DependenceWarning` is a warning.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class WyrmError(Exception):
    """The base of all errors raised by wyrm."""


class ShapeError(WyrmError, ValueError):
    """Shapes or axes that do not match."""


class MissingShape(ShapeError, AttributeError):
    """A property that a node of these axes does not have: `shape` where data decides a size, `mT` of a vector."""


class DTypeError(WyrmError, TypeError):
    """A dtype that an operation, a leaf or a column does not accept."""


class OptionError(WyrmError, ValueError):
    """An option that is out of range or not finite."""


class MissingPackage(ImportError, OptionError):
    """An optional package that is not installed: the message has the command that installs it, `name` the package."""


class Unavailable(OptionError, AttributeError):
    """A property that an object lacks as it was made or used: the machine code of a program that JAX compiles."""


class NotProved(WyrmError, ValueError):
    """A claim about what can reach a node that does not follow from the graph; it may still hold."""


class NotDifferentiable(WyrmError, TypeError):
    """A gradient of something, or through something, that is not differentiable."""


class UnusedParameter(WyrmError, ValueError):
    """A gradient with respect to a node that the output does not depend on."""


class IndexOutOfRange(WyrmError, IndexError):
    """An index outside its table or axis."""


class NotSet(WyrmError, ValueError):
    """A value that was read before the inputs it depends on were set, or before `forward()`."""


class MissingValue(NotSet, AttributeError):
    """A property that has no value yet, such as `value` of a node that was not computed."""


class NotFinite(WyrmError, FloatingPointError):
    """A NaN or an infinity where only finite numbers are valid."""


class Diverged(NotFinite):
    """A loss or parameter that became NaN or infinite in training.

    `rows` are the numbers of the rows of the batch in which it happened, int64 of the shape (rows,). It is None outside
    of an epoch, for a loader of batches, and for what is seen only once the epoch has ended.

    >>> x, slope = wy.Input(dims=(wy.Dim(),), name="x"), wy.Parameter(1.0)
    >>> train = wy.compile((slope * x).log().mean(), wy.optim.SGD([slope], 0.1))
    >>> try:
    ...     train.epoch({x: [1.0, 2.0, 3.0, -4.0]}, batch_size=2)
    ... except wy.errors.Diverged as error:
    ...     error.rows.tolist()
    [2, 3]
    """

    rows: NDArray[np.int64] | None = None


class LinAlgError(WyrmError, np.linalg.LinAlgError):
    """A matrix without the factorization or the solution that an operation needs, such as a singular one."""


class RegistrationError(WyrmError, TypeError):
    """An op class that lacks a required part."""


class CompileError(WyrmError, RuntimeError):
    """A program that cannot be compiled on this machine: llvmlite is missing, or rejects it."""


class KernelError(WyrmError, RuntimeError):
    """A kernel that numba compiles has raised an exception, which it does not raise again when Python calls it."""


class ProcessLost(WyrmError, ConnectionError):
    """A computation of several processes of which one has ended or cannot be reached."""


class CheckpointError(WyrmError, ValueError):
    """A checkpoint that is truncated, corrupt, or saved for other parameters."""


class DataError(WyrmError, ValueError):
    """A data set or a data file that cannot be used; the message names the file and the line."""


class DependenceWarning(RuntimeWarning):
    """A prediction that depends on its target, or on other rows: numbers of an evaluation may be too good."""


__all__ = [
    "CheckpointError",
    "CompileError",
    "DTypeError",
    "DataError",
    "DependenceWarning",
    "Diverged",
    "IndexOutOfRange",
    "KernelError",
    "LinAlgError",
    "MissingShape",
    "MissingValue",
    "NotDifferentiable",
    "NotFinite",
    "NotSet",
    "OptionError",
    "ProcessLost",
    "RegistrationError",
    "ShapeError",
    "Unavailable",
    "UnusedParameter",
    "WyrmError",
]
