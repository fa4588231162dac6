"""Text generation in exported code: a decoder that keeps what later tokens need, and the draw of the next token."""

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
from wyrm.exporting.kernels import assign, clear, keep_positions
from wyrm.exporting.routines import ArrayRegions, Code
from wyrm.exporting.runs import ArrayPlace, Axes, BoundRun, place_run
from wyrm.exporting.tables import fill
from wyrm.graph.axes import One
from wyrm.graph.parameters import Parameter
from wyrm.graph.storage import bound_array
from wyrm.nn.cached_decoder import DecoderPass, Limits
from wyrm.nn.past import Memory
from wyrm.ops.random.token_kernels import drawn, sampled_token

# The most tokens of a pass that reads a prompt: what it computes of them takes memory of the block.
PASS = 32
# What stands for the longest sequence of a model that has none: no sequence gets so long.
_ENDLESS = 2**62


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
    """A decoder of one sequence whose passes have fixed numbers of tokens: `step` takes one, and `read` several.

    A state after several tokens would be that after what stands behind them, too: a model with states reads its prompts
    by steps.
    """

    def __init__(self, model: Any) -> None:
        self.limits: Limits = Limits.of("generate", model)
        memory = Memory(type(model).__name__, 1, self.limits.longest)
        self.step: Pass = Pass(DecoderPass(model, self.limits, memory, One(), with_logits=True), 1)
        self.slots = memory.slots
        self.read: Pass = self.step
        if not memory.has_states:
            time = PASS if self.limits.longest is None else min(PASS, self.limits.longest)
            self.read = Pass(DecoderPass(model, self.limits, memory, time, with_logits=False), time)

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The passes, each once."""
        return (self.step,) if self.read is self.step else (self.step, self.read)

    @property
    def kept(self) -> frozenset[Parameter]:
        """What the decoder keeps between passes."""
        return frozenset(slot.held for slot in self.slots)


@dataclass(frozen=True)
class Kept:
    """Where an output of a pass goes: to a region, of `shape`.

    Keys and values, `by_position`, go to a cache of (2, positions, width), a state over the earlier one.
    """

    new: ArrayPlace
    region: Region
    shape: tuple[int, ...]
    dtype: np.dtype
    by_position: bool


@dataclass(eq=False)
class PlannedPass:
    """The program of a pass, planned: its inputs, its first output, and what it keeps.

    An input that the program does not read is None. `last` is the last position of a sequence, 0 without a longest one.
    """

    time: int
    run: BoundRun
    tokens: ArrayPlace
    positions: ArrayPlace | None
    length: ArrayPlace | None
    logits: ArrayPlace
    kept: tuple[Kept, ...]
    last: int


@dataclass(eq=False)
class Generation:
    """A planned decoder; `state` has the number of tokens that its sequence has taken.

    `scores`, `weights` and `heap` are scratch of a draw, and `heap` of the input of a step. `seen` has for each token
    whether the sequence has it. `positions` is the longest sequence.
    """

    step: PlannedPass
    read: PlannedPass
    vocabulary: int
    positions: int
    state: Region
    scores: Region
    weights: Region
    heap: Region
    seen: Region


def plan_generation(decoder: ExportedDecoder, code: Code, places: ArrayRegions) -> Generation:
    """Plan the functions of a decoder, whose caches and states have places already."""
    limits, image = decoder.limits, places.image
    longest = _ENDLESS if limits.longest is None else limits.longest

    def planned(taken: Pass) -> PlannedPass:
        program = taken.program
        run = place_run(taken.graph, code, places, BatchSizes(1), Axes(None, {}), given=taken.graph.inputs)
        tokens, positions, length = (run.fed.get(each) for each in program.inputs)
        assert tokens is not None
        kept = list[Kept]()
        for slot, new in zip(decoder.slots, run.outputs[program.with_logits :], strict=True):
            array = bound_array(slot.held)
            shape = (*array.shape[1:3], array[0, 0, 0].size) if slot.by_position else array.shape
            kept.append(Kept(new, places.share(array, Kind.EXPANDED), shape, array.dtype, slot.by_position))
        last = 0 if limits.longest is None else longest - 1
        return PlannedPass(taken.time, run, tokens, positions, length, run.outputs[0], tuple(kept), last)

    step = planned(decoder.step)
    read = step if decoder.read is decoder.step else planned(decoder.read)
    # A draw reads the logits, which lie in transient memory: it has memory of its own.
    return Generation(
        step, read, limits.vocab_size, longest, image.add(8, Kind.EXPANDED),
        image.add(8 * limits.vocab_size, Kind.SCRATCH), image.add(8 * limits.vocab_size, Kind.SCRATCH),
        image.add(8 * limits.vocab_size, Kind.SCRATCH), image.add(limits.vocab_size, Kind.EXPANDED),
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
        "Take the next token of the sequence, and draw the one after it: at temperature 0 the most likely one. The "
        "other options are those of wyrm.nn.sample_tokens, and 0 leaves each out. A token is a function of the logits, "
        "the options, the seed and its position. It is -1 for one of the tokens `stop`, which is not taken.",
        take_next, plan, FunctionParameter("token", Role.TOKEN), FunctionParameter("temperature", Role.NUMBER),
        FunctionParameter("top_k", Role.COUNT), FunctionParameter("top_p", Role.PART),
        FunctionParameter("min_p", Role.PART), FunctionParameter("repetition_penalty", Role.FACTOR),
        FunctionParameter("seed", Role.SEED), FunctionParameter("stop", Role.LIST, np.dtype(np.int64)),
        FunctionParameter("stops", Role.LISTED), FunctionParameter("next", Role.OUTPUT, np.dtype(np.int64)),
    )  # fmt: skip


@kernel
def begin(model: Model, plan: Generation, block: Any) -> int:
    """Begin a new sequence; return an error code."""
    code = check_ready(model, block)
    if code == errors.OK:
        _length(plan, block)[()] = 0
        clear(_seen(plan, block))
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
    seen = _seen(plan, block)
    for i in range(count):
        seen[given[i]] = 1
    return errors.OK


@kernel
def take_next(
    model: Model, plan: Generation, block: Any, token: int, temperature: float, top_k: int, top_p: float,
    min_p: float, penalty: float, seed: int, stop: Any, stops: int, target: Any,
) -> int:  # fmt: skip
    """Take the next token of the sequence, and draw the one after it; return an error code."""
    code = check_ready(model, block)
    if code != errors.OK:
        return code
    if address(target) == 0 or stops < 0 or (stops > 0 and address(stop) == 0):
        return errors.ARGUMENT
    if not 0 <= token < plan.vocabulary:
        return errors.INDEX
    if not 0.0 <= temperature < np.inf or top_k < 0 or seed < 0:
        return errors.ARGUMENT
    if not 0.0 <= top_p <= 1.0 or not 0.0 <= min_p <= 1.0 or not 0.0 <= penalty < np.inf:
        return errors.ARGUMENT
    ends = as_shape(stop, (stops,))
    if not are_within(ends, 0, plan.vocabulary, 0, 0):
        return errors.INDEX
    length = _length(plan, block)
    if length[()] >= plan.positions:
        return errors.FULL
    heap = array_at(block, plan.heap, np.int64, (plan.vocabulary,))
    heap[0] = token
    code = _take(model, plan.step, block, heap[:1], length[()])
    if code != errors.OK:
        return code
    table = array_at(block, plan.step.run.bound.table, np.int64, (plan.step.run.bound.length,))
    logits = as_shape(view_at(block, table, plan.step.logits), (plan.vocabulary,))
    seen = _seen(plan, block)
    was_seen = seen[token]
    seen[token] = 1
    scores = array_at(block, plan.scores, logits.dtype, (plan.vocabulary,))
    weights = array_at(block, plan.weights, np.float64, (plan.vocabulary,))
    draw = drawn(seed, length[()])
    found = sampled_token(logits, seen, temperature, top_k, top_p, min_p, penalty, draw, scores, weights, heap)
    if found < 0:
        seen[token] = was_seen
        return errors.DIVERGED
    length[()] += 1
    target[()] = found
    for i in range(stops):
        if ends[i] == found:
            target[()] = -1
    return errors.OK


@kernel
def _length(plan: Generation, block: Any) -> Any:
    """Return the number of tokens that the sequence has taken, an array without axes."""
    return array_at(block, plan.state, np.int64)


@kernel
def _seen(plan: Generation, block: Any) -> Any:
    """Return for each token whether the sequence has it."""
    return array_at(block, plan.seen, np.uint8, (plan.vocabulary,))


@kernel
def _take(model: Model, taken: PlannedPass, block: Any, given: Any, length: int) -> int:
    """Run a pass with tokens that stand behind `length` others, and keep what later ones need; return an error code.

    What stands behind the given tokens, which do not see it, is the last of them.
    """
    table = fill(taken.run.bound.filled, block, 1, 0)
    tokens = as_shape(view_at(block, table, taken.tokens), (taken.time,))
    for i in range(taken.time):
        tokens[i] = given[min(i, given.shape[0] - 1)]
    if taken.positions is not None:
        positions = as_shape(view_at(block, table, taken.positions), (taken.time,))
        for i in range(taken.time):
            positions[i] = length + i if taken.last == 0 else min(length + i, taken.last)
    if taken.length is not None:
        as_shape(view_at(block, table, taken.length), (1,))[0] = float(length)
    status = call(taken.run.bound.entry.symbol, table)
    if status != 0:
        return error_of(model, taken.run, block, table, status)
    for each in taken.kept:
        _keep(each, block, table, length, given.shape[0])
    return errors.OK


@kernel
def _keep(each: Kept, block: Any, table: Any, length: int, count: int) -> None:
    """Keep an output of a pass: the keys or values of `count` positions, or a state."""
    held = array_at(block, each.region.offset, each.dtype, each.shape)
    new = view_at(block, table, each.new)
    if each.by_position:
        keep_positions(new, held, length, count)
    else:
        assign(new, held)
