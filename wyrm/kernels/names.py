"""What can be said of a function before it is compiled: its names, and what they may hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence


def names_in(node: ast.AST) -> set[str]:
    """The names that an expression or a statement has."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _assigned(target: ast.expr) -> set[str]:
    """The names that get a value where something is assigned to a target; the array of an element does not."""
    return {each.id for each in ast.walk(target) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def leaves(body: Sequence[ast.stmt], kind: type[ast.stmt]) -> bool:
    """Whether statements of a loop have a `break`, or a `continue`, that is its own."""
    for each in body:
        if isinstance(each, kind):
            return True
        if isinstance(each, ast.If) and (leaves(each.body, kind) or leaves(each.orelse, kind)):
            return True
    return False


def growing(tree: ast.FunctionDef) -> set[str]:
    """The variables that may exceed the integers, and so become negative: those that loops multiply or double.

    One that is only added to, a bounded number at a time, takes too long for that.
    """
    assigned = list(_assignments(tree))
    needs: dict[str, set[str]] = {}
    for name, value in assigned:
        needs.setdefault(name, set()).update(names_in(value))
    while True:  # what they need in turn
        more = {name: found.union(*(needs.get(each, ()) for each in found)) for name, found in needs.items()}
        if more == needs:
            break
        needs = more
    looped = {name for name, found in needs.items() if name in found}
    return {name for name, value in assigned if name in looped and _grows(value, looped)}


def _assignments(tree: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """Each name that is assigned, and what to."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets, value):
                for target in targets:
                    if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple):
                        pairs = zip(target.elts, value.elts, strict=False)
                        yield from ((name, each) for one, each in pairs for name in _assigned(one))
                    else:
                        yield from ((name, value) for name in _assigned(target))
            case ast.AnnAssign(target, _, value) if value is not None:
                yield from ((name, value) for name in _assigned(target))
            case ast.AugAssign(ast.Name() as target, op, value):
                yield target.id, ast.BinOp(target, op, value)
            case ast.For(target, value):
                yield from ((name, value) for name in _assigned(target))
            case _:
                pass


def _grows(node: ast.AST, looped: set[str]) -> bool:
    """Whether a value may be more than one of these names and something else added."""
    if not names_in(node) & looped:
        return False
    match node:
        case ast.BinOp(left, ast.Add(), right):
            both = bool(names_in(left) & looped and names_in(right) & looped)
            return both or _grows(left, looped) or _grows(right, looped)
        case ast.BinOp(_, ast.Mult() | ast.Pow() | ast.LShift(), _):
            return True
        case ast.Call(ast.Name("range" | "min" | "max" | "len"), arguments):
            return any(_grows(each, looped) for each in arguments)
        case ast.Subscript(of, _) | ast.Attribute(of, _):  # sizes, and what is read from memory
            return _grows(of, looped)
        case ast.Call():
            return True
        case _:
            return any(_grows(each, looped) for each in ast.iter_child_nodes(node))
