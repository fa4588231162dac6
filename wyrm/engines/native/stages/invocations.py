"""The calls of a program's functions, and the arguments that arrays are bound to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from wyrm.engines.native.kernels.functions import Routine
from wyrm.engines.native.stages.functions import SizeArgument
from wyrm.engines.native.stages.loops import ArrayBuffer, Item, KernelCall
from wyrm.graph.base import BaseNode

if TYPE_CHECKING:
    from wyrm.engines.native.stages.source import Source


@dataclass(eq=False)
class KernelArgument:
    """An argument of an op's kernel at one position; `kernel_arguments` computes it when arrays are bound."""

    name: str
    call: KernelCall
    position: int


@dataclass(eq=False)
class FlatArgument:
    """A buffer as a flat array or as (rows, elements); or a column, a parameter's state, or an optimizer's number."""

    name: str
    buffer: ArrayBuffer | None
    axes: int
    state: tuple[BaseNode, str] | None = None
    column: BaseNode | None = None
    # A number of the optimizer's rule, and its dtype.
    number: str | None = None
    dtype: np.dtype = field(default_factory=lambda: np.dtype(np.float32))


@dataclass(eq=False)
class WholeCall:
    """An update of a whole parameter: the function of its rule, and the arrays of the rule's inputs."""

    source: Source
    arrays: Mapping[BaseNode, FlatArgument]


@dataclass(eq=False)
class WholeArgument:
    """An argument of the function of an update of a whole parameter, by its position."""

    name: str
    call: WholeCall
    position: int


@dataclass(eq=False)
class NumberArgument:
    """An integer."""

    name: str
    value: int


Argument = ArrayBuffer | SizeArgument | KernelArgument | FlatArgument | WholeArgument | NumberArgument


@dataclass(eq=False)
class Evaluation:
    """The `evaluate` of an op without a kernel, which Python calls by the name of an argument."""

    name: str

    @property
    def __name__(self) -> str:
        return self.name


@dataclass
class Invocation:
    """A call in `run`: a function, its arguments, and the buffers that are live during the call.

    `item` is what the call computes, and `updated` the parameter or buffer that it updates; each may be None.
    """

    function: Routine | Evaluation
    arguments: Sequence[Argument]
    buffers: set[ArrayBuffer]
    comment: str = ""
    item: Item | None = None
    updated: BaseNode | None = None
