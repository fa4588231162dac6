"""The cache of compiled programs: processes that share it, its command, and that what is loaded rounds as it did."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import numpy as np, wyrm as wy
x = wy.Input(dims=(3,), name="x"); w = wy.Parameter([1.0, 2.0, 3.0])
train = wy.compile((w * x).tanh().sum(), wy.optim.SGD([w], 0.1))
print(float(train({x: [0.5, 0.25, 0.125]})), w.value.tolist())
"""


# Sums of many numbers, in functions that are called and not taken in, which round as they happen to be compiled.
ROUNDING = """
import numpy as np, wyrm as wy
rng = np.random.default_rng(0)
x, weight = (wy.Parameter(rng.standard_normal((rows, 16)).astype(np.float32), name="x") for rows in (128, 292))
loss = wy.vocabulary_loss(x, weight, rng.integers(0, 292, 128))
program = wy.compile([loss, *wy.grad(loss, [x, weight])], loop="compiled")
for value in program({}):
    print(value.tobytes().hex())
"""

THREADS = """
import wyrm as wy
from threadpoolctl import threadpool_info
x = wy.Input(dims=(4, 3), name="x"); w = wy.Parameter([1.0, 2.0, 3.0])
program = wy.compile((x @ w).tanh().sum(), wy.optim.SGD([w], 0.1))
program.backward({x: [[0.5, 0.25, 0.125]] * 4}, threads=2)
from wyrm.engine.native.blas import limits
limited = {library.filepath for library in limits.controller.lib_controllers}
assert {found["filepath"] for found in threadpool_info()} == limited, limited
"""


def run_all(folder: Path, count: int, program: str = PROGRAM) -> list[str]:
    environment = {"WYRM_CACHE_DIR": str(folder), "PATH": "/usr/bin:/bin"}
    running = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(count)
    ]
    answers = [process.communicate()[0] for process in running]
    assert all(process.returncode == 0 for process in running)
    return answers


def test_four_processes_fill_one_cache(tmp_path: Path) -> None:
    answers = run_all(tmp_path, 4)
    assert len(set(answers)) == 1
    sources = list(tmp_path.glob("wyrm_*.py"))
    assert len(sources) == 1 and not list(tmp_path.glob("*.tmp"))
    # A file that was cut off is written anew.
    whole = sources[0].read_text()
    sources[0].write_text(whole[: len(whole) // 2])
    assert run_all(tmp_path, 1) == answers[:1]
    assert sources[0].read_text() == whole


def test_the_cache_command(tmp_path: Path) -> None:
    def command(action: str) -> str:
        environment = {"WYRM_CACHE_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
        arguments = [sys.executable, "-m", "wyrm", "cache", action]
        return subprocess.run(arguments, capture_output=True, text=True, check=True, env=environment).stdout

    assert "0 programs" in command("info")
    run_all(tmp_path, 1)
    assert "1 programs" in command("info")
    assert "deleted 1 programs" in command("clear")
    assert not list(tmp_path.rglob("wyrm_*"))


def test_a_loaded_program_rounds_as_the_compiled_one_did(tmp_path: Path) -> None:
    assert len(set(run_all(tmp_path, 1, ROUNDING) + run_all(tmp_path, 1, ROUNDING))) == 1


def test_every_blas_of_a_fresh_process_is_held_to_one_thread(tmp_path: Path) -> None:
    run_all(tmp_path, 1, THREADS)
