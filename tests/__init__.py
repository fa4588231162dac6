"""The tests of wyrm."""

import os

# JAX compiles thousands of small functions here, each of which runs once: XLA's and LLVM's slow passes do not pay.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_use_fusion_emitters=false",
)
