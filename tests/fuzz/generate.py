"""Generating random programs: productions are applied to values that fit, or to new leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

import wyrm as wy
from tests.fuzz.production import OTHER, ROWS, Operand, P, Sizes, Unfit, Value
from tests.fuzz.program import MOST_ROWS, Leaf, Program, Rows, Step, keep_used
from wyrm.graph.axes import Dim

# Larger values make gradients that differ by more than rounding.
LARGEST = 30.0


class Generator:
    """Generates programs of at most `most_steps` steps. `refused` counts why steps were not possible, by production."""

    def __init__(self, productions: Sequence[P], most_steps: int = 7) -> None:
        self.productions, self.most_steps = productions, most_steps
        self.refused: Counter[tuple[str, str]] = Counter()
        self.built: Counter[str] = Counter()

    def program(self, seed: tuple[int, ...]) -> Program:
        """Return the program of a seed."""
        return _Growth(self, np.random.default_rng(seed)).program()


class _Growth:
    """A program while it is generated: its parts, and beside each its node and its value."""

    def __init__(self, generator: Generator, random: np.random.Generator) -> None:
        self.generator, self.random = generator, random
        self.rows = Rows()
        self.is_open = random.random() < 0.4
        self.has_edges = random.random() < 0.2
        self.dtype = np.dtype(np.float64 if random.random() < 0.6 else np.float32)
        self.parts: list[Leaf | Step] = []
        self.nodes: list[Any] = []
        self.values: list[Value] = []

    def program(self) -> Program:
        self.leaf("f", self.sizes(1, 3))
        wanted, attempts = int(self.random.integers(1, self.generator.most_steps + 1)), 0
        while wanted and attempts < 60:
            attempts += 1
            wanted -= self.step()
        consumed = {i for part in self.parts if isinstance(part, Step) for i in part.operands}
        outputs = [i for i, part in enumerate(self.parts) if isinstance(part, Step) and i not in consumed]
        others = [i for i, part in enumerate(self.parts) if isinstance(part, Step) and i in consumed]
        if others and self.random.random() < 0.5:
            outputs.append(int(self.random.choice(others)))
        counts = [0, 1, 2, *self.random.choice(np.arange(3, MOST_ROWS + 1), 2, replace=False).tolist()]
        order = int(self.random.choice([1, 1, 1, 2]))
        program = keep_used(Program(tuple(self.parts), tuple(outputs or [0]), self.dtype, order=order))
        if program.is_open:
            rows = self.random.permutation(counts).tolist() if "draws" not in program.tags else [5]
            program = Program(program.parts, program.outputs, self.dtype, tuple(rows), order)
        return program.with_gradients()

    def step(self) -> bool:
        """Try to apply a production; return whether it was possible."""
        productions = self.generator.productions
        production = productions[int(self.random.integers(len(productions)))]
        if "slow" in production.tags and self.random.random() < 0.5:
            return False
        size = len(self.parts)
        try:
            step = self.arguments(production)
            with np.errstate(all="ignore"):
                node = production.build(**step.arguments([self.nodes[i] for i in step.operands]))
                wy.random.set_step(0)
                array = np.asarray(node.forward())
        except (Unfit, wy.WyrmError, NotImplementedError) as error:
            if not isinstance(error, Unfit):
                self.generator.refused[production.name, f"{type(error).__name__}: {error}".split("\n")[0]] += 1
            self._shorten(size)
            return False
        if array.size > 600 or not (np.isfinite(array).all() and np.abs(array).max(initial=0.0) < LARGEST):
            self._shorten(size)
            return False
        self.generator.built[production.name] += 1
        self._append(step, node, array)
        return True

    def arguments(self, production: P) -> Step:
        """Return an application of a production to values that fit."""
        chosen: dict[str, Any] = {}
        operands: list[int] = []
        options: dict[str, Any] = {}
        for name, need in production.needs.items():
            if isinstance(need, Operand):
                operands.append(self.operand(need, chosen))
                chosen[name] = self.values[operands[-1]]
            else:
                options[name] = chosen[name] = need.draw(self.random, chosen)
        return Step(production, tuple(operands), options)

    def operand(self, need: Operand, chosen: dict[str, Any]) -> int:
        fitting = [i for i, value in enumerate(self.values) if need.accepts(value, chosen)]
        if fitting and self.random.random() < 0.8:
            # Later values are taken more often, which makes deeper programs.
            return int(max(self.random.choice(fitting, 2)))
        high = 5 if need.below is None else need.below(chosen)
        if need.kind == "i" and high < 1:
            raise Unfit
        return self.leaf(need.kind, need.new_dims(self.random, chosen, self.sizes), high)

    def sizes(self, least: int, most: int) -> Sizes:
        """Return random axes."""
        rank = int(self.random.integers(least, min(most, 3, least + 2) + 1)) if least < most else least
        choices = [0, 1, 1, 2, 3] if self.has_edges else [2, 3, 3, 4]
        dims: list[int | str] = [int(size) for size in self.random.choice(choices, rank)]
        if self.is_open and rank and self.random.random() < 0.7:
            dims[0] = ROWS
        return tuple(dims)

    def leaf(self, kind: str, dims: Sizes, high: int = 5) -> int:
        """Append a leaf of random data; return its position. Its digits are few, so that it prints in short."""
        shape = tuple(MOST_ROWS if size == ROWS else int(size) for size in dims)
        random = self.random
        if kind == "f":
            array: np.ndarray = (random.uniform(0.3, 1.7, shape) * random.choice([-1.0, 1.0], shape)).round(3)
        else:
            array = random.integers(0, high, shape) if kind == "i" else random.random(shape) < 0.5
        array = np.asarray(array)
        part = Leaf(dims, array, kind == "f" and ROWS not in dims and bool(random.random() < 0.6))
        node = part.node(self.dtype, self.rows)
        node.set(array.astype(self.dtype) if kind == "f" else array)
        self._append(part, node, array)
        return len(self.parts) - 1

    def _append(self, part: Leaf | Step, node: Any, array: np.ndarray) -> None:
        self.parts.append(part)
        self.nodes.append(node)
        self.values.append(Value(_sizes(node), array))

    def _shorten(self, size: int) -> None:
        """Remove the parts after the first `size` ones: leaves for a step that was not possible."""
        del self.parts[size:], self.nodes[size:], self.values[size:]


def _sizes(node: Any) -> Sizes:
    found: list[int | str] = []
    for dim in node.dims:
        if not isinstance(dim, Dim):
            found.append(int(dim))
        elif dim.size is not None:
            found.append(int(dim.size))
        else:
            found.append(ROWS if isinstance(dim, Rows) else OTHER)
    return tuple(found)
