"""Python processes for tests of what an import or an environment variable decides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any


def on_simulated_devices(module: str) -> Any:
    """Run a module on eight simulated devices, and return what it prints as JSON."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    done = subprocess.run(
        [sys.executable, "-m", module],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def error_without(packages: str, statement: str) -> str:
    """Return what a statement after `import wyrm as wy` writes to stderr where packages, by spaces, are missing."""
    program = f"""
import importlib.util, sys
import numpy as np

missing, real = {packages.split()}, importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in missing else real(name, *rest)

class Missing:
    def find_spec(self, name, *rest):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
import wyrm as wy
{statement}
"""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stderr
