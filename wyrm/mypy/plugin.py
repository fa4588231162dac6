"""The hooks of the plugin: which calls it checks."""

from __future__ import annotations

import inspect
import itertools
import operator
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from mypy.checker import TypeChecker
from mypy.errorcodes import CALL_ARG, TYPEDDICT_UNKNOWN_KEY
from mypy.nodes import ARG_NAMED, ARG_STAR, ARG_STAR2, CallExpr, MypyFile, RefExpr, TypeInfo
from mypy.options import Options
from mypy.plugin import (
    AttributeContext,
    ClassDefContext,
    FunctionContext,
    FunctionSigContext,
    MethodContext,
    MethodSigContext,
    Plugin,
    ReportConfigContext,
)
from mypy.types import AnyType, CallableType, Instance, TupleType, Type, TypeVarId, TypeVarType, get_proper_type

import wyrm as wy
from wyrm.mypy.calls import (
    FunctionCall,
    MethodCall,
    TransformedCall,
    report_sizes,
    run_time_function,
    type_of_module_call,
)
from wyrm.mypy.checking import arguments_of
from wyrm.mypy.declared import keep_slots, without_slot
from wyrm.mypy.entries import ROWS, VALUE, type_of_program, type_of_value
from wyrm.mypy.functions import transform_of
from wyrm.mypy.layers import SEQUENTIAL, gap, type_of_parameter
from wyrm.mypy.messages import AXES, OPERATORS
from wyrm.mypy.programs import (
    COMPILE,
    FIT,
    OPTIMIZER,
    TAKES_DATA,
    fits,
    group_error,
    is_checked_here,
    own_signature,
    report_engine,
    type_of_run,
)
from wyrm.mypy.reading import MODULE, NODE, AxisClasses, base_of, is_node, shape_of
from wyrm.mypy.scalars import POWERS, UFUNC, type_of_power, type_of_ufunc
from wyrm.mypy.text import Text
from wyrm.mypy.writing import unknown
from wyrm.support.imports import Late

# Methods that build no node, or whose result has no axes of its own.
_OTHERS = frozenset({"at", "backward", "erase", "forward", "item", "parameters", "set", "tolist", "zero_gradient"})

RAISES = "WYRM_MYPY_RAISES" in os.environ

SignatureContext = TypeVar("SignatureContext", MethodSigContext, FunctionSigContext)


def _node_methods() -> frozenset[str]:
    """Return the names of the methods and operators of nodes that build nodes, without importing these."""
    kinds = (wy.Node, wy.IndexNode)
    found = [(name, inspect.getattr_static(kind, name)) for kind in kinds for name in dir(kind)]
    names = {name for name, value in found if callable(value) or isinstance(value, Late | classmethod)}
    public = {name for name in names if not name.startswith("_")} - _OTHERS
    return frozenset(public | (names & OPERATORS.keys()))


METHODS = _node_methods()
# In the paths of modules that are not the user's.
_FOREIGN = re.compile(r"[/\\](site-packages|typeshed)[/\\]")
# Base classes of ops, which a subclass may name without type arguments.
UNARY, BINARY = "wyrm.ops.elementwise.elementwise.Unary", "wyrm.ops.elementwise.elementwise.Binary"
OPS_OF_USERS = frozenset({UNARY, BINARY})
# Functions of nodes that are declared as variables are called by this method.
CALLED = frozenset({"wyrm.functions.operands.ReductionFunction.__call__"})
# What `vmap(f)` makes is called by this method.
TRANSFORMED = "wyrm.functions.function.Function.__call__"


