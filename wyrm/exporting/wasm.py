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
from typing import Any

import numpy as np

from wyrm.errors import CompileError, OptionError
from wyrm.exporting.c import FORMAT, TYPES, header_text
from wyrm.exporting.errors import FILE_ERRORS
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
    found = _description(interface)
    if story is not None:
        found["story"] = {"tokens": story.tokens, "targets": story.targets, "length": story.length}
    description = json.dumps(found, indent=2).replace("<", "\\u003c")
    return _text("model.mjs", {"/* interface */ null": description})


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


def method_of(function: FunctionSignature, interface: Interface) -> str:
    """Return the name of a method of the model: that of the function without the model's."""
    return function.name.removeprefix(f"{interface.name}_")


def _methods(interface: Interface) -> list[FunctionSignature]:
    """Return the functions that are methods; the model's constructor calls the others."""
    own = (f"{interface.name}_init", f"{interface.name}_ready")
    return [each for each in interface.functions if each.name not in own]


def _description(interface: Interface) -> dict[str, Any]:
    """Return what the functions of JavaScript need to know."""
    name, epoch = interface.name, [each for each in interface.functions if each.name == f"{interface.name}_epoch"]
    return {
        "name": name,
        "init": interface.symbol(f"{name}_init"),
        "format": FORMAT,
        "memory": interface.memory_bytes,
        "most": interface.most,
        "files": {
            "wasm": f"{name}.wasm",
            "weights": f"{name}.safetensors" if interface.tensors else None,
            "data": f"{name}_data.safetensors",
        },
        "columns": [each.name for function in epoch for each in _needed(function)],
        "losses": [result for function in epoch for result in function.results],
        "errors": interface.errors | FILE_ERRORS,
        "tensors": [
            {
                "name": each.name, "dtype": each.dtype.name, "type": TYPES[each.dtype.name], "shape": each.shape,
                "offset": each.offset, "length": int(np.prod(each.shape, dtype=np.int64)),
            }
            for each in interface.tensors
        ],
        "fileHeader": header_text(interface.tensors),
        "functions": [
            {
                "name": each.name, "method": method_of(each, interface), "results": each.results,
                "data": [each.name for each in _needed(each)], "options": [each.name for each in _optional(each)],
                "splits": _splits(each, interface),
                "parameters": [
                    {
                        "name": parameter.name, "role": parameter.role.name, "byRows": parameter.by_rows,
                        "along": parameter.along or None, "length": parameter.length,
                        "dtype": parameter.dtype.name if parameter.dtype else None,
                        "scalar": _is_scalar(parameter),
                    }
                    for parameter in each.parameters
                ],
            }
            for each in _methods(interface)
        ],
    }  # fmt: skip


def _needed(function: FunctionSignature) -> list[FunctionParameter]:
    """Return the inputs and numbers that the first argument of a method must have."""
    roles = (Role.INPUT, Role.OFFSETS, Role.TOKEN, Role.NUMBER)
    return [each for each in function.parameters if each.role in roles]


def _optional(function: FunctionSignature) -> list[FunctionParameter]:
    """Return the options of the second argument. Without rows, which are divided, a batch is all of the data."""
    divided = any(each.role is Role.ROWS for each in function.parameters)
    return [each for each in function.parameters if each.role in _OPTIONS and (divided or each.role is not Role.BATCH)]


def _splits(function: FunctionSignature, interface: Interface) -> bool:
    """Return whether calls with parts of the rows give parts of all outputs."""
    outputs = [each for each in function.parameters if each.role is Role.OUTPUT]
    whole = any(each.role in (Role.RESULTS, Role.ENTRIES) for each in function.parameters)
    return not whole and not interface.listed and bool(outputs) and all(each.by_rows for each in outputs)


# --- types ------------------------------------------------------------------------------------------------------------


def _declarations(interface: Interface) -> str:
    """Return the types of the module's functions, with the names of inputs and outputs."""
    methods = "\n".join(_method(each, interface) for each in _methods(interface))
    tensors = "\n".join(f"  readonly {json.dumps(each.name)}: {ARRAYS[each.dtype.name]};" for each in interface.tensors)
    return _text("model.d.ts", {"/* methods */": methods, "/* tensors */": tensors})


def _method(function: FunctionSignature, interface: Interface) -> str:
    inputs = [each for each in function.parameters if each.role in (Role.INPUT, Role.OFFSETS)]
    needed = [f"{each.name}: {_given(each)}" for each in _needed(function)]
    data = ", ".join(needed)
    options = [f"{each.name}?: {_OPTIONS[each.role]}" for each in _optional(function)]
    outputs = [f"{each.name}: {'number' if _is_scalar(each) else ARRAYS[each.dtype.name]}"
               for each in function.parameters if each.role is Role.OUTPUT and each.dtype is not None]  # fmt: skip
    outputs += [f"{json.dumps(each)}: number" for each in function.results]
    arguments = [f"data: {{ {data} }}"] if needed else []
    arguments += [f"options?: {{ {'; '.join(options)} }}"] if options else []
    returned = f"{{ {'; '.join(outputs)} }}" if outputs else "object"
    shapes = [f"   * {each.name}: {_shape(each)}" for each in inputs]
    comment = "\n".join(["  /**", f"   * {function.comment}", *shapes, "   */"])
    return f"{comment}\n  {method_of(function, interface)}({', '.join(arguments)}): {returned};"


_OPTIONS = {
    Role.BATCH: "number", Role.FLAG: "boolean", Role.SEED: "number | bigint", Role.COUNT: "number | bigint",
    Role.PART: "number", Role.FACTOR: "number", Role.LIST: "ArrayLike<number> | ArrayLike<bigint>",
}  # fmt: skip


def _is_scalar(parameter: FunctionParameter) -> bool:
    return not parameter.by_rows and not parameter.along and parameter.shape == ()


def _given(parameter: FunctionParameter) -> str:
    if parameter.dtype is None:
        return "number"
    wide = parameter.dtype.name in _WHOLE_64
    return "ArrayLike<number> | ArrayLike<bigint>" if wide else "ArrayLike<number>"


def _shape(parameter: FunctionParameter) -> str:
    if parameter.role is Role.OFFSETS:
        size = "rows + 1" if parameter.by_rows else str(parameter.length)
        return f"({size}): the entries of row i are those from offset i on, and before offset i + 1"
    axes = [*(["rows"] if parameter.by_rows else ["entries"] if parameter.along else []), *map(str, parameter.shape)]
    return f"({', '.join(axes)}), row after row" if axes else "one number"
