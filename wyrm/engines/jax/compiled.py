"""The functions of a program that JAX compiles, and their calls."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

from wyrm.engines.jax.graph import JaxGraph
from wyrm.engines.jax.state import DeviceState, Placement, State, exchange
from wyrm.engines.jax.step import StepFunctions, joined_rows
from wyrm.engines.jax.updates import all_finite
from wyrm.errors import Unavailable


class CompiledFunctions:
    """The compiled functions of one program; each is compiled when it first runs."""

    def __init__(self, graph: JaxGraph, functions: StepFunctions, placement: Placement, state: DeviceState) -> None:
        self.graph = graph
        self.functions = functions
        self.placement = placement
        self.state = state
        # The last function that ran, the structure of its arguments, and the shape, dtype and placement of each array:
        # `lowered` shows its code.
        self.last: tuple[Any, Any, list[tuple[Any, Any, Any]]] | None = None

    @cached_property
    def forward(self) -> Any:
        """The function that returns the outputs."""
        import jax

        return jax.jit(self.functions.forward)

    @cached_property
    def backward(self) -> Any:
        """The function that returns the outputs and the gradients."""
        import jax

        return jax.jit(self.functions.backward)

    @cached_property
    def step(self) -> Any:
        """The function that does one step."""
        import jax

        return jax.jit(self.functions.train, donate_argnums=0, **self.kept())

    @cached_property
    def loop(self) -> Any:
        """The function that does the steps of several batches."""
        import jax

        return jax.jit(self.functions.loop, donate_argnums=0, **self.kept())

    @cached_property
    def join(self) -> Any:
        """The function that adds up row-sparse gradients of one table."""
        import jax

        return jax.jit(joined_rows)

    @cached_property
    def finite(self) -> Any:
        """The function that says whether all values are finite."""
        import jax

        return jax.jit(lambda values: all_finite([value for value in values if value.dtype.kind != "i"]))

    @cached_property
    def add_gradients(self) -> Any:
        """The function that adds a batch's gradients to the totals of a step."""
        import jax

        options: dict[str, Any] = {}
        sharding = self.placement.sharding
        if sharding is not None:
            ((placed, *_), _) = self.kept()["out_shardings"]
            buffers = placed[len(self.graph.parameters) :]
            options["out_shardings"] = buffers, self.functions.accumulator_shardings(sharding, True), None, None
        return jax.jit(self.functions.accumulate, donate_argnums=1, **options)

    @cached_property
    def update(self) -> Any:
        """The function that does a step with totals of gradients."""
        import jax

        def update(state: State, _: Sequence[Any], *arguments: Any) -> tuple[State]:
            return (self.functions.update_by(state, *arguments),)

        return jax.jit(update, donate_argnums=0, **self.kept(1))

    @cached_property
    def zeros(self) -> Any:
        """The function that returns totals of zero, for `add_gradients`."""
        import jax

        sharding = self.placement.sharding
        if sharding is None:
            return jax.jit(self.functions.zeros)
        return jax.jit(self.functions.zeros, out_shardings=self.functions.accumulator_shardings(sharding, False))

    def kept(self, results: int = 2) -> dict[str, Any]:
        """Return the option of `jax.jit` that keeps the state, the first of `results` results, on its devices."""
        sharding = self.placement.sharding
        if sharding is None:
            return {}
        import jax

        with self.precision():
            state = self.state.state()
        placed = jax.tree.map(lambda array: getattr(array, "sharding", None), state._replace(alive=None))
        return {"out_shardings": (placed, None)[:results]}

    def precision(self) -> AbstractContextManager[None]:
        """Return a context in which JAX has 64-bit types if the graph needs them."""
        import jax

        if not self.graph.wide:
            return nullcontext()
        context: AbstractContextManager[None] = jax.enable_x64(True)
        return context

    def execute(self, function: Any, *arguments: Any) -> Any:
        """Call a compiled function."""
        import jax

        arrays, structure = jax.tree.flatten(arguments)
        self.last = (
            function,
            structure,
            [(array.shape, array.dtype, getattr(array, "sharding", None)) for array in arrays],
        )
        return function(*arguments)

    def advance(self, function: Any, *arguments: Any) -> Any:
        """Call a compiled function that takes the state and the held leaves first, and returns the new state first."""
        with exchange:
            before = self.state.stacked()
            try:
                results = self.execute(function, before, self.state.held(), *arguments)
                # JAX computes asynchronously: an error of the computation is raised here.
                results[0].alive.block_until_ready()
            except BaseException as error:
                if any(array.is_deleted() for array in before.values):
                    self.state.forget()
                    error.add_note(
                        "the parameters and the optimizer's state are as they were when they were last read, or before "
                        "the first step: load a checkpoint to go on"
                    )
                raise
            self.state.replace_stacked(results[0])
        return results

    def lowered(self) -> Any:
        """Return the function that ran last, lowered to StableHLO."""
        if self.last is None:
            raise Unavailable("this program has not run, so JAX has not compiled it: call it first")
        import jax

        function, structure, arrays = self.last
        abstract = [jax.ShapeDtypeStruct(shape, dtype, sharding=sharding) for shape, dtype, sharding in arrays]
        with self.precision():
            return function.lower(*jax.tree.unflatten(structure, abstract))
