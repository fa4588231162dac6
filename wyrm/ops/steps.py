"""What a loop inside the graph does, step by step."""

from __future__ import annotations

import math
from functools import cached_property
from itertools import accumulate

from wyrm.node.node import Node
from wyrm.ops.loop_body import LoopBody
from wyrm.types.dims import Axis, Dims, axis_size

# The steps of a loop that may go on for ever, in which nothing is kept.
ENDLESS = 2**62


class Steps:
    """What a loop does.

    The inputs of `body` are the carried values, a row of each sequence, and what is the same in all steps; its outputs
    are what is carried on, what is made, what is summed, and where the loop `stops` a mask: whether it goes on.
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
        # Whether the first parent is the number of steps to do, at most the length.
        self.limited = limited

    def __repr__(self) -> str:
        count = f"{self.length:,} steps" if self.keeps else "steps"
        return f"<{count}{' backwards' if self.reverse else ''} of {self.body}>"

    @property
    def length(self) -> int:
        """The number of steps, or the most there can be."""
        return axis_size(self.time) or 0

    @property
    def keeps(self) -> bool:
        """Whether the tape has what each step was given, and not what the last one left alone."""
        return self.length < ENDLESS

    @property
    def outputs(self) -> tuple[Node, ...]:
        """The outputs of the body that are numbers."""
        return self.body.outputs[: -1 if self.stops else None]

    @cached_property
    def axes(self) -> list[Dims]:
        """The axes of the parts of the tape, in their order: two for each carried value, then all others.

        A carried value as the steps were given it and after the last one lie side by side, in the order of the steps.
        """
        found: list[Dims] = []
        for position, output in enumerate(self.outputs):
            if position < self.carried:
                before: Dims = (self.time if self.keeps else 0, *output.dims)
                found += [output.dims, before] if self.reverse else [before, output.dims]
            elif position < len(self.outputs) - self.summed:
                found.append((self.time, *output.dims))
            else:
                found.append(output.dims)
        return [*found, ()] if self.stops else found

    def history_of(self, carry: int) -> int:
        """The number of the part that has a carried value as the steps were given it."""
        return 2 * carry + self.reverse

    def last_of(self, carry: int) -> int:
        """The number of the part that has a carried value after the last step."""
        return 2 * carry + 1 - self.reverse

    @cached_property
    def starts(self) -> list[int]:
        """Where each part begins, and where the tape ends."""
        return [0, *accumulate(size_of(axes) for axes in self.axes)]


def size_of(dims: Dims) -> int:
    """The number of elements of a part of a tape."""
    return math.prod(axis_size(axis) or 0 for axis in dims)
