"""The description of a loop inside the graph, and the layout of its residuals."""

from __future__ import annotations

import math
from functools import cached_property
from itertools import accumulate

from wyrm.graph.axes import Axis, Dims, axis_size
from wyrm.graph.node import Node
from wyrm.ops.control.loop_body import LoopBody

# The length of an unbounded loop, which stores no residuals.
ENDLESS = 2**62


class Steps:
    """The body of a loop, the number of its steps, and the roles of its inputs and outputs.

    The inputs of `body` are the carries, a row of each sequence, and the loop invariants. Its outputs are the next
    carries, outputs to stack, outputs to sum, and if the loop `stops`, a mask: whether to continue.
    """

    def __init__(
        self,
        body: LoopBody,
        time: Axis,
        carried: int,
        sequences: int,
        *,
        summed: int = 0,
        reverse: bool = False,
        limited: bool = False,
        stops: bool = False,
    ) -> None:
        self.body, self.time, self.carried, self.sequences = body, time, carried, sequences
        self.summed, self.reverse, self.stops = summed, reverse, stops
        # Whether the first parent is the number of steps to run, at most `length`.
        self.limited = limited

    def __repr__(self) -> str:
        count = f"{self.length:,} steps" if self.keeps else "steps"
        return f"<{count}{' backwards' if self.reverse else ''} of {self.body}>"

    @property
    def length(self) -> int:
        """The largest number of steps."""
        return axis_size(self.time) or 0

    @property
    def keeps(self) -> bool:
        """Whether the residuals hold the carries before each step, and not only after the last."""
        return self.length < ENDLESS

    @property
    def outputs(self) -> tuple[Node, ...]:
        """The outputs of the body without the mask."""
        return self.body.outputs[: -1 if self.stops else None]

    @cached_property
    def axes(self) -> list[Dims]:
        """The axes of the parts of the residuals: two parts for each carry, then one for each other output.

        The values of a carry before each step and after the last are adjacent, in the order of the time axis.
        """
        parts: list[Dims] = []
        for position, output in enumerate(self.outputs):
            if position < self.carried:
                before: Dims = (self.time if self.keeps else 0, *output.dims)
                parts += [output.dims, before] if self.reverse else [before, output.dims]
            elif position < len(self.outputs) - self.summed:
                parts.append((self.time, *output.dims))
            else:
                parts.append(output.dims)
        return [*parts, ()] if self.stops else parts

    def history_of(self, carry: int) -> int:
        """Return the number of the part with the values of a carry before each step."""
        return 2 * carry + self.reverse

    def last_of(self, carry: int) -> int:
        """Return the number of the part with a carry after the last step."""
        return 2 * carry + 1 - self.reverse

    @cached_property
    def starts(self) -> list[int]:
        """The offset of each part, and the total size."""
        return [0, *accumulate(size_of(axes) for axes in self.axes)]


def size_of(dims: Dims) -> int:
    """Return the number of elements of a part of the residuals."""
    return math.prod(axis_size(axis) or 0 for axis in dims)
