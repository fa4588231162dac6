"""`Work`: the operations and bytes of a call, counted from its loop program."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wyrm.engines.native.ir.program import LoopProgram
from wyrm.engines.native.ir.types import PointerType
from wyrm.engines.native.kernels.values import Kind, types_of
from wyrm.profile.counting import Counter
from wyrm.profile.tally import KnownValue, Pointer, Unknown


@dataclass(frozen=True)
class Work:
    """The work of one call.

    `flops` counts additions, multiplications, divisions and functions of floats, of which `product_flops` are those of
    matrix products, two for each multiply-add. `bytes_read` and `bytes_written` count each element of an array once,
    however often a call touches it. `bits` is the width of most floats. `divided`: threads share its loop.
    """

    flops: float = 0.0
    product_flops: float = 0.0
    bytes_read: float = 0.0
    bytes_written: float = 0.0
    bits: int = 32
    exact: bool = True
    divided: bool = False

    @property
    def bytes(self) -> float:
        """The bytes read and written."""
        return self.bytes_read + self.bytes_written

    @property
    def shared(self) -> bool:
        """Whether threads share the call: most of it are products, or it is a large loop of independent turns."""
        return self.divided or 2 * self.product_flops > self.flops


def work_of(program: LoopProgram, products: Container[str], kinds: Sequence[Kind], arguments: Sequence[Any]) -> Work:
    """Return the work of the last function of a loop program, called with arguments of these kinds.

    `products` are the names of functions that multiply matrices.
    """
    from wyrm.engines.native.llvm.calling import words_of
    from wyrm.engines.native.llvm.shared_loops import LEAST_ELEMENTS

    function, sizes = program.functions[-1], dict[str, int]()
    words = [word for each, kind in zip(arguments, kinds, strict=True) for word in words_of(each, kind)]
    types = [type for kind in kinds for _, type in types_of(kind)]
    arrays = iter(_arrays(arguments))
    variables: dict[str, KnownValue] = {}
    for parameter, word, type in zip(function.parameters, words, types, strict=True):
        if isinstance(type, PointerType):
            variables[parameter.name] = Pointer(parameter.name)
            sizes[parameter.name] = next(arrays).nbytes
        else:
            variables[parameter.name] = Unknown.DATA if type.kind == "f" else word
    counter = Counter(program, products)
    counter.call(function, [variables[each.name] for each in function.parameters])
    tally = counter.tally
    return Work(
        sum(tally.flops.values()),
        tally.products,
        sum(min(count, sizes[array]) for array, count in tally.read.items()),
        sum(min(count, sizes[array]) for array, count in tally.written.items()),
        max(tally.flops, key=tally.flops.__getitem__, default=32),
        tally.exact,
        function.divided and any(each.size >= LEAST_ELEMENTS for each in _arrays(arguments)),
    )


def _arrays(arguments: Sequence[Any]) -> Iterator[np.ndarray]:
    for each in arguments:
        if isinstance(each, np.ndarray):
            yield each
        elif isinstance(each, tuple):
            yield from _arrays(each)
