"""What a language with objects needs to know of an export: methods, their arguments, tensors and errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from wyrm.exporting.c import FORMAT, TYPES, header_text
from wyrm.exporting.errors import FILE_ERRORS
from wyrm.exporting.interface import FunctionParameter, FunctionSignature, Interface, Role

# What a caller may leave out.
OPTIONS = (Role.BATCH, Role.FLAG, Role.SEED, Role.COUNT, Role.PART, Role.FACTOR, Role.LIST)


def method_of(function: FunctionSignature, interface: Interface) -> str:
    """Return the name of a method of the model: that of the function without the model's."""
    return function.name.removeprefix(f"{interface.name}_")


def methods_of(interface: Interface) -> list[FunctionSignature]:
    """Return the functions that are methods; the model's constructor calls the others."""
    own = (f"{interface.name}_init", f"{interface.name}_ready")
    return [each for each in interface.functions if each.name not in own]


def description(interface: Interface) -> dict[str, Any]:
    """Return what the functions of a language need to know, as texts, numbers, lists and dicts."""
    name, epoch = interface.name, [each for each in interface.functions if each.name == f"{interface.name}_epoch"]
    return {
        "name": name,
        "init": interface.symbol(f"{name}_init"),
        "format": FORMAT,
        "memory": interface.memory_bytes,
        "most": interface.most,
        "columns": [each.name for function in epoch for each in needed_by(function)],
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
                "data": [each.name for each in needed_by(each)], "options": [each.name for each in options_of(each)],
                "splits": _splits(each, interface),
                "parameters": [
                    {
                        "name": parameter.name, "role": parameter.role.name, "byRows": parameter.by_rows,
                        "along": parameter.along or None, "length": parameter.length, "shape": parameter.shape,
                        "dtype": parameter.dtype.name if parameter.dtype else None,
                        "scalar": is_scalar(parameter),
                    }
                    for parameter in each.parameters
                ],
            }
            for each in methods_of(interface)
        ],
    }  # fmt: skip


def needed_by(function: FunctionSignature) -> list[FunctionParameter]:
    """Return the inputs and numbers that a method must be given."""
    roles = (Role.INPUT, Role.OFFSETS, Role.TOKEN, Role.NUMBER)
    return [each for each in function.parameters if each.role in roles]


def options_of(function: FunctionSignature) -> list[FunctionParameter]:
    """Return the other arguments. Without rows, which are divided, a batch is all of the data."""
    divided = any(each.role is Role.ROWS for each in function.parameters)
    return [each for each in function.parameters if each.role in OPTIONS and (divided or each.role is not Role.BATCH)]


def _splits(function: FunctionSignature, interface: Interface) -> bool:
    """Return whether calls with parts of the rows give parts of all outputs."""
    outputs = [each for each in function.parameters if each.role is Role.OUTPUT]
    whole = any(each.role in (Role.RESULTS, Role.ENTRIES) for each in function.parameters)
    return not whole and not interface.listed and bool(outputs) and all(each.by_rows for each in outputs)


def is_scalar(parameter: FunctionParameter) -> bool:
    """Return whether a parameter is an array of one number, without axes."""
    return not parameter.by_rows and not parameter.along and parameter.shape == ()
