"""Exports loaded into this process, with memory that ends, or begins, where no page may be read or written."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from tests.guarded import Guarded
from wyrm.engines.native.llvm.optimize import target_machine
from wyrm.engines.native.products.target import host, target_of
from wyrm.exporting.building import Built, build
from wyrm.exporting.exported import tensors_of
from wyrm.exporting.interface import Role
from wyrm.graph.storage import bound_array


class Loaded:
    """The functions of an export in this process, and one block of memory; the methods return error codes."""

    def __init__(self, built: Built, train: Any = None, *, at_end: bool = True) -> None:
        code, self.externals = built.object_file()
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        self.built, self.interface, self._at_end = built, built.interface, at_end
        self.functions = {each.name: each for each in self.interface.functions}
        self.block = Guarded(self.interface.memory_bytes, at_end=at_end)
        self.train = train
        # The seconds of the last call.
        self.seconds = 0.0
        # The arrays of the last call, by the names of the parameters.
        self.given: dict[str, Guarded] = {}

    def twin(self) -> Loaded:
        """Return the same functions with a block of their own."""
        found = copy(self)
        found.block = Guarded(self.interface.memory_bytes, at_end=self._at_end)
        return found

    def function(self, name: str) -> Any:
        """Return an exported function."""
        kinds = {"ptr": ctypes.c_void_p, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "double": ctypes.c_double}
        parameters = self.functions[name].parameters
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, *(kinds[each.llvm] for each in parameters))
        return kind(self._engine.get_function_address(self.interface.symbol(name)))

    def start(self) -> int:
        """Prepare the block, write all tensors and call ready."""
        name = self.interface.name
        code = int(self.function(f"{name}_init")(self.block.address, self.interface.memory_bytes))
        return code or self.write(tensors_of(self.built, self.train))

    def write(self, values: dict[str, np.ndarray]) -> int:
        """Write tensors, and call ready."""
        for each in self.interface.tensors:
            self.tensor(each.name)[...] = values[each.name]
        return int(self.function(f"{self.interface.name}_ready")(self.block.address))

    def tensor(self, name: str) -> np.ndarray:
        """Return a tensor as a view of the block."""
        (each,) = [each for each in self.interface.tensors if each.name == name]
        assert self.block.bytes is not None
        found: np.ndarray = self.block.bytes[each.offset : each.offset + each.bytes].view(each.dtype)
        return found.reshape(each.shape)

    def call(self, function: str, length: int = 1, **values: Any) -> tuple[int, dict[str, np.ndarray]]:
        """Call a function with arrays of so many rows, and numbers; return its error code and what it wrote.

        Outputs of entries of rows have `room` for so many, by default for as many as are given.
        """
        name = f"{self.interface.name}_{function}"
        arguments, made, views = list[Any](), dict[str, Guarded](), dict[str, np.ndarray]()
        for each in self.functions[name].parameters:
            entries: int = values.get("room", values.get(each.along, 0))
            shape = ((length,) if each.by_rows else (entries,) if each.along else ()) + each.shape
            match each.role:
                case Role.MEMORY:
                    arguments.append(self.block.address)
                case Role.LISTED:
                    arguments.append(len(values.get(each.name.removesuffix("s")) or ()))
                case Role.INPUT | Role.OFFSETS | Role.LIST:
                    value = values.get(each.name) if each.role is Role.LIST else values[each.name]
                    if value is None:
                        arguments.append(None)
                        continue
                    made[each.name] = Guarded.of(np.asarray(value, each.dtype), at_end=self._at_end)
                    arguments.append(made[each.name].address)
                case Role.OUTPUT:
                    assert each.dtype is not None
                    size = int(np.prod(shape, dtype=np.int64)) * each.dtype.itemsize
                    made[each.name] = Guarded(size, at_end=self._at_end)
                    views[each.name] = made[each.name].view(each.dtype, shape)
                    arguments.append(made[each.name].address)
                case Role.RESULTS:
                    made["results"] = Guarded(8 * len(self.functions[name].results), at_end=self._at_end)
                    views["results"] = made["results"].view(np.float64, (len(self.functions[name].results),))
                    arguments.append(made["results"].address)
                case Role.ORDER:
                    made["order"] = Guarded(8 * max(length, 1), at_end=self._at_end)
                    views["order"] = made["order"].view(np.int64, (max(length, 1),))
                    arguments.append(made["order"].address)
                case Role.ROWS:
                    arguments.append(values.get(each.name, length))
                case _:
                    arguments.append(values.get(each.name, 0))
        self.given = made
        run = self.function(name)
        start = time.process_time()
        code = int(run(*arguments))
        self.seconds = time.process_time() - start
        return code, views


def loaded(
    train: Any = None, predict: Any = None, *, batch_sizes: Any = 32, at_end: bool = True, sizes: Any = None,
    name: str = "model", embed: str | None = None, generate: Any = None, cblas: bool = False,
) -> Loaded:  # fmt: skip
    """Export programs for this machine and load them."""
    own = host()
    target = replace(target_of(own.triple, own.cpu, own.features), cblas=cblas)
    programs = predict if isinstance(predict, dict) else {} if predict is None else {"predict": predict}
    built = build(name, target, train, programs, batch_sizes, sizes or {}, embed, generate)
    return Loaded(built, train, at_end=at_end)


def check_predictions(
    export: Any, program: Any, names: Sequence[str] | None = None, *, rtol: float, atol: float
) -> None:
    """Check that an export predicts, from the values that inputs hold, what the program itself computes."""
    assert export.start() == 0
    given = {each.name: bound_array(each.leaf) for each in export.built.predictions["predict"].given}
    code, found = export.call("predict", **given)
    assert code == 0
    for name, wanted, have in zip(names or found, program(), found.values(), strict=True):
        np.testing.assert_allclose(have, wanted, rtol, atol, err_msg=name)
