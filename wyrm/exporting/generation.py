"""Text generation in exported code: a decoder that keeps its keys and values, and the draw of the next token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wyrm.engines.native.kernels.memory import address, call
from wyrm.engines.native.llvm.multiply import as_shape
from wyrm.engines.native.run.shuffle import are_within
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.exporting import errors
from wyrm.exporting.batches import BatchSizes
from wyrm.exporting.functions import Model, Module, check_ready, error_of
from wyrm.exporting.image import Kind, Region
from wyrm.exporting.interface import FunctionParameter, Role
from wyrm.exporting.intrinsics import array_at, kernel, view_at
from wyrm.exporting.kernels import keep_positions, next_token
from wyrm.exporting.routines import ArrayRegions, Code
from wyrm.exporting.runs import ArrayPlace, Axes, BoundRun, place_run
from wyrm.exporting.tables import fill
from wyrm.graph.parameters import Parameter
from wyrm.graph.storage import bound_array
from wyrm.nn.generation import CachedDecoder, DecoderPass, as_gpt2
from wyrm.nn.gpt2 import GPT2Config

# The most tokens of a pass that reads a prompt: what it computes of them takes memory of the block.
PASS = 32
# The most tokens that a draw chooses from.
MOST_CANDIDATES = 1024


@dataclass(frozen=True)
class Pass:
    """A program that takes `time` tokens, and its graph."""

    program: DecoderPass
    time: int

    @property
    def graph(self) -> NativeGraph:
        """The graph of the program."""
        graph: NativeGraph = self.program.program._engine.graph  # type: ignore[assignment]  # the native engine's
        return graph


class ExportedDecoder:
    """A decoder of one sequence whose passes have fixed numbers of tokens: `step` takes one, and `read` several."""

    def __init__(self, model: object) -> None:
        decoder = CachedDecoder(as_gpt2("generate", model))
        self.config: GPT2Config = decoder.config
        self.cache: Parameter = decoder._cache
        time = min(PASS, self.config.n_positions)
        self.step = Pass(decoder._step, 1)
        self.read = Pass(decoder._reader(time), time)


@dataclass(eq=False)
class PlannedPass:
    """The program of a pass, planned: its inputs, its first output, and the keys and values that it adds to caches.

    A cache has `shape`: layers, the width of keys and values, and positions; a pass gives each layer `width` numbers
    for each token.
    """

    time: int
    run: BoundRun
    tokens: ArrayPlace
    positions: ArrayPlace
    length: ArrayPlace
    logits: ArrayPlace
    added: tuple[tuple[ArrayPlace, int], ...]
    cache: Region
    dtype: np.dtype
    shape: tuple[int, int, int]
    width: int


@dataclass(eq=False)
class Generation:
    """A planned decoder; `state` has the number of tokens that its sequence has taken.

    `candidates` is scratch of a draw, which chooses from `room` tokens.
    """

    step: PlannedPass
    read: PlannedPass
    vocabulary: int
    positions: int
    state: Region
    candidates: Region
    room: int


def plan_generation(decoder: ExportedDecoder, code: Code, places: ArrayRegions) -> Generation:
    """Plan the functions of a decoder, whose cache has a place already."""
    config, image = decoder.config, places.image
    cache = places.share(bound_array(decoder.cache), Kind.EXPANDED)

    def planned(taken: Pass) -> PlannedPass:
        program = taken.program
        run = place_run(taken.graph, code, places, BatchSizes(1), Axes(None, {}), given=taken.graph.inputs)
        new = run.outputs[program.logits :]
        return PlannedPass(
            taken.time, run, run.fed[program.tokens], run.fed[program.positions], run.fed[program.length],
            run.outputs[0], tuple((array, i * (cache.size // len(new))) for i, array in enumerate(new)), cache,
            decoder.cache.dtype, (config.n_layer // len(new), 2 * config.n_embd, config.n_positions), 3 * config.n_embd,
        )  # fmt: skip

    room = min(config.vocab_size, MOST_CANDIDATES)
    step, read = planned(decoder.step), planned(decoder.read)
    return Generation(
        step, read, config.vocab_size, config.n_positions, image.add(8, Kind.EXPANDED),
        # A draw reads the logits, which lie in transient memory: it has memory of its own.
        image.add(16 * room, Kind.SCRATCH), room,
    )  # fmt: skip


def define_generation(module: Module, name: str, plan: Generation) -> None:
    """Define the functions that begin a sequence and take tokens of it."""
    module.define(f"{name}_begin", "Begin a new sequence of tokens.", begin, plan)
    module.define(
        f"{name}_read_tokens",
        "Take the next tokens of the sequence, as many at once as are given: a prompt without its last token, which is "
        "for next. An error changes nothing.",
        read_tokens, plan, FunctionParameter("tokens", Role.INPUT, np.dtype(np.int64), by_rows=True),
        FunctionParameter("count", Role.ROWS),
    )  # fmt: skip
    module.define(
        f"{name}_next",
        "Take the next token of the sequence, and draw the one after it: at temperature 0 the most likely one, else of "
        "the top_k most likely ones, or of all if that is 0.",
        take_next, plan, FunctionParameter("token", Role.TOKEN), FunctionParameter("temperature", Role.NUMBER),
        FunctionParameter("top_k", Role.COUNT), FunctionParameter("seed", Role.SEED),
        FunctionParameter("next", Role.OUTPUT, np.dtype(np.int64)),
    )  # fmt: skip


@kernel
def begin(model: Model, plan: Generation, block: Any) -> int:
    """Begin a new sequence; return an error code."""
    code = check_ready(model, block)
    if code == errors.OK:
        _length(plan, block)[()] = 0
    return code


@kernel
def read_tokens(model: Model, plan: Generation, block: Any, tokens: Any, count: int) -> int:
    """Take the next tokens of the sequence, several at a time; return an error code."""
    code = check_ready(model, block)
    if code != errors.OK:
        return code
    if address(tokens) == 0 or count < 0:
        return errors.ARGUMENT
    length = _length(plan, block)
    if count > plan.positions - length[()]:
        return errors.FULL
    given = as_shape(tokens, (count,))
    if not are_within(given, 0, plan.vocabulary, 0, 0):
        return errors.INDEX
    for start in range(0, count, plan.read.time):
        now = min(count - start, plan.read.time)
        code = _take(model, plan.read, block, as_shape(given[start:], (now,)), length[()] + start)
        if code != errors.OK:
            return code
    length[()] += count
    return errors.OK


@kernel
def take_next(
    model: Model, plan: Generation, block: Any, token: int, temperature: float, top_k: int, seed: int,
    target: Any,
) -> int:  # fmt: skip
    """Take the next token of the sequence, and draw the one after it; return an error code."""
    code = check_ready(model, block)
    if code != errors.OK:
        return code
    if address(target) == 0:
        return errors.ARGUMENT
    if not 0 <= token < plan.vocabulary:
        return errors.INDEX
    if not 0.0 <= temperature < np.inf or not 0 <= top_k <= MOST_CANDIDATES or seed < 0:
        return errors.ARGUMENT
    length = _length(plan, block)
    if length[()] >= plan.positions:
        return errors.FULL
    sums = array_at(block, plan.candidates.offset + 8 * plan.room, np.float64, (plan.room,))
    candidates = array_at(block, plan.candidates, np.int64, (plan.room,))
    candidates[0] = token
    code = _take(model, plan.step, block, candidates[:1], length[()])
    if code != errors.OK:
        return code
    table = array_at(block, plan.step.run.bound.table, np.int64, (plan.step.run.bound.length,))
    logits = as_shape(view_at(block, table, plan.step.logits), (plan.vocabulary,))
    found = next_token(logits, temperature, top_k, seed, length[()], candidates, sums)
    if found < 0:
        return errors.DIVERGED
    length[()] += 1
    target[()] = found
    return errors.OK


@kernel
def _length(plan: Generation, block: Any) -> Any:
    """Return the number of tokens that the sequence has taken, an array without axes."""
    return array_at(block, plan.state, np.int64)


@kernel
def _take(model: Model, taken: PlannedPass, block: Any, given: Any, length: int) -> int:
    """Run a pass with tokens that stand behind `length` others, and keep their keys and values; return an error code.

    What stands behind the given tokens, which do not see it, is the last of them.
    """
    table = fill(taken.run.bound.filled, block, 1, 0)
    tokens = as_shape(view_at(block, table, taken.tokens), (taken.time,))
    positions = as_shape(view_at(block, table, taken.positions), (taken.time,))
    for i in range(taken.time):
        tokens[i] = given[min(i, given.shape[0] - 1)]
        positions[i] = min(length + i, taken.shape[2] - 1)
    view_at(block, table, taken.length)[()] = float(length)
    status = call(taken.run.bound.entry.symbol, table)
    if status != 0:
        return error_of(model, taken.run, block, table, status)
    for new, place in taken.added:
        rows = as_shape(view_at(block, table, new), (taken.shape[0], taken.time, taken.width))
        cache = array_at(block, taken.cache.offset + place, taken.dtype, taken.shape)
        keep_positions(rows, cache, length, given.shape[0])
    return errors.OK
