"""The time of `import wyrm` in a fresh process, vs NumPy, JAX and PyTorch."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial

from bench.harness import Case, Measurement, in_new_process

_CODE = """
import json, sys, time
start = time.perf_counter()
__import__(sys.argv[1])
print(json.dumps({"seconds": time.perf_counter() - start}))
"""


def _importing(module: str) -> Callable[[], Measurement]:
    if importlib.util.find_spec(module) is None:
        raise ImportError(name=module)
    in_new_process(_CODE, module)  # write the bytecode
    return lambda: in_new_process(_CODE, module)


def cases() -> list[Case]:
    """One case: importing each library alone."""
    modules = {"wyrm": "wyrm", "numpy": "numpy", "jax": "jax", "torch": "torch"}
    contenders = {name: partial(_importing, module) for name, module in modules.items()}
    return [Case("importing", "import", contenders, rounds=11, floors={"numpy": 0.714}, other_work=("numpy",))]
