"""Translation of expressions: each becomes a value, plus the statements needed to compute it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from types import FunctionType
from typing import TYPE_CHECKING, TypeVar

from wyrm.engines.native.ir.program import (
    Assign,
    Expression,
    If,
    Invoke,
    Number,
    Operation,
    Select,
    Statement,
    Variable,
)
from wyrm.engines.native.ir.types import BOOL
from wyrm.engines.native.kernels import indexing, subscripts
from wyrm.engines.native.kernels.arithmetic import (
    as_type,
    binary,
    common_type,
    inverted,
    is_cheap,
    negative,
    of_kind,
    truth,
)
from wyrm.engines.native.kernels.builder import Builder
from wyrm.engines.native.kernels.calls import call, is_kernel
from wyrm.engines.native.kernels.functions import Routine, kernel_of
from wyrm.engines.native.kernels.indexing import overlap
from wyrm.engines.native.kernels.values import (
    InferenceState,
    KernelValue,
    Kind,
    NotCompiled,
    Num,
    Static,
    TupleValue,
    UnknownKind,
    View,
    fields_of,
    joined,
    kind_of,
    known,
    literal,
    rebuilt,
    same,
    types_of,
    variables_of,
)

if TYPE_CHECKING:
    from wyrm.engines.native.kernels.translate import Translation

T = TypeVar("T")

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder", ast.Pow: "power", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
    ast.LShift: "left", ast.RShift: "right",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal", ast.Eq: "equal",
    ast.NotEq: "not_equal",
}  # fmt: skip
# Errors for unsupported expressions, with what to write instead.
_INSTEAD: dict[type[ast.expr], str] = {
    ast.ListComp: "comprehensions are not supported; fill an array argument in a loop",
    ast.SetComp: "comprehensions are not supported; write a loop",
    ast.DictComp: "comprehensions are not supported; write a loop",
    ast.GeneratorExp: "generators are not supported; write a loop",
    ast.Lambda: "lambdas are not supported; write a function with def at the top of a module",
    ast.Dict: "dicts are not supported; kernels have scalars, arrays and tuples",
    ast.Set: "sets are not supported; kernels have scalars, arrays and tuples",
    ast.List: "lists are not supported; kernels have scalars, arrays and tuples",
    ast.JoinedStr: "strings are not supported; kernels have scalars, arrays and tuples",
    ast.NamedExpr: ":= is not supported; write the assignment as a statement before",
    ast.Yield: "generators are not supported; fill an array argument",
    ast.YieldFrom: "generators are not supported; fill an array argument",
    ast.Await: "await is not supported",
    ast.Starred: "a star is supported only before a tuple in the arguments of a call",
}


class Expressions:
    """Translates the expressions of one function. `no_alias`: its array arguments do not share memory."""

    def __init__(
        self, translation: Translation, function: Routine, builder: Builder, state: InferenceState, *, no_alias: bool
    ) -> None:
        self.no_alias = no_alias
        self.translation = translation
        self.function = function
        self.builder = builder
        self.state = state
        self.kinds: dict[str, Kind] = state.kinds
        # The variables that are assigned on every path to this point.
        self.given: set[str] = set()
        # The values of variables that were read, with their kinds.
        self._read: dict[str, tuple[Kind, KernelValue]] = {}
        # What the targets of loops over tuples stand for; None after the loop.
        self.bound: dict[str, KernelValue | None] = {}
        # The variables that are read where a path leads that does not assign them.
        self.cleared: dict[str, None] = {}
        # Whether this pass learned something that makes code before it wrong.
        self.revised: bool = False
        self._origins_of_fresh: dict[str, frozenset[str]] = {}

    # --- scalars, conditions and several values -------------------------------------------------------------------

    def number(self, node: ast.expr) -> Num:
        """Return the value of a scalar expression."""
        return self.as_number(self.value(node), node)

    def as_number(self, value: KernelValue, node: ast.expr) -> Num:
        """Return a value as a scalar, reading arrays with no axes; raise `NotCompiled` for anything else."""
        if isinstance(value, View) and not value.shape:
            value = indexing.read(value)
        if isinstance(value, View):
            raise NotCompiled(f"{ast.unparse(node)} is an array where a scalar is expected; loop over its elements")
        if not isinstance(value, Num):
            raise NotCompiled(f"{ast.unparse(node)} is not a scalar")
        return value

    def condition(self, node: ast.expr) -> Expression:
        """Return the truth value of an expression."""
        match node:
            case ast.BoolOp(op, values):
                return self._lazily(isinstance(op, ast.And), values)
            case ast.UnaryOp(ast.Not(), operand):
                return truth(_denied(self.condition(operand)))
            case _:
                return truth(self.number(node))

    def in_order(self, evaluate: Callable[[T], KernelValue], nodes: Sequence[T]) -> list[KernelValue]:
        """Return the values of several expressions, or of one for several items.

        Each is as it was when it was evaluated, from left to right.
        """
        found, marks = [], []
        for node in nodes:
            found.append(evaluate(node))
            marks.append(self.builder.mark())
        if marks and marks[0].writes != marks[-1].writes:
            for position in reversed(range(len(found) - 1)):
                found[position] = self.builder.settled(marks[position], found[position])
        return found

    def numbers(self, nodes: Sequence[ast.expr]) -> list[Num]:
        """Return the values of several scalar expressions, evaluated from left to right."""
        return [each for each in self.in_order(self.number, nodes) if isinstance(each, Num)]

    def spread(self, nodes: Sequence[ast.expr]) -> list[KernelValue]:
        """Return the values of several expressions, evaluated from left to right, with starred tuples unpacked."""
        if not any(isinstance(each, ast.Starred) for each in nodes):
            return self.in_order(self.value, nodes)
        found = self.in_order(self.value, [each.value if isinstance(each, ast.Starred) else each for each in nodes])
        spread: list[KernelValue] = []
        for node, value in zip(nodes, found, strict=True):
            if isinstance(node, ast.Starred) and not isinstance(value, TupleValue):
                raise NotCompiled(f"{ast.unparse(node)}: only a tuple can be starred")
            spread += value.items if isinstance(node, ast.Starred) and isinstance(value, TupleValue) else [value]
        return spread

    # --- expressions ----------------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> KernelValue:
        """Return the value of an expression."""
        match node:
            case ast.Constant(value):
                return known(value)
            case ast.Name(name):
                return self._name(name)
            case ast.Tuple(elements):
                return TupleValue(tuple(self.spread(elements)))
            case ast.BinOp(left, op, right):
                return binary(self.builder, operator_name(op), *self.numbers([left, right]))
            case ast.UnaryOp(ast.Not(), operand):
                return _denied(self.condition(operand))
            case ast.UnaryOp(op, operand):
                x = self.number(operand)
                return negative(x) if isinstance(op, ast.USub) else inverted(x) if isinstance(op, ast.Invert) else x
            case ast.Compare(left, ops, comparators):
                return self._compare(left, ops, comparators)
            case ast.BoolOp(op, values):
                return self._one_of(isinstance(op, ast.And), values)
            case ast.IfExp(test, body, otherwise):
                return self._either(self.condition(test), lambda: self.value(body), lambda: self.value(otherwise))
            case ast.Attribute(of, name):
                return subscripts.attribute(self.value(of), name, node)
            case ast.Subscript(of, index):
                return subscripts.subscript(self, self.value(of), index)
            case ast.Call(ast.Name("tuple"), [ast.GeneratorExp(element, [ast.comprehension(target, over, [])])], []):
                return self._for_items(element, target, over)
            case ast.Call():
                return self._call(node)
            case _:
                raise NotCompiled(
                    _INSTEAD.get(type(node), f"{ast.unparse(node)}: kernels do not support this expression")
                )

    def _for_items(self, element: ast.expr, target: ast.expr, over: ast.expr) -> KernelValue:
        """Return the tuple of the values of an expression for the items of another tuple."""
        items = subscripts.items_of(self, over)
        if items is None:
            raise NotCompiled(f"{ast.unparse(over)} is not a tuple; fill an array argument in a loop")

        def value(item: KernelValue) -> KernelValue:
            with self.standing_for(target, item):
                return self.value(element)

        return TupleValue(tuple(self.in_order(value, items)))

    @contextmanager
    def standing_for(self, target: ast.expr, value: KernelValue) -> Iterator[None]:
        """Let a name, or a tuple of names, stand for a value inside of the `with` block."""
        before = self.bound
        self.bound = {**before, **_standing_for(target, value)}
        try:
            yield
        finally:
            self.bound = before

    def _name(self, name: str) -> KernelValue:
        if name in self.bound:
            bound = self.bound[name]
            if bound is None:
                raise NotCompiled(
                    f"{name} is read behind the loop over a tuple that assigns it; assign another variable"
                )
            return bound
        if name in self.function.locals:
            if name not in self.kinds:
                raise UnknownKind(f"{name} is read before it has a value")
            if name not in self.given:
                self.cleared[name] = None
            kind = self.kinds[name]
            read = self._read.get(name)
            if read is None or read[0] is not kind:
                read = self._read[name] = kind, rebuilt(kind, variables_of(name, kind))
            return read[1]
        names = self.function.globals()
        if name in names:
            return known(names[name])
        builtins = names.get("__builtins__", {})
        found = builtins.get(name) if isinstance(builtins, dict) else getattr(builtins, name, None)
        if found is None:
            raise NotCompiled(f"{name} is not defined; kernels see their parameters and the names of their module")
        return Static(found)

    def _compare(self, left: ast.expr, ops: Sequence[ast.cmpop], comparators: Sequence[ast.expr]) -> KernelValue:
        if len(ops) == 1 and isinstance(ops[0], ast.Is | ast.IsNot | ast.Eq | ast.NotEq):
            positive = isinstance(ops[0], ast.Is | ast.Eq)
            x, y = self.in_order(self.value, [left, comparators[0]])
            if isinstance(x, Static) and isinstance(y, Static):
                return literal((x.value is y.value if _is_identity(ops[0]) else same(x.value, y.value)) == positive)
            if isinstance(x, Static) or isinstance(y, Static):  # None, for example, never equals a scalar or an array
                return literal(not positive)
            if not _is_identity(ops[0]):
                numbers = self.as_number(x, left), self.as_number(y, comparators[0])
                return binary(self.builder, _COMPARE[type(ops[0])], *numbers)
        for op in ops:
            if type(op) not in _COMPARE:
                raise NotCompiled("`in` and `is` are not supported for scalars and arrays; compare with == and `or`")
        if len(ops) == 1:
            return binary(self.builder, _COMPARE[type(ops[0])], *self.numbers([left, comparators[0]]))
        return self._chained(self.number(left), ops, comparators)

    def _chained(self, x: Num, ops: Sequence[ast.cmpop], comparators: Sequence[ast.expr]) -> Num:
        """Return `x < y < z`: it evaluates y once, and z only if x < y."""
        mark = self.builder.mark()
        y = self.number(comparators[0])
        settled = self.builder.settled(mark, x)
        assert isinstance(settled, Num)
        y = Num(self.builder.let(y.expression), y.weak, y.natural)
        first = binary(self.builder, _COMPARE[type(ops[0])], settled, y)
        if len(ops) == 1:
            return first
        return Num(self._decided(True, truth(first), lambda: truth(self._chained(y, ops[1:], comparators[1:]))))

    # --- short-circuit evaluation ---------------------------------------------------------------------------------

    def _lazily(self, every: bool, values: Sequence[ast.expr]) -> Expression:
        """Return `and` (`every`) or `or` of conditions with short-circuit evaluation."""
        first, *rest = values
        condition = self.condition(first)
        return self._decided(every, condition, lambda: self._lazily(every, rest)) if rest else condition

    def _decided(self, every: bool, condition: Expression, later: Callable[[], Expression]) -> Expression:
        if isinstance(condition, Number):
            return later() if bool(condition.value) == every else Number(not every, BOOL)
        with self.builder.block() as body:
            found = later()
        if not body and is_cheap(found):
            return Operation("and" if every else "or", (condition, found), BOOL)
        result = Variable(self.builder.fresh("t"), BOOL)
        decided = (Assign(result, Number(not every, BOOL)),)
        evaluated = (*body, Assign(result, found))
        self.builder.add(If(condition, evaluated, decided) if every else If(condition, decided, evaluated))
        return result

    def _one_of(self, every: bool, values: Sequence[ast.expr]) -> KernelValue:
        """Return `and` or `or` as a value: the first operand that decides, else the last one."""
        first, *rest = values
        if not rest:
            return self.value(first)
        given = self.number(first)
        if given.type == BOOL and isinstance(given.expression, Number):
            return self._one_of(every, rest) if bool(given.expression.value) == every else given
        given = Num(self.builder.let(given.expression), given.weak, given.natural)
        test = truth(given)
        if every:
            return self._either(test, lambda: self._one_of(every, rest), lambda: given)
        return self._either(test, lambda: given, lambda: self._one_of(every, rest))

    def _either(
        self, condition: Expression, chosen: Callable[[], KernelValue], otherwise: Callable[[], KernelValue]
    ) -> KernelValue:
        if isinstance(condition, Number):
            return chosen() if condition.value else otherwise()
        condition = self.builder.let(condition)
        blocks: list[list[Statement]] = []
        values: list[KernelValue] = []
        for evaluate in (chosen, otherwise):
            with self.builder.block() as block:
                value = evaluate()
                values.append(indexing.read(value) if isinstance(value, View) else value)
            blocks.append(block)
        first, second = values
        weak = natural = False
        if isinstance(first, Num) and isinstance(second, Num):
            type = common_type(first, second)
            weak = first.weak and second.weak
            first, second = as_type(first, type), as_type(second, type)
            natural = first.natural and second.natural
            if not any(blocks) and is_cheap(first.expression) and is_cheap(second.expression):
                return Num(Select(condition, first.expression, second.expression, type), weak, natural)
        kind = joined(kind_of(first), kind_of(second))
        name = self.builder.fresh("t")
        results = variables_of(name, kind)
        for block, value in zip(blocks, (first, second), strict=True):
            fields = fields_of(of_kind(value, kind), kind)
            block += [Assign(result, field) for result, field in zip(results, fields, strict=True)]
        self.builder.add(If(condition, tuple(blocks[0]), tuple(blocks[1])))
        self.note_origins(name, first)
        self.note_origins(name, second)
        found = rebuilt(kind, results)
        return Num(found.expression, weak, natural) if isinstance(found, Num) else found

    # --- aliasing -------------------------------------------------------------------------------------------------

    def origins_of(self, view: View) -> frozenset[str]:
        """Return the parameters that an array may be a view of."""
        name = indexing.root_of(view.pointer) or ""
        return self._origins_of_fresh.get(name) or self.state.origins.get(name, _ANY)

    def note_origins(self, name: str, value: KernelValue) -> None:
        """Record which parameters the arrays of a variable may be views of."""
        if isinstance(value, View):
            known = self._origins_of_fresh if "#" in name else self.state.origins
            before = known.get(name)
            known[name] = (before or frozenset()) | self.origins_of(value)
            self.revised |= before is not None and known[name] != before
        elif isinstance(value, TupleValue):
            for position, item in enumerate(value.items):
                self.note_origins(f"{name}.{position}", item)

    # --- calls ----------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> KernelValue:
        function, text = self.value(node.func), ast.unparse(node.func)
        if not isinstance(function, Static):
            raise NotCompiled(f"{text} is not a function")
        keywords = [each.arg for each in node.keywords]
        if None in keywords:
            raise NotCompiled(f"{text}(**...) is not supported; name each argument")
        found = self.spread([*node.args, *(each.value for each in node.keywords)])
        count = len(found) - len(keywords)
        arguments = found[:count]
        called = function.value
        if isinstance(called, FunctionType) and is_kernel(called):
            called = kernel_of(called)
        if isinstance(called, Routine):
            given = {name: value for name, value in zip(keywords, found[count:], strict=True) if name}
            return self.invoke(called, called.bound(arguments, given))
        if keywords:
            raise NotCompiled(f"{text} with the keyword {keywords[0]}: only calls of kernels take keywords")
        return call(self, function.value, arguments, text)

    def invoke(self, function: Routine, arguments: Sequence[KernelValue]) -> KernelValue:
        """Add a call of a function, specialized for the arguments, and return its result."""
        given = [_strong(each) for each in arguments]
        kinds = tuple(map(kind_of, given))
        compiled = self.translation.specialized(function, kinds)
        if function.distinct:
            starts = accumulate([0, *(len(types_of(kind)) for kind in kinds)])
            views = [(position, each) for position, each in zip(starts, given, strict=False) if isinstance(each, View)]
            several = not self.no_alias and len(views) > 1 and bool(compiled.written)
            if several or overlap(views, compiled.written):
                compiled = self.translation.specialized(function, kinds, no_alias=False)
        fields = [field for value, kind in zip(given, kinds, strict=True) for field in fields_of(value, kind)]
        result = compiled.result
        variables = [] if result is None else variables_of(self.builder.fresh("r"), result)
        self.builder.add(Invoke(tuple(variables), compiled.function.name, tuple(fields)))
        self.translation.calls(self.function, compiled.function.name)
        return Static(None) if result is None else rebuilt(result, variables)


_ANY = frozenset([""])


def _standing_for(target: ast.expr, value: KernelValue) -> dict[str, KernelValue]:
    """Return what the names of a target stand for."""
    match target, value:
        case ast.Name(name), _:
            return {name: value}
        case ast.Tuple(targets), TupleValue(items) if len(targets) == len(items):
            return {
                name: each for pair in zip(targets, items, strict=True) for name, each in _standing_for(*pair).items()
            }
        case _:
            raise NotCompiled(f"cannot unpack a value into {ast.unparse(target)}")


def operator_name(op: ast.operator) -> str:
    """Return the name of an operator; raise `NotCompiled` for `@`."""
    if type(op) not in _OPERATORS:
        raise NotCompiled("@ is not supported; multiply in loops")
    return _OPERATORS[type(op)]


def _is_identity(op: ast.cmpop) -> bool:
    return isinstance(op, ast.Is | ast.IsNot)


def _denied(condition: Expression) -> Num:
    if isinstance(condition, Number):
        return literal(not condition.value)
    return Num(Operation("not", (condition,), BOOL))


def _strong(value: KernelValue) -> KernelValue:
    """Return a value whose scalars are not weakly typed."""
    match value:
        case Num(expression, _, natural):
            return Num(expression, natural=natural)
        case TupleValue(items):
            return TupleValue(tuple(map(_strong, items)))
        case _:
            return value
