"""What compiled code carries through loops, beside its collectives, for tests."""

from __future__ import annotations

import re

from wyrm.engines.jax.compiled import Collective, collectives, computations, loop_depths


def carried(text: str) -> list[str]:
    """Return the types of the arrays that the innermost loops of a program carry in its compiled code.

    XLA computes some operations by loops of its own, which do not count.
    """
    bodies = computations(text)
    depths = loop_depths(text, bodies)
    of_program = re.compile(r' while\(.*op_name="[^"]*/while"')
    loops = [(depths[name], line) for name, lines in bodies.items() for line in lines if of_program.search(line)]
    innermost = max(depth for depth, _ in loops)
    return [
        array
        for depth, line in loops
        if depth == innermost
        for array in re.findall(r"\w+\[[\d,]*\]", line.partition(" while(")[0])
    ]


__all__ = ["Collective", "carried", "collectives"]
