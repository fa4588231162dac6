"""An export for WebAssembly: a linked module, functions of JavaScript with types, and a page to train and to write."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from wyrm.errors import CompileError, OptionError
from wyrm.exporting.description import description, is_scalar, method_of, methods_of, needed_by, options_of
from wyrm.exporting.interface import FunctionParameter, FunctionSignature, Interface, Role
from wyrm.exporting.names import STATIC
from wyrm.exporting.story import Story

# Bytes of the stack, which holds tables of arguments.
_STACK = 1 << 20
# The functions of the C library that `model.mjs` has, beside those that end with f.
_MATH = frozenset({
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "cos", "cosh", "exp", "expm1",
    "erf", "floor", "fmod", "hypot", "lgamma", "log", "log10", "log1p", "log2", "pow", "round", "sin", "sinh", "sqrt",
    "tan", "tanh", "tgamma", "trunc",
})  # fmt: skip
# The typed arrays of JavaScript by the names of dtypes.
ARRAYS = {
    "float32": "Float32Array", "float64": "Float64Array", "int64": "BigInt64Array", "uint64": "BigUint64Array",
    "int32": "Int32Array", "int16": "Int16Array", "int8": "Int8Array", "uint32": "Uint32Array",
    "uint16": "Uint16Array", "uint8": "Uint8Array", "bool": "Uint8Array",
}  # fmt: skip
_WHOLE_64 = ("int64", "uint64")


def files(
    interface: Interface, code: bytes, externals: Sequence[str], batch: int, story: Story | None = None
) -> dict[str, bytes]:
    """Return the contents of the files: the module, its functions and their types, the worker and the page.

    There is a page for a training, and for a `story`. Raise `OptionError` if no linker is found, or for functions of
    the C library that JavaScript does not have.
    """
    name = interface.name
    names = {"MODEL": name, "WORKER_SCRIPT": f"{name}_worker.mjs", "PAGE_SCRIPT": f"{name}_page.mjs"}
    texts = {
        f"{name}.mjs": script(interface, story),
        f"{name}.d.ts": _declarations(interface),
    }
    if story is not None:
        texts |= {
            f"{name}_tokenizer.mjs": _text("tokenizer.mjs", names),
            f"{name}_tokenizer.json": json.dumps(story.tokenizer, separators=(",", ":")),
        }
    if story is not None or any(each.name == f"{name}_epoch" for each in interface.functions):
        epochs = "100" if story is None else "5"
        texts |= {
            f"{name}_worker.mjs": _text("worker.mjs", names),
            f"{name}_page.mjs": _text("page.mjs", names),
            "index.html": _text("page.html", names | {"EPOCHS": epochs, "BATCH": str(batch)}),
        }
    module = module_of(interface, code, externals)
    return {f"{name}.wasm": module} | {file: text.encode() for file, text in texts.items()}


def module_of(interface: Interface, code: bytes, externals: Sequence[str]) -> bytes:
    """Return the module of an export's object file; raise the errors of `files`."""
    missing = [name for name in externals if name not in _MATH and name.removesuffix("f") not in _MATH]
    if missing:
        raise OptionError(f"the program calls {', '.join(missing)} of the C library, which JavaScript does not have")
    return linked(code, [interface.symbol(each.name) for each in interface.functions])


def script(interface: Interface, story: Story | None = None) -> str:
    """Return the functions of JavaScript as a module, which a script element of a page may hold too."""
    name = interface.name
    weights = f"{name}.safetensors" if interface.tensors else None
    files = {"wasm": f"{name}.wasm", "weights": weights, "data": f"{name}_data.safetensors"}
    found = description(interface) | {"files": files}
    if story is not None:
        found["story"] = {"tokens": story.tokens, "targets": story.targets, "length": story.length}
    text = json.dumps(found, indent=2).replace("<", "\\u003c")
    return _text("model.mjs", {"/* interface */ null": text})


