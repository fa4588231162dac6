"""The bodies of the loops in a graph, as nodes of the graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wyrm.graph.base import BaseNode
from wyrm.graph.traversal import topological_order
from wyrm.ops.control.scan import Scan


class Unfolded:
    """Nodes in order of computation, with those of the bodies of loops before each loop.

    The placeholder of a carry or a row has the operand that it stands for as its parent. Other operands of a loop,
    which are the same in each step, replace their placeholders. A loop has the results of its body as parents. `loops`
    has the innermost loop around each node of a body, and `roles` says what a placeholder stands for.
    """

    def __init__(self) -> None:
        self.loops: dict[BaseNode, Scan] = {}
        self.roles: dict[BaseNode, str] = {}
        self._parents: dict[BaseNode, tuple[BaseNode, ...]] = {}
        self._operands: dict[BaseNode, BaseNode] = {}  # by placeholder
        self._seen: set[BaseNode] = set()

    def parents(self, node: BaseNode) -> Sequence[BaseNode]:
        """Return the nodes that a node is computed from."""
        own: tuple[BaseNode, ...] = node.parents
        return [self._operand(parent) for parent in self._parents.get(node, own)]

    def _operand(self, node: BaseNode) -> BaseNode:
        while node in self._operands:
            node = self._operands[node]
        return node

    def add(self, order: Iterable[BaseNode], loop: Scan | None = None) -> list[BaseNode]:
        """Return nodes, parents first, with the bodies of their loops."""
        nodes: list[BaseNode] = []
        for node in order:
            if node in self._seen:
                continue  # a constant that a body and the graph around it use
            if isinstance(node, Scan):
                nodes += self._body(node)
            if loop is not None:
                self.loops[node] = loop
            self._seen.add(node)
            nodes.append(node)
        return nodes

    def _body(self, loop: Scan) -> list[BaseNode]:
        steps, operands = loop.steps, loop.parents[loop.steps.limited :]
        inputs = dict(zip(steps.body.inputs, operands, strict=True))
        # The body of a gradient reads nodes of the body that it differentiates.
        order = topological_order(steps.body.outputs, known=self._seen)
        if all(node.is_leaf for node in order):
            return []  # another loop has the same body, as a loop that a gradient computes again
        own = set(order)
        for number, (placeholder, operand) in enumerate(inputs.items()):
            if placeholder not in own:
                continue
            if number < steps.carried + steps.sequences:
                self.roles[placeholder] = "carry" if number < steps.carried else "row"
                self._parents[placeholder] = (operand,)
            else:
                self._operands[placeholder] = operand
        direct = [operand for placeholder, operand in inputs.items() if placeholder not in own]
        self._parents[loop] = (*loop.parents[: steps.limited], *direct, *steps.body.outputs)
        return self.add([node for node in order if node not in self._operands], loop)


def describe_steps(loop: Scan) -> str:
    """Return the number of steps of a loop, as far as it is known."""
    steps = loop.steps
    if not steps.keeps:
        return "steps while a condition holds"
    return f"{'up to ' if steps.stops or steps.limited else ''}{steps.length:,} steps{', last first' * steps.reverse}"
