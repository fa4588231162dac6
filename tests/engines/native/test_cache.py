"""The cache of compiled programs: shared processes, its command, and loaded code that rounds as before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from wyrm.engines.native.llvm.cache import CodeStore

PROGRAM = """
import numpy as np, wyrm as wy
x = wy.Input(dims=(3,), name="x"); w = wy.Parameter([1.0, 2.0, 3.0])
train = wy.compile((w * x).tanh().sum(), wy.optim.SGD([w], 0.1))
print(float(train({x: [0.5, 0.25, 0.125]})), w.value.tolist())
"""


# Long sums in functions that are called and not inlined: their rounding depends on how they were compiled.
ROUNDING = """
import numpy as np, wyrm as wy
rng = np.random.default_rng(0)
x, weight = (wy.Parameter(rng.standard_normal((rows, 16)).astype(np.float32), name="x") for rows in (128, 292))
loss = wy.linear_cross_entropy(x, weight, rng.integers(0, 292, 128))
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
from wyrm.engines.native.llvm.lapack import libraries
limited = {library.filepath for library in libraries.controller.lib_controllers}
assert {found["filepath"] for found in threadpool_info()} == limited, limited
"""


def run_all(folder: Path, count: int, program: str = PROGRAM, before: str = "") -> list[str]:
    """Run the program in several processes at once; return the standard output and standard error of each."""
    environment = {"WYRM_CACHE_DIR": str(folder), "PATH": "/usr/bin:/bin"}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", before + program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment,
        )
        for _ in range(count)
    ]  # fmt: skip
    answers = [process.communicate() for process in running]
    assert all(process.returncode == 0 for process in running), answers
    assert all("compil" in error or not error for _, error in answers), answers
    return [answer + "".join(line for line in error.splitlines() if "Warning" in line) for answer, error in answers]


def test_four_processes_fill_one_cache(tmp_path: Path) -> None:
    answers = run_all(tmp_path, 4)
    assert len(set(answers)) == 1
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".link", ".machine"]
    # Truncated or changed files are written again.
    store = CodeStore(tmp_path)
    for place in (0.3, 0.9):
        for path in store.entries():
            whole = path.read_bytes()
            at = int(len(whole) * place)
            path.write_bytes(whole[:at] + (bytes([whole[at] ^ 1]) + whole[at + 1 :] if place > 0.5 else b""))
            assert store.read(path.name) is None
        assert run_all(tmp_path, 1) == answers[:1]
        assert all(store.read(path.name) for path in store.entries())


def test_without_room_on_the_disk_programs_run_all_the_same(tmp_path: Path) -> None:
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))"
    (answer,) = run_all(tmp_path, 1, before=full)
    assert answer.count("compiled code is no longer cached in") == 1 and "File too large" in answer
    assert list(tmp_path.iterdir()) == []
    assert answer.startswith(run_all(tmp_path, 1)[0])


def test_the_cache_command(tmp_path: Path) -> None:
    def command(action: str) -> str:
        environment = {"WYRM_CACHE_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
        arguments = [sys.executable, "-m", "wyrm", "cache", action]
        return subprocess.run(arguments, capture_output=True, text=True, check=True, env=environment).stdout

    assert command("info") == f"{tmp_path}: 0 programs, 0.0 MiB\n"
    run_all(tmp_path, 1)
    (tmp_path / "wyrm_notes.txt").write_text("mine")
    assert "1 programs" in command("info")
    assert "deleted 1 programs" in command("clear")
    assert [path.name for path in tmp_path.iterdir()] == ["wyrm_notes.txt"]
    tmp_path.chmod(0o777)
    assert "it is not used: users other than its owner can write to it" in command("info")


def test_a_loaded_program_rounds_as_the_compiled_one_did(tmp_path: Path) -> None:
    assert len(set(run_all(tmp_path, 1, ROUNDING) + run_all(tmp_path, 1, ROUNDING))) == 1


def test_every_blas_of_a_fresh_process_is_held_to_one_thread(tmp_path: Path) -> None:
    run_all(tmp_path, 1, THREADS)
