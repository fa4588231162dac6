"""Random programs: leaves and steps, the graphs that they build, and their Python source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import wyrm as wy
from tests.fuzz.production import ROWS, Operand, P, Sizes, literal
from wyrm.errors import NotDifferentiable
from wyrm.graph.traversal import topological_order

# The most rows of an open axis.
MOST_ROWS = 13


class Rows(wy.Dim): ...


@dataclass(frozen=True, eq=False)
class Leaf:
    """A leaf, and its data for `MOST_ROWS` rows; a run with fewer rows takes the first ones."""

    dims: Sizes
    array: np.ndarray
    parameter: bool = False

    def data(self, rows: int) -> np.ndarray:
        return self.array[tuple(slice(rows) if size == ROWS else slice(None) for size in self.dims)]

    def node(self, dtype: np.dtype[Any], rows: Any) -> Any:
        """Return the leaf; `rows` is its open axis, or a number of rows."""
        dims = tuple(rows if size == ROWS else size for size in self.dims)
        if self.parameter:
            return wy.Parameter(self.array.astype(dtype))
        if self.array.dtype.kind == "i":
            return wy.IndexInput(dims=dims)
        return wy.Input(dims=dims, dtype=np.bool_ if self.array.dtype.kind == "b" else dtype)


@dataclass(frozen=True, eq=False)
class Step:
    """A production applied to earlier parts of the program, by position."""

    production: P
    operands: tuple[int, ...]
    options: Mapping[str, Any]

    def arguments(self, operands: Sequence[Any]) -> dict[str, Any]:
        """Return the arguments of `build`, given the operands."""
        names = [name for name, need in self.production.needs.items() if isinstance(need, Operand)]
        return {**dict(zip(names, operands, strict=True)), **self.options}


class Graph:
    """The nodes of a program: one for each part, and the outputs with their gradients.

    A gradient is that of the sum of y * sin(y) over the elements of the outputs: the sum of the elements, and that of
    their squares, are the same for all operands of a softmax or a normalization.
    """

    def __init__(self, program: Program, rows: Any, noise: Noise | None = None) -> None:
        self.nodes: list[Any] = []
        self.leaves: dict[Any, Leaf] = {}
        for part in program.parts:
            if isinstance(part, Leaf):
                node = part.node(program.dtype, rows)
                self.leaves[node] = part
            else:
                operands = [self.nodes[i] for i in part.operands]
                if noise is not None:
                    operands = [noise.on(node) if node.dtype.kind == "f" else node for node in operands]
                node = part.production.build(**part.arguments(operands))
            self.nodes.append(node)
        values = [self.nodes[i] for i in program.outputs]
        self.names = [f"output {i}" for i in program.outputs]
        self.outputs: list[Any] = list(values)
        level = [node for node in values if node.dtype.kind == "f"]
        places = [i for i, part in enumerate(program.parts) if isinstance(part, Leaf) and part.array.dtype.kind == "f"]
        wrt = [self.nodes[i] for i in places]
        for order in range(1, program.order + 1):
            if not level or not wrt:
                break
            loss = sum((node * node.sin()).sum() for node in level)
            level = list(wy.grad(loss, wrt, allow_unused=True))
            self.outputs += level
            self.names += [f"gradient of order {order} by leaf {i}" for i in places]
        # Those that the outputs depend on: the value of x ** 0 does not depend on x.
        self._inputs = {node for node in topological_order(self.outputs) if node in self.leaves} - {
            node for node, leaf in self.leaves.items() if leaf.parameter
        }

    def feed(self, rows: int) -> dict[Any, np.ndarray]:
        """Set the leaves to the data for a number of rows; return the data of the inputs."""
        data = {}
        for node, leaf in self.leaves.items():
            array = leaf.data(rows)
            if array.dtype.kind == "f":
                array = array.astype(node.dtype)
            node.set(array)
            if node in self._inputs:
                data[node] = array
        return data


class Noise:
    """Factors close to 1, one for each use of a float value."""

    def __init__(self, seed: int, size: float) -> None:
        self._random, self._size = np.random.default_rng(seed), size

    def on(self, node: Any) -> Any:
        """Return a node of a known shape, changed by noise."""
        signs = self._random.choice([-1.0, 1.0], node.shape)
        factors = 1.0 + self._size * signs * self._random.uniform(0.5, 1.0, node.shape)
        return node * wy.Constant(factors.astype(node.dtype))


@dataclass(frozen=True, eq=False)
class Program:
    """Leaves and steps, the positions of the outputs, and the numbers of rows that one program is run with.

    `order` is the highest order of the gradients that are among the outputs.
    """

    parts: tuple[Leaf | Step, ...]
    outputs: tuple[int, ...]
    dtype: np.dtype[Any]
    rows: tuple[int, ...] = (3,)
    order: int = 1

    @property
    def is_open(self) -> bool:
        return any(isinstance(part, Leaf) and ROWS in part.dims for part in self.parts)

    @property
    def tags(self) -> frozenset[str]:
        return frozenset().union(*(part.production.tags for part in self.parts if isinstance(part, Step)))

    def graph(self, rows: int | None = None, noise: Noise | None = None) -> Graph:
        """Return the graph for a number of rows; None leaves that axis open."""
        return Graph(self, Rows() if rows is None else rows, noise)

    def with_gradients(self) -> Program:
        """Return the program with the highest order of gradients, up to its own, that its ops have."""
        for order in range(self.order, 0, -1):
            try:
                Graph(replace(self, order=order), Rows())
            except NotDifferentiable:
                continue
            return replace(self, order=order)
        return replace(self, order=0)

    def source(self, engine: str, rows: int, tolerance: float) -> str:
        """Return Python that compares an engine with the reference engine on this program."""
        lines = ["import numpy as np", "import wyrm as wy", ""]
        if self.is_open:
            lines += ["class Rows(wy.Dim): ...", "rows = Rows()"]
        names, leaves, data = [f"v{i}" for i in range(len(self.parts))], [], []
        graph = self.graph()
        fed = set(graph.feed(rows))
        for name, part, node in zip(names, self.parts, graph.nodes, strict=True):
            if isinstance(part, Step):
                arguments = part.arguments([names[i] for i in part.operands])
                arguments |= {key: literal(value) for key, value in part.options.items()}
                lines.append(f"{name} = {part.production.source(arguments)}")
                continue
            lines.append(f"{name} = {self._leaf_source(part)}")
            if node in fed:
                data.append(f"{name}: {literal(part.data(rows))}")
            if part.array.dtype.kind == "f":
                leaves.append(name)
        values = [names[i] for i in self.outputs]
        lines.append(f"outputs = [{', '.join(values)}]")
        if self.order and leaves:
            lines.append("level = [node for node in outputs if node.dtype.kind == 'f']")
        for _ in range(self.order if leaves else 0):
            lines.append("loss = sum((node * node.sin()).sum() for node in level)")
            lines.append(f"level = wy.grad(loss, [{', '.join(leaves)}], allow_unused=True)")
            lines.append("outputs += level")
        lines += [f"data = {{{', '.join(data)}}}", "for leaf, array in data.items():", "    leaf.set(array)"]
        lines += ["wy.random.set_step(0)"] if "draws" in self.tags else []
        lines += ["expected = wy.run(outputs)", f"found = wy.compile(outputs, engine={engine!r})(data)"]
        lines += ["for want, have in zip(expected, found):", "    largest = max(1, abs(want).max(initial=0))"]
        lines += [f"    np.testing.assert_allclose(have, want, rtol=0, atol={tolerance:.1e} * largest)"]
        return "\n".join(lines) + "\n"

    def _leaf_source(self, leaf: Leaf) -> str:
        if leaf.parameter:
            return f"wy.Parameter(np.array({leaf.array.tolist()}, np.{self.dtype}).reshape({leaf.array.shape}))"
        dims = "".join(f"{size}, " for size in leaf.dims)
        if leaf.array.dtype.kind == "i":
            return f"wy.IndexInput(dims=({dims}))"
        return f"wy.Input(dims=({dims}), dtype=np.{'bool_' if leaf.array.dtype.kind == 'b' else self.dtype})"


def used(parts: Sequence[Leaf | Step], outputs: Sequence[int]) -> list[int]:
    """Return the positions of the parts that the outputs depend on, in order."""
    needed = set(outputs)
    for i in range(len(parts) - 1, -1, -1):
        part = parts[i]
        if i in needed and isinstance(part, Step):
            needed.update(part.operands)
    return sorted(needed)


def keep_used(program: Program) -> Program:
    """Return the program without the parts that no output depends on."""
    kept = used(program.parts, program.outputs)
    position = {old: new for new, old in enumerate(kept)}
    parts = [program.parts[i] for i in kept]
    moved = [
        part if isinstance(part, Leaf) else replace(part, operands=tuple(position[i] for i in part.operands))
        for part in parts
    ]
    return replace(program, parts=tuple(moved), outputs=tuple(position[i] for i in program.outputs))
