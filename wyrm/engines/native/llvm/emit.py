"""Translation of a loop program to the text of an LLVM module, in a single pass that makes no decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

from wyrm.engines.native.ir.program import (
    AddressOf,
    Assign,
    Atomic,
    Expression,
    Fail,
    For,
    If,
    Invoke,
    Leave,
    LibraryCall,
    LoopFunction,
    Number,
    Offset,
    Return,
    Statement,
    StoreAt,
    Table,
    Variable,
    While,
    assigned,
    called,
    every,
    word_at,
)
from wyrm.engines.native.ir.types import INT64, PointerType
from wyrm.engines.native.llvm.call_table import FEWEST_CALLS, STATUS, CallTable, returned_type
from wyrm.engines.native.llvm.instructions import Instructions, in_memory, llvm_type
from wyrm.engines.native.products.target import Target, host
from wyrm.engines.native.products.writer import SHARED

# What LLVM may do to loops: make them vectors, without unrolling them at run time; or leave them as they are.
_NOT_UNROLLED = '!0 = !{!"llvm.loop.unroll.runtime.disable"}'
_AS_THEY_ARE = '!0 = !{!"llvm.loop.disable_nonforced"}'

# The exported functions: the entry point for Python, and a function for other modules.
ENTRY = "wyrm_entry"
# The name of the entry point, which no kernel can have.
_ENTRY_POINT = "entry point"


def emit(
    functions: Sequence[LoopFunction],
    outside: Mapping[str, tuple[str, LoopFunction]],
    entry: bool,
    at_use: bool = False,
    small: bool = False,
    target: Target | None = None,
    named: Mapping[str, str] | None = None,
) -> str:
    """Return the text of a module with these functions for a target, by default the host; it exports the last one.

    `outside`: symbols and signatures of functions in other modules. Names in the text are numbered by position, so loop
    programs that differ only in names give equal text. `entry`: the module exports `wyrm_entry`, which takes a table of
    64-bit words, one per parameter followed by one per result, and returns an error code. `at_use`: each use of a
    parameter loads it from the table, because a thousand parameters that are live across a loop take LLVM a minute.
    `small`: loops are not vectorized. `named`: instead of exporting one, the module has symbols for these functions,
    which text that is added to it calls.
    """
    declared: set[str] = set()
    symbols = {function.name: f"f{number}" for number, function in enumerate(functions)}
    known = {function.name: function for function in functions}
    for name, (symbol, function) in outside.items():
        symbols[name], known[name] = symbol, function
        types = ", ".join(llvm_type(each.type) for each in function.parameters)
        declared.add(f"declare {returned_type(function)} @{symbol}({types})")
    if named is not None:
        symbols |= named
    elif not entry:
        symbols[functions[-1].name] = SHARED
    metadata = [_AS_THEY_ARE if small else _NOT_UNROLLED]
    root, calls = functions[-1], Counter(name for each in functions for name in called(each.body))
    tables = CallTable() if at_use else None

    def text(function: LoopFunction, *, noinline: bool, tables: CallTable | None = None) -> str:
        return _FunctionEmitter(function, declared, metadata, symbols, known, noinline, tables, target or host()).text()

    texts = []
    for each in functions:
        # The cost of calling a function with nested loops is negligible, but inlining a copy takes long to compile. So
        # does optimizing a function that holds many loops of calls, such as branches and their gradients.
        noinline = _depth(each.body) > 1 and not (entry and calls[each.name] == 1)
        noinline |= each is not root and _calls_in_loops(each.body)
        texts.append(text(each, noinline=noinline, tables=tables if each is root else None))
    if tables is not None:
        symbols |= {each.name: symbol for symbol, each in tables.functions.items()}
        texts += [*tables.texts(), *(text(each, noinline=True) for each in tables.functions.values())]
    if entry:
        symbols[_ENTRY_POINT] = ENTRY
        texts.append(text(_entry_point(root, at_use), noinline=False))
    return "\n\n".join([*sorted(declared), *texts, "\n".join(metadata)]) + "\n"


def _entry_point(function: LoopFunction, at_use: bool) -> LoopFunction:
    """Return the function that takes a table of the words of the arguments, with room for those of the results."""
    words_type = PointerType(INT64)
    table = Variable("table", words_type)
    words = [word_at(table, place, each.type) for place, each in enumerate(function.parameters)]
    results = [Variable(f"result {place}", type) for place, type in enumerate(function.results, len(words))]
    stores = [
        StoreAt(Offset(table, Number(place, INT64), words_type), Number(0, INT64), each)
        for place, each in enumerate(results, len(words))
    ]
    call = Invoke(tuple(results), function.name, (table,) if at_use else tuple(words))
    return LoopFunction(_ENTRY_POINT, (table,), (), (call, *stores), fails=True)


class _FunctionEmitter(Instructions):
    """Emits the text of one function."""

    def __init__(
        self, function: LoopFunction, declared: set[str], metadata: list[str], symbols: Mapping[str, str],
        known: Mapping[str, LoopFunction], noinline: bool, tables: CallTable | None, target: Target,
    ) -> None:  # fmt: skip
        # With `tables`: the parameters that each use loads, with their positions in the table of words.
        words = {} if tables is None else {each.name: position for position, each in enumerate(function.parameters)}
        super().__init__(declared, words, fused=function.fused)
        self._function, self._metadata, self._noinline = function, metadata, noinline
        self._symbols, self._known, self._tables = symbols, known, tables
        self._attributes = target.function_attributes
        # The targets of `break` and `continue` of the enclosing loops.
        self._loops: list[tuple[str, str]] = []

    def text(self) -> str:
        """Return the definition of the function."""
        function = self._function
        parameters = ["ptr %table"] if self._words else []
        for position, each in enumerate(() if self._words else function.parameters):
            distinct = isinstance(each.type, PointerType) and (function.distinct or each.name in function.alone)
            parameters.append(f"{llvm_type(each.type)}{' noalias' * distinct} %p{position}")
            self._values[each.name] = f"%p{position}"
        changed = {each.name for statement in every(function.body) for each in assigned(statement)}
        for each in function.parameters:
            if each.name in changed:
                given = self._value(each)
                self._words.pop(each.name, None)
                self._values.pop(each.name, None)
                self._put(each, given)
        for each in function.cleared:
            self._put(each, "zeroinitializer")
        self._body(function.body)
        end = "ret void" if returned_type(function) == "void" else f"ret {returned_type(function)} zeroinitializer"
        kind = " alwaysinline" if function.inlined else " noinline" if self._noinline else ""
        symbol = self._symbols[function.name]
        start = f"define {'' if symbol in (SHARED, ENTRY) else 'internal '}{returned_type(function)}"
        head = f"{start} @{symbol}({', '.join(parameters)}){kind} {self._attributes} {{"
        return "\n".join([head, "start:", *self._slots, *self._lines, f"  {end}", "}"])

    # --- statements -----------------------------------------------------------------------------------------------

    def _body(self, statements: Sequence[Statement]) -> None:
        for of_table, group in groupby(statements, self._is_of_table):
            found = list(group)
            if of_table and len(found) >= FEWEST_CALLS:
                self._calls([each for each in found if isinstance(each, Invoke)])
                continue
            for statement in found:
                self._statement(statement)

    def _is_of_table(self, statement: Statement) -> bool:
        """Return whether a statement is a call without results whose arguments are constants and words of the table."""
        if self._tables is None or not isinstance(statement, Invoke) or statement.results:
            return False
        return all(isinstance(each, Number) or self._is_word(each) for each in statement.arguments)

    def _is_word(self, argument: Expression) -> bool:
        return isinstance(argument, Variable) and argument.name in self._words and argument.name not in self._values

    def _calls(self, calls: Sequence[Invoke]) -> None:
        """Emit calls as a loop over a table of them."""
        assert self._tables is not None
        status = self._new(self._tables.call(calls, self._words))
        if self._function.fails:
            self._return_if(status)

    def _statement(self, statement: Statement) -> None:
        match statement:
            case Assign(variable, value):
                self._put(variable, self._value(value))
            case StoreAt(pointer, index, value):
                self._store(self._at(pointer, index, in_memory(value.type)), value)
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
                self._jump(self._returning(self._value(code), []))
            case Invoke():
                self._invoke(statement)
            case LibraryCall():
                self._library_call(statement)
            case Table():
                self._table(statement)
            case AddressOf(variable, name):
                self._put(variable, self._new(f"ptrtoint ptr @{self._symbols[name]} to i64"))
            case Atomic():
                self._atomic(statement)

    def _jump(self, text: str) -> None:
        """Emit a terminator, and start an unreachable block for the code that follows."""
        self._do(text)
        self._label(self._labels("never")[0])

    def _for(self, loop: For) -> None:
        head, body, turn, end = self._labels("head", "body", "turn", "end")
        count = self._value(loop.count)
        enters = self._new(f"icmp sgt i64 {count}, 0")
        self._do(f"br i1 {enters}, label %{head}, label %{end}")
        # An empty preheader, so that the phi node knows the name of its predecessor block.
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
        # Loops that store elements are vectorized, unless all are small. Unrolling them too takes long to compile and
        # gains nothing.
        plain = ", !llvm.loop " + self._hinted() if any(isinstance(each, StoreAt) for each in loop.body) else ""
        self._do(f"br i1 {more}, label %{body}, label %{end}{plain}")
        self._label(end)

    def _hinted(self) -> str:
        """Return new loop metadata with the module's hint."""
        self._metadata.append(f"!{len(self._metadata)} = distinct !{{!{len(self._metadata)}, !0}}")
        return f"!{len(self._metadata) - 1}"

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
        self._jump(self._returning("0", values))

    def _returning(self, status: str, values: Sequence[Expression]) -> str:
        """Return the instruction that returns a status, if the function may fail, and values."""
        returned = returned_type(self._function)
        if returned in ("void", STATUS):
            return "ret void" if returned == "void" else f"ret {STATUS} {status}"
        fields = [(llvm_type(value.type), self._value(value)) for value in values]
        whole = "zeroinitializer"
        for position, (type, value) in enumerate([*([(STATUS, status)] if self._function.fails else []), *fields]):
            whole = self._new(f"insertvalue {returned} {whole}, {type} {value}, {position}")
        return f"ret {returned} {whole}"

    def _invoke(self, call: Invoke) -> None:
        function = self._known[call.function]
        fails, returned = function.fails, returned_type(function)
        arguments = ", ".join(f"{llvm_type(each.type)} {self._value(each)}" for each in call.arguments)
        text = f"call {returned} @{self._symbols[call.function]}({arguments})"
        if returned == "void":
            self._do(text)
            return
        result = self._new(text)
        if fails:
            self._return_if(result if returned == STATUS else self._new(f"extractvalue {returned} {result}, 0"))
        for position, variable in enumerate(call.results):
            self._put(variable, self._new(f"extractvalue {returned} {result}, {position + fails}"))

    def _return_if(self, status: str) -> None:
        """Return the status of a call unless it is 0."""
        failed, going_on = self._labels("failed", "on")
        self._do(f"br i1 {self._new(f'icmp ne i32 {status}, 0')}, label %{failed}, label %{going_on}")
        self._label(failed)
        self._do(self._returning(status, []))
        self._label(going_on)

    def _atomic(self, access: Atomic) -> None:
        word, values = self._value(access.word), [f"i64 {self._value(each)}" for each in access.values]
        match access.name:
            case "load":
                found = self._new(f"load atomic i64, ptr {word} seq_cst, align 8")
            case "store":
                self._do(f"store atomic {values[0]}, ptr {word} seq_cst, align 8")
                return
            case "compare_exchange":
                pair = self._new(f"cmpxchg ptr {word}, {', '.join(values)} seq_cst seq_cst")
                found = self._new(f"extractvalue {{ i64, i1 }} {pair}, 1")
            case "add":
                found = self._new(f"atomicrmw add ptr {word}, {values[0]} seq_cst")
        if access.result is not None:
            self._put(access.result, found)

    def _library_call(self, call: LibraryCall) -> None:
        given: list[tuple[str, str]] = []
        for each in call.arguments:
            value, type = self._value(each), llvm_type(each.type)
            if not call.by_value and not isinstance(each.type, PointerType):
                value, type = self._address_of_slot(type, value), "ptr"
            given.append((type, value))
        returned = "void" if call.result is None else llvm_type(call.result.type)
        if isinstance(call.function, str):
            function = f"@{call.function}"
            self._declared.add(f"declare {returned} {function}({', '.join(type for type, _ in given)})")
        else:
            function = self._new(f"inttoptr i64 {self._value(call.function)} to ptr")
        text = f"call {returned} {function}({', '.join(f'{type} {value}' for type, value in given)})"
        if call.result is None:
            self._do(text)
        else:
            self._put(call.result, self._new(text))

    def _address_of_slot(self, type: str, value: str) -> str:
        """Return the address of a new stack slot that holds a value."""
        self._count += 1
        slot = f"%g{self._count}"
        self._slots.append(f"  {slot} = alloca {type}")
        self._do(f"store {type} {value}, ptr {slot}")
        return slot


def _depth(statements: Sequence[Statement]) -> int:
    """Return the nesting depth of loops."""
    deepest = 0
    for each in statements:
        match each:
            case For(_, _, body) | While(_, _, body):
                deepest = max(deepest, 1 + _depth(body))
            case If(_, body, otherwise):
                deepest = max(deepest, _depth(body), _depth(otherwise))
            case _:
                pass
    return deepest


def _calls_in_loops(statements: Sequence[Statement]) -> bool:
    """Return whether a loop, not inside of another statement, calls functions."""
    return any(isinstance(each, For | While) and any(True for _ in called(each.body)) for each in statements)
