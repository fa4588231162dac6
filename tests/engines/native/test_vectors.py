"""Vectors: loops use the largest that a processor has."""

from __future__ import annotations

import numpy as np
import pytest

from wyrm.engines.native.kernels.functions import KernelFunction
from wyrm.engines.native.llvm.calling import kind_of_argument
from wyrm.engines.native.llvm.library import Modules
from wyrm.engines.native.llvm.optimize import optimized
from wyrm.engines.native.products.target import target_of
from wyrm.graph.typing import FloatArray


def double(x: FloatArray, out: FloatArray) -> None:
    for i in range(out.size):
        out[i] = x[i] + x[i]


@pytest.mark.parametrize(("cpu", "registers"), [("x86-64-v4", "zmm"), ("x86-64-v3", "ymm"), ("x86-64", "xmm")])
def test_a_loop_uses_whole_registers(cpu: str, registers: str) -> None:
    target = target_of("x86_64-linux-gnu", cpu)
    machine = target.machine(3)
    modules = Modules(target=target)
    kinds = tuple(kind_of_argument(np.zeros(5, np.float32)) for _ in range(2))
    name = modules.translation.specialized(KernelFunction(double, distinct=True), kinds).function.name
    module, _ = optimized(modules.all_of(name)[0][-1].text, 3, machine)
    text = machine.emit_assembly(module)
    assert next(each for each in ("zmm", "ymm", "xmm") if each in text) == registers
