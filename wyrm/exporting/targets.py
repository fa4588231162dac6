"""The names of targets; this file is also the program that tries whether LLVM knows a processor."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

from wyrm.engines.native.products.target import Target, host, target_of
from wyrm.errors import OptionError
from wyrm.support.options import choice

# What `target` may be besides LLVM's triples.
_TARGETS = {"c": "", "wasm32": "wasm32-unknown-unknown", "cortex-m4": "thumbv7em-none-eabihf"}
# The features of a triple that names only an architecture, to which a user may add others, and the processor.
_FEATURES = {
    "riscv64": "+m,+a,+f,+d,+c", "wasm32": "+simd128,+bulk-memory,+nontrapping-fptoint,+sign-ext",
    "thumbv7em": "+fp-armv8d16sp,+vfp4d16sp", "armv7": "+neon,+vfp3",
}  # fmt: skip
_CPUS = {"thumbv7em": "cortex-m4", "thumbv7m": "cortex-m3", "thumbv8m.main": "cortex-m33"}


def target_named(target: str, cpu: str | None, features: str | None, blas: str | None = None) -> Target:
    """Return the target that a user names: "c" for this machine, another short name, or a triple of LLVM."""
    if blas is not None:
        choice("blas", blas, ["cblas"])
        if target == "wasm32":
            raise OptionError("blas: a WebAssembly module links no library; leave blas out")
        return replace(target_named(target, cpu, features), cblas=True)
    triple = _TARGETS.get(target, target)
    if not triple:
        own = host()
        if cpu is None and features is None:
            return target_of(own.triple, own.cpu, own.features)
        triple = own.triple
    if "-" not in triple:
        raise OptionError(
            f"target must be {', '.join(map(repr, _TARGETS))}, or a triple of LLVM such as 'aarch64-linux-gnu', not "
            f"{target!r}"
        )
    triple = _whole_triple(triple)
    architecture = triple.partition("-")[0]
    own_features = _FEATURES.get(architecture, "") if cpu is None else ""
    found = target_of(
        triple,
        _CPUS.get(architecture, "") if cpu is None else cpu,
        ",".join(filter(None, [own_features, features])),
    )
    try:
        found.machine(2)
    except RuntimeError as error:
        raise OptionError(f"LLVM does not know the target {triple!r}: {error}") from None
    if cpu or features:
        _check_names(found)
    return found


def _whole_triple(triple: str) -> str:
    """Return a triple with all four parts; many people leave out the vendor, and LLVM then takes the system for it.

    >>> _whole_triple("armv7-linux-gnueabihf"), _whole_triple("x86_64-pc-windows-msvc")
    ('armv7-unknown-linux-gnueabihf', 'x86_64-pc-windows-msvc')
    """
    architecture, *rest = triple.split("-")
    known = rest[0].startswith(("linux", "windows", "none", "darwin", "macosx", "freebsd"))
    return "-".join([architecture, "unknown", *rest]) if known else triple


@cache
def _check_names(target: Target) -> None:
    """Raise `OptionError` for a processor or a feature that the target does not have.

    Another process tries them: LLVM ends the process for names that do not fit together.
    """
    command = [sys.executable, "-P", __file__, target.triple, target.cpu, target.features]
    path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
    found = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path})
    wrong = [line for line in found.stderr.splitlines() if "not a recognized" in line or "LLVM ERROR" in line]
    if wrong or found.returncode:
        raise OptionError(
            f"LLVM does not know cpu={target.cpu!r} with features={target.features!r} for {target.triple!r}: "
            f"{wrong[0] if wrong else found.stderr.strip()[-200:]}"
        )


def _compile_nothing(triple: str, cpu: str, features: str) -> None:
    """Compile an empty function."""
    import llvmlite.binding as llvm

    machine = target_of(triple, cpu, features).machine(2)
    machine.emit_object(llvm.parse_assembly("define void @f() { ret void }"))


if __name__ == "__main__":
    _compile_nothing(*sys.argv[1:])
