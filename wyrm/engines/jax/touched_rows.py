"""The rows of a table that a batch touches, each once, in as many places as XLA is to give them.

`by_sorting` and `by_marks` take row numbers of a table of `size` rows and return the touched ones in ascending order,
followed by `size` as padding, and the place of each of the given numbers among them. `jnp.unique` does the same with
twice as many operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def by_sorting(rows: Any, size: int, count: int) -> tuple[Any, Any]:
    """Return `count` touched rows and the places of `rows`, in time that does not grow with the table.

    Numbers that are at least `size` are padding.

    >>> import jax.numpy as jnp
    >>> from wyrm.engines.jax.touched_rows import by_sorting
    >>> by_sorting(jnp.array([7, 2, 7, 4]), size=9, count=4)
    (Array([2, 4, 7, 9], dtype=int32), Array([2, 0, 2, 1], dtype=int32))
    """
    import jax.numpy as jnp
    from jax import lax

    ordered, given = lax.sort((rows, jnp.arange(len(rows), dtype=jnp.int32)), num_keys=1)
    before = jnp.concatenate([ordered[:1], ordered[:-1]])
    places = lax.cumsum((ordered != before).astype(np.int32))
    found = jnp.full(count, size, rows.dtype).at[places].set(ordered, mode="drop", indices_are_sorted=True)
    return found, jnp.zeros_like(places).at[given].set(places, unique_indices=True)


def by_marks(rows: Any, size: int, count: int) -> tuple[Any, Any]:
    """Return `count` touched rows and the places of `rows`, without sorting, with a mark for each row of the table.

    >>> import jax.numpy as jnp
    >>> from wyrm.engines.jax.touched_rows import by_marks
    >>> by_marks(jnp.array([7, 2, 7, 4]), size=9, count=4)
    (Array([2, 4, 7, 9], dtype=int32), Array([2, 0, 2, 1], dtype=int32))
    """
    import jax.numpy as jnp

    touched = jnp.zeros(size, np.int32).at[rows].set(1)
    places = jnp.cumsum(touched) - 1
    found = jnp.full(count, size, rows.dtype)
    found = found.at[jnp.where(touched, places, count)].set(jnp.arange(size, dtype=rows.dtype), mode="drop")
    return found, places[rows]


def summed(gradients: Sequence[Any], places: Any, count: int) -> Any:
    """Return the sum for each of `count` rows of the gradients of lookups, whose rows stand at `places`, in order.

    Each lookup is added up first: rows of two lookups that cancel do so exactly only then.

    >>> import jax.numpy as jnp
    >>> from wyrm.engines.jax.touched_rows import summed
    >>> summed([jnp.array([0.1, 0.7]), jnp.array([-0.1, -0.7])], jnp.array([0, 0, 0, 0]), count=1).tolist()
    [0.0]
    """
    import jax
    import jax.numpy as jnp
    from jax import lax

    parts = jnp.split(places, np.cumsum([len(each) for each in gradients[:-1]]))
    sums = [jax.ops.segment_sum(x, part, num_segments=count) for x, part in zip(gradients, parts, strict=True)]
    if len(sums) > 1:  # XLA would add the terms of one lookup to the sum of another
        sums = lax.optimization_barrier(sums)
    return sum(sums[1:], sums[0])
