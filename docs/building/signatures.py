"""Signatures as the reference shows them: one for all overloads, short types, and options spelled out.

Names, order and defaults of parameters are those of the function that runs. Types are those that type checkers see,
from the overloads in its file or in the generated stub beside it, with what only a type checker needs left out: a node
of any op is a `Node`, and an axis is a `Dim | int`.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil
import re
import sys
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import wyrm.ops
from wyrm.graph import REGISTRY
from wyrm.graph.node import IndexNode

# What stands for a node in the annotations of ops, beside the classes of ops.
_NODES = {"Node", "_Node", "Shaped", "ShapedMask", "OfShape", "BaseNode", "Op"}
_INTEGERS = {"IndexNode", "_IndexNode", "IndexTensor"}
_LEAVES = {"Parameter", "Input", "Constant", "Buffer", "NarrowWeight"}
# Names of types in wyrm's own code, each as a reader knows it.
_ALIASES = {
    "Array": "ArrayLike",
    "AxisLike": "int | Sequence[int] | None",
    "EmbedKind": "bool | Literal['float32', 'float16', 'int8']",
    "FilePath": "str | Path",
    "Indices": "ArrayLike",
    "IntegerArray": "ArrayLike",
    "Number": "float",
    "OneNumber": "float",
    "Operand": "Node | ArrayLike",
    "PerAxis": "int | Sequence[int]",
    "Rate": "float | Callable[[int], float]",
    "Size": "int | Dim",
    "Sizes": "Sequence[int | Dim]",
    "Values": "ArrayLike",
}
_ALIAS = re.compile(rf"\b({'|'.join(_ALIASES)})\b")
# Types whose arguments tell a reader something.
_CONTAINERS = {"list", "tuple", "dict", "set", "type", "Callable", "Sequence", "Mapping", "Iterable", "Iterator"}


class Argument(NamedTuple):
    """A parameter as the reference shows it."""

    name: str
    kind: Any
    annotation: str
    default: str

    def __str__(self) -> str:
        stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(self.kind, "")
        text = f"{stars}{self.name}"
        if self.annotation:
            text += f": {self.annotation}"
        if self.default:
            text += f" = {self.default}" if self.annotation else f"={self.default}"
        return text


@functools.cache
def tree_of(module: str) -> ast.Module:
    """Return the declarations of a module: its stub where there is one with functions, else its source."""
    path = Path(inspect.getfile(importlib.import_module(module)))
    stub = path.with_suffix(".pyi")
    if stub.exists() and path.name != "__init__.py":
        path = stub
    return ast.parse(path.read_text(encoding="utf-8"))


def statements_of(module: str, qualname: str) -> list[ast.FunctionDef]:
    """Return the `def` statements of a function: the overloads where there are any, else the one that runs."""
    body: Iterable[ast.stmt] = tree_of(module).body
    *owners, name = qualname.split(".")
    for owner in owners:
        body = [
            inner
            for statement in body
            if isinstance(statement, ast.ClassDef) and statement.name == owner
            for inner in statement.body
        ]
    found = [each for each in _flat(body) if isinstance(each, ast.FunctionDef) and each.name == name]
    overloads = [each for each in found if any("overload" in ast.unparse(one) for one in each.decorator_list)]
    return overloads or found


def _flat(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, and those below `if`."""
    for statement in body:
        if isinstance(statement, ast.If):
            yield from _flat(statement.body)
            yield from _flat(statement.orelse)
        else:
            yield statement


class _Shorten(ast.NodeTransformer):
    """Replaces types that only type checkers need."""

    def __init__(self, keep_tensors: bool) -> None:
        self.keep_tensors = keep_tensors

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match node.value:
            case ast.Name(id="Tensor") if not self.keep_tensors:
                return ast.Name("Node")
            case ast.Name(id="Tensor"):
                return node
            case ast.Name(id=name) if self._short(name):
                return ast.Name(self._short(name))
            case ast.Name(id="Literal"):
                return node
            case ast.Name(id=name) if not self.keep_tensors and name not in _CONTAINERS:
                return self.visit_Name(node.value)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self._short(node.id) or node.id)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return ast.Name("np.dtype") if node.attr == "dtype" else node

    @staticmethod
    def _short(name: str) -> str:
        if name in _INTEGERS:
            return "IndexNode"
        if name in _NODES:
            return "Node"
        if name == "Constant":  # an initializer has this name too
            return "Node"
        if name in _LEAVES:
            return name
        op = _OPS.get(name)
        if op is not None:
            return "IndexNode" if issubclass(op, IndexNode) else "Node"
        return "int" if name == "Unnamed" else ""


