"""Gradients of formulas: the graph of a gradient from the calls of a formula, by the table of derivatives."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from wyrm.errors import RegistrationError
from wyrm.graph.base import ZERO, BaseNode, Gradient
from wyrm.graph.drafts import binary, unary
from wyrm.graph.leaves import as_constant
from wyrm.graph.op import NUMPY
from wyrm.ops.elementwise.derivatives import DERIVATIVES, WRITTEN, Rule
from wyrm.ops.elementwise.formula import Argument, Attribute, EarlierCall, FormulaCall, Operand, array_function, parse
from wyrm.support.texts import exact

if TYPE_CHECKING:
    from wyrm.graph.node import Node

# The ops whose formula is one call of a function, by the function, with the arguments of the call.
OPS: dict[str, tuple[type[BaseNode], tuple[Argument, ...]]] = {}
# The ops whose formulas are not parsed yet, by the function that the formula begins with, "" for operators. They are
# parsed when a gradient first needs such an op: to parse all of them takes as long as a small gradient.
_unparsed: dict[str, list[type[BaseNode]]] = {}
# The modules of such ops that `import wyrm` does not import.
_LATE = ("activation", "bessel", "gamma", "probability", "rounding", "trigonometric")
# The cotangent of the node, and its value.
_COTANGENT, _NODE = EarlierCall(-1), EarlierCall(-2)


def add_op(op: type[BaseNode]) -> None:
    """Let gradients use this op for a function, if its formula is one call of it and that of no earlier op is."""
    if op.formula and op.__module__.startswith("wyrm."):
        head, bracket, _ = op.formula.partition("(")
        _unparsed.setdefault(head if bracket else "", []).append(op)


def _find_op(function: str) -> None:
    """Add the op whose formula is one call of this function to `OPS`, if there is one."""
    for unparsed in (_unparsed.get(function, []), _unparsed.get("", [])):
        while unparsed and function not in OPS:
            op = unparsed.pop(0)
            calls = parse(op.formula, composed=True)
            if len(calls) == 1 and not any(isinstance(argument, float) for argument in calls[0].arguments):
                OPS.setdefault(calls[0].function, (op, calls[0].arguments))


def check_rules(op: Any) -> None:
    """Raise `RegistrationError` if the gradient of an op needs the derivative of a function that has no rule."""
    for call in () if op.derivatives else parse(op.formula):
        rules = _rules(call.function, len(call.arguments))
        for i, (argument, rule) in enumerate(zip(call.arguments, rules, strict=True)):
            if rule is None and isinstance(argument, Operand | EarlierCall):
                which = f"argument {i} of {call.function}" if len(rules) > 1 else call.function
                raise RegistrationError(
                    f"op {op.__name__}: the gradient of the formula {op.formula!r} needs the derivative with respect "
                    f"to {which}, which has no rule: write derivatives, a tuple with a formula for each operand, or "
                    f"vjp(self, gradient)"
                )


def _rules(function: str, count: int) -> tuple[Rule, ...]:
    """Return a rule for each argument, None if there is none; for `where` and `WRITTEN`, which need none, the name."""
    return DERIVATIVES.get(function, ((function,) if function == "where" or function in WRITTEN else (None,)) * count)


class _Step(NamedTuple):
    """The call of a function of formulas on earlier values.

    The arguments of the function `vjp` are a node and its cotangent; the value is the gradient of the node with respect
    to its operand at position `operand`.
    """

    function: str
    arguments: tuple[Argument, ...]
    operand: int


class _Deriver:
    """The reverse pass over the calls of a formula."""

    def __init__(self, formula: str, derivatives: tuple[Rule, ...], wanted: Sequence[bool]) -> None:
        self.derivatives = derivatives
        # An op with its own derivatives is one call of a function.
        own = FormulaCall("", tuple(map(Operand, range(len(wanted)))))
        self.calls = (own,) if derivatives else parse(formula, composed=True)
        self.steps: list[_Step] = []
        self.known: dict[Hashable, EarlierCall] = {}
        self.dependent: set[Argument] = {Operand(i) for i, want in enumerate(wanted) if want}
        for position, call in enumerate(self.calls):
            if not self.dependent.isdisjoint(call.arguments):
                self.dependent.add(EarlierCall(position))

    def emit(self, function: str, *arguments: Argument, operand: int = 0) -> Argument:
        """Return a reference to the result of a step; equal steps are one."""
        key = exact((function, arguments, operand))
        if key not in self.known:
            self.known[key] = EarlierCall(len(self.steps))
            self.steps.append(_Step(function, arguments, operand))
        return self.known[key]

    def forward(self, argument: Argument) -> Argument:
        """Return the value of an argument of the formula; that of the last call is the node's own."""
        if not isinstance(argument, EarlierCall):
            return argument
        if argument.position == len(self.calls) - 1:
            return _NODE
        call = self.calls[argument.position]
        return self.emit(call.function, *map(self.forward, call.arguments))

    def inlined(self, rule: str, at: EarlierCall, cotangent: Argument) -> Argument:
        """Return the value of a rule for the call at a position."""
        if rule == "g":
            return cotangent
        operands = self.calls[at.position].arguments
        results: list[Argument] = []
        for step in parse(rule, composed=True):
            arguments: list[Argument] = []
            for argument in step.arguments:
                match argument:
                    case Operand(position):
                        arguments.append(self.forward(operands[position]))
                    case EarlierCall(position):
                        arguments.append(results[position])
                    case Attribute("g"):
                        arguments.append(cotangent)
                    case Attribute("f"):
                        arguments.append(self.forward(at))
                    case number:
                        arguments.append(number)
            results.append(self.emit(step.function, *arguments))
        return results[-1]

    def gradients(self, of: Argument, cotangent: Argument) -> dict[Argument, Argument]:
        """Return the gradients with respect to the operands that `of` depends on, by operand."""
        found: dict[Argument, Argument] = {}
        cotangents = {of: cotangent} if of in self.dependent else {}
        while cotangents:
            # The latest call: all uses of its value have been visited.
            at = max(cotangents, key=lambda argument: argument.position if isinstance(argument, EarlierCall) else -1)
            cotangent = cotangents.pop(at)
            if isinstance(at, EarlierCall):
                for argument, part in self.parts(at, cotangent):
                    before = cotangents.get(argument)
                    cotangents[argument] = part if before is None else self.emit("add", before, part)
            else:
                found[at] = cotangent
        return found

    def parts(self, at: EarlierCall, cotangent: Argument) -> Iterable[tuple[Argument, Argument]]:
        """Yield what a call adds to the cotangents of its arguments, or of the operands that these depend on."""
        call = self.calls[at.position]
        if call.function == "where":
            condition, *branches = call.arguments
            first, second = (self.gradients(branch, cotangent) for branch in branches)
            for operand in first | second:
                both = first.get(operand, 0.0), second.get(operand, 0.0)
                yield operand, self.emit("where", self.forward(condition), *both)
            return
        rules = self.derivatives or _rules(call.function, len(call.arguments))
        for i, (argument, rule) in enumerate(zip(call.arguments, rules, strict=True)):
            if argument in self.dependent and rule is not ZERO:
                if call.function in WRITTEN:
                    node = self.emit(call.function, *map(self.forward, call.arguments))
                    yield argument, self.emit("vjp", node, cotangent, operand=i)
                else:
                    yield argument, self.inlined(str(rule), at, cotangent)


