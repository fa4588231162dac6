"""Debug mode: reading outside an array is an error, and reading before a write gives NaN."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

OPS = '''
from typing import Any

import numpy as np

import wyrm as wy


class Wrong(wy.Unary, abstract=True):
    """An op whose kernel does what the first argument says."""

    __slots__ = ()

    def evaluate(self, xp: Any, *operands: Any, shape: Any) -> Any:
        return operands[0] * 2.0

    def vjp(self, gradient: Any) -> Any:
        return (gradient * 2.0,)


class Beyond(Wrong):
    __slots__ = ()


@wy.LOOPS.register(Beyond)
class BeyondLoops(wy.LoopForm):
    @staticmethod
    def kernel(x: Any, out: Any) -> None:
        for i in range(x.size + 1):
            out[i] = x[i] * 2.0


class Unwritten(Wrong):
    __slots__ = ()


@wy.LOOPS.register(Unwritten)
class UnwrittenLoops(wy.LoopForm):
    @staticmethod
    def kernel(x: Any, out: Any) -> None:
        for i in range(x.size - 1):
            out[i] = x[i] * 2.0


x = wy.Input(dims=(1000,), name="x")
program = wy.compile({op}(x * 3.0) + 1.0)
value = program({{x: np.ones(1000)}})
print(np.isnan(value).sum())
'''


def run(tmp_path: Path, op: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "ops.py"
    path.write_text(OPS.format(op=op))
    environment = {**os.environ, "WYRM_DEBUG": "1"}
    return subprocess.run([sys.executable, path], capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize("op", ["Beyond", "Unwritten"])
def test_a_kernel_that_is_wrong_shows(op: str, tmp_path: Path) -> None:
    done = run(tmp_path, op)
    if op == "Beyond":
        assert done.returncode == 1 and "AssertionError: a program for add: native code" in done.stderr
    else:
        assert done.returncode == 0 and done.stdout.strip() == "1", done.stderr
