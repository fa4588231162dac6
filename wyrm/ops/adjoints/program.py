"""The simple form of a kernel: statements whose expressions are trees of Python."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

_COMMENT = "comment: "
Tree = TypeVar("Tree", bound=ast.AST)
# Attributes of arrays that do not depend on their elements.
SIZES = frozenset(["size", "shape", "ndim", "dtype", "itemsize"])


@dataclass(frozen=True)
class Kind:
    """What a variable holds: "b", "i", "f4" or "f8", and the number of axes of an array, None for a number."""

    type: str
    axes: int | None = None

    @property
    def is_float(self) -> bool:
        """Whether it holds floats."""
        return self.type[0] == "f"

    @property
    def is_array(self) -> bool:
        """Whether it is an array."""
        return self.axes is not None


@dataclass(eq=False)
class Statement:
    """A statement; `where` is the function, the file and the line it comes from."""

    where: str
    # The loops around it, outermost first, and its place in the order of the text.
    loops: tuple[Loop, ...] = field(default=(), init=False)
    number: int = field(default=0, init=False)


@dataclass(eq=False)
class Let(Statement):
    """`name = value`, the only assignment to this name: a number, or a view of an array.

    `share`: of a maximum or a minimum, the variable that holds its derivative by the first operand, if there is one.
    """

    name: str
    value: ast.expr
    share: str = field(default="", init=False)


@dataclass(eq=False)
class Put(Statement):
    """`name = value`, of a variable with several.

    "start" and "next": a variable that a loop carries from turn to turn, before the loop and in its body. "join": one
    that has a value after a branch.
    """

    name: str
    value: ast.expr
    role: Literal["start", "next", "join"]

    @property
    def carried(self) -> bool:
        """Whether it gives the variable of a loop its value in the next turn."""
        return self.role == "next"


@dataclass(eq=False)
class Store(Statement):
    """`target = value`, or with a sign `target += value` or `target -= value`."""

    target: ast.Subscript
    value: ast.expr
    sign: int = 0


@dataclass(eq=False)
class Fail(Statement):
    """A `raise`."""

    error: ast.Raise


@dataclass(eq=False)
class Branch(Statement):
    """`if`."""

    test: ast.expr
    body: list[Statement]
    orelse: list[Statement]


@dataclass(eq=False)
class Loop(Statement):
    """A loop that ends after a turn that makes the variable `stop` true, if it has one."""

    body: list[Statement]
    stop: ast.expr | None = field(default=None, init=False)
    # The variable that counts its turns.
    trips: str = field(default="", init=False)
    # How its turns are divided, if they are.
    blocks: Any = field(default=None, init=False)


@dataclass(eq=False)
class Turns(Loop):
    """`for name in range(start, stop, step)`."""

    name: str
    bounds: tuple[ast.expr, ast.expr, ast.expr]


@dataclass(eq=False)
class While(Loop):
    """`while test`."""

    test: ast.expr


@dataclass(eq=False)
class Keep(Statement):
    """What the forward sweep keeps at this place."""

    code: Callable[[], list[ast.stmt]]


Block: TypeAlias = list[Statement]


@dataclass(frozen=True)
class Scratch:
    """An array that the kernel makes: its shape, and its value before anything is written, None for any."""

    name: str
    shape: tuple[ast.expr, ...]
    fill: ast.expr | None
    type: str


def blocks_of(statement: Statement) -> Sequence[Block]:
    """Return the blocks inside of a statement."""
    if isinstance(statement, Branch):
        return statement.body, statement.orelse
    return (statement.body,) if isinstance(statement, Loop) else ()


def every(block: Block) -> Iterator[Statement]:
    """Yield the statements of a block and of those inside."""
    for each in block:
        yield each
        for inner in blocks_of(each):
            yield from every(inner)


def expressions(statement: Statement) -> list[ast.expr]:
    """Return the expressions that a statement itself evaluates, without those in its blocks."""
    match statement:
        case Let() | Put():
            return [statement.value]
        case Store():
            return [statement.value, *indices(statement.target)]
        case Branch():
            return [statement.test]
        case Turns():
            return list(statement.bounds)
        case While():
            return [statement.test]
        case _:
            return []


def parsed(text: str) -> ast.expr:
    """Return the expression of a text."""
    return ast.parse(text, mode="eval").body


def statements_of(text: str) -> list[ast.stmt]:
    """Return the statements of a text."""
    return ast.parse(text).body


def comment(text: str) -> list[ast.stmt]:
    """Return a statement that is written as a comment; none for an empty text."""
    return [ast.Expr(ast.Constant(f"{_COMMENT}{text}"))] if text else []


def with_comments(source: str) -> str:
    """Return a source in which comments are written as such, but for those that only repeat the next line."""
    lines: list[str] = []
    said = ""
    for line in source.splitlines(keepends=True):
        start = line.lstrip()
        if said and said == start.rstrip():
            lines.pop()
        said = ""
        if start[1:].startswith(_COMMENT):
            text: str = ast.literal_eval(start)
            said = text.removeprefix(_COMMENT)
            line = f"{line[: len(line) - len(start)]}# {said}\n"
        lines.append(line)
    return "".join(lines)


def name(text: str) -> ast.Name:
    """Return a variable."""
    return ast.Name(text, ast.Load())


def number(value: float | int | bool) -> ast.expr:
    """Return a literal."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