def linked(code: bytes, exports: Sequence[str]) -> bytes:
    """Return the module of an object file; raise `OptionError` if there is no linker."""
    linker = [sys.executable, "-m", "ziglang", "wasm-ld"] if find_spec("ziglang") else [shutil.which("wasm-ld") or ""]
    if not linker[0]:
        raise OptionError(
            'target="wasm32" needs a linker: pip install "wyrm-autodiff[wasm]", or install wasm-ld of LLVM\'s lld'
        )
    with tempfile.TemporaryDirectory() as folder:
        place, target = Path(folder, "model.o"), Path(folder, "model.wasm")
        place.write_bytes(code)
        command = [
            *linker, str(place), "-o", str(target), "--no-entry", "--allow-undefined", "--strip-all", "-z",
            f"stack-size={_STACK}", "--export=__heap_base", *(f"--export={each}" for each in exports),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        if done.returncode:
            raise CompileError(f"the linker {' '.join(linker)} fails: {done.stderr.strip()}")
        return target.read_bytes()


def _text(file: str, values: dict[str, str]) -> str:
    """Return the text of a static file with names replaced."""
    text = (STATIC / file).read_text(encoding="utf-8")
    return re.sub("|".join(map(re.escape, values)), lambda found: values[found[0]], text)


# --- types ------------------------------------------------------------------------------------------------------------


def _declarations(interface: Interface) -> str:
    """Return the types of the module's functions, with the names of inputs and outputs."""
    methods = "\n".join(_method(each, interface) for each in methods_of(interface))
    tensors = "\n".join(f"  readonly {json.dumps(each.name)}: {ARRAYS[each.dtype.name]};" for each in interface.tensors)
    return _text("model.d.ts", {"/* methods */": methods, "/* tensors */": tensors})


def _method(function: FunctionSignature, interface: Interface) -> str:
    inputs = [each for each in function.parameters if each.role in (Role.INPUT, Role.OFFSETS)]
    needed = [f"{each.name}: {_given(each)}" for each in needed_by(function)]
    data = ", ".join(needed)
    options = [f"{each.name}?: {_OPTIONS[each.role]}" for each in options_of(function)]
    outputs = [f"{each.name}: {'number' if is_scalar(each) else ARRAYS[each.dtype.name]}"
               for each in function.parameters if each.role is Role.OUTPUT and each.dtype is not None]  # fmt: skip
    outputs += [f"{json.dumps(each)}: number" for each in function.results]
    arguments = [f"data: {{ {data} }}"] if needed else []
    arguments += [f"options?: {{ {'; '.join(options)} }}"] if options else []
    returned = f"{{ {'; '.join(outputs)} }}" if outputs else "object"
    shapes = [f"   * {each.name}: {_shape_text(each)}" for each in inputs]
    comment = "\n".join(["  /**", f"   * {function.comment}", *shapes, "   */"])
    return f"{comment}\n  {method_of(function, interface)}({', '.join(arguments)}): {returned};"


_OPTIONS = {
    Role.BATCH: "number", Role.FLAG: "boolean", Role.SEED: "number | bigint", Role.COUNT: "number | bigint",
    Role.PART: "number", Role.FACTOR: "number", Role.LIST: "ArrayLike<number> | ArrayLike<bigint>",
}  # fmt: skip


def _given(parameter: FunctionParameter) -> str:
    if parameter.dtype is None:
        return "number"
    wide = parameter.dtype.name in _WHOLE_64
    return "ArrayLike<number> | ArrayLike<bigint>" if wide else "ArrayLike<number>"


def _shape_text(parameter: FunctionParameter) -> str:
    if parameter.role is Role.OFFSETS:
        size = "rows + 1" if parameter.by_rows else str(parameter.length)
        return f"({size}): the entries of row i are those from offset i on, and before offset i + 1"
    axes = [*(["rows"] if parameter.by_rows else ["entries"] if parameter.along else []), *map(str, parameter.shape)]
    return f"({', '.join(axes)}), row after row" if axes else "one number"
