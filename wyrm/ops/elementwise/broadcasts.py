"""The types of operators: an overload for each broadcast that type checkers know."""

from __future__ import annotations

from typing import NamedTuple


class _Broadcast(NamedTuple):
    """A broadcast that type checkers know: the axes of the operands and of the result, None if unknown."""

    left: str
    right: str
    result: str | None


# A shape of three axes or more with an axis of size 1 before the last one. Without type variables mypy checks it once.
_INNER_ONE = "tuple[One, Any, Any, *tuple[Any, ...]] | tuple[Any, One, Any, *tuple[Any, ...]]"
# Operands of unknown shapes come first: pyright, ty and pyrefly take the first overload that such an operand matches.
# mypy's messages quote the first one, which names both shapes. Where two match the same operands, their results are the
# same: mypy makes different ones Any.
_BROADCASTS = (
    _Broadcast("S", "FittingShape[S]", None),
    _Broadcast("FittingShape", "S", None),
    _Broadcast("S", "S | tuple[()]", "S"),
    _Broadcast("tuple[()]", "S", "S"),
    _Broadcast("tuple[*Bs, N]", "tuple[N] | tuple[*Bs, One]", "tuple[*Bs, N]"),
    _Broadcast("tuple[N]", "tuple[*Bs, N] | tuple[*Bs, One]", "tuple[*Bs, N]"),
    _Broadcast("tuple[*Bs, One]", "tuple[N] | tuple[*Bs, N]", "tuple[*Bs, N]"),
    _Broadcast("tuple[*Bs, M, N]", "tuple[M, N]", "tuple[*Bs, M, N]"),
    _Broadcast("tuple[M, N]", "tuple[*Bs, M, N]", "tuple[*Bs, M, N]"),
    _Broadcast("tuple[M, One]", "tuple[One, N]", "tuple[M, N]"),
    _Broadcast("tuple[One, N]", "tuple[M, One]", "tuple[M, N]"),
    _Broadcast("tuple[*Bs, N]", "tuple[One, N]", "tuple[*Bs, N]"),
    _Broadcast("tuple[One, N]", "tuple[*Bs, N]", "tuple[*Bs, N]"),
    _Broadcast("S", _INNER_ONE, None),
    _Broadcast(_INNER_ONE, "S", None),
)


def operator_of_floats(left: str, right: str) -> str:
    """Return the overloads of an operator of floats; `left` and `right` are the parameters `self` and `other`.

    The class of an argument on the right is Any in the result: mypy checks an argument again for an overload
    with a type variable of its own, in a time exponential in the depth of nested calls, and once for all others.
    """
    right_class = "Any" if right == "other" else "R"
    found = []
    for known in _BROADCASTS:
        axes = "" if known.result is None else f", {known.result}"
        shapes = {left: known.left.split(" | "), right: known.right.split(" | ")}
        classes = {left: "L", right: right_class}
        for own in shapes["self"]:  # mypy infers nothing from a union for `self`
            first = _seen(own, classes["self"], shapes["other"])
            second = " | ".join(_seen(each, classes["other"], [own]) for each in shapes["other"])
            found.append(
                f"@overload\ndef {{method}}(self: {first}, other: {second}) -> {{op}}[L, {right_class}{axes}]: ..."
            )
    return "\n".join(found)


def _seen(shape: str, own: str, others: list[str]) -> str:
    """Return the type of an operand of a shape: the one with the leading axes is `OfShape`, from which ty infers them.

    Of two operands with leading axes it is the one that also has the last axis of the result.
    """
    leads = "*Bs" in shape and not ("One" in shape and any("*Bs" in each and "One" not in each for each in others))
    return f"{'OfShape' if leads else 'Shaped'}[{own}, {shape}]"


def operator_of_integers(parents: str = "") -> str:
    """Return the overloads of an operator of integer nodes, with fewer broadcasts than those of floats.

    `parents` are the type arguments of the op before its axes, such as "Any, Any, ".
    """
    same, rows = f"{{op}}[{parents}S]", f"{{op}}[{parents}tuple[*Bs, N]]"
    broadcasts = (
        ("S", "Size | IntegerArray", same),
        ("S", "IndexNode[FittingShape]", "{op}"),
        ("S", "IndexNode[S] | IndexNode[tuple[()]]", same),
        ("tuple[()]", "IndexNode[S]", same),
        ("tuple[*Bs, N]", "IndexNode[tuple[N]] | IndexNode[tuple[*Bs, One]]", rows),
        ("tuple[N]", "IndexNode[tuple[*Bs, N]]", rows),
        ("tuple[*Bs, One]", "IndexNode[tuple[*Bs, N]]", rows),
    )
    return "\n".join(
        f"@overload\ndef {{method}}(self: IndexNode[{left}], other: {right}) -> {result}: ..."
        for left, right, result in broadcasts
    )
