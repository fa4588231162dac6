"""An export for Python: a wheel with a shared object, and functions for NumPy arrays that need nothing else."""

from __future__ import annotations

import base64
import hashlib
import io
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from string import Template

from wyrm.engines.native.products.target import Target, target_of
from wyrm.errors import CompileError, OptionError
from wyrm.exporting.description import description, method_of, methods_of, needed_by, options_of
from wyrm.exporting.interface import FunctionParameter, FunctionSignature, Interface, Role
from wyrm.exporting.names import STATIC

# What a target begins with that is a wheel.
PYTHON = "python"
# The registers that systems save for a feature: those of AVX, and those of AVX-512 too.
_AVX, _AVX512 = 0x6, 0xE6
# Where CPUID tells what x86-64 processors have: the leaf, its subleaf, the register and its bit, and registers to save.
_BITS: Mapping[str, tuple[int, int, int, int, int]] = {
    "sse3": (1, 0, 2, 0, 0), "pclmul": (1, 0, 2, 1, 0), "ssse3": (1, 0, 2, 9, 0), "fma": (1, 0, 2, 12, _AVX),
    "cx16": (1, 0, 2, 13, 0), "sse4.1": (1, 0, 2, 19, 0), "sse4.2": (1, 0, 2, 20, 0), "movbe": (1, 0, 2, 22, 0),
    "popcnt": (1, 0, 2, 23, 0), "aes": (1, 0, 2, 25, 0), "avx": (1, 0, 2, 28, _AVX), "f16c": (1, 0, 2, 29, _AVX),
    "bmi": (7, 0, 1, 3, 0), "avx2": (7, 0, 1, 5, _AVX), "bmi2": (7, 0, 1, 8, 0), "adx": (7, 0, 1, 19, 0),
    "sha": (7, 0, 1, 29, 0), "avx512f": (7, 0, 1, 16, _AVX512), "avx512dq": (7, 0, 1, 17, _AVX512),
    "avx512ifma": (7, 0, 1, 21, _AVX512), "avx512cd": (7, 0, 1, 28, _AVX512), "avx512bw": (7, 0, 1, 30, _AVX512),
    "avx512vl": (7, 0, 1, 31, _AVX512), "avx512vbmi": (7, 0, 2, 1, _AVX512), "avx512vbmi2": (7, 0, 2, 6, _AVX512),
    "gfni": (7, 0, 2, 8, 0), "vaes": (7, 0, 2, 9, _AVX), "vpclmulqdq": (7, 0, 2, 10, _AVX),
    "avx512vnni": (7, 0, 2, 11, _AVX512), "avx512bitalg": (7, 0, 2, 12, _AVX512),
    "avx512vpopcntdq": (7, 0, 2, 14, _AVX512), "avx512fp16": (7, 0, 3, 23, _AVX512), "avxvnni": (7, 1, 0, 4, _AVX),
    "avx512bf16": (7, 1, 0, 5, _AVX512), "sahf": (0x80000001, 0, 2, 0, 0), "lzcnt": (0x80000001, 0, 2, 5, 0),
    "sse4a": (0x80000001, 0, 2, 6, 0), "fma4": (0x80000001, 0, 2, 16, _AVX),
}  # fmt: skip
# What every processor of x86-64 has.
_ALL = frozenset({"64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2", "x87", "crc32"})
_LEVEL_2 = ("cx16", "sahf", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2")
_LEVEL_3 = (*_LEVEL_2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
# The processors that `cpu` may name, and what they have.
_LEVELS = {
    "": (), "x86-64": (), "x86-64-v2": _LEVEL_2, "x86-64-v3": _LEVEL_3,
    "x86-64-v4": (*_LEVEL_3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}  # fmt: skip


# The methods that every model has.
_METHODS = frozenset({"load", "save", "state_dict", "load_state_dict"})


@dataclass(frozen=True)
class Platform:
    """A system and a kind of processor: LLVM's triple, zig's target, the tag of wheels, and the end of a library."""

    triple: str
    zig: str
    tag: str
    ending: str = ".so"


_MANYLINUX = "manylinux_2_17_{0}.manylinux2014_{0}"
PLATFORMS = {
    "linux-x86_64": Platform("x86_64-unknown-linux-gnu", "x86_64-linux-gnu.2.17", _MANYLINUX.format("x86_64")),
    "linux-aarch64": Platform("aarch64-unknown-linux-gnu", "aarch64-linux-gnu.2.17", _MANYLINUX.format("aarch64")),
    "macos-x86_64": Platform("x86_64-apple-macosx11.0.0", "x86_64-macos.11.0", "macosx_11_0_x86_64", ".dylib"),
    "macos-arm64": Platform("arm64-apple-macosx11.0.0", "aarch64-macos.11.0", "macosx_11_0_arm64", ".dylib"),
    "windows-x86_64": Platform("x86_64-pc-windows-gnu", "x86_64-windows-gnu", "win_amd64", ".dll"),
}
_SYSTEMS = {"linux": "linux", "macosx": "macos", "win": "windows"}
_PROCESSORS = {"amd64": "x86_64"}


def platform_named(target: str) -> str:
    """Return the name of a platform from a target: "python" for this one, or "python-" and its name."""
    name = target.removeprefix(PYTHON).removeprefix("-")
    if not name:
        system, _, processor = sysconfig.get_platform().replace("-", "_").partition("_")
        processor = processor.split("_", 2)[-1] if system == "macosx" else processor
        name = f"{_SYSTEMS.get(system, system)}-{_PROCESSORS.get(processor, processor)}"
    if name not in PLATFORMS or (target != PYTHON and not target.startswith(f"{PYTHON}-")):
        known = ", ".join(repr(f"{PYTHON}-{each}") for each in PLATFORMS)
        raise OptionError(f"wheels are written for {known}, or by {PYTHON!r} for this machine if it is one of them")
    return name


def target_of_wheel(target: str, cpu: str | None, features: str | None) -> tuple[Target, tuple[str, ...]]:
    """Return LLVM's target of a wheel, and the features of a processor that are checked before it is loaded.

    "python" alone takes what this processor has and can be checked; others the oldest one, unless `cpu` says more.
    """
    platform = PLATFORMS[platform_named(target)]
    if not platform.triple.startswith("x86_64"):
        if cpu or features:
            raise OptionError("cpu and features of a wheel are for x86-64, where they are checked before it is loaded")
        return target_of(platform.triple), ()
    if target == PYTHON and cpu is None and features is None:
        import llvmlite.binding as llvm

        found = llvm.get_host_cpu_features()
        used = tuple(each for each in _BITS if found.get(each))
        unused = sorted(each for each in found if each not in used and each not in _ALL)
        names = [*(f"+{each}" for each in used), *(f"-{each}" for each in unused)]
        return target_of(platform.triple, llvm.get_host_cpu_name(), ",".join(names)), used
    if (cpu or "") not in _LEVELS:
        raise OptionError(f"cpu of a wheel must be one of {', '.join(filter(None, _LEVELS))}, not {cpu!r}")
    given = [each.strip() for each in (features or "").split(",") if each.strip()]
    unknown = [each for each in given if each[0] != "+" or each[1:] not in _BITS]
    if unknown:
        raise OptionError(f"features of a wheel are such as '+avx2' that it can check, not {', '.join(unknown)}")
    wanted = tuple(dict.fromkeys([*_LEVELS[cpu or ""], *(each[1:] for each in given)]))
    return target_of(platform.triple, cpu or "x86-64", ",".join(f"+{each}" for each in wanted)), wanted


def _linker(target: str) -> tuple[list[str], str]:
    """Return the command of a C compiler for a platform, and the tag of what it links."""
    name = platform_named(target)
    platform = PLATFORMS[name]
    if find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc", "-target", platform.zig], platform.tag
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or name != platform_named(PYTHON):
        what = "a C compiler" if name == platform_named(PYTHON) else f"a linker for {name}"
        raise OptionError(f'target={target!r} needs {what}: pip install "wyrm-autodiff[wasm]", which has ziglang')
    # It links with the C library of this system, which others may not have.
    own = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return [compiler], own if platform.ending == ".so" else platform.tag


def files(
    interface: Interface, code: bytes, target: str, features: tuple[str, ...], tensors: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Return the wheel by its name; raise `OptionError` if there is no linker, `CompileError` if it fails."""
    _check_names(interface)
    name, platform = interface.name, PLATFORMS[platform_named(target)]
    command, tag = _linker(target)
    library = f"{name}{platform.ending}"
    known = description(interface) | {
        "library": library, "system": platform_named(target),
        "processor": [(each, *_BITS[each]) for each in features],
    }  # fmt: skip
    package: dict[str, bytes] = {
        "__init__.py": (STATIC / "loader.txt").read_bytes(),
        "__init__.pyi": _stub(interface).encode(),
        "_interface.py": f"INTERFACE = {known!r}\n".encode(),
        "py.typed": b"",
        library: _linked(name, command, code, checks=bool(features), ending=platform.ending),
    }
    contents = {f"{name}/{file}": each for file, each in (package | dict(tensors)).items()}
    return {f"{name}-1.0-py3-none-{tag}.whl": _wheel(name, tag, contents)}


def _check_names(interface: Interface) -> None:
    """Raise `OptionError` for a name that a package, a method or an argument of Python cannot have."""
    if interface.name in sys.stdlib_module_names or interface.name == "numpy" or iskeyword(interface.name):
        raise OptionError(
            f"name must not be {interface.name!r}, which means something else in Python: choose another one"
        )
    names = [*(method_of(each, interface) for each in methods_of(interface))]
    taken = [each for each in names if each in _METHODS]
    names += [each.name for function in methods_of(interface) for each in (*needed_by(function), *options_of(function))]
    taken += [each for each in names if iskeyword(each) or each == "self"]
    if taken:
        raise OptionError(f"a prediction or an input has the name {taken[0]!r}, which Python does not allow: rename it")


def _linked(name: str, command: list[str], code: bytes, *, checks: bool, ending: str) -> bytes:
    """Return the shared object of an object file, with what tells the features of the processor if it `checks` them."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "model.o").write_bytes(code)
        sources = ["model.o"]
        if checks:
            text = Template((STATIC / "processor.c").read_text(encoding="utf-8")).substitute(name=name)
            (place / "processor.c").write_text(text, encoding="utf-8")
            sources.append("processor.c")
        options = ["-shared", "-O2", *([] if ending == ".dll" else ["-fPIC"]), *([] if ending == ".dylib" else ["-s"])]
        libraries = [] if ending == ".dll" else ["-lm"]
        done = subprocess.run(
            [*command, *options, *sources, *libraries, "-o", f"model{ending}"],
            capture_output=True, text=True, cwd=folder, check=False,
        )  # fmt: skip
        if done.returncode:
            raise CompileError(f"the linker {' '.join(command)} fails: {done.stderr.strip()}")
        return (place / f"model{ending}").read_bytes()


def _wheel(name: str, tag: str, contents: Mapping[str, bytes]) -> bytes:
    """Return a wheel with these files, the same bytes for the same contents."""
    info = f"{name}-1.0.dist-info"
    tags = "".join(f"Tag: py3-none-{each}\n" for each in tag.split("."))
    every = dict(contents) | {
        f"{info}/METADATA": (
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nSummary: A model as machine code, written by wyrm\n"
            f"Requires-Python: >=3.10\nRequires-Dist: numpy\n"
        ).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: wyrm\nRoot-Is-Purelib: false\n{tags}".encode(),
    }
    lines = []
    for file, content in every.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{file},sha256={digest},{len(content)}\n")
    every[f"{info}/RECORD"] = f"{''.join(lines)}{info}/RECORD,,\n".encode()
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file, content in every.items():
            entry = zipfile.ZipInfo(file)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            wheel.writestr(entry, content)
    return written.getvalue()


# --- types ------------------------------------------------------------------------------------------------------------


def _stub(interface: Interface) -> str:
    """Return the types of the package, with the axes of arrays."""
    methods = "\n".join(_method(each, interface) for each in methods_of(interface))
    return Template((STATIC / "stub.txt").read_text(encoding="utf-8")).substitute(methods=methods)


def _method(function: FunctionSignature, interface: Interface) -> str:
    given = [f"{each.name}: {'float' if each.dtype is None else _array_type(each)}" for each in needed_by(function)]
    given += [f"{each.name}: {'bool' if each.role is Role.FLAG else 'int'} = ..." for each in options_of(function)]
    outputs = [each for each in function.parameters if each.role is Role.OUTPUT]
    if not outputs:
        returned = "None" if not function.results else "float" if len(function.results) == 1 else "dict[str, float]"
    else:
        kinds = [_array_type(each) for each in outputs]
        returned = kinds[0] if len(kinds) == 1 else f"dict[str, {' | '.join(dict.fromkeys(kinds))}]"
    axes = [f"        - `{each.name}`: {_axes_text(each)}" for each in function.parameters if each.dtype is not None]
    lines = [f'        """{function.comment}', *(["", *axes] if axes else []), '        """']
    arguments = f"self, *, {', '.join(given)}" if given else "self"
    return "\n".join([f"    def {method_of(function, interface)}({arguments}) -> {returned}:", *lines])


def _dims(parameter: FunctionParameter) -> list[str]:
    if parameter.role is Role.OFFSETS:
        return ["rows + 1"]
    first = ["rows"] if parameter.by_rows else [parameter.along] if parameter.along else []
    return [*first, *map(str, parameter.shape)]


def _axes_text(parameter: FunctionParameter) -> str:
    return f"({', '.join(_dims(parameter))})" if _dims(parameter) else "one number"


def _array_type(parameter: FunctionParameter) -> str:
    assert parameter.dtype is not None
    axes = ", ".join(f"Annotated[int, {each!r}]" for each in _dims(parameter)) or "()"
    name = "bool_" if parameter.dtype.name == "bool" else parameter.dtype.name
    return f"np.ndarray[tuple[{axes}], np.dtype[np.{name}]]"
