"""Random kernels give the same results in JAX as in Python."""

from __future__ import annotations

import jax
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engines.native.kernels.running import copies, same, written
from tests.engines.native.kernels.test_random_kernels import arrays, kernels
from wyrm.engines.jax.kernels.forms import called
from wyrm.engines.native.kernels.functions import KernelFunction

# Without optimizations LLVM contracts no multiplication and addition: the results are those of NumPy, bit for bit.
AS_WRITTEN = {"xla_backend_optimization_level": 0}


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(kernels(), st.data())
def test_random_kernels(kernel: tuple[str, str], data: st.DataObject) -> None:
    text, dtype = kernel
    function = written(text, "kernel")
    x = np.ascontiguousarray(data.draw(arrays(dtype)))
    y = np.arange(1, x.shape[1] + 1).astype(dtype)
    a, b = np.dtype(dtype).type(3), np.dtype(dtype).type(7)
    theirs = copies((x, y, a, b))
    with np.errstate(all="ignore"):
        expected = function(*theirs)
    with jax.enable_x64(True):
        form = jax.jit(lambda *arguments: called(KernelFunction(function), arguments), compiler_options=AS_WRITTEN)
        results, changed = form(x, y, a, b)
    same(tuple(map(np.asarray, results)), expected)
    for position in (0, 1):
        same(np.asarray(changed.get(position, (x, y)[position])), theirs[position])
