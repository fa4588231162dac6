"""Exports for WebAssembly, run by wasmtime in this process."""

from __future__ import annotations

import ctypes
from ctypes.util import find_library
from typing import Any, cast

import numpy as np
import wasmtime

from wyrm.exporting.building import Built, build
from wyrm.exporting.exported import tensors_of
from wyrm.exporting.interface import Role
from wyrm.exporting.targets import target_named
from wyrm.exporting.wasm import linked

_LINE = 64


def function_of(name: str) -> Any:
    """Return a function of the C library, which unlike Python's raises no error outside of its domain."""
    function = getattr(ctypes.CDLL(find_library("m")), name)
    number = ctypes.c_float if name.endswith("f") and not name.endswith("erf") else ctypes.c_double
    function.restype = number
    return lambda *values: function(*map(number, values))


class InWasm:
    """The functions of an export in a WebAssembly machine, and one block of memory; `call` returns error codes."""

    def __init__(self, built: Built, train: Any = None) -> None:
        code, self.externals = built.object_file()
        self.module = linked(code, [built.interface.symbol(each.name) for each in built.interface.functions])
        self.built, self.interface, self.train = built, built.interface, train
        engine = wasmtime.Engine()
        self._store = wasmtime.Store(engine)
        module = wasmtime.Module(engine, self.module)
        imports = [
            wasmtime.Func(self._store, cast("wasmtime.FuncType", each.type), function_of(each.name or ""))
            for each in module.imports
        ]
        self._exports = wasmtime.Instance(self._store, module, imports).exports(self._store)
        self.memory: Any = self._exports["memory"]
        self._top = int(self._exports["__heap_base"].value(self._store))  # type: ignore[union-attr]  # a global
        self.block = self.take(self.interface.memory_bytes)

    def take(self, size: int) -> int:
        """Return where there is free memory of so many bytes."""
        place = -(-self._top // _LINE) * _LINE
        self._top = place + size
        missing = self._top - self.memory.data_len(self._store)
        if missing > 0:
            self.memory.grow(self._store, -(-missing // 65536))
        return place

    def array(self, place: int, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
        """Return a view of memory."""
        size = int(np.prod(shape, dtype=np.int64))
        address = ctypes.addressof(self.memory.data_ptr(self._store).contents) + place
        kind = np.dtype(dtype)
        raw = np.ctypeslib.as_array((ctypes.c_uint8 * max(1, size * kind.itemsize)).from_address(address))
        found: np.ndarray = raw[: size * kind.itemsize].view(kind).reshape(shape)
        return found

    def run(self, name: str, *arguments: Any) -> int:
        """Call a function with plain arguments."""
        symbol = self.interface.symbol(f"{self.interface.name}_{name}")
        return int(self._exports[symbol](self._store, *arguments))  # type: ignore[operator]

    def start(self) -> int:
        """Prepare the block, write all tensors and call ready."""
        code = self.run("init", self.block, self.interface.memory_bytes)
        for name, value in tensors_of(self.built, self.train).items():
            self.tensor(name)[...] = value
        return code or self.run("ready", self.block)

    def tensor(self, name: str) -> np.ndarray:
        """Return a tensor as a view of the block."""
        (each,) = [each for each in self.interface.tensors if each.name == name]
        return self.array(self.block + each.offset, each.dtype, each.shape)

    def call(self, function: str, length: int = 1, **values: Any) -> tuple[int, dict[str, np.ndarray]]:
        """Call a function with arrays of so many rows, and numbers; return its error code and what it wrote."""
        name = f"{self.interface.name}_{function}"
        (spec,) = [each for each in self.interface.functions if each.name == name]
        arguments, written = list[Any](), dict[str, tuple[int, Any, tuple[int, ...]]]()
        for each in spec.parameters:
            shape = ((length,) if each.by_rows else (values[each.along],) if each.along else ()) + each.shape
            if each.role is Role.MEMORY:
                arguments.append(self.block)
            elif each.role is Role.LISTED:
                arguments.append(len(values.get(each.name.removesuffix("s")) or ()))
            elif each.role is Role.LIST and values.get(each.name) is None:
                arguments.append(0)
            elif each.role in (Role.INPUT, Role.OFFSETS, Role.LIST, Role.OUTPUT, Role.RESULTS, Role.ORDER):
                kind: Any = each.dtype
                if each.role is Role.RESULTS:
                    kind, shape = np.float64, (len(spec.results),)
                elif each.role is Role.ORDER:
                    kind, shape = np.int64, (length,)
                elif each.role in (Role.OFFSETS, Role.LIST):
                    shape = np.shape(values[each.name])
                place = self.take(max(1, int(np.prod(shape, dtype=np.int64))) * np.dtype(kind).itemsize)
                if each.role in (Role.INPUT, Role.OFFSETS, Role.LIST):
                    self.array(place, kind, shape)[...] = values[each.name]
                else:
                    written[each.name] = place, kind, shape
                arguments.append(place)
            else:
                number = values.get(each.name, length if each.role is Role.ROWS else 0)
                arguments.append(float(number) if each.llvm == "double" else number)
        code = self.run(function, *arguments)
        return code, {name: self.array(*each).copy() for name, each in written.items()}


def in_wasm(
    train: Any = None, predict: Any = None, *, batch_sizes: Any = 32, name: str = "model", generate: Any = None
) -> InWasm:
    """Export programs for WebAssembly and start a machine with them."""
    programs = predict if isinstance(predict, dict) else {} if predict is None else {"predict": predict}
    target = target_named("wasm32", None, None)
    return InWasm(build(name, target, train, programs, batch_sizes, {}, None, generate), train)