for _each in pkgutil.walk_packages(wyrm.ops.__path__, "wyrm.ops."):
    importlib.import_module(_each.name)  # the ops register as they are imported
_OPS: dict[str, type] = {op.__name__: op for op in REGISTRY.values()}


def _members(text: str) -> list[str]:
    """Return the members of a union."""
    found: list[str] = []

    def walk(node: ast.expr) -> None:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            walk(node.left)
            walk(node.right)
        else:
            found.append(ast.unparse(node).replace(",]", "]"))

    walk(ast.parse(text, mode="eval").body)
    return found


def shortened(annotations: Iterable[str], keep_tensors: bool = False) -> str:
    """Return the union of annotations with short types, or nothing for what may be anything."""
    members: list[str] = []
    for text in annotations:
        tree = _Shorten(keep_tensors).visit(ast.parse(text.lstrip("*"), mode="eval"))
        # An axis is `M | Unnamed[M]`: a variable of axes, or an integer, which type checkers do not follow.
        new = ["Dim" if "Unnamed" in text and len(each) == 1 else each for each in _members(ast.unparse(tree))]
        members += [each for place, each in enumerate(new) if each not in members and each not in new[:place]]
    if "int" in members and any(each.startswith(("Literal[-", "Literal[0")) for each in members):
        members = [each for each in members if not each.startswith("Literal[")]
    for wider, narrower in (("bool", "Literal[True]"), ("bool", "Literal[False]")):
        if wider in members and narrower in members:
            members.remove(narrower)
    if {"Literal[True]", "Literal[False]"} <= set(members):
        members = [each for each in members if not each.startswith("Literal[")] + ["bool"]
    if "AxisLike" in members:
        members = [each for each in members if "Literal[" not in each and each not in ("None", "Axis")]
    for general in ("Sizes", "Operand"):
        if general in members:  # beside it stand its special cases, for type checkers
            members = [each for each in members if each in (general, "Node", "IndexNode", "int", "None")]
    if sum(each.startswith("Callable") for each in members) > 1:
        first = next(place for place, each in enumerate(members) if each.startswith("Callable"))
        members = (
            [each for each in members[:first] if each != "Callable"]
            + ["Callable"]
            + [each for each in members[first:] if not each.startswith("Callable")]
        )
    if "None" in members:
        members = [each for each in members if each != "None"] + ["None"]
    known = [each for each in members if each not in ("Any", "object", "Tree")]
    plain = [_ALIAS.sub(lambda found: _ALIASES[found[0]], each) for each in known]
    parts = list(dict.fromkeys(part for each in plain for part in _members(each)))
    leading = ["Node", "IndexNode"]
    return " | ".join([each for each in leading if each in parts] + [each for each in parts if each not in leading])


def text_of(annotation: object) -> str:
    """Return the text of a run-time annotation."""
    if annotation is inspect.Parameter.empty:
        return ""
    if isinstance(annotation, str):
        return annotation
    if isinstance(annotation, typing.ForwardRef):
        return annotation.__forward_arg__
    if inspect.isclass(annotation) and typing.get_origin(annotation) is None:
        return "None" if annotation is type(None) else annotation.__name__
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(text_of, typing.get_args(annotation)))
    text = str(annotation).replace("typing.", "").replace("collections.abc.", "").replace("numpy.", "np.")
    return text.replace("wyrm.graph.node.", "").replace("NoneType", "None").replace("~", "")


def default_text(default: object) -> str:
    """Return how code would write a default."""
    if default is inspect.Parameter.empty:
        return ""
    if default is ...:
        return "..."
    if isinstance(default, type):
        return f"np.{default.__name__}" if default.__module__ == "numpy" else default.__name__
    if callable(default) and hasattr(default, "__name__"):
        return str(default.__name__)
    text = repr(default)
    if text.startswith("<"):
        name = type(default).__name__.lstrip("_")
        return "..." if name in ("object", "Missing", "Unset") else f"{name}()"
    return text


