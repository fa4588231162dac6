"""The table of 64-bit words through which a compiled function receives arguments and returns results."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.engines.native.ir.types import BOOL, FLOAT64, INT64, scalar_of
from wyrm.engines.native.kernels.errors import NotCompiled
from wyrm.engines.native.kernels.values import GroupKind, Kind, NumKind, ViewKind


def kind_of_argument(value: object) -> Kind:
    """Return the kind of a Python number, an array or a tuple of these; raise `NotCompiled` for anything else."""
    if isinstance(value, np.ndarray):
        element = scalar_of(value.dtype)
        if element is None:
            raise NotCompiled(f"unsupported array dtype {value.dtype}; kernels support bools, integers and floats")
        if not value.flags.aligned:
            raise NotCompiled("an array is not aligned; copy it")
        if value.flags.c_contiguous:
            return ViewKind(element, value.ndim, "contiguous")
        if any(stride % value.itemsize for stride in value.strides):
            raise NotCompiled("the strides of an array are not multiples of its item size; copy it")
        rows = value.ndim > 0 and value.strides[-1] == value.itemsize
        return ViewKind(element, value.ndim, "rows" if rows else "any")
    if isinstance(value, bool | np.bool_):
        return NumKind(BOOL)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise NotCompiled(f"{value} does not fit an integer of 64 bits")
        return NumKind(INT64)
    if isinstance(value, float) and not isinstance(value, np.generic):
        return NumKind(FLOAT64)
    if isinstance(value, np.generic):
        scalar = scalar_of(value.dtype)
        if scalar is not None:
            return NumKind(scalar)
    if isinstance(value, tuple):
        return GroupKind(tuple(map(kind_of_argument, value)))
    raise NotCompiled(f"an argument must be a number, an array or a tuple of these, not a {type(value).__name__}")


def words_of(value: Any, kind: Kind) -> list[int]:
    """Return the words of an argument of a kind."""
    match kind:
        case ViewKind(_, axes, layout):
            words = [value.__array_interface__["data"][0], *value.shape]
            if layout != "contiguous":
                size = value.itemsize
                words += [stride // size for stride in value.strides[: axes if layout == "any" else axes - 1]]
            return words
        case NumKind(type, _):
            return [_word(value, type.kind, type.bits)]
        case GroupKind(items):
            return [word for each, item in zip(value, items, strict=True) for word in words_of(each, item)]
        case _:
            raise NotCompiled(f"{kind} cannot be passed as an argument")


def _word(value: Any, kind: str, bits: int) -> int:
    if kind == "f":
        packed = struct.pack("<f", value) + b"\0\0\0\0" if bits == 32 else struct.pack("<d", value)
        return int.from_bytes(packed, "little", signed=True)
    number = int(value)
    return number - 2**64 if number >= 2**63 else number


def results_of(words: Sequence[int], kinds: Sequence[NumKind]) -> list[int | float]:
    """Return the results as Python numbers, from their words."""
    found: list[int | float] = []
    for word, kind in zip(words, kinds, strict=True):
        packed = int(word).to_bytes(8, "little", signed=True)
        if kind.type == BOOL:
            found.append(bool(packed[0]))
        else:
            size = kind.type.itemsize
            number: np.ndarray = np.frombuffer(packed[:size], kind.type.dtype)
            found.append(number[0].item())
    return found
