"""Random nodes: each value is a function of (seed, step, stream, position), the same in every engine.

>>> class Batch(wy.Dim): ...
>>> class Latent(wy.Dim): ...
>>> noise = wy.random.normal((Batch(2), Latent(8)))  # new numbers in every step
>>> wy.random.set_step(0)
>>> first = noise.forward()
>>> wy.random.set_step(0)
>>> bool((noise.forward() == first).all())
True

Continuous draws (`normal`, `uniform`, `exponential`, `gumbel`, `laplace`, `gamma`, `beta`, `dirichlet`) can be
differentiated with respect to their parameters, such as `loc` and `scale`. Discrete draws (`bernoulli`, `categorical`,
`poisson`, `randint`, `permutation`, and `index` for rows of a table) have no gradient. `set_step` and `at_step` repeat
the draws of a step.

`Node.dropout` is a random node too. By default each random node has its own stream, the next unused one, so that they
are independent. `wy.nn.seed` begins the streams and the steps again: the same code after it draws the same numbers.

A loop draws anew in each of its steps, `vmap` for each of its rows. Threads that divide a batch in synchronized mode
draw the numbers that one thread draws, except for the dropout of attention, which draws for each part alike.
"""

from wyrm.support.imports import lazy_imports

# Imported on first use; `python -m wyrm.declare` writes the same names for type checkers.
__getattr__, __dir__, __all__ = lazy_imports(
    __name__,
    {
        "wyrm.ops.random.philox": "at_step next_step set_step",
        "wyrm.ops.random.sampling": "RandomIndex index",
        "distributions": (
            "bernoulli beta categorical dirichlet exponential gamma gumbel laplace normal normal_like permutation "
            "poisson randint uniform uniform_like"
        ),
    },
)
