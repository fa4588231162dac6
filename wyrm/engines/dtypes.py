"""The dtype that programs compute in, which means the same in every engine that takes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from wyrm.errors import OptionError

ComputeDType = Literal["float32", "bfloat16"]


class DTypeOptions(TypedDict, total=False):
    """The options of engines that may round numbers.

    - `compute_dtype`: "bfloat16" rounds operands of products to bfloat16, and with engine "jax" activations too;
      parameters, sums, norms and losses are in float32.
    """

    compute_dtype: ComputeDType | None


def check_dtype(options: Mapping[str, Any]) -> None:
    """Raise `OptionError` for a `compute_dtype` that no engine has, with the reason for float16.

    >>> check_dtype({})
    >>> check_dtype({"compute_dtype": "bfloat16"})
    >>> check_dtype({"compute_dtype": "int8"})
    Traceback (most recent call last):
    wyrm.errors.OptionError: compute_dtype must be 'float32' or 'bfloat16', not 'int8'
    """
    chosen = options.get("compute_dtype")
    if str(chosen) in ("float16", "half"):
        raise OptionError(
            "compute_dtype='float16' is not supported: its numbers end at 65504 and lose digits below 6e-5, so "
            "gradients overflow or vanish unless losses are scaled; compute_dtype='bfloat16' is as fast and has "
            "the range of float32"
        )
    if chosen not in (None, "float32", "bfloat16"):
        raise OptionError(f"compute_dtype must be 'float32' or 'bfloat16', not {chosen!r}")
