"""The machine and the software of a run: processor, caches, versions, settings, and what else the machine does."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from wyrm.engines.native.products.pool import processors

ROOT = Path(__file__).parents[2]
PACKAGES = ("numpy", "scipy", "llvmlite", "numba", "torch", "jax", "jaxlib", "implicit", "autograd", "mygrad")
# The beginnings of the names of variables that change the speed of wyrm or of a peer.
SETTINGS = (
    "OPENBLAS_", "MKL_", "OMP_", "KMP_", "GOMP_", "BLIS_", "NUMEXPR_", "NUMBA_", "XLA_", "JAX_", "TORCH", "WYRM_",
    "MALLOC_", "LD_PRELOAD", "PYTHONDONTWRITEBYTECODE",
)  # fmt: skip
# Settings that name files, which change no time.
_FILES = ("WYRM_DATA", "WYRM_CACHE_DIR")


def processor() -> dict[str, object]:
    """Return the name of the processor, its family and model, its cores, caches, and vectors."""
    lines = _lines(Path("/proc/cpuinfo"))
    first: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(":")
        first.setdefault(key.strip(), value.strip())
    flags = set(first.get("flags", first.get("Features", "")).split())
    vectors = [name for name in ("avx512f", "avx2", "asimd") if name in flags]
    memory = re.search(r"MemTotal:\s+(\d+)", "\n".join(_lines(Path("/proc/meminfo"))))
    return {
        "name": first.get("model name") or platform.processor() or platform.machine(),
        "family": first.get("cpu family", ""),
        "model": first.get("model", ""),
        "cores": processors(),
        "caches": _caches(),
        "vectors": vectors[0] if vectors else "",
        "memory": f"{int(memory[1]) / 2**20:.0f} GiB" if memory else "",
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
    }


def slug(described: dict[str, object]) -> str:
    """Return the name of the file of a machine.

    >>> slug({"name": "Intel(R) Xeon(R) Processor", "family": "6", "model": "143", "cores": 2})
    'intel-xeon-6-143-2-cores'
    """
    name = re.sub(r"\((R|TM)\)|\bprocessor\b|\bCPU\b|@.*", "", str(described["name"]), flags=re.IGNORECASE)
    parts = [name, str(described["family"]), str(described["model"]), f"{described['cores']} cores"]
    return re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower()).strip("-")


def software() -> dict[str, str]:
    """Return the versions of Python and of the packages, and NumPy's BLAS with the kernels that it selected."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found | {"blas of numpy": blas(), "blas of torch": blas_of_torch(), "wyrm": _commit()}


def blas() -> str:
    """Return the BLAS libraries that NumPy loads, each with its version and kernels."""
    import numpy as np  # noqa: F401  # loads its BLAS
    from threadpoolctl import threadpool_info

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return ", ".join(
        f"{pool['internal_api']} {pool['version']}, kernels {pool.get('architecture', 'unknown')}, "
        f"{pool['num_threads']} threads"
        for pool in pools
    )


def blas_of_torch() -> str:
    """Return the BLAS that PyTorch was built with, and its vectors; a process of its own loads it."""
    code = "import torch; print(torch.__config__.show())"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    found = [re.search(pattern, shown) for pattern in (r"BLAS_INFO=(\w+)", r"CPU capability usage: (\S+)")]
    return ", ".join(match[1] for match in found if match)


def settings() -> dict[str, str]:
    """Return the variables that change speed in the environment that this process was started with."""
    started = "\n".join(_lines(Path("/proc/self/environ"))).split("\0")  # libraries add variables when they load
    pairs = sorted(pair.split("=", 1) for pair in started if "=" in pair) or sorted(map(list, os.environ.items()))
    return {name: value for name, value in pairs if name.startswith(SETTINGS) and name not in _FILES}


@dataclass(frozen=True)
class Busy:
    """The processor time, in seconds, that the machine has used, and of it that of this process and its children."""

    all: float
    own: float

    @classmethod
    def now(cls) -> Busy:
        """Return the times so far; what the machine has used is 0 where it is unknown."""
        line = (_lines(Path("/proc/stat")) or [""])[0].split()
        ticks = [int(each) for each in line[1:9]] if line[:1] == ["cpu"] else []
        # user, nice, system, idle, waiting, interrupts (two), stolen by other machines on the same host.
        spent = sum(ticks[:3]) + sum(ticks[5:]) if ticks else 0
        return cls(spent / os.sysconf("SC_CLK_TCK"), sum(os.times()[:4]))

    def others_since(self, before: Busy, seconds: float) -> float:
        """Return how many cores others kept busy."""
        return max(0.0, (self.all - before.all) - (self.own - before.own)) / max(seconds, 1e-9)


def load_average() -> float:
    """Return the load average of the last minute."""
    return os.getloadavg()[0]


def _caches() -> dict[str, str]:
    found = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind, level, size = (" ".join(_lines(folder / name)) for name in ("type", "level", "size"))
        if kind != "Instruction":
            found[f"L{level}"] = size
    return found


def _commit() -> str:
    try:
        command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
