"""The functions of a program that JAX compiles, their calls, and the collectives in the code that XLA made of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

from wyrm.engines.jax.graph import JaxGraph
from wyrm.engines.jax.local_steps import LocalSteps
from wyrm.engines.jax.sharding import Messages
from wyrm.engines.jax.state import DeviceState, Placement, exchange
from wyrm.engines.jax.step import StepFunctions
from wyrm.engines.jax.updates import all_finite
from wyrm.errors import Unavailable
from wyrm.support.imports import jax

_KINDS = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
_DEFINITION = re.compile(rf"^\s*(?:ROOT )?%?[\w.-]+ = (.*?) ({_KINDS})(?:-start)?\(")
_WIDTHS = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8}


class Collective(NamedTuple):
    """A collective: its kind, the bytes of its result on each device, and the number of loops that it is in.

    `times` is how often the loops of a known length run it.
    """

    kind: str
    size: int
    loops: int
    times: int = 1


def collectives(text: str) -> list[Collective]:
    """Return the collectives of compiled code, given as XLA's text.

    >>> from wyrm.engines.jax.compiled import collectives
    >>> lines = ["ENTRY %main (x: f32[2]) -> f32[2] {", "  %y = f32[2]{0} all-reduce(%x), channel_id=1", "}"]
    >>> collectives("\\n".join(lines))
    [Collective(kind='all-reduce', size=8, loops=0, times=1)]
    """
    bodies = computations(text)
    loops = _loops(text, bodies)
    return [
        Collective(match[2], sum(map(_bytes, re.findall(r"\w+\[[\d,]*\]", match[1]))), *loops[name])
        for name, lines in bodies.items()
        for line in lines
        if (match := _DEFINITION.match(line)) is not None
    ]


def computations(text: str) -> dict[str, list[str]]:
    """Return the lines of each computation by its name."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        begins = re.match(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$", line)
        if begins is not None:
            lines = found.setdefault(begins[1], [])
        lines.append(line)
    return found


def loop_depths(text: str, bodies: dict[str, list[str]]) -> dict[str, int]:
    """Return the number of loops around each computation."""
    return {name: depth for name, (depth, _) in _loops(text, bodies).items()}


def _loops(text: str, bodies: dict[str, list[str]]) -> dict[str, tuple[int, int]]:
    """Return the number of loops around each computation, and the product of their known lengths."""
    entry = re.search(r"^ENTRY %?([\w.-]+) ", text, re.MULTILINE)
    assert entry is not None
    found = dict[str, tuple[int, int]]()
    found.update(dict.fromkeys(bodies, (0, 1)))
    waiting = [(entry[1], 0, 1)]
    while waiting:
        name, depth, times = waiting.pop()
        found[name] = max(found[name], (depth, times))
        for line in bodies[name]:
            length = re.search(r'known_trip_count":\{"n":"(\d+)"', line)
            in_loop = times * (1 if length is None else int(length[1]))
            waiting += [(body, depth + 1, in_loop) for body in re.findall(r"body=%?([\w.-]+)", line)]
            waiting += [(body, depth, times) for body in re.findall(r"(?:calls|to_apply)=%?([\w.-]+)", line)]
            for branches in re.findall(r"branch_computations=\{(.*?)\}", line):
                waiting += [(body, depth, times) for body in re.findall(r"[\w.-]+", branches)]
    return found


def _bytes(array: str) -> int:
    dtype, _, shape = array.partition("[")
    size = _WIDTHS[dtype]
    for axis in re.findall(r"\d+", shape):
        size *= int(axis)
    return size


