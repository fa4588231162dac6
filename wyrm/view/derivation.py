"""A computation and its derivative side by side, line by line."""

from __future__ import annotations

from wyrm.grad.reverse import pull_back
from wyrm.node.base import BaseNode, format_dims
from wyrm.node.leaves import Constant, Input
from wyrm.node.node import Node
from wyrm.node.storage import stored
from wyrm.schedule.schedule import Schedule

# Symbol and precedence of each infix operator.
_INFIX = {
    "add": ("+", 1), "subtract": ("-", 1), "multiply": ("*", 2), "divide": ("/", 2), "matmul": ("@", 2),
    "power": ("**", 4),
}  # fmt: skip
_NEGATIVE, _WORD = 3, 5
# Maximum column width; longer lines shift the text to their right.
_WIDEST = 60
Text = tuple[str, int]
_TITLES = ("forward, top to bottom", "backward, bottom to top", "")


def to_derivation(output: Node) -> str:
    """Return one line per value: its expression, the gradient of the output with respect to it, and the user's line.

    `dt` is the gradient with respect to `t`; read the gradients from the last line to the first. Raises
    `NotDifferentiable` for an op without gradient.

    >>> x = wy.Input(name="x")
    >>> print(to_derivation(x.sin() * x))  # doctest: +ELLIPSIS
    forward, top to bottom  backward, bottom to top
    x            ()         dx = dt2 * t1 + dt1 * cos(x)
    t1 = sin(x)  ()         dt1 = dt2 * x...
    t2 = t1 * x  ()         dt2 = 1.0...
    """
    shown = [node for node in Schedule([output]).nodes if not _is_number(node)]
    differentiable = [node for node in shown if isinstance(node, Node) and node.dtype.kind == "f"]
    start = Input(dims=output.dims, dtype=output.dtype, name="1.0")
    found = pull_back([output], [start], differentiable)
    gradients: dict[BaseNode, Node] = {node: g for node, g in zip(differentiable, found, strict=True) if g is not None}
    whole = Schedule([output, *gradients.values()])
    same = whole.representative
    numbers = iter(range(1, len(shown) + 1))
    names: dict[BaseNode, str] = {}
    taken: set[str] = set()
    for node in shown:
        own = node.name if node.name is not None and node.name not in taken else f"t{next(numbers)}"
        taken.add(own)
        names[same[node]] = own
    texts: dict[BaseNode, str] = {}
    for node in reversed(shown):
        if node in gradients:
            gradient = same[gradients[node]]
            texts[node] = names[gradient] if gradient in names else _written(gradient, names, same)
            names.setdefault(gradient, f"d{names[same[node]]}")
    rows: list[tuple[str, str, str]] = [_TITLES]
    width = max((len(_left(node, names, same)) for node in shown), default=0)
    for node in shown:
        left = f"{_left(node, names, same):<{width}}  {format_dims(node.dims)}"
        right = f"d{names[same[node]]} = {texts[node]}" if node in texts else ""
        rows.append((left, right, "" if node.is_leaf else f"# {node.location} {node.location.source}".rstrip()))
    columns = [min(max(len(row[i]) for row in rows), _WIDEST) for i in range(2)]
    return "\n".join(f"{a:<{columns[0]}}  {b:<{columns[1]}}  {c}".rstrip() for a, b, c in rows)


def _left(node: BaseNode, names: dict[BaseNode, str], same: dict[BaseNode, BaseNode]) -> str:
    return names[same[node]] + ("" if node.is_leaf else f" = {_written(node, names, same)}")


def _is_number(node: BaseNode) -> bool:
    return isinstance(node, Constant) and node.name is None and node.dims == ()


def _written(given: BaseNode, names: dict[BaseNode, str], same: dict[BaseNode, BaseNode]) -> str:
    """Return an op and its operands as an expression; unnamed operands are expanded."""
    node = same[given]
    # An explicit stack, since gradients may be deep; operands come before their op.
    done: dict[BaseNode, Text] = {}
    stack = [(node, False)]
    while stack:
        current, ready = stack.pop()
        known = None if current is node else names.get(current)
        if current in done:
            continue
        if known is not None or current.is_leaf:
            done[current] = known or _number(current), _WORD
        elif ready:
            done[current] = _op(current, [done[parent] for parent in _operands(current, names, same)])
        else:
            stack.append((current, True))
            stack += [(parent, False) for parent in _operands(current, names, same)]
    return done[node][0]


def _operands(node: BaseNode, names: dict[BaseNode, str], same: dict[BaseNode, BaseNode]) -> list[BaseNode]:
    """Return the operands, without a reshape that only prepares broadcasting."""
    operands = [same[parent] for parent in node.parents]
    if node.op_name() == "broadcast_to" and operands[0].op_name() == "reshape" and operands[0] not in names:
        return [same[operands[0].parents[0]]]
    return operands


def _op(node: BaseNode, operands: list[Text]) -> Text:
    kind = node.op_name()
    if kind in _INFIX and len(operands) == 2:
        sign, tight = _INFIX[kind]
        left, right = operands
        # `a - (b - c)` keeps its parentheses, `(a - b) - c` needs none; powers associate to the right.
        after = tight if kind in ("add", "multiply", "power") else tight + 1
        before = tight + 1 if kind == "power" else tight
        return f"{_within(left, before)} {sign} {_within(right, after)}", tight
    if kind == "broadcast_to":  # implicit, as in NumPy
        return operands[0]
    if kind == "negative":
        return f"-{_within(operands[0], _NEGATIVE)}", _NEGATIVE
    given = [(key, value) for key, value in node.attribute_values().items() if value is not None and value is not False]
    attributes = [f"{key}={value!r}" for key, value in given]
    return f"{kind}({', '.join([*(text for text, _ in operands), *attributes])})", _WORD


def _within(text: Text, tight: int) -> str:
    return text[0] if text[1] >= tight else f"({text[0]})"


def _number(leaf: BaseNode) -> str:
    array = stored(leaf).array
    small = array is not None and array.size <= 4
    return leaf.name or (repr(array.tolist()) if array is not None and small else type(leaf).__name__.lower())
