"""Random nodes: each value is a function of (seed, step, stream, position), the same in every engine.

>>> negatives = wy.random.index(1000, (3,), seed=0)  # three rows below 1000, new ones in every step
>>> wy.random.set_step(0)
>>> first = negatives.forward()
>>> wy.random.set_step(0)
>>> bool((negatives.forward() == first).all())
True

`Node.dropout` is a random node too. By default each random node has its own stream, so that they are independent.
"""

from wyrm.ops.philox import at_step, next_step, set_step
from wyrm.ops.sampling import RandomIndex, index

__all__ = ["RandomIndex", "at_step", "index", "next_step", "set_step"]
