"""What programs, optimizers and functions of arrays are given, where the declarations alone would take it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mypy.argmap import map_actuals_to_formals
from mypy.checker import TypeChecker
from mypy.errorcodes import ARG_TYPE, CALL_ARG, DICT_ITEM
from mypy.nodes import (
    ARG_NAMED,
    ARG_POS,
    CallExpr,
    Context,
    DictExpr,
    Expression,
    IntExpr,
    ListExpr,
    MemberExpr,
    NameExpr,
    RefExpr,
    StrExpr,
)
from mypy.plugin import FunctionContext, MethodContext, MethodSigContext
from mypy.types import CallableType, Instance, LiteralType, Parameters, Type, get_proper_type

import wyrm as wy
from wyrm.engines.registry import engine_class
from wyrm.errors import OptionError
from wyrm.mypy.checking import CheckedArgument, arguments_of, member, report, type_of_call
from wyrm.mypy.messages import of_data
from wyrm.mypy.reading import base_of
from wyrm.mypy.text import Text
from wyrm.mypy.writing import unknown
from wyrm.optim.optimizer import check_group

COMPILE, FIT = "wyrm.train.compiling.compile", "wyrm.train.fitting.fit"
OPTIMIZER = "wyrm.optim.optimizer.Optimizer"
_PROGRAM = "wyrm.train.program.Program"
# The methods of programs that take data, and what of these trains.
TAKES_DATA = frozenset(f"{_PROGRAM}.{name}" for name in ("__call__", "backward", "epoch", "evaluate"))
_TRAINS = frozenset({"backward", "epoch", "fit"})
# Expressions whose types do not depend on what is expected of them.
_PLAIN = (RefExpr, IntExpr, StrExpr)
# What an engine's name is registered by.
_REGISTERED = re.compile(r"\bregister\(\s*(?:name\s*=\s*)?([^,)]*?)\s*[,)]")
# Leaves that are no inputs.
_NO_INPUTS = tuple(
    f"wyrm.graph.{name}"
    for name in ("parameters.Parameter", "parameters.Buffer", "leaves.Constant", "index_leaves.IndexConstant")
)


def is_checked_here(call: Context) -> bool:
    """Return whether `type_of_run` checks the data of a call; mypy itself infers the type of a dict in the call."""
    return isinstance(call, CallExpr) and all(isinstance(each, _PLAIN) for each in call.args)


def type_of_run(context: MethodContext | FunctionContext, callee: Type | None, name: str, text: Text) -> Type:
    """Return the declared type of a call that gives a program data; an error about these is short.

    `callee` is a function's declared type; None stands for the method `name` of a program.
    """
    checker = context.api
    assert isinstance(checker, TypeChecker)
    found, arguments = context.default_return_type, arguments_of(context)
    if is_checked_here(context.context):
        owner = get_proper_type(context.type) if isinstance(context, MethodContext) else None
        receiver = owner if isinstance(owner, Instance) else None
        if callee is None:
            assert receiver is not None
            callee = member(name, receiver, context.context, checker)
        with checker.msg.filter_errors(save_filtered_errors=True) as errors:
            found = type_of_call(checker, callee, arguments, context.context, receiver)
        report(checker, errors.filtered_errors(), (of_data, None))
        if errors.has_new_errors():
            return found
    _report_program(checker, context, name, arguments, text)
    for argument in arguments:
        _report_keys(checker, argument, text)
    return found


def _report_program(
    checker: TypeChecker,
    context: MethodContext | FunctionContext,
    name: str,
    arguments: list[CheckedArgument],
    text: Text,
) -> None:
    """Add an error where a program is trained that the text makes without an optimizer."""
    call = context.context
    if name not in _TRAINS or not isinstance(call, CallExpr):
        return
    program: Expression | None = call.callee.expr if isinstance(call.callee, MemberExpr) else None
    if name == "fit":
        program = next((each.expression for each in arguments if each.name in (None, "program")), None)
    made = None if program is None else text.assigned(program)
    if not (isinstance(made, CallExpr) and isinstance(made.callee, RefExpr) and made.callee.fullname == COMPILE):
        return
    is_known = set(made.arg_kinds) <= {ARG_POS, ARG_NAMED} and made.arg_kinds.count(ARG_POS) == 1
    if is_known and "optimizer" not in made.arg_names:
        said = "the program has no optimizer; give wy.compile one, as in wy.optim.SGD(loss.parameters(), 0.1)"
        checker.fail(f"{name}: {said}", call, code=CALL_ARG)


def _report_keys(checker: TypeChecker, argument: CheckedArgument, text: Text) -> None:
    """Add an error for each key of a dict of data that is a leaf, but no input."""
    data = text.assigned(argument.expression)
    for key, _ in data.items if isinstance(data, DictExpr) else ():
        type_ = get_proper_type(checker.lookup_type(key)) if key is not None and checker.has_type(key) else None
        if isinstance(type_, Instance) and any(base_of(type_.type, each) is not None for each in _NO_INPUTS):
            words = f"a {type_.type.name}, and data is given for inputs alone"
            checker.fail(f"a key of the data is {words}", argument.expression, code=DICT_ITEM)


def report_engine(context: FunctionContext) -> None:
    """Add an error for the name of an engine that neither this environment nor a checked file registers."""
    assert isinstance(context.api, TypeChecker)
    for argument in arguments_of(context):
        name = _text_of_type(argument.type) if argument.name == "engine" else None
        if name is None or any(_registers(path, name) for path in _files(context.api)):
            continue
        try:
            engine_class(name)
        except OptionError as error:
            context.api.fail(str(error), argument.expression, code=ARG_TYPE)


def _text_of_type(type_: Type) -> str | None:
    """Return the text that a type tells of a value."""
    proper = get_proper_type(type_)
    value = proper.last_known_value if isinstance(proper, Instance) else proper
    return value.value if isinstance(value, LiteralType) and isinstance(value.value, str) else None


def _files(checker: TypeChecker) -> Iterator[Path]:
    """Yield the files of the checked program that may register an engine."""
    for name, module in checker.modules.items():
        if not name.startswith("wyrm.") and module.path.endswith(".py"):
            yield Path(module.path)


def _registers(path: Path, name: str) -> bool:
    """Return whether a file may register an engine by a name: by this one, or by one that it computes."""
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    given = _REGISTERED.findall(source) if "engines" in source else []
    return any(each[:1] not in "\"'" or each[1:-1] == name for each in given)


def group_error(call: Context, optimizer: str, text: Text) -> str | None:
    """Return a message about an option in a group of parameters that the optimizer does not take; None for none."""
    kind = getattr(wy.optim, optimizer.rpartition(".")[2], None)
    groups = text.assigned(call.args[0]) if isinstance(call, CallExpr) and call.args else None
    if kind is None or not isinstance(groups, ListExpr):
        return None
    for group in map(text.assigned, groups.items):
        for key, _ in group.items if isinstance(group, DictExpr) else ():
            if isinstance(key, StrExpr):
                try:
                    check_group(kind, [key.value])
                except OptionError as error:
                    return str(error)
    return None


def own_signature(context: MethodSigContext | MethodContext) -> CallableType | None:
    """Return what a function of arrays takes by its own declaration, with values of any types; None if unknown."""
    function, call, checker = get_proper_type(context.type), context.context, context.api
    assert isinstance(checker, TypeChecker)
    taken = get_proper_type(function.args[0]) if isinstance(function, Instance) else None
    if not isinstance(taken, Parameters) or not isinstance(call, CallExpr):
        return None
    name = call.callee.name if isinstance(call.callee, MemberExpr | NameExpr) else None
    types = [unknown() for _ in taken.arg_types]
    fallback = checker.named_type("builtins.function")
    return CallableType(types, taken.arg_kinds, taken.arg_names, unknown(), fallback, name=name)


def fits(signature: CallableType, context: MethodSigContext | MethodContext) -> bool:
    """Return whether a call has as many arguments as a signature takes, and of its names; add an error if not."""
    call, checker = context.context, context.api
    assert isinstance(call, CallExpr) and isinstance(checker, TypeChecker)
    pairs = map_actuals_to_formals(
        call.arg_kinds, call.arg_names, signature.arg_kinds, signature.arg_names, lambda _: unknown()
    )
    types: list[Type] = [unknown() for _ in call.args]
    return checker.expr_checker.check_argument_count(signature, types, call.arg_kinds, call.arg_names, pairs, call)