# A function of a node and its cotangent that returns the gradients of the node's operands.
VJP: TypeAlias = Callable[[Any, Any], tuple[Gradient, ...]]
# The value of a step from the values before: those of the cotangent, the node, `ZERO`, the operands and the numbers.
_Make: TypeAlias = Callable[[list[Any]], Any]


def derived_vjp(formula: str, derivatives: tuple[Rule, ...], wanted: tuple[bool, ...]) -> VJP:
    """Return the function that makes the gradients of a node with this formula.

    They follow from its `derivatives`, if it has any, else from the formula. It returns a gradient for each `wanted`
    operand, and `ZERO` for the others.
    """
    deriver = _Deriver(formula, derivatives, wanted)
    operands = [Operand(i) for i in range(len(wanted))]
    found = deriver.gradients(EarlierCall(len(deriver.calls) - 1), _COTANGENT)
    references: list[Argument] = [argument for step in deriver.steps for argument in step.arguments]
    attributes = list(dict.fromkeys(x.name for x in references if isinstance(x, Attribute)))
    numbers = list({exact(x): x for x in references if isinstance(x, float)}.values())
    given: list[Argument | None] = [_COTANGENT, _NODE, None, *operands, *map(Attribute, attributes), *numbers]
    position = {exact(value): i for i, value in enumerate(given)}
    plain = set(range(3 + len(operands), len(given)))  # the positions of numbers
    makers: list[_Make] = []
    for i, step in enumerate(deriver.steps, len(given)):
        at = [position[exact(x)] for x in step.arguments]
        makers.append(_maker(step, at, plain))
        if plain.issuperset(at):
            plain.add(i)
        position[exact(EarlierCall(i - len(given)))] = i
    results = [position[exact(found[operand])] if operand in found else 2 for operand in operands]
    # One result is no tuple.
    pick = itemgetter(*results)
    several = len(results) > 1

    def vjp(node: BaseNode, gradient: Node) -> tuple[Gradient, ...]:
        values = [gradient, node, ZERO, *node.parents]
        if attributes:
            values += [getattr(node, name) for name in attributes]
        if numbers:
            values += numbers
        for make in makers:
            values.append(make(values))
        found: Any = pick(values)
        return found if several else (found,)

    return vjp