class WyrmPlugin(Plugin):
    """Computes the types of calls that take nodes."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._axes = AxisClasses()
        self._file: tuple[MypyFile, Text] | None = None
        self._bases: dict[tuple[str, str], bool] = {}
        sources = Path(wy.__path__[0]).rglob("*.py")
        self._version = f"{wy.__version__}, {max(path.stat().st_mtime_ns for path in sources)}"

    def report_config_data(self, ctx: ReportConfigContext) -> str | None:
        """Return what makes mypy check a module again when it changes: axes of results follow from the ops."""
        is_users = not ctx.id.startswith("wyrm.") and not _FOREIGN.search(ctx.path)
        return self._version if is_users else None

    def get_method_signature_hook(self, fullname: str) -> Callable[[MethodSigContext], CallableType] | None:
        if self._calls_module(fullname):
            return guarded(self._signatures(_always), _as_declared)
        if fullname in TAKES_DATA:
            return guarded(self._signatures(_of_run), _as_declared)
        if fullname == TRANSFORMED:
            return guarded(self._signatures(_is_misfit), _as_declared)
        is_known = self._builds_nodes(fullname) or fullname in CALLED
        return guarded(self._signatures(_is_taken), _as_declared) if is_known else None

    def get_function_signature_hook(self, fullname: str) -> Callable[[FunctionSigContext], CallableType] | None:
        if self._is_optimizer(fullname):
            return guarded(partial(self._group_signature, fullname), _as_declared)
        if fullname == FIT:
            return guarded(self._signatures(_of_run), _as_declared)
        return None if run_time_function(fullname) is None else guarded(self._signatures(_always), _as_declared)

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        if fullname in CALLED:
            return guarded(self._of_called, _returned)
        owner, _, name = fullname.rpartition(".")
        if name == "forward" and self._has_base(owner, NODE):
            return guarded(self._of_value, _returned)
        if fullname in POWERS or fullname == UFUNC:
            return guarded(type_of_ufunc if fullname == UFUNC else type_of_power, _returned)
        if fullname in TAKES_DATA:
            return guarded(partial(self._of_run, None, name), _returned)
        if fullname == TRANSFORMED:
            return guarded(self._of_transformed, _returned)
        if self._calls_module(fullname):
            return guarded(self._of_module, _returned)
        of_method = partial(self._of_method, name)
        return guarded(of_method, _returned) if self._builds_nodes(fullname) else None

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        if fullname.startswith("wyrm.nn.") and self._has_base(fullname, MODULE):
            return guarded(partial(self._of_layer, fullname), _returned)
        if not fullname.startswith("wyrm.") and any(self._has_base(fullname, base) for base in OPS_OF_USERS):
            return guarded(partial(self._of_own_op, fullname), _returned)
        if fullname == FIT:
            return guarded(partial(self._of_run, FIT, "fit"), _returned)
        if fullname == COMPILE:
            return guarded(self._of_compile, _returned)
        if self._is_optimizer(fullname):
            return guarded(partial(self._of_optimizer, fullname), _returned)
        function = run_time_function(fullname)
        return None if function is None else guarded(partial(self._of_function, fullname, function), _returned)

    def get_attribute_hook(self, fullname: str) -> Callable[[AttributeContext], Type] | None:
        if fullname == VALUE:
            return guarded(self._of_value, _as_typed)
        return guarded(self._of_attribute, _as_typed) if fullname.startswith("wyrm.nn.") else None

    def get_base_class_hook(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        return guarded(_prepare_op, _nothing) if fullname in OPS_OF_USERS else None

    def _builds_nodes(self, fullname: str) -> bool:
        """Return whether a method is one of nodes that builds a node."""
        owner, _, name = fullname.rpartition(".")
        return name in METHODS and self._has_base(owner, NODE)

    def _calls_module(self, fullname: str) -> bool:
        """Return whether a method is what calls a module."""
        owner, _, name = fullname.rpartition(".")
        return name == "__call__" and self._has_base(owner, MODULE)

    def _has_base(self, name: str, base: str) -> bool:
        """Return whether a class has a base class, by the names of both."""
        if (name, base) not in self._bases:
            symbol = self.lookup_fully_qualified(name)
            info = None if symbol is None else symbol.node
            self._bases[name, base] = isinstance(info, TypeInfo) and base_of(info, base) is not None
        return self._bases[name, base]

    def _of_module(self, context: MethodContext) -> Type:
        if not isinstance(context.type, Instance):
            return context.default_return_type
        return type_of_module_call(context, context.type, self._text(context))

    def _is_optimizer(self, fullname: str) -> bool:
        return fullname.startswith("wyrm.optim.") and self._has_base(fullname, OPTIMIZER)

    def _of_run(self, function: str | None, name: str, context: MethodContext | FunctionContext) -> Type:
        """Return the type of a call that gives a program data."""
        symbol = None if function is None else self.lookup_fully_qualified(function)
        return type_of_run(context, None if symbol is None else symbol.type, name, self._text(context))

    def _group_signature(self, fullname: str, context: FunctionSigContext) -> CallableType:
        """Return a signature that takes any arguments where a group of parameters has an option that is none."""
        declared = context.default_signature
        found = group_error(context.context, fullname, self._text(context))
        return declared if found is None else _open(declared, first=True, returned=declared.ret_type)

    def _of_optimizer(self, fullname: str, context: FunctionContext) -> Type:
        found = group_error(context.context, fullname, self._text(context))
        if found is not None:
            context.api.fail(found, context.context, code=TYPEDDICT_UNKNOWN_KEY)
        return context.default_return_type

    def _of_called(self, context: MethodContext) -> Type:
        """Return the type of a call of a function that is declared as a variable."""
        function = _called_function(context)
        if function is None or not isinstance(context.type, Instance):
            return context.default_return_type
        return FunctionCall(self, self._axes, self._text(context), function, context.type, context).type()

    def _of_transformed(self, context: MethodContext) -> Type:
        """Return the type of a call of what `vmap(f)` makes, where the declarations do not tell it."""
        declared, text = context.default_return_type, self._text(context)
        own = own_signature(context)
        if own is not None and not fits(own, context):
            return declared
        callee = context.context.callee if isinstance(context.context, CallExpr) else None
        transform = None if callee is None else transform_of(callee, text)
        if transform is None or not isinstance(get_proper_type(declared), AnyType):
            return declared
        return TransformedCall(self, self._axes, text, transform, context).type()

    def _of_method(self, name: str, context: MethodContext) -> Type:
        receiver = context.type
        if not _has_known_axes(receiver):
            assert isinstance(context.api, TypeChecker)
            report_sizes(context.api, self._text(context), context.context)
            return context.default_return_type
        assert isinstance(receiver, Instance)
        return MethodCall(self, self._axes, self._text(context), name, receiver, context).type()

    def _of_function(self, fullname: str, function: Callable[..., object], context: FunctionContext) -> Type:
        symbol = self.lookup_fully_qualified(fullname)
        declared = None if symbol is None else symbol.type
        return FunctionCall(self, self._axes, self._text(context), function, declared or unknown(), context).type()

    def _of_own_op(self, fullname: str, context: FunctionContext) -> Type:
        """Return the type of an elementwise op of users, of which two operands broadcast as those of `+` do."""
        declared = get_proper_type(context.default_return_type)
        wrong = without_slot(declared.type, arguments_of(context)) if isinstance(declared, Instance) else None
        if wrong is not None:
            context.api.fail(wrong, context.context, code=CALL_ARG)
        if wrong is not None or not self._has_base(fullname, BINARY):
            return declared
        call = FunctionCall(self, self._axes, self._text(context), operator.add, unknown(), context)
        call.name = fullname.rpartition(".")[2]
        return call.of_own_op(context.default_return_type)

    def _of_layer(self, fullname: str, context: FunctionContext) -> Type:
        """Return the declared type of a layer; what its constructor refuses is an error."""
        assert isinstance(context.api, TypeChecker)
        found = gap(context) if fullname == SEQUENTIAL else None
        if found is not None:
            context.api.fail(found, context.context, code=AXES)
        else:
            report_sizes(context.api, self._text(context), context.context)
        return context.default_return_type

    def _of_value(self, context: AttributeContext | MethodContext) -> Type:
        return type_of_value(self._class_of_rows(), context)

    def _of_compile(self, context: FunctionContext) -> Type:
        report_engine(context)
        return type_of_program(self._class_of_rows(), context)

    def _class_of_rows(self) -> TypeInfo:
        symbol = self.lookup_fully_qualified(ROWS)
        assert symbol is not None and isinstance(symbol.node, TypeInfo)
        return symbol.node

    def _of_attribute(self, context: AttributeContext) -> Type:
        return type_of_parameter(context, self._text(context))

    def _text(self, context: MethodContext | FunctionContext | FunctionSigContext | AttributeContext) -> Text:
        """Return the values of the expressions of the file that mypy checks."""
        assert isinstance(context.api, TypeChecker)
        file = context.api.tree
        if self._file is None or self._file[0] is not file:
            self._file = file, Text(file, context.api.lookup_type, self._axes, run_time_function, METHODS)
        return self._file[1]

    @staticmethod
    def _signatures(is_taken: Callable[[SignatureContext], bool]) -> Callable[[SignatureContext], CallableType]:
        """Return a hook for the overloads of one callee, which mypy passes in order, where the plugin checks a call.

        The first takes any arguments, and the others none that there are. mypy then checks each argument once, where it
        would check it for the types of each overload; nested calls would take time that is exponential in their depth.
        """
        positions = itertools.count()

        def opened(context: SignatureContext) -> CallableType:
            is_first = next(positions) == 0
            return _open(context.default_signature, is_first) if is_taken(context) else context.default_signature

        return opened


def guarded(hook: Callable[[Any], Any], otherwise: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a hook that does what mypy does without the plugin where an exception is raised, and never stops mypy.

    With `WYRM_MYPY_RAISES` in the environment, as in the tests, the exception is raised.
    """

    def guarded(context: Any) -> Any:
        try:
            return hook(context)
        except Exception:
            if RAISES:
                raise
            return otherwise(context)

    return guarded


