"""The reverse mode of a loop: a loop through the steps the other way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wyrm.node.base import ZERO, BaseNode, Zero
from wyrm.node.node import Node
from wyrm.node.traversal import topological_order
from wyrm.ops.arithmetic import Add
from wyrm.ops.composite_gradient import composite_vjps
from wyrm.ops.loop_body import LoopBody, closure_convert, placeholder_like
from wyrm.ops.product import MatMul
from wyrm.ops.shape import Reshape, Transpose, zeros_like
from wyrm.ops.steps import Steps

if TYPE_CHECKING:
    from wyrm.ops.scan import Scan


def reversed_loop(scan: Scan, weights: Sequence[Any], wanted: Sequence[BaseNode]) -> list[Node | Zero]:
    """The gradients by the parents but the limit, of those that the `wanted` inputs of the body stand for.

    `weights` are the gradients by the parts of the tape, None for what has none. The loop carries the gradients by what
    was carried, and is given what the steps were given and what they made: that need not be computed again.
    """
    steps, inputs, count = scan.steps, scan.steps.body.inputs, scan.steps.carried
    carried, rest = inputs[:count], inputs[count:]
    sequences, same = rest[: steps.sequences], rest[steps.sequences :]
    made = steps.outputs[count : len(steps.outputs) - steps.summed]
    parent = dict(zip(inputs, scan.parents[steps.limited :], strict=True))
    coming = [placeholder_like(x, x.dims, f"gradient of {x.name}") for x in carried]
    rows: dict[BaseNode, BaseNode] = {x: scan.before(i) for i, x in enumerate(carried)} | {
        x: parent[x] for x in sequences
    }

    def row_of(whole: BaseNode, x: BaseNode, name: str) -> Node:
        row: Node = placeholder_like(x, x.dims, name)
        rows[row] = whole
        return row

    by_made = [
        None if weight is None else row_of(weight, x, "gradient of what is made")
        for x, weight in zip(made, weights[2 * count :], strict=False)
    ]
    # A sum has one gradient in all steps.
    by_sums = weights[2 * count + len(made) :][: steps.summed]
    weighted = zip(steps.outputs, [*coming, *by_made, *by_sums], strict=True)
    pairs = [(x, weight) for x, weight in weighted if weight is not None]
    outputs, by_outputs = [x for x, _ in pairs], [weight for _, weight in pairs]
    by = {*carried, *(x for x in wanted if x.dtype.kind == "f")}
    numbers = [x for x in inputs if x in by]
    found = dict(zip(numbers, composite_vjps(outputs, by_outputs, numbers), strict=True))
    going = []
    for i, x in enumerate(carried):
        kept = weights[steps.history_of(i)]
        if kept is not None:  # what a step was given is a part of the tape as well
            row = row_of(kept, x, f"gradient of what {x.name} was")
            found[x] = row if found[x] is ZERO else found[x] + row
        going.append(zeros_like(x) if found[x] is ZERO else found[x])
    each = {x: found[x] for x in sequences if found.get(x, ZERO) is not ZERO}
    known = {x: row_of(whole, x, "result") for x, whole in _results(scan, numbers).items()}
    # By what is the same in all steps the gradients are summed: of products of matrices by one product outside.
    totals = {x: found[x] for x in same if found.get(x, ZERO) is not ZERO}
    products = {x: terms for x, total in totals.items() if (terms := _products(total))}
    sums = {x: total for x, total in totals.items() if x not in products}
    needed = [factor for terms in products.values() for pair in terms for factor in pair]
    factors = list(dict.fromkeys(factor for factor in needed if _row(factor, rows) is None))
    wholes = [*going, *each.values(), *factors, *sums.values()]
    own = [*coming, *rows, *same]
    outside, stand, computed = closure_convert(wholes, own, known=known)
    used = set(topological_order(computed))
    along = {x: whole for x, whole in rows.items() if x in used}
    fixed = {x: parent[x] for x in same if x in used} | {x: y for x, y in zip(stand, outside, strict=True) if x in used}
    back = Steps(
        LoopBody([*coming, *along, *fixed], computed),
        steps.time,
        count,
        len(along),
        summed=len(sums),
        reverse=not steps.reverse,
        limited=steps.limited or steps.stops,
    )
    limit = [scan.done] if steps.stops else list(scan.parents[: steps.limited])
    last = [zeros_like(x) if weights[steps.last_of(i)] is None else weights[steps.last_of(i)]
            for i, x in enumerate(carried)]  # fmt: skip
    # Where all gradients are zero, or products of what is there already, no loop is left.
    result: Any = type(scan)(back, *limit, *last, *along.values(), *fixed.values()) if wholes else None
    gradients: dict[BaseNode, Node] = {x: result.last(i) for i, x in enumerate(carried)}
    parts = (result.made(number) for number in range(len(each) + len(factors) + len(sums)))
    gradients |= {x: next(parts) for x in each}
    stacked = {factor: next(parts) for factor in factors}
    gradients |= {x: next(parts) for x in sums}
    for x, terms in products.items():
        gradients[x] = _summed_products(terms, stacked, rows)
    return [gradients.get(x, ZERO) for x in inputs]


def _results(scan: Scan, numbers: Sequence[BaseNode]) -> dict[BaseNode, BaseNode]:
    """What the steps made of the inputs that are differentiated by, as the tape has it for each of the steps.

    After the last of a limited number of steps the tape has what is carried where no gradient by it would be read.
    """
    steps, inputs = scan.steps, set(scan.steps.body.inputs)
    made: set[BaseNode] = set(numbers)
    for node in topological_order(steps.outputs):
        if not made.isdisjoint(node.parents):
            made.add(node)
    found: dict[BaseNode, BaseNode] = {}
    for position, x in enumerate(steps.outputs[: len(steps.outputs) - steps.summed]):
        if x in inputs or x not in made or x in found:
            continue
        if position >= steps.carried:
            found[x] = scan.made(position - steps.carried)
        elif steps.reverse or not steps.limited:
            found[x] = scan.after(position)
    return found


def _products(total: Node) -> list[list[Node]]:
    """The factors of a sum of products of matrices, each with the axis that is summed over first; none for others."""
    terms, stack = [], [total]
    while stack:
        node = stack.pop()
        if isinstance(node, Add):
            stack += node.parents
        elif isinstance(node, MatMul) and node.parents[0].ndim == node.parents[1].ndim == 2:
            left, right = node.parents
            turned = left.parents[0] if isinstance(left, Transpose) else Transpose(left, (1, 0))
            terms.append([turned, right])
        else:
            return []
    return terms


def _row(node: BaseNode, rows: Mapping[BaseNode, BaseNode]) -> Any:
    """What a factor is a row of, in other axes; None where it has to be computed."""
    while (isinstance(node, Reshape) or node.same_value) and node not in rows:
        node = node.parents[0]
    return rows.get(node)


def _summed_products(
    terms: Sequence[Sequence[Node]], stacked: Mapping[Node, Node], rows: Mapping[BaseNode, BaseNode]
) -> Any:
    """The sum over steps of products of matrices, as one product of what they are made of."""
    total: Any = None
    for term in terms:
        flat = []
        for factor in term:
            whole = stacked[factor] if factor in stacked else _row(factor, rows)
            flat.append(Reshape(whole, (whole.shape[0] * factor.shape[0], factor.dims[1])))
        left, right = flat
        product = MatMul(Transpose(left, (1, 0)), right)
        total = product if total is None else total + product
    return total
