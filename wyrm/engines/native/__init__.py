"""The engine `native`: graphs and the loop over the data, compiled to machine code."""

from __future__ import annotations

from typing import Literal, TypedDict

LoopOption = Literal["auto", "compiled", "python"]


class NativeOptions(TypedDict, total=False):
    """The options that only the native engine takes.

    - `loop`: whether the loop over the data is compiled, or Python that calls compiled kernels.
    """

    loop: LoopOption
