"""Static analysis of a kernel's syntax tree: the names it uses, and the variables that may overflow."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence


def names_in(node: ast.AST) -> set[str]:
    """Return the names in an expression or a statement."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _assigned(target: ast.expr) -> set[str]:
    """Return the variables that an assignment to the target binds; in `x[i] = y` that is none."""
    return {each.id for each in ast.walk(target) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def leaves(body: Sequence[ast.stmt], kind: type[ast.stmt]) -> bool:
    """Return whether the body of a loop has a `break` (or `continue`) that belongs to this loop."""
    for each in body:
        if isinstance(each, kind):
            return True
        if isinstance(each, ast.If) and (leaves(each.body, kind) or leaves(each.orelse, kind)):
            return True
    return False


def may_overflow(tree: ast.FunctionDef) -> set[str]:
    """Return the variables that may overflow an int64 and become negative: those that loops multiply or double.

    A variable that only grows by bounded additions cannot overflow in practice: it would take too long.
    """
    assigned = list(_assignments(tree))
    needs: dict[str, set[str]] = {}
    for name, value in assigned:
        needs.setdefault(name, set()).update(names_in(value))
    while True:  # the transitive closure
        more = {name: used.union(*(needs.get(each, ()) for each in used)) for name, used in needs.items()}
        if more == needs:
            break
        needs = more
    looped = {name for name, used in needs.items() if name in used}
    return {name for name, value in assigned if name in looped and _grows_fast(value, looped)}


def _assignments(tree: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """Yield each assigned name with the expression assigned to it."""
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


def _grows_fast(node: ast.AST, looped: set[str]) -> bool:
    """Return whether an expression may grow faster than one of these names plus a bounded term."""
    if not names_in(node) & looped:
        return False
    match node:
        case ast.BinOp(left, ast.Add(), right):
            both = bool(names_in(left) & looped and names_in(right) & looped)
            return both or _grows_fast(left, looped) or _grows_fast(right, looped)
        case ast.BinOp(_, ast.Mult() | ast.Pow() | ast.LShift(), _):
            return True
        case ast.Call(ast.Name("range" | "min" | "max" | "len"), arguments):
            return any(_grows_fast(each, looped) for each in arguments)
        case ast.Subscript(of, _) | ast.Attribute(of, _):  # attributes and elements
            return _grows_fast(of, looped)
        case ast.Call():
            return True
        case _:
            return any(_grows_fast(each, looped) for each in ast.iter_child_nodes(node))
