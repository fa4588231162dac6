"""The tests of wyrm."""

import os
from importlib.metadata import PackageNotFoundError, version


def _has_emitter_option() -> bool:
    """Return whether XLA knows the option of its emitters, which JAX 0.11 dropped; an unknown one ends the process."""
    try:
        return version("jaxlib").startswith("0.10.")
    except PackageNotFoundError:
        return False


# Settings of pytest and of the processes that it starts. Others import parts of the tests too, such as a benchmark,
# which would measure JAX without optimizations, and one thread.
if "PYTEST_VERSION" in os.environ:
    # JAX compiles thousands of small functions here, each of which runs once: XLA's and LLVM's slow passes do not pay,
    # nor does compiling 32 parts of each function apart, in threads, as the tests take all cores. Level 0 halves the
    # time of compiling; the few functions that XLA computes wrong numbers for at level 0 are compiled with `OPTIMIZED`.
    os.environ.setdefault(
        "XLA_FLAGS",
        "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
        " --xla_cpu_parallel_codegen_split_count=1" + " --xla_cpu_use_fusion_emitters=false" * _has_emitter_option(),
    )
    # PyTorch's threads would wait for each other where the tests take all cores. BLAS, which wyrm calls, keeps its
    # threads.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(os.cpu_count() or 1))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
# The options of `jax.jit` for functions of which XLA makes infinities without LLVM's optimizations: gradients of
# attentions with ALiBi in float64.
OPTIMIZED = {"xla_backend_optimization_level": "1"}
