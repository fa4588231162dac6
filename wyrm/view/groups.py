"""Groups of a graph's nodes: one for each call of a module and for each loop, nested like the calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from wyrm.engines.module_paths import outermost_modules
from wyrm.graph.base import BaseNode
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Input
from wyrm.graph.source_location import ModuleCall
from wyrm.graph.traversal import topological_order
from wyrm.ops.control.scan import Scan, ScanPart

FORWARD, BACKWARD = 0, 1
# Attributes that differ between equal layers: each layer draws other random numbers.
_DRAWS = frozenset(["seed", "stream"])


class Groups:
    """A tree of groups; group 0 is the whole graph, and backward groups mirror the forward ones.

    `of` has the group of each node. The lists have an entry for each group: `names`, `paths`, `kinds` (the modules'
    classes), `parents`, `parts` (forward or backward), and `mirrors`, the group of the same call in the other part. For
    a run of equal siblings, the first group has the length of the run in `repeats`; the others have its number in
    `like`.
    """

    def __init__(self, title: str, unfolded: Unfolded) -> None:
        self._unfolded = unfolded
        self.names: list[str] = [title]
        self.paths: list[str] = [""]
        self.kinds: list[str] = [""]
        self.parents: list[int] = [-1]
        self.parts: list[int] = [FORWARD]
        self.mirrors: list[int] = [-1]
        self.like: list[int] = [-1]
        self.repeats: list[int] = [1]
        self.of: dict[BaseNode, int] = {}
        self._depths = [0]
        # By call, part, and the loop whose body the call is in.
        self._by_call: dict[tuple[ModuleCall | None, int, BaseNode | None], int] = {(None, FORWARD, None): 0}

    def add(self, nodes: Sequence[BaseNode], part: int, title: str = "") -> None:
        """Put the nodes, parents first, into the groups of their calls, and leaves into those of their users."""
        if not nodes:
            return
        if part == BACKWARD:
            self._by_call[None, BACKWARD, None] = self._append(title, "", "", 0, BACKWARD)
        users: dict[BaseNode, int] = {}
        # Placeholders are leaves, and lie in the groups of their loops.
        leaves = {node for node in nodes if node.is_leaf and node not in self._unfolded.roles}
        for node in nodes:
            if node in leaves:
                continue
            group = self.of[node] = self._group_of(node, part)
            for parent in self._unfolded.parents(node):
                if parent in leaves:
                    users[parent] = self._common(users[parent], group) if parent in users else group
        root = self._by_call[None, part, None]
        for node in nodes:
            if node in leaves:
                self.of[node] = root if isinstance(node, Input | IndexInput) else users.get(node, root)

    def _append(self, name: str, path: str, kind: str, parent: int, part: int) -> int:
        self.names.append(name)
        self.paths.append(path)
        self.kinds.append(kind)
        self.parents.append(parent)
        self.parts.append(part)
        self.mirrors.append(-1)
        self.like.append(-1)
        self.repeats.append(1)
        self._depths.append(self._depths[parent] + 1)
        return len(self.names) - 1

    def _group_of(self, node: BaseNode, part: int) -> int:
        """Return the group of a node; create it, and those around it, if they do not exist yet."""
        loop = self._unfolded.loops.get(node)
        call: ModuleCall | None = node.origin[2]
        if loop is not None and (None, part, loop) not in self._by_call:
            around = self._group_of(loop, part)
            group = self._append(op_name(loop), self.paths[around], describe_steps(loop), around, part)
            self._by_call[None, part, loop] = self._by_call[loop.origin[2], part, loop] = group
        missing = []
        while (call, part, loop) not in self._by_call:
            assert call is not None  # the group of the whole graph, or of the loop, exists
            missing.append(call)
            call = call.outer
        group = self._by_call[call, part, loop]
        for inner in reversed(missing):
            group = self._append(inner.name or inner.kind, inner.path, inner.kind, group, part)
            self._by_call[inner, part, loop] = group
            twin = self._by_call.get((inner, 1 - part, loop), -1)
            if twin >= 0:
                self.mirrors[group], self.mirrors[twin] = twin, group
        return group

    def _common(self, first: int, second: int) -> int:
        """Return the innermost group that holds both."""
        while first != second:
            if self._depths[first] < self._depths[second]:
                first, second = second, first
            first = self.parents[first]
        return first

    def find_runs(self, nodes: Sequence[BaseNode], description: Callable[[BaseNode], object]) -> None:
        """Fill `like` and `repeats`; `description` returns the axes and dtype of a node, which equal layers share."""
        inside: list[list[BaseNode]] = [[] for _ in self.names]
        children: list[dict[int, None]] = [{} for _ in self.names]
        for node in nodes:
            group = self.of[node]
            while group > 0:
                inside[group].append(node)
                children[self.parents[group]].setdefault(group)
                group = self.parents[group]
        forms = [self._form(group, members, description) if group else None for group, members in enumerate(inside)]
        for siblings in children:
            first = -1
            for group in siblings:
                if first >= 0 and self.kinds[group] == self.kinds[first] and forms[group] == forms[first]:
                    self.like[group] = first
                    self.repeats[first] += 1
                else:
                    first = group

    def _form(self, group: int, members: list[BaseNode], description: Callable[[BaseNode], object]) -> object:
        """Return a value that is equal for groups of the same operations, axes and edges."""
        positions = {node: position for position, node in enumerate(members)}
        outside: dict[BaseNode, int] = {}
        base = len(self.paths[group])
        return [
            (
                type(node),
                description(node),
                self.paths[self.of[node]][base:],
                [
                    positions[x] if x in positions else -1 - outside.setdefault(x, len(outside))
                    for x in self._unfolded.parents(node)
                ],
                plain_attributes(node, _DRAWS),
            )
            for node in members
        ]


def paths_of_parameters(nodes: Sequence[BaseNode]) -> dict[BaseNode, str]:
    """Return the paths of parameters in the outermost modules that built nodes, if these modules still exist."""
    paths: dict[BaseNode, str] = {}
    for module in outermost_modules(nodes):
        with suppress(ValueError):  # two of its parameters have the same path
            for path, parameter in module.named_parameters():
                # As in the paths of modules.
                paths.setdefault(parameter, re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", path))
    return paths


def plain_attributes(node: BaseNode, without: frozenset[str] = frozenset()) -> list[tuple[str, object]]:
    """Return the static attributes that are numbers, words, or tuples of them."""
    return [(key, value) for key in node.attributes if key not in without and _is_plain(value := getattr(node, key))]


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return len(value) <= 8 and all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str | slice)


class Unfolded:
    """Nodes in order of computation, with the nodes of a loop's body before the loop.

    The placeholder of a carry or a row has the operand that it stands for as its parent. Other operands of a loop,
    which are the same in each step, replace their placeholders. A loop has the results of its body as parents. `loops`
    maps each node of a body to the innermost loop, and `roles` maps placeholders to "carry" or "row".
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
        # The body of a loop's gradient reads nodes of the loop's own body, which are known.
        order = topological_order(steps.body.outputs, known=self._seen)
        if all(node.is_leaf for node in order):
            return []  # another loop has the same body, such as one that a gradient recomputes
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


def op_name(node: BaseNode) -> str:
    """Return the name of a node's operation; of a loop, that of the function that the user called.

    >>> x = wy.Input(name="x")
    >>> chosen = wy.cond(x > 0.0, lambda x: x * 2.0, lambda x: x.sin(), x)
    >>> sorted({op_name(node) for node in topological_order([chosen])} - {"input", "cast", "constant"})
    ['broadcast_to', 'cond', 'cond_part', 'greater', 'logical_not']
    """
    if isinstance(node, Scan):
        return node.steps.written_as
    if isinstance(node, ScanPart) and isinstance(node.parents[0], Scan):
        return f"{node.parents[0].steps.written_as}_part"
    return node.op_name()


def describe_steps(loop: Scan) -> str:
    """Return the number of steps of a loop as text; a branch is a loop of at most one."""
    steps = loop.steps
    if steps.written_as in ("cond", "switch"):
        return "where its condition holds"
    if steps.written_as == "vmap":
        return steps.count.replace("steps", "rows")
    if not steps.keeps:
        return "steps while a condition holds"
    return f"{'up to ' if steps.stops or steps.limited else ''}{steps.count}{', last first' * steps.reverse}"