class CompiledFunctions:
    """The compiled functions of one program; each is compiled when it first runs."""

    def __init__(
        self,
        graph: JaxGraph,
        functions: StepFunctions,
        placement: Placement,
        state: DeviceState,
        local_steps: LocalSteps | None = None,
        precision: str | None = None,
    ) -> None:
        self.graph = graph
        self.functions = functions
        self.placement = placement
        self.state = state
        self.local_steps = local_steps
        self._precision = precision
        # By the number of batches of a step.
        self._loops: dict[int, Any] = {}
        # The last function that ran, the structure of its arguments, and the shape, dtype and placement of each array:
        # `lowered` shows its code.
        self.last: tuple[Any, Any, list[tuple[Any, Any, Any]]] | None = None

    @cached_property
    def forward(self) -> Any:
        """The function that returns the outputs."""
        return jax.jit(self.functions.forward)

    @cached_property
    def backward(self) -> Any:
        """The function that returns the outputs and the gradients."""
        return jax.jit(self.functions.backward)

    @cached_property
    def step(self) -> Any:
        """The function that does one step."""
        # On several devices, a look at the new state would be one more reduction.
        function = partial(self.functions.train, checks=self.placement.sharding is None)
        return self._stepping(function)

    @cached_property
    def several(self) -> Any:
        """The function that does one step with the gradients of several batches."""
        return self._stepping(self.functions.train_on_several)

    def loop(self, accumulate: int) -> Any:
        """Return the function that does several steps, of `accumulate` batches each."""
        if accumulate not in self._loops:
            alone = self.local_steps if accumulate == 1 else None
            function = partial(self.functions.loop, accumulate) if alone is None else alone.loop
            self._loops[accumulate] = self._stepping(function)
        return self._loops[accumulate]

    def _stepping(self, function: Any) -> Any:
        """Return a function that takes the state and returns the new one in its place, compiled."""
        return jax.jit(function, donate_argnums=0, compiler_options=self.compiler_options(), **self.kept())

    def compiler_options(self) -> dict[str, bool] | None:
        """Return XLA's options for steps: where GPUs have copies of a table, they add up its rows in the same order."""
        sharding, tables = self.placement.sharding, self.functions.tables
        if sharding is None or not tables.of_batch.keys() - tables.exchanges.keys():
            return None
        on_gpus = sharding.mesh.devices.flat[0].platform in ("cuda", "gpu", "rocm")
        return {"xla_gpu_exclude_nondeterministic_ops": True} if on_gpus else None

    def kept(self) -> dict[str, Any]:
        """Return the option of `jax.jit` that keeps the state, the first of two results, on its devices."""
        sharding = self.placement.sharding
        if sharding is None:
            return {}

        with self.precision():
            state = self.state.state()
        placed = jax.tree.map(lambda array: getattr(array, "sharding", None), state._replace(alive=None))
        return {"out_shardings": (placed, None)}

    @contextmanager
    def precision(self) -> Iterator[None]:
        """Return a context in which JAX has 64-bit types if the graph needs them, and the precision of products."""
        products = {None: "default", "highest": "highest", "tf32": "tensorfloat32"}[self._precision]
        with jax.default_matmul_precision(products), jax.enable_x64(True) if self.graph.wide else nullcontext():
            yield

    def execute(self, function: Any, *arguments: Any) -> Any:
        """Call a compiled function."""
        arrays, structure = jax.tree.flatten(arguments)
        self.last = (
            function,
            structure,
            [(array.shape, array.dtype, _placement(array)) for array in arrays],
        )
        return function(*arguments)

    def advance(self, function: Any, *arguments: Any, meanwhile: Callable[[], object] | None = None) -> Any:
        """Call a compiled function that takes the state and the held leaves first, and returns the new state first.

        `meanwhile`, which raises no error, is called while the devices compute.
        """
        with exchange:
            before = self.state.stacked()
            try:
                results = self.execute(function, before, self.state.held(), *arguments)
                if meanwhile is not None:
                    meanwhile()
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

    def messages(self) -> list[Messages] | None:
        """Return what the function that ran last sends in a step, by kind."""
        if self.last is None:
            return None
        found: dict[str, Messages] = {}
        for each in collectives(self.lowered().compile().as_text()):
            before = found.get(each.kind, Messages(each.kind, 0, 0))
            sent = before.count + each.times, before.size + each.times * each.size
            found[each.kind] = Messages(each.kind, *sent)
        return sorted(found.values(), key=lambda sent: -sent.size)

    def lowered(self) -> Any:
        """Return the function that ran last, lowered to StableHLO."""
        if self.last is None:
            raise Unavailable("this program has not run, so JAX has not compiled it: call it first")

        function, structure, arrays = self.last
        abstract = [jax.ShapeDtypeStruct(shape, dtype, sharding=sharding) for shape, dtype, sharding in arrays]
        with self.precision():
            return function.lower(*jax.tree.unflatten(structure, abstract))


@cache
def finite_check() -> Any:
    """Return the function that says whether all values are finite; programs with equal shapes share its code."""
    return jax.jit(lambda values: all_finite([[value] for value in values if value.dtype.kind != "i"]))


def _placement(array: Any) -> Any:
    """Return the sharding that a caller asked for an array, None if JAX chose it.

    JAX finds what it compiled for a call only if both are given alike.
    """
    return array.sharding if getattr(array, "committed", False) else None
