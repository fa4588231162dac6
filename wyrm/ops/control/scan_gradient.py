"""The backward pass of a loop: a loop over the steps in reverse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wyrm.graph.base import ZERO, BaseNode, Zero
from wyrm.graph.node import Node
from wyrm.graph.shapes import number_of_elements
from wyrm.graph.traversal import topological_order
from wyrm.ops.control.loop_body import Iteration, LoopBody, closure_convert
from wyrm.ops.elementwise.arithmetic import Add
from wyrm.ops.gradients.accumulation import composite_vjps
from wyrm.ops.products.product import MatMul
from wyrm.ops.shaping.shape import Reshape, zeros_like
from wyrm.ops.shaping.transpose import Transpose
from wyrm.ops.subgraph import placeholder_like

if TYPE_CHECKING:
    from wyrm.ops.control.scan import Scan


def reversed_loop(scan: Scan, cotangents: Sequence[Any], wanted: Sequence[BaseNode]) -> list[Node | Zero]:
    """Return the gradients with respect to the parents after the limit, `ZERO` for those not in `wanted`.

    `wanted` holds inputs of the body. `cotangents` are the gradients with respect to the parts of the residuals, or
    None. The new loop carries the gradients with respect to the carries. Its sequences are the residuals of the
    forward loop, so it recomputes none of these.
    """
    steps, inputs, count = scan.steps, scan.steps.body.inputs, scan.steps.carried
    carried, rest = inputs[:count], inputs[count:]
    sequences, invariant_inputs = rest[: steps.sequences], rest[steps.sequences :]
    stacked_outputs = steps.outputs[count : len(steps.outputs) - steps.summed]
    parent = dict(zip(inputs, scan.parents[steps.limited :], strict=True))
    carry_gradients = [placeholder_like(x, x.dims, f"gradient of {x.name}") for x in carried]
    # The placeholders of one row each, with the stacked nodes.
    rows: dict[BaseNode, BaseNode] = {x: scan.before(i) for i, x in enumerate(carried)} | {
        x: parent[x] for x in sequences
    }

    def row_of(whole: BaseNode, x: BaseNode, name: str) -> Node:
        row: Node = placeholder_like(x, x.dims, name)
        rows[row] = whole
        return row

    stacked_cotangents = [
        None if cotangent is None else row_of(cotangent, x, "gradient of an output")
        for x, cotangent in zip(stacked_outputs, cotangents[2 * count :], strict=False)
    ]
    # The gradient with respect to a sum is the same in all steps.
    sum_cotangents = cotangents[2 * count + len(stacked_outputs) :][: steps.summed]
    all_cotangents = zip(steps.outputs, [*carry_gradients, *stacked_cotangents, *sum_cotangents], strict=True)
    pairs = [(x, cotangent) for x, cotangent in all_cotangents if cotangent is not None]
    outputs, output_cotangents = [x for x, _ in pairs], [cotangent for _, cotangent in pairs]
    differentiated = {*carried, *(x for x in wanted if x.dtype.kind == "f")}
    numbers = [x for x in inputs if x in differentiated]
    step_gradients = dict(zip(numbers, composite_vjps(outputs, output_cotangents, numbers), strict=True))
    next_carries = []
    for i, x in enumerate(carried):
        history_cotangent = cotangents[steps.history_of(i)]
        if history_cotangent is not None:  # the values before each step are a part of the residuals as well
            row = row_of(history_cotangent, x, f"gradient of the history of {x.name}")
            step_gradients[x] = row if step_gradients[x] is ZERO else step_gradients[x] + row
        next_carries.append(zeros_like(x) if step_gradients[x] is ZERO else step_gradients[x])
    sequence_gradients = {x: step_gradients[x] for x in sequences if step_gradients.get(x, ZERO) is not ZERO}
    known = {x: row_of(whole, x, "result") for x, whole in _results(scan, numbers).items()}
    # Gradients with respect to loop invariants are sums over steps; sums of matrix products become one product outside.
    totals = {x: step_gradients[x] for x in invariant_inputs if step_gradients.get(x, ZERO) is not ZERO}
    products = {x: terms for x, total in totals.items() if (terms := _products(total))}
    sums = {x: total for x, total in totals.items() if x not in products}
    needed = [factor for terms in products.values() for pair in terms for factor in pair]
    factors = list(dict.fromkeys(factor for factor in needed if _row(factor, rows) is None))
    body_outputs = [*next_carries, *sequence_gradients.values(), *factors, *sums.values()]
    own = [*carry_gradients, *rows, *invariant_inputs]
    outside, placeholders, computed = closure_convert(body_outputs, own, known=known)
    used = set(topological_order(computed))
    back_sequences = {x: whole for x, whole in rows.items() if x in used}
    invariants = {x: parent[x] for x in invariant_inputs if x in used} | {
        x: y for x, y in zip(placeholders, outside, strict=True) if x in used
    }
    back = Iteration(
        LoopBody([*carry_gradients, *back_sequences, *invariants], computed),
        steps.time,
        count,
        len(back_sequences),
        summed=len(sums),
        reverse=not steps.reverse,
        limited=steps.limited or steps.stops,
        written_as=steps.written_as,
    )
    limit = [scan.steps_done] if steps.stops else list(scan.parents[: steps.limited])
    last_cotangents = [cotangents[steps.last_of(i)] for i in range(count)]
    init = [zeros_like(x) if last is None else last for x, last in zip(carried, last_cotangents, strict=True)]
    # No loop remains if all gradients are zero or products of stored values.
    result: Any = (
        type(scan)(back, *limit, *init, *back_sequences.values(), *invariants.values()) if body_outputs else None
    )
    gradients: dict[BaseNode, Node] = {x: result.last(i) for i, x in enumerate(carried)}
    parts = (result.output(number) for number in range(len(sequence_gradients) + len(factors) + len(sums)))
    gradients |= {x: next(parts) for x in sequence_gradients}
    stacked = {factor: next(parts) for factor in factors}
    gradients |= {x: next(parts) for x in sums}
    for x, terms in products.items():
        gradients[x] = _summed_products(terms, stacked, rows)
    return [gradients.get(x, ZERO) for x in inputs]


def _results(scan: Scan, numbers: Sequence[BaseNode]) -> dict[BaseNode, BaseNode]:
    """Return the per-step results that the forward loop already stored, among those that depend on `numbers`.

    A limited forward loop stores its last carry also in the row of the history after its last step. The backward pass
    ignores the cotangent of that row, so second-order gradients would be wrong with `after` of such a loop.
    """
    steps, inputs = scan.steps, set(scan.steps.body.inputs)
    dependent: set[BaseNode] = set(numbers)
    for node in topological_order(steps.outputs):
        if not dependent.isdisjoint(node.parents):
            dependent.add(node)
    stored: dict[BaseNode, BaseNode] = {}
    for position, x in enumerate(steps.outputs[: len(steps.outputs) - steps.summed]):
        if x in inputs or x not in dependent or x in stored:
            continue
        if position >= steps.carried:
            stored[x] = scan.output(position - steps.carried)
        elif steps.reverse or not steps.limited:
            stored[x] = scan.after(position)
    return stored


def _products(total: Node) -> list[list[Node]]:
    """Return the pairs [x, y] of a sum of matrix products `x.T @ y`, or an empty list for any other node."""
    terms, stack = [], [total]
    while stack:
        node = stack.pop()
        if isinstance(node, Add):
            stack += node.parents
        elif isinstance(node, MatMul) and node.parents[0].ndim == node.parents[1].ndim == 2:
            left, right = node.parents
            transposed = left.parents[0] if isinstance(left, Transpose) else Transpose(left, (1, 0))
            terms.append([transposed, right])
        else:
            return []
    return terms


def _row(node: BaseNode, rows: Mapping[BaseNode, BaseNode]) -> Any:
    """Return the node whose rows are this factor of all steps, perhaps reshaped; None if only the loop computes it."""
    while (isinstance(node, Reshape) or node.same_value) and node not in rows:
        node = node.parents[0]
    return rows.get(node)


def _summed_products(
    terms: Sequence[Sequence[Node]], stacked: Mapping[Node, Node], rows: Mapping[BaseNode, BaseNode]
) -> Any:
    """Return the sum over steps of matrix products, as one product of the stacked factors for each term."""
    total: Any = None
    for term in terms:
        flat = []
        for factor in term:
            whole = stacked[factor] if factor in stacked else _row(factor, rows)
            flat.append(Reshape(whole, (number_of_elements((whole.dims[0], factor.dims[0])), factor.dims[1])))
        left, right = flat
        product = MatMul(Transpose(left, (1, 0)), right)
        total = product if total is None else total + product
    return total
