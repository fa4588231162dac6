"""A loop program as the text of an LLVM module: one walk over it, in which nothing is decided."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wyrm.ir.program import (
    Assign,
    Bits,
    Cast,
    Expression,
    Fail,
    For,
    Function,
    If,
    Invoke,
    Leave,
    Load,
    Number,
    Offset,
    Operation,
    Product,
    Return,
    Select,
    Statement,
    Store,
    Variable,
    While,
)
from wyrm.ir.types import BOOL, FLOAT32, Pointer, Scalar, Type

# What modules export: a function for Python, or one for other modules.
ENTRY, SHARED = "wyrm_entry", "wyrm_shared"
_FLOATS = {32: "float", 64: "double"}
_ARITHMETIC = {"add": "add", "subtract": "sub", "multiply": "mul"}
_BITWISE = {"and": "and", "or": "or", "xor": "xor", "left": "shl"}
_INSIDE = {"step": "add nsw", "stride": "mul nsw"}
# What LLVM calls them: of ordered floats, of signed and of unsigned integers. A NaN is unequal to everything.
_COMPARISONS = {
    "less": ("olt", "slt", "ult"), "less_equal": ("ole", "sle", "ule"), "greater": ("ogt", "sgt", "ugt"),
    "greater_equal": ("oge", "sge", "uge"), "equal": ("oeq", "eq", "eq"), "not_equal": ("une", "ne", "ne"),
    "unordered": ("uno", "", ""),
}  # fmt: skip
# Functions of floats that LLVM knows, and those of the C library that it does not.
_KNOWN = {
    "abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "exp": "exp", "exp2": "exp2", "log": "log",
    "log2": "log2", "log10": "log10", "sin": "sin", "cos": "cos", "power": "pow", "trunc": "trunc",
    "copysign": "copysign",
}  # fmt: skip
_LIBRARY = {
    name: name for name in ("tanh", "sinh", "cosh", "tan", "expm1", "log1p", "erf", "atan2", "hypot", "lgamma", "fmod")
} | {"arcsin": "asin", "arccos": "acos", "arctan": "atan"}


def llvm_type(type: Type) -> str:
    """What LLVM calls a type in registers."""
    if isinstance(type, Pointer):
        return "ptr"
    return _FLOATS[type.bits] if type.kind == "f" else f"i{type.bits}"


def _in_memory(type: Scalar) -> str:
    return "i8" if type == BOOL else llvm_type(type)


@dataclass(frozen=True)
class Unit:
    """The text of a module, the name that others call what it exports by, and how much it is optimized, 0 to 3."""

    symbol: str
    text: str
    level: int = 3


def emit(
    functions: Sequence[Function],
    outside: Mapping[str, tuple[str, Function]],
    entry: bool,
    at_use: bool = False,
) -> str:
    """The text of a module with these functions, the last of which it exports.

    `outside` are the symbols of functions in other modules. The names in the text are made of places, so that loop
    programs which differ in names alone have the same. With `entry`, what is exported is `wyrm_entry`, which takes a
    table of 64-bit words and returns an error code: a word for each parameter, and one for each result after them.
    `at_use`, it reads a parameter from there wherever it is used: a function with a thousand parameters, all kept
    through a loop, takes LLVM a minute.
    """
    declared: set[str] = set()
    symbols = {function.name: f"f{place}" for place, function in enumerate(functions)}
    known = {function.name: function for function in functions}
    for name, (symbol, function) in outside.items():
        symbols[name], known[name] = symbol, function
        types = ", ".join(llvm_type(each.type) for each in function.parameters)
        declared.add(f"declare {_returned(function)} @{symbol}({types})")
    if not entry:
        symbols[functions[-1].name] = SHARED
    root = functions[-1]
    texts = [_Function(each, declared, symbols, known, at_use and each is root).text() for each in functions]
    return "\n\n".join([*sorted(declared), *texts, *([_entry(root, symbols, at_use)] if entry else [])]) + "\n"


def _entry(function: Function, symbols: Mapping[str, str], at_use: bool) -> str:
    lines, arguments = [], ["ptr %table"] if at_use else []
    for position, parameter in enumerate(() if at_use else function.parameters):
        type = llvm_type(parameter.type)
        lines += [f"  %p{position} = getelementptr inbounds i64, ptr %table, i64 {position}"]
        lines += [f"  %a{position} = load {'i8' if parameter.type == BOOL else type}, ptr %p{position}"]
        if parameter.type == BOOL:
            lines += [f"  %b{position} = trunc i8 %a{position} to i1"]
        arguments.append(f"{type} %{'b' if parameter.type == BOOL else 'a'}{position}")
    returned = _returned(function)
    call = f"call {returned} @{symbols[function.name]}({', '.join(arguments)})"
    lines.append(f"  {call}" if returned == "void" else f"  %result = {call}")
    if returned != "void":
        for position, kind in enumerate(function.results):
            place = len(function.parameters) + position
            lines += [f"  %r{position} = extractvalue {returned} %result, {position + function.fails}"]
            lines += [f"  %q{position} = getelementptr inbounds i64, ptr %table, i64 {place}"]
            if kind == BOOL:
                lines += [
                    f"  %z{position} = zext i1 %r{position} to i64",
                    f"  store i64 %z{position}, ptr %q{position}",
                ]
            else:
                lines += [f"  store {llvm_type(kind)} %r{position}, ptr %q{position}"]
    status = "0"
    if function.fails:
        lines.append(f"  %status = extractvalue {returned} %result, 0")
        status = "%status"
    return "\n".join([f"define i32 @{ENTRY}(ptr %table) {{", *lines, f"  ret i32 {status}", "}"])


def _returned(function: Function) -> str:
    types = [*(["i32"] if function.fails else []), *map(llvm_type, function.results)]
    return "{ " + ", ".join(types) + " }" if types else "void"


class _Function:
    """The text of one function. Variables live on the stack; LLVM moves them to registers."""

    def __init__(
        self,
        function: Function,
        declared: set[str],
        symbols: Mapping[str, str],
        known: Mapping[str, Function],
        at_use: bool,
    ) -> None:
        self._function, self._declared = function, declared
        self._symbols, self._known = symbols, known
        # Where in the table the parameters are that are read at each use.
        self._words = {each.name: place for place, each in enumerate(function.parameters)} if at_use else {}
        self._slots: list[str] = []
        self._lines: list[str] = []
        self._places: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self._count = 0
        # Where `break` and `continue` go, of the loops around.
        self._loops: list[tuple[str, str]] = []
        self._contract = "contract " if function.fused else ""

    def text(self) -> str:
        """The definition."""
        function = self._function
        parameters = ["ptr %table"] if self._words else []
        for position, each in enumerate(() if self._words else function.parameters):
            distinct = " noalias" if function.distinct and isinstance(each.type, Pointer) else ""
            parameters.append(f"{llvm_type(each.type)}{distinct} %p{position}")
            self._values[each.name] = f"%p{position}"
        assigned = set(_assigned(function.body))
        for each in function.parameters:
            if each in assigned:
                given = self._value(each)
                self._words.pop(each.name, None)
                self._values.pop(each.name, None)
                self._put(each, given)
        self._body(function.body)
        end = "ret void" if _returned(function) == "void" else f"ret {_returned(function)} zeroinitializer"
        kind = " alwaysinline" if function.inlined else ""
        symbol = self._symbols[function.name]
        linkage = "" if symbol == SHARED else "internal "
        head = f"define {linkage}{_returned(function)} @{symbol}({', '.join(parameters)}){kind} nounwind {{"
        return "\n".join([head, "start:", *self._slots, *self._lines, f"  {end}", "}"])

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
        if variable.name not in self._places:
            self._places[variable.name] = place = f"%v{len(self._places)}"
            self._slots.append(f"  {place} = alloca {llvm_type(variable.type)}")
        return self._places[variable.name]

    def _put(self, variable: Variable, value: str) -> None:
        self._do(f"store {llvm_type(variable.type)} {value}, ptr {self._place(variable)}")

    # --- statements -----------------------------------------------------------------------------------------------

    def _body(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, statement: Statement) -> None:
        match statement:
            case Assign(variable, value):
                self._put(variable, self._value(value))
            case Store(pointer, index, value):
                self._store(pointer, index, value)
            case For():
                self._for(statement)
            case While():
                self._while(statement)
            case If():
                self._if(statement)
            case Leave(next):
                self._jump(f"br label %{self._loops[-1][next]}")
            case Return(values):
                self._return(values)
            case Fail(code):
                self._fail(str(code))
            case Invoke():
                self._invoke(statement)
            case Product():
                self._product(statement)

    def _jump(self, text: str) -> None:
        """An instruction that ends a block; what follows it is never reached."""
        self._do(text)
        self._label(self._labels("never")[0])

    def _store(self, pointer: Expression, index: Expression, value: Expression) -> None:
        assert isinstance(value.type, Scalar)
        given, type = self._value(value), _in_memory(value.type)
        if value.type == BOOL:
            given = self._new(f"zext i1 {given} to i8")
        at = self._at(pointer, index, type)
        self._do(f"store {type} {given}, ptr {at}")

    def _at(self, pointer: Expression, index: Expression, type: str) -> str:
        base = self._value(pointer)
        if isinstance(index, Number) and index.value == 0:
            return base
        return self._new(f"getelementptr inbounds {type}, ptr {base}, i64 {self._value(index)}")

    def _for(self, loop: For) -> None:
        head, body, turn, end = self._labels("head", "body", "turn", "end")
        count = self._value(loop.count)
        enters = self._new(f"icmp sgt i64 {count}, 0")
        self._do(f"br i1 {enters}, label %{head}, label %{end}")
        # The block that the loop is entered from only has this to do, so that its name is known.
        self._label(head)
        self._do(f"br label %{body}")
        self._label(body)
        index = f"%{body}.i"
        self._do(f"{index} = phi i64 [ 0, %{head} ], [ {index}.next, %{turn} ]")
        self._values[loop.index.name] = index
        self._loops.append((end, turn))
        self._body(loop.body)
        self._loops.pop()
        self._do(f"br label %{turn}")
        self._label(turn)
        self._do(f"{index}.next = add nuw nsw i64 {index}, 1")
        more = self._new(f"icmp slt i64 {index}.next, {count}")
        self._do(f"br i1 {more}, label %{body}, label %{end}")
        self._label(end)

    def _while(self, loop: While) -> None:
        head, body, end = self._labels("head", "body", "end")
        self._do(f"br label %{head}")
        self._label(head)
        self._body(loop.before)
        self._do(f"br i1 {self._value(loop.condition)}, label %{body}, label %{end}")
        self._label(body)
        self._loops.append((end, head))
        self._body(loop.body)
        self._loops.pop()
        self._do(f"br label %{head}")
        self._label(end)

    def _if(self, statement: If) -> None:
        then, otherwise, end = self._labels("then", "else", "end")
        self._do(f"br i1 {self._value(statement.condition)}, label %{then}, label %{otherwise}")
        for label, body in ((then, statement.body), (otherwise, statement.otherwise)):
            self._label(label)
            self._body(body)
            self._do(f"br label %{end}")
        self._label(end)

    def _return(self, values: Sequence[Expression]) -> None:
        self._jump(self._returning("0", [(llvm_type(value.type), self._value(value)) for value in values]))

    def _returning(self, status: str, values: Sequence[tuple[str, str]]) -> str:
        returned = _returned(self._function)
        fields = [*([("i32", status)] if self._function.fails else []), *values]
        if not fields:
            return "ret void"
        whole = "zeroinitializer"
        for position, (type, value) in enumerate(fields):
            whole = self._new(f"insertvalue {returned} {whole}, {type} {value}, {position}")
        return f"ret {returned} {whole}"

    def _fail(self, code: str) -> None:
        returned = _returned(self._function)
        self._jump(f"ret {returned} {self._new(f'insertvalue {returned} zeroinitializer, i32 {code}, 0')}")

    def _invoke(self, call: Invoke) -> None:
        function = self._known[call.function]
        fails, returned = function.fails, _returned(function)
        arguments = ", ".join(f"{llvm_type(each.type)} {self._value(each)}" for each in call.arguments)
        text = f"call {returned} @{self._symbols[call.function]}({arguments})"
        if returned == "void":
            self._do(text)
            return
        result = self._new(text)
        if fails:
            status = self._new(f"extractvalue {returned} {result}, 0")
            failed, going_on = self._labels("failed", "on")
            self._do(f"br i1 {self._new(f'icmp ne i32 {status}, 0')}, label %{failed}, label %{going_on}")
            self._label(failed)
            whole = self._new(f"insertvalue {_returned(self._function)} zeroinitializer, i32 {status}, 0")
            self._do(f"ret {_returned(self._function)} {whole}")
            self._label(going_on)
        for position, variable in enumerate(call.results):
            self._put(variable, self._new(f"extractvalue {returned} {result}, {position + fails}"))

    def _product(self, product: Product) -> None:
        """Fortran takes all arguments by address."""
        name, number = ("wyrm_sgemm", "float") if product.type == FLOAT32 else ("wyrm_dgemm", "double")
        self._declared.add(f"declare void @{name}({', '.join(['ptr'] * 13)})")
        a_turned, b_turned, m, n, k, a, a_step, b, b_step, kept, c, c_step = map(self._value, product.operands)
        letters = [self._new(f"select i1 {turned}, i8 116, i8 110") for turned in (a_turned, b_turned)]
        factor = self._new(f"select i1 {kept}, {number} 1.0, {number} 0.0")

        def address(type: str, value: str) -> str:
            self._count += 1
            place = f"%g{self._count}"
            self._slots.append(f"  {place} = alloca {type}")
            self._do(f"store {type} {value}, ptr {place}")
            return place

        # A BLAS of 32-bit integers reads the lower halves.
        m, n, k, a_step, b_step, c_step = (address("i64", size) for size in (m, n, k, a_step, b_step, c_step))
        one, factor = address(number, "1.0"), address(number, factor)
        first, second = (address("i8", letter) for letter in letters)
        given = [first, second, m, n, k, one, a, a_step, b, b_step, factor, c, c_step]
        self._do(f"call void @{name}({', '.join(f'ptr {each}' for each in given)})")

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
            case Number(value, type):
                return _constant(value, type)
            case Load(pointer, index, type):
                found = self._new(f"load {_in_memory(type)}, ptr {self._at(pointer, index, _in_memory(type))}")
                return self._new(f"trunc i8 {found} to i1") if type == BOOL else found
            case Offset(pointer, index, type):
                return self._at(pointer, index, _in_memory(type.element))
            case Select(condition, chosen, otherwise, type):
                test, first, second = map(self._value, (condition, chosen, otherwise))
                return self._new(f"select i1 {test}, {llvm_type(type)} {first}, {llvm_type(type)} {second}")
            case Cast(operand, type):
                return self._cast(operand, type)
            case Bits(operand, type):
                return self._new(f"bitcast {llvm_type(operand.type)} {self._value(operand)} to {llvm_type(type)}")
            case Operation():
                return self._operation(expression)

    def _cast(self, operand: Expression, to: Scalar) -> str:
        given, own = self._value(operand), operand.type
        assert isinstance(own, Scalar)
        if own == to or (own.kind in "iu" and to.kind in "iu" and own.bits == to.bits):
            return given
        source, target = llvm_type(own), llvm_type(to)
        if to == BOOL:
            zero = _constant(0, own)
            return self._new(
                f"fcmp une {source} {given}, {zero}" if own.kind == "f" else f"icmp ne {source} {given}, {zero}"
            )
        if own.kind == "f":
            name = ("fpext" if to.bits > own.bits else "fptrunc") if to.kind == "f" else f"fpto{_sign(to)}i"
        elif to.kind == "f":
            name = f"{_sign(own)}itofp"
        elif to.bits < own.bits:
            name = "trunc"
        else:
            name = "sext" if own.kind == "i" else "zext"
        return self._new(f"{name} {source} {given} to {target}")

    def _operation(self, operation: Operation) -> str:
        name, first = operation.name, operation.operands[0].type
        assert isinstance(first, Scalar)
        values = [self._value(operand) for operand in operation.operands]
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
        return self._function_of(name, first, values)

    def _function_of(self, name: str, type: Scalar, values: Sequence[str]) -> str:
        number = llvm_type(type)
        arguments, types = ", ".join(f"{number} {value}" for value in values), ", ".join([number] * len(values))
        if name in _KNOWN:
            callee, attributes = f"llvm.{_KNOWN[name]}.f{type.bits}", ""
        else:
            callee = _LIBRARY[name] + ("f" if type == FLOAT32 else "")
            attributes = " nounwind willreturn memory(none)"
        self._declared.add(f"declare {number} @{callee}({types}){attributes}")
        return self._new(f"call {number} @{callee}({arguments})")


def _sign(type: Scalar) -> str:
    return "s" if type.kind == "i" else "u"


def _constant(value: float | int | bool, type: Scalar) -> str:
    if type == BOOL:
        return "true" if value else "false"
    if type.kind != "f":
        return str(int(value))
    if type == FLOAT32:
        value = struct.unpack("<f", struct.pack("<f", _in_range(float(value))))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _in_range(value: float) -> float:
    """A number as float32 has it: one that is too large for it is infinite."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value


def _assigned(statements: Sequence[Statement]) -> list[Variable]:
    """The variables that statements assign."""
    found: list[Variable] = []
    for each in statements:
        match each:
            case Assign(variable, _):
                found.append(variable)
            case Invoke(results, _, _):
                found += results
            case For(_, _, body):
                found += _assigned(body)
            case While(before, _, body):
                found += [*_assigned(before), *_assigned(body)]
            case If(_, body, otherwise):
                found += [*_assigned(body), *_assigned(otherwise)]
            case _:
                pass
    return found


__all__ = ["ENTRY", "SHARED", "Unit", "emit"]
