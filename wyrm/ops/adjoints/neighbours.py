"""Cotangents that a turn of a reversed loop leaves to the next turn, held in variables."""

from __future__ import annotations

import ast
from collections import Counter

from wyrm.ops.adjoints.columns import is_next
from wyrm.ops.adjoints.elements import Elements
from wyrm.ops.adjoints.program import duplicate, indices, name, names, replaced, substituted
from wyrm.ops.adjoints.values import Kernel


def held(loop: ast.For, kernel: Kernel, elements: Elements, prefix: str) -> list[ast.stmt]:
    """Hold the cotangent that a turn leaves to the next one in a variable, in place of memory.

    So it is where a turn adds to the element that the turn before it had: `d[i + 1] += g` where `i` falls. Without
    the detour through memory compilers compute several turns at once.
    """
    found = _neighbours(loop, kernel, elements, prefix)
    if found is None:
        return [loop]
    own, other, position = found
    now, late = kernel.fresh("now"), kernel.fresh("late")
    assert isinstance(loop.iter, ast.Call) and isinstance(loop.target, ast.Name)
    start, stop, step = (*loop.iter.args, ast.Constant(1))[:3] if len(loop.iter.args) > 1 else (
        ast.Constant(0), loop.iter.args[0], ast.Constant(1))  # fmt: skip
    falls = ast.unparse(step) == "-1"
    last = ast.BinOp(duplicate(stop), ast.Add() if falls else ast.Sub(), ast.Constant(1))
    body: list[ast.stmt] = [ast.Assign([name(now)], duplicate(own), lineno=0)]
    for i, each in enumerate(loop.body):
        if i == position:
            assert isinstance(each, ast.AugAssign)
            value = ast.BinOp(name(late), each.op, each.value)
            body.append(ast.Assign([duplicate(other)], substituted(value, own, name(now)), lineno=0))
        else:
            body.append(substituted(each, own, name(now)))
    body.append(ast.Assign([name(late)], name(now), lineno=0))
    at_first = replaced(other, {loop.target.id: start})
    at_last = replaced(own, {loop.target.id: last})
    assert isinstance(at_last, ast.Subscript)
    return [
        ast.If(
            ast.Compare(duplicate(start), [ast.Gt() if falls else ast.Lt()], [duplicate(stop)]),
            [
                ast.Assign([name(late)], at_first, lineno=0),
                ast.For(loop.target, loop.iter, body, [], lineno=0),
                ast.Assign([at_last], name(late), lineno=0),
            ],
            [],
        )
    ]


def _neighbours(
    loop: ast.For, kernel: Kernel, elements: Elements, prefix: str
) -> tuple[ast.Subscript, ast.Subscript, int] | None:
    """Return the element that is a turn's own, the one of the turn before, and the statement that adds to that."""
    if not isinstance(loop.iter, ast.Call) or not isinstance(loop.target, ast.Name):
        return None
    step = ast.unparse(loop.iter.args[2]) if len(loop.iter.args) == 3 else "1"
    if step not in ("1", "-1") or any(isinstance(each, ast.If | ast.For | ast.While) for each in loop.body):
        return None
    turn, way = loop.target.id, int(step)
    assigned = {each.id for s in loop.body for each in ast.walk(s) if isinstance(each, ast.Name)
                and isinstance(each.ctx, ast.Store)}  # fmt: skip
    places: dict[str, list[tuple[int, ast.Subscript]]] = {}
    whole: Counter[str] = Counter()
    for i, s in enumerate(loop.body):
        for each in ast.walk(s):
            if isinstance(each, ast.Subscript) and isinstance(each.value, ast.Name):
                places.setdefault(each.value.id, []).append((i, each))
            elif isinstance(each, ast.Name) and each.id.startswith(prefix):
                whole[each.id] += 1
    roots = Counter(kernel.root(text.removeprefix(prefix)) for text in places if text.startswith(prefix))
    for text, found in places.items():
        root = kernel.root(text.removeprefix(prefix))
        if not text.startswith(prefix) or roots[root] > 1 or whole[text] != len(found):
            continue
        forms = {ast.unparse(each): each for _, each in found}
        if len(forms) != 2 or any(names(each.slice) & assigned - {turn} for each in forms.values()):
            continue
        for (a, own), (b, other) in (tuple(forms.items()), tuple(forms.items())[::-1]):
            at = [i for i, each in found if ast.unparse(each) == b]
            adding = loop.body[at[0]]
            if (
                len(at) == 1
                and isinstance(adding, ast.AugAssign)
                and adding.target is next(each for i, each in found if ast.unparse(each) == b)
                and is_next(own, other, turn, -way)
                and all(elements.is_natural(index) for index in (*indices(own), *indices(other)))
                and a not in ast.unparse(adding.value)
                and all(i < at[0] for i, each in found if ast.unparse(each) == a)
            ):
                return own, other, at[0]
    return None
