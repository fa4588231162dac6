"""One object file from the units of an export: each is optimized alone, as in a program, and then they are joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import llvmlite.binding as llvm

from wyrm.engines.native.llvm import cache
from wyrm.engines.native.llvm.emit import ENTRY
from wyrm.engines.native.llvm.optimize import Unit, codegen_level, optimized
from wyrm.engines.native.products.target import Target
from wyrm.engines.native.products.writer import SHARED
from wyrm.errors import CompileError


def object_file(units: Sequence[Unit], symbols: Mapping[str, str], target: Target) -> tuple[bytes, list[str]]:
    """Return the object file, and the names of functions that it calls outside.

    Only the functions with a symbol are visible, by that name.
    """
    machine = target.machine(2)
    whole: Any = None
    for unit in units:
        module = llvm.parse_bitcode(_bitcode(unit, target))
        if whole is None:
            whole = module
        else:
            whole.link_in(module)
    for each in [*whole.functions, *whole.global_variables]:
        if each.name in symbols:
            each.name = symbols[each.name]
        elif not each.is_declaration:
            each.linkage = "internal"
    # Each unit is optimized already. All that is left is to remove functions that nobody calls.
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0))
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(whole, builder)
    try:
        code = bytes(machine.emit_object(whole))
    except RuntimeError as error:
        raise CompileError(f"LLVM cannot compile for {target.triple}: {error}") from error
    outside = [
        each.name for each in whole.functions if each.is_declaration and not each.name.startswith("llvm.")
    ]  # fmt: skip
    return code, sorted(outside)


def _bitcode(unit: Unit, target: Target) -> bytes:
    """Return an optimized unit, compiled or from the cache; its exported function has the unit's symbol."""
    names = (target.triple, target.cpu, target.features)
    name = f"wyrm_{cache.key(repr(('bitcode', names, unit.symbol, unit.text, unit.level)))}.machine"
    kept = cache.store().read(name)
    if kept is not None:
        return kept
    text = unit.text
    for exported in (SHARED, ENTRY):
        text = text.replace(f"@{exported}(", f"@{unit.symbol}(")
    module, _ = optimized(text, unit.level, target.machine(codegen_level(unit.level)))
    found = bytes(module.as_bitcode())
    cache.store().write(name, found)
    return found
