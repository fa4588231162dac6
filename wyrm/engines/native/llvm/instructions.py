"""Translates the expressions of a loop program to LLVM instructions."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from wyrm.engines.native.ir.program import (
    Bits,
    Conversion,
    Expression,
    Load,
    Number,
    Offset,
    Operation,
    Select,
    Symbol,
    Table,
    Variable,
)
from wyrm.engines.native.ir.types import BOOL, FLOAT32, UINT32, UINT64, PointerType, ScalarType, Type

_FLOATS = {32: "float", 64: "double"}
_ARITHMETIC = {"add": "add", "subtract": "sub", "multiply": "mul"}
_BITWISE = {"and": "and", "or": "or", "xor": "xor", "left": "shl"}
_INSIDE = {"step": "add nsw", "stride": "mul nsw"}
# LLVM predicates for floats, signed and unsigned integers. A NaN is unequal to everything.
_COMPARISONS = {
    "less": ("olt", "slt", "ult"), "less_equal": ("ole", "sle", "ule"), "greater": ("ogt", "sgt", "ugt"),
    "greater_equal": ("oge", "sge", "uge"), "equal": ("oeq", "eq", "eq"), "not_equal": ("une", "ne", "ne"),
    "unordered": ("uno", "", ""),
}  # fmt: skip
# Float functions with an LLVM intrinsic, and those that are calls of the C math library.
_INTRINSICS = {
    "abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "exp": "exp", "exp2": "exp2", "log": "log",
    "log2": "log2", "log10": "log10", "sin": "sin", "cos": "cos", "power": "pow", "trunc": "trunc",
    "copysign": "copysign", "round": "rint",
}  # fmt: skip
_LIBRARY = {
    name: name
    for name in ("tanh", "sinh", "cosh", "tan", "cbrt", "expm1", "log1p", "erf", "erfc", "atan2", "hypot", "lgamma")
} | {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "gamma": "tgamma",
}  # fmt: skip


def llvm_type(type: Type) -> str:
    """Return the LLVM type of a value in a register."""
    if isinstance(type, PointerType):
        return "ptr"
    return _FLOATS[type.bits] if type.kind == "f" else f"i{type.bits}"


def in_memory(type: Type) -> str:
    """Return the LLVM type of an element in memory."""
    return "i8" if type == BOOL else llvm_type(type)


class Instructions:
    """Emits the instructions of one function. Variables live in stack slots, which LLVM promotes to registers."""

    def __init__(self, declared: set[str], words: dict[str, int], *, fused: bool) -> None:
        # The declarations of external functions in the module.
        self._declared = declared
        # The parameters that each use loads from the table of arguments, with their positions there.
        self._words = words
        self._contract = "contract " if fused else ""
        self._slots: list[str] = []
        self._lines: list[str] = []
        self._variable_slots: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self._count = 0

    # --- lines ----------------------------------------------------------------------------------------------------

    def _new(self, text: str) -> str:
        self._count += 1
        self._lines.append(f"  %t{self._count} = {text}")
        return f"%t{self._count}"

    def _do(self, text: str) -> None:
        self._lines.append(f"  {text}")

    def _label(self, name: str) -> None:
        self._lines.append(f"{name}:")

    def _labels(self, *names: str) -> list[str]:
        self._count += 1
        return [f"{name}{self._count}" for name in names]

    def _place(self, variable: Variable) -> str:
        if variable.name not in self._variable_slots:
            self._variable_slots[variable.name] = slot = f"%v{len(self._variable_slots)}"
            self._slots.append(f"  {slot} = alloca {llvm_type(variable.type)}")
        return self._variable_slots[variable.name]

    def _put(self, variable: Variable, value: str) -> None:
        self._do(f"store {llvm_type(variable.type)} {value}, ptr {self._place(variable)}")

    def _at(self, pointer: Expression, index: Expression, type: str) -> str:
        """Return the address of an element to load or store."""
        base = self._value(pointer)
        if isinstance(index, Number) and index.value == 0:
            return base
        return self._new(f"getelementptr inbounds {type}, ptr {base}, i64 {self._value(index)}")

    def _store(self, address: str, value: Expression) -> None:
        given = self._value(value)
        if value.type == BOOL:
            given = self._new(f"zext i1 {given} to i8")
        self._do(f"store {in_memory(value.type)} {given}, ptr {address}")

    def _table(self, table: Table) -> None:
        self._count += 1
        words = f"%g{self._count}"
        self._slots.append(f"  {words} = alloca [{len(table.values) + table.room} x i64], align 8")
        for position, each in enumerate(table.values):
            self._store(self._new(f"getelementptr inbounds i64, ptr {words}, i64 {position}"), each)
        self._put(table.variable, words)

    # --- expressions ----------------------------------------------------------------------------------------------

    def _value(self, expression: Expression) -> str:
        match expression:
            case Variable(name, type):
                if name in self._values:
                    return self._values[name]
                if name in self._words:
                    at = self._new(f"getelementptr inbounds i64, ptr %table, i64 {self._words[name]}")
                    found = self._new(f"load {'i8' if type == BOOL else llvm_type(type)}, ptr {at}")
                    return self._new(f"trunc i8 {found} to i1") if type == BOOL else found
                return self._new(f"load {llvm_type(type)}, ptr {self._place(expression)}")
            case Number():
                return constant(expression)
            case Load(pointer, index, type):
                found = self._new(f"load {in_memory(type)}, ptr {self._at(pointer, index, in_memory(type))}")
                return self._new(f"icmp ne i8 {found}, 0") if type == BOOL else found
            case Offset(pointer, index, type):
                # Not `inbounds`: an empty view may start beyond the end of the array.
                element, base = in_memory(type.element), self._value(pointer)
                return self._new(f"getelementptr {element}, ptr {base}, i64 {self._value(index)}")
            case Select(condition, chosen, otherwise, type):
                test, first, second = map(self._value, (condition, chosen, otherwise))
                return self._new(f"select i1 {test}, {llvm_type(type)} {first}, {llvm_type(type)} {second}")
            case Conversion(operand, type):
                return self._cast(operand, type)
            case Bits(operand, type):
                return self._new(f"bitcast {llvm_type(operand.type)} {self._value(operand)} to {llvm_type(type)}")
            case Operation():
                return self._operation(expression)
            case Symbol(name):
                self._declared.add(f"@{name} = external global i8")
                return f"@{name}"

    def _cast(self, operand: Expression, to: Type) -> str:
        given, own = self._value(operand), operand.type
        if isinstance(to, PointerType):
            return self._new(f"inttoptr {llvm_type(own)} {given} to ptr")
        if isinstance(own, PointerType):
            return self._new(f"ptrtoint ptr {given} to {llvm_type(to)}")
        if own == to or (own.kind in "iu" and to.kind in "iu" and own.bits == to.bits):
            return given
        source, target = llvm_type(own), llvm_type(to)
        if to == BOOL:
            zero = _literal_text(0, own)
            return self._new(
                f"fcmp une {source} {given}, {zero}" if own.kind == "f" else f"icmp ne {source} {given}, {zero}"
            )
        if own.kind == "f" and to.kind != "f":
            return self._rounded(given, own, to)
        if own.kind == "f":
            name = "fpext" if to.bits > own.bits else "fptrunc"
        elif to.kind == "f":
            name = f"{_sign(own)}itofp"
        elif to.bits < own.bits:
            name = "trunc"
        else:
            name = "sext" if own.kind == "i" else "zext"
        return self._new(f"{name} {source} {given} to {target}")

    def _rounded(self, given: str, own: ScalarType, to: ScalarType) -> str:
        """Convert a float to an integer. Narrow types and uint32 go through a wider one, in which negative numbers fit.

        A NaN or a number out of range gives poison; `freeze` turns it into an unspecified integer.
        """
        bits = 64 if to.bits == 64 or to == UINT32 else 32
        sign = "u" if to == UINT64 else "s"
        found = self._new(f"fpto{sign}i {llvm_type(own)} {given} to i{bits}")
        found = self._new(f"freeze i{bits} {found}")
        return found if bits == to.bits else self._new(f"trunc i{bits} {found} to {llvm_type(to)}")

    def _operation(self, operation: Operation) -> str:
        name, first = operation.name, operation.operands[0].type
        values = [self._value(operand) for operand in operation.operands]
        if isinstance(first, PointerType):
            return self._new(f"icmp ugt ptr {values[0]}, {values[1]}")
        type, is_float = llvm_type(first), first.kind == "f"
        if name in _COMPARISONS:
            predicate = _COMPARISONS[name][0 if is_float else 1 if first.kind == "i" else 2]
            return self._new(f"{'fcmp' if is_float else 'icmp'} {predicate} {type} {values[0]}, {values[1]}")
        if name == "accumulate" and is_float:
            return self._new(f"fadd reassoc contract nsz {type} {values[0]}, {values[1]}")
        if name == "negative":
            return self._new(f"fneg {type} {values[0]}" if is_float else f"sub {type} 0, {values[0]}")
        if name == "not":
            return self._new(f"xor i1 {values[0]}, true")
        if name in _ARITHMETIC or name == "accumulate":
            text = _ARITHMETIC.get(name, "add")
            return self._new(f"{f'f{text} {self._contract}' if is_float else text} {type} {values[0]}, {values[1]}")
        if name in _INSIDE:
            return self._new(f"{_INSIDE[name]} {type} {values[0]}, {values[1]}")
        if name in _BITWISE:
            return self._new(f"{_BITWISE[name]} {type} {values[0]}, {values[1]}")
        if name == "right":
            return self._new(f"{'ashr' if first.kind == 'i' else 'lshr'} {type} {values[0]}, {values[1]}")
        if name in ("divide", "remainder"):
            kind = "f" if is_float else _sign(first)
            word = "div" if name == "divide" else "rem"
            return self._new(f"{kind}{word} {self._contract if is_float else ''}{type} {values[0]}, {values[1]}")
        if name == "quotient":
            return self._new(f"fdiv arcp ninf {type} {values[0]}, {values[1]}")
        return self._function_of(name, first, values)

    def _function_of(self, name: str, type: ScalarType, values: Sequence[str]) -> str:
        number = llvm_type(type)
        arguments, types = ", ".join(f"{number} {value}" for value in values), ", ".join([number] * len(values))
        if name in _INTRINSICS:
            callee, attributes = f"llvm.{_INTRINSICS[name]}.f{type.bits}", ""
        else:
            callee = _LIBRARY[name] + ("f" if type == FLOAT32 else "")
            attributes = " nounwind willreturn memory(none)"
        self._declared.add(f"declare {number} @{callee}({types}){attributes}")
        return self._new(f"call {number} @{callee}({arguments})")


def _sign(type: ScalarType) -> str:
    return "s" if type.kind == "i" else "u"


def constant(number: Number) -> str:
    """Return a constant."""
    return _literal_text(number.value, number.type)


def _literal_text(value: float | int | bool, type: ScalarType) -> str:
    if type == BOOL:
        return "true" if value else "false"
    if type.kind != "f":
        return str(int(value))
    if type == FLOAT32:
        value = struct.unpack("<f", struct.pack("<f", _in_range(float(value))))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _in_range(value: float) -> float:
    """Return a number, with those too large for float32 replaced by infinity."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value