def indices(node: ast.Subscript) -> list[ast.expr]:
    """Return the indices of an element or a view."""
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def base(node: ast.expr) -> str | None:
    """Return the variable that an element, a view or an attribute is of; None for another expression."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def names(*nodes: ast.AST) -> set[str]:
    """Return the names in expressions and statements; it is quicker than `ast.walk`."""
    found, stack = set[str](), list(nodes)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name):
            found.add(node.id)
            continue
        for field_name in node._fields:
            value = getattr(node, field_name, None)
            if isinstance(value, ast.AST):
                if value._fields:  # operators have none
                    stack.append(value)
            elif type(value) is list:
                stack += [each for each in value if isinstance(each, ast.AST)]
    return found


def names_read(source: str) -> set[str]:
    """Return the names that the body of a function uses, given its source.

    >>> sorted(names_read("def f(x, y, z): x[0] = y.size"))
    ['x', 'y']
    """
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    return names(*function.body)


def same(x: ast.expr, y: ast.expr) -> bool:
    """Return whether two expressions are written alike."""
    return ast.dump(x) == ast.dump(y)


def replaced(node: Any, new: Mapping[str, ast.expr | str]) -> Any:
    """Return a copy of an expression or a statement with variables replaced; it is quicker than `copy.deepcopy`."""
    if isinstance(node, ast.Name):
        found = new.get(node.id)
        if found is None or isinstance(found, str):
            return ast.Name(node.id if found is None else found, node.ctx)
        return duplicate(found)
    if isinstance(node, ast.expr_context | ast.operator | ast.unaryop | ast.cmpop | ast.boolop):
        return node  # these have no fields
    kind: Any = type(node)
    made = kind.__new__(kind)
    for field_name in node._fields:
        value = getattr(node, field_name, None)
        if isinstance(value, ast.AST):
            value = replaced(value, new)
        elif type(value) is list:
            value = [replaced(each, new) if isinstance(each, ast.AST) else each for each in value]
        setattr(made, field_name, value)
    return made


def text_of(e: ast.expr) -> str:
    """Return the text of an expression as an operand."""
    return ast.unparse(e) if isinstance(e, ast.Name | ast.Constant) else f"({ast.unparse(e)})"


def substituted(e: Tree, old: ast.expr, new: ast.expr) -> Tree:
    """Return an expression or a statement with another expression in place of each that is written like `old`."""

    text = ast.unparse(old)

    class Substitute(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            if isinstance(node, ast.expr) and ast.unparse(node) == text:
                return duplicate(new)
            return self.generic_visit(node)

    found: Tree = Substitute().visit(duplicate(e))
    return found


def duplicate(node: Tree) -> Tree:
    """Return a copy of an expression or a statement."""
    found: Tree = replaced(node, {})
    return found


def rebased(node: ast.expr, prefix: str) -> ast.expr:
    """Return a copy of a variable, an element or a view with a prefix before the name that it is of.

    >>> ast.unparse(rebased(parsed("x[i][x.size]"), "d_"))
    'd_x[i][x.size]'
    """
    changed = duplicate(node)
    inner: ast.expr = changed
    while isinstance(inner, ast.Subscript | ast.Attribute):
        inner = inner.value
    assert isinstance(inner, ast.Name)
    inner.id = prefix + inner.id
    return changed


def loads(node: ast.AST) -> Iterator[ast.Subscript]:
    """Yield the subscripts of arrays in an expression, not those of shapes; the outermost of `x[i][j]` only."""
    if isinstance(node, ast.Subscript):
        if not (isinstance(node.value, ast.Attribute) and node.value.attr in SIZES):
            yield node
        for each in indices(node):
            yield from loads(each)
        return
    for child in ast.iter_child_nodes(node):
        yield from loads(child)


def number_all(block: Block) -> None:
    """Note the loops around each statement, and its place."""
    count = 0

    def walk(block: Block, loops: tuple[Loop, ...]) -> None:
        nonlocal count
        for each in block:
            count += 1
            each.number, each.loops = count, loops
            for inner in blocks_of(each):
                walk(inner, (*loops, each) if isinstance(each, Loop) else loops)

    walk(block, ())