def _defaults_of_options(owner: Any, module: str) -> dict[str, str]:
    """Return the defaults that functions of a class, and private ones of its module, give to their parameters."""
    places: list[Any] = []
    if inspect.isclass(owner):
        places += [value for base in owner.__mro__[:-1] for value in vars(base).values()]
    places += list(vars(sys.modules[module]).values())
    found: dict[str, str] = {}
    for function in places:
        function = inspect.unwrap(function) if callable(function) else getattr(function, "__func__", None)
        if not inspect.isfunction(function):
            continue
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.default is not parameter.empty:
                found.setdefault(name, default_text(parameter.default))
    return found


def _options(text: str, owner: Any, module: str) -> list[Argument]:
    """Return the options of `Unpack[Options]`, each with its type and default."""
    name = text.removeprefix("Unpack[").removesuffix("]")
    table = getattr(sys.modules[module], name, None)
    if table is None or not hasattr(table, "__total__"):
        return []
    defaults = _defaults_of_options(owner, module)
    kind = inspect.Parameter.KEYWORD_ONLY
    keys = {
        key: annotation
        for base in reversed(getattr(table, "__orig_bases__", ()) or ())
        if hasattr(base, "__annotations__") and hasattr(base, "__total__")
        for key, annotation in base.__annotations__.items()
    } | dict(table.__annotations__)
    return [
        Argument(key, kind, shortened([text_of(annotation)]), defaults.get(key, "..."))
        for key, annotation in keys.items()
    ]


def _annotations(statement: ast.FunctionDef) -> Mapping[str, str]:
    arguments = statement.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return {each.arg: ast.unparse(each.annotation) for each in every if each.annotation is not None}


def signature_of(
    function: Any, owner: Any = None, statements: list[ast.FunctionDef] | None = None, bound: bool = False
) -> str:
    """Return the signature of a function, with `owner`, its class, if it is a method, whose `self` is left out.

    With `bound`, the first parameter is the object, whatever its name.
    """
    runtime = inspect.unwrap(function)
    module = runtime.__module__
    if statements is None:
        own = statements_of(function.__module__, function.__qualname__)
        statements = own or statements_of(module, runtime.__qualname__)
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if (
        owner is not None
        and parameters
        and parameters[0].name in (("self", "cls") if not bound else (parameters[0].name,))
    ):
        parameters = parameters[1:]
    declared = [_annotations(each) for each in statements]
    keep = len(statements) <= 1
    arguments: list[Argument] = []
    for parameter in parameters:
        texts = [each[parameter.name] for each in declared if parameter.name in each] or [text_of(parameter.annotation)]
        texts = [text for text in texts if text]
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            unpacked = [text for text in texts if text.startswith("Unpack[")]
            known = set(signature.parameters)
            spelled = _options(unpacked[0], owner, module) if unpacked else []
            spelled = [each for each in spelled if each.name not in known]
            # What only overloads name are keywords of their own.
            extra = {
                name: [each[name] for each in declared if name in each]
                for statement in statements
                for name in (argument.arg for argument in statement.args.kwonlyargs)
            }
            kind = inspect.Parameter.KEYWORD_ONLY
            spelled += [
                Argument(name, kind, shortened(found), "...")
                for name, found in extra.items()
                if name not in known and name not in {each.name for each in spelled}
            ]
            if spelled:
                arguments += spelled
                continue
        annotation = shortened(texts, keep) if texts else ""
        arguments.append(Argument(parameter.name, parameter.kind, annotation, default_text(parameter.default)))
    returns = [ast.unparse(each.returns) for each in statements if each.returns is not None]
    if not returns and signature.return_annotation is not inspect.Signature.empty:
        returns = [text_of(signature.return_annotation)]
    result = shortened(returns, keep) if returns else ""
    return _joined(arguments) + (f" -> {result}" if result and (result != "None" or owner is None) else "")


def _joined(arguments: list[Argument]) -> str:
    """Return the arguments in brackets, with `/` and `*` where they belong."""
    parts: list[str] = []
    kinds = [each.kind for each in arguments]
    for place, each in enumerate(arguments):
        if each.kind is inspect.Parameter.KEYWORD_ONLY and (
            place == 0 or kinds[place - 1] not in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_POSITIONAL)
        ):
            parts.append("*")
        parts.append(str(each))
        if each.kind is inspect.Parameter.POSITIONAL_ONLY and kinds[place + 1 : place + 2] != [each.kind]:
            parts.append("/")
    return f"({', '.join(parts)})"
