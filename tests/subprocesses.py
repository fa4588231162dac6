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


def error_without(package: str, statement: str) -> str:
    """Return what a statement after `import wyrm as wy` writes to stderr where a package is not installed."""
    program = (
        "import importlib.util; real = importlib.util.find_spec; "
        f"importlib.util.find_spec = lambda name, *rest: None if name == '{package}' else real(name, *rest); "
        f"import wyrm as wy; {statement}"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stderr