def _as_declared(context: MethodSigContext | FunctionSigContext) -> CallableType:
    return context.default_signature


def _as_typed(context: AttributeContext) -> Type:
    return context.default_attr_type


def _returned(context: MethodContext | FunctionContext) -> Type:
    return context.default_return_type


def _nothing(context: ClassDefContext) -> None:
    pass


def _prepare_op(context: ClassDefContext) -> None:
    keep_slots(context.cls)
    _keep_axes(context)


def _keep_axes(context: ClassDefContext) -> None:
    """Make `class Cube(wy.Unary)` generic in what its base class is generic in, so that its nodes keep their axes.

    A class with an `__init__` of its own says by its type parameters which axes its nodes have.
    """
    info = context.cls.info
    if context.cls.type_vars or not isinstance(context.reason, RefExpr) or "__init__" in info.names:
        return
    for i, base in enumerate(info.bases):
        if base.type.fullname in OPS_OF_USERS:
            variables = [
                variable.copy_modified(id=TypeVarId(position, namespace=info.fullname))
                for position, variable in enumerate(base.type.defn.type_vars, 1)
                if isinstance(variable, TypeVarType)
            ]
            context.cls.type_vars = list(variables)
            info.bases[i] = base.copy_modified(args=variables)
            info.type_vars = []
            info.add_type_vars()
            return


