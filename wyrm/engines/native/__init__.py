"""The engine `native`: graphs and the loop over the data, compiled to machine code."""

from __future__ import annotations

from typing import Literal, TypedDict

from wyrm.engines.dtypes import DTypeOptions

LoopOption = Literal["auto", "compiled", "python"]


class LoopOptions(TypedDict, total=False):
    """The options that only the native engine takes.

    - `loop`: whether the loop over the data is compiled, or Python that calls compiled kernels.
    """

    loop: LoopOption


class NativeOptions(LoopOptions, DTypeOptions, total=False):
    """The options of the native engine."""
