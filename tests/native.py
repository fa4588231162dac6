"""Kernels compiled by themselves, as programs compile them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wyrm.backends.llvm import cache
from wyrm.compiler.collect import Collection

_HEADER = '''"""Kernels of a test."""

from __future__ import annotations

import math

import numpy as np

from wyrm.backends.llvm.compilers import accumulated, fused, fused_kernel, kernel, loops, natural
from wyrm.backends.llvm.runtime import multiply_into
'''


def compiled(function: Callable[..., Any], dtype: Any, *, elementwise: bool = False) -> Callable[..., Any]:
    """A kernel for numbers of a dtype; `elementwise`, a function of a number for each element: `(x, out)`."""
    collection = Collection()
    name = collection.add(function, function.__name__, np.dtype(dtype), "kernel")
    fill = f"@loops\ndef fill(x, out):\n    for i in range(x.size):\n        out[i] = {name}(x[i])\n"
    module = cache.module("\n\n".join([_HEADER, *collection.texts, *([fill] if elementwise else [])]))
    found: Callable[..., Any] = module.fill if elementwise else vars(module)[name]
    return found