def _maker(step: _Step, at: Sequence[int], numbers: Container[int]) -> _Make:
    """Return the function that computes a step from the values `at` these positions, of which some are `numbers`."""
    function, _, operand = step
    if function == "vjp":
        node, cotangent = at
        return lambda values: _vjp_part(values[node], values[cotangent], operand)
    op, pattern = _op(function)
    constant = [i in numbers for i in at]
    if any(isinstance(argument, Attribute) for argument in pattern) or all(constant) or len(at) > 2:
        return lambda values: _node_of_call(function, [values[i] for i in at], values[0])
    if len(at) == 1:
        (only,) = at
        return lambda values: unary(op, values[only])
    # Most steps have two operands. What follows does the same as `_node_of_call`, in less time.
    first, second = at
    if constant[0]:
        return lambda values: binary(op, _constant_like(values[first], values[second], values[0]), values[second])
    if constant[1]:
        return lambda values: binary(op, values[first], _constant_like(values[second], values[first], values[0]))
    return lambda values: binary(op, values[first], values[second])


def _constant_like(value: float, beside: Node, gradient: Node) -> Node:
    """Return a constant of the dtype of a node beside it, or of the gradient beside a mask."""
    return as_constant(value, beside.dtype if beside.dtype.kind == "f" else gradient.dtype)


def _vjp_part(node: BaseNode, gradient: Node, operand: int) -> Gradient:
    """Return the gradient of a node with respect to one operand."""
    return node.vjp_by(gradient, [i == operand for i in range(len(node.parents))])[operand]


def _node_of_call(function: str, arguments: list[Any], gradient: Node) -> Any:
    """Return the node that calls a function; numbers among the arguments get the dtype of the nodes beside them.

    A function of numbers alone returns a number.
    """
    op, pattern = _op(function)
    beside = None
    for argument in arguments:
        if isinstance(argument, BaseNode) and (beside is None or beside.kind != "f"):
            beside = argument.dtype
    if beside is None:
        return float(array_function(NUMPY, function)(*arguments))
    dtype = beside if beside.kind == "f" else gradient.dtype
    parents: list[Any] = []
    attributes: dict[str, float] = {}
    for given, argument in zip(arguments, pattern, strict=True):
        if isinstance(argument, Attribute):
            attributes[argument.name] = given
        else:
            parents.append(given if isinstance(given, BaseNode) else as_constant(given, dtype))
    return op.construct(tuple(parents), attributes) if attributes else op(*parents)


def _op(function: str) -> tuple[Any, tuple[Argument, ...]]:
    """Return the op of a function, whose module may still have to be imported."""
    if function not in OPS:
        _find_op(function)
    if function not in OPS:
        for module in _LATE:
            importlib.import_module(f"wyrm.ops.elementwise.{module}")
        _find_op(function)
    return OPS[function]