def _always(context: MethodSigContext | FunctionSigContext) -> bool:
    return True


def _of_run(context: MethodSigContext | FunctionSigContext) -> bool:
    return is_checked_here(context.context)


def _is_misfit(context: MethodSigContext) -> bool:
    """Return whether a function of arrays does not take as many arguments, or none of their names."""
    assert isinstance(context.api, TypeChecker)
    own = own_signature(context)
    with context.api.msg.filter_errors():
        return own is not None and not fits(own, context)


def _is_taken(context: MethodSigContext) -> bool:
    """Return whether the plugin computes the type of a call of a method."""
    return _has_known_axes(context.type) or _called_function(context) is not None


def _called_function(context: MethodSigContext | MethodContext) -> Callable[..., object] | None:
    """Return the function of nodes that is called by the name of a variable."""
    callee = context.context.callee if isinstance(context.context, CallExpr) else None
    return run_time_function(callee.fullname) if isinstance(callee, RefExpr) else None


def _has_known_axes(type_: Type) -> bool:
    return isinstance(type_, Instance) and is_node(type_) and isinstance(shape_of(type_), TupleType)


def _open(signature: CallableType, first: bool, returned: Type | None = None) -> CallableType:
    """Return a signature that takes any arguments, or none that there are."""
    anything = Instance(signature.fallback.type.mro[-1], [])
    kinds = [ARG_STAR, ARG_STAR2] if first else [ARG_NAMED]
    names = ["operands", "options"] if first else ["no argument of this name"]
    return signature.copy_modified(
        arg_types=[anything for _ in kinds],
        arg_kinds=kinds,
        arg_names=names,
        variables=[],
        ret_type=unknown() if returned is None else returned,
        unpack_kwargs=False,
    )


def plugin(version: str) -> type[Plugin]:
    """Return the plugin's class."""
    return WyrmPlugin
