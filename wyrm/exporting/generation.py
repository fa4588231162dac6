"""Text generation in exported code: a decoder that keeps its keys and values, and the draw of the next token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from wyrm.engines.native.ir.types import FLOAT64, INT64, scalar_of
from wyrm.engines.native.kernels.values import NumKind
from wyrm.engines.native.products.writer import Writer
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.exporting.batches import BatchSizes
from wyrm.exporting.functions import MEMORY, ModuleText, code_of
from wyrm.exporting.image import Kind, Region
from wyrm.exporting.interface import FunctionParameter, FunctionSignature, Role
from wyrm.exporting.kernels import keep_positions, next_token
from wyrm.exporting.routines import ArrayRegions, Code, Entry, array_kind
from wyrm.exporting.runs import ArrayPlace, BoundRun, place_run
from wyrm.exporting.writing import Value, address, call_kernel, load, refuse_if, store
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


@dataclass
class Generation:
    """A planned decoder; `state` has the number of tokens that its sequence has taken."""

    decoder: ExportedDecoder
    runs: Mapping[Pass, BoundRun]
    cache: Region
    state: Region
    candidates: Region
    keep: Entry
    draw: Entry


def plan_generation(decoder: ExportedDecoder, code: Code, places: ArrayRegions) -> Generation:
    """Plan the functions of a decoder, whose cache has a place already."""
    runs = {
        each: place_run(each.graph, code, places, BatchSizes(1), None, {}, given=each.graph.inputs)
        for each in (decoder.step, decoder.read)
    }
    number = scalar_of(decoder.cache.dtype)
    assert number is not None
    image = places.image
    integer, words = NumKind(INT64), array_kind(INT64)
    return Generation(
        decoder, runs, places.share(bound_array(decoder.cache), Kind.EXPANDED), image.add(8, Kind.EXPANDED),
        # A draw reads the logits, which lie in transient memory: it has memory of its own.
        image.add(16 * min(decoder.config.vocab_size, MOST_CANDIDATES), Kind.SCRATCH),
        code.kernel(keep_positions, array_kind(number, 3), array_kind(number, 3), integer, integer),
        code.kernel(
            next_token, array_kind(number), NumKind(FLOAT64), integer, integer, integer, words, array_kind(FLOAT64)
        ),
    )  # fmt: skip


def define(functions: ModuleText, name: str, plan: Generation) -> list[FunctionSignature]:
    """Write the functions that begin a sequence and take a token of it."""
    begin = FunctionSignature(f"{name}_begin", [MEMORY], "Begin a new sequence of tokens.")
    numbers = [
        FunctionParameter("token", Role.TOKEN), FunctionParameter("temperature", Role.NUMBER),
        FunctionParameter("top_k", Role.COUNT),
        FunctionParameter("seed", Role.SEED), FunctionParameter("next", Role.OUTPUT, np.dtype(np.int64)),
    ]  # fmt: skip
    follow = FunctionSignature(
        f"{name}_next", [MEMORY, *numbers],
        "Take the next token of the sequence, and draw the one after it: at temperature 0 the most likely one, else of "
        "the top_k most likely ones, or of all if that is 0.",
    )  # fmt: skip

    tokens = FunctionParameter("tokens", Role.INPUT, np.dtype(np.int64), by_rows=True)
    read = FunctionSignature(
        f"{name}_read_tokens", [MEMORY, tokens, FunctionParameter("count", Role.ROWS)],
        "Take the next tokens of the sequence, as many at once as are given: a prompt without its last token, which is "
        "for next. An error changes nothing.",
    )  # fmt: skip

    def start(to: Writer) -> None:
        functions.check_memory(to)
        store(to, "i64", 0, functions.at(to, plan.state))

    functions.define(begin, start)
    functions.define(read, lambda to: _read(functions, to, plan))
    functions.define(follow, lambda to: _next(functions, to, plan))
    return [begin, read, follow]


def _read(functions: ModuleText, to: Writer, plan: Generation) -> None:
    config, taken = plan.decoder.config, plan.decoder.read
    functions.check_memory(to)
    functions.check_pointer(to, "tokens")
    refuse_if(to, to.compare("slt", "%count", 0), code_of("ARGUMENT"))
    state = functions.at(to, plan.state)
    length = load(to, "i64", state)
    refuse_if(to, to.compare("sgt", "%count", to.subtract(config.n_positions, length)), code_of("FULL"))
    values: list[Value] = [("ptr", "%tokens"), ("i64", "%count"), ("i64", "0"), ("i64", str(config.vocab_size))]
    known = call_kernel(to, functions.kernels.within(INT64), values, "i64")
    refuse_if(to, to.compare("eq", known, 0), code_of("INDEX"))

    def take(start: str) -> None:
        count = to.lower(to.subtract("%count", start), taken.time)
        last = to.subtract(to.add(start, count), 1)

        def token(index: str) -> str:
            return load(to, "i64", to.address("i64", "%tokens", to.lower(to.add(start, index), last)))

        _take(functions, to, plan, taken, token, to.add(length, start), count)

    to.loop("%count", taken.time, take)
    store(to, "i64", to.add(length, "%count"), state)


def _next(functions: ModuleText, to: Writer, plan: Generation) -> None:
    config = plan.decoder.config
    functions.check_memory(to)
    functions.check_pointer(to, "next")
    known = to.both(to.compare("sge", "%token", 0), to.compare("slt", "%token", config.vocab_size))
    refuse_if(to, to.fails(known), code_of("INDEX"))
    for wrong in (
        to.new("fcmp ult double %temperature, 0.0"),
        to.new("fcmp ueq double %temperature, 0x7FF0000000000000"),
        to.compare("slt", "%top_k", 0),
        to.compare("sgt", "%top_k", MOST_CANDIDATES),
        to.compare("slt", "%seed", 0),
    ):
        refuse_if(to, wrong, code_of("ARGUMENT"))
    state = functions.at(to, plan.state)
    length = load(to, "i64", state)
    refuse_if(to, to.compare("sge", length, config.n_positions), code_of("FULL"))
    logits = _take(functions, to, plan, plan.decoder.step, lambda _: "%token", length, "1")
    candidates = functions.at(to, plan.candidates)
    room = min(config.vocab_size, MOST_CANDIDATES)
    sums = address(to, candidates, 8 * room)
    values = [("ptr", logits), ("i64", str(config.vocab_size)), ("double", "%temperature"), ("i64", "%top_k")]
    values += [("i64", "%seed"), ("i64", length), ("ptr", candidates), ("i64", str(room))]
    found = call_kernel(to, plan.draw, [*values, ("ptr", sums), ("i64", str(room))], "i64")
    refuse_if(to, to.compare("slt", found, 0), code_of("DIVERGED"))
    store(to, "i64", to.add(length, 1), state)
    store(to, "i64", found, "%next")


def _take(
    functions: ModuleText, to: Writer, plan: Generation, taken: Pass, token: Callable[[str], str], length: str,
    count: str,
) -> str:  # fmt: skip
    """Run a pass behind `length` tokens, and keep the keys and values of its first `count` tokens.

    `token` gives the token at an index, also of those behind the first `count`, which these do not see. Return the
    address of the first output.
    """
    run, config, program = plan.runs[taken], plan.decoder.config, taken.program
    table = functions.tables.fill(to, run.bound, "1", "0")

    def place(array: ArrayPlace) -> str:
        return functions.tables.pointer(to, array.address, "1", "0")

    tokens, positions = place(run.fed[program.tokens]), place(run.fed[program.positions])

    def give(index: str) -> None:
        store(to, "i64", token(index), to.address("i64", tokens, index))
        position = to.lower(to.add(length, index), config.n_positions - 1)
        store(to, "i64", position, to.address("i64", positions, index))

    to.loop(taken.time, 1, give)
    store(to, "double", to.new(f"sitofp i64 {length} to double"), place(run.fed[program.length]))
    status = to.new(f"call i32 @{run.bound.entry.symbol}(ptr {table})")
    failed = to.new(f"icmp ne i32 {status}, 0")
    to.branch(failed, lambda: to.leave(f"ret i32 {to.new(f'call i32 @error_of(i32 {status})')}"))
    new = run.outputs[program.logits :]
    layers, width, part = str(config.n_layer // len(new)), config.n_embd, plan.cache.size // len(new)
    for i, array in enumerate(new):
        values: list[Value] = [
            ("ptr", place(array)),
            ("i64", layers),
            ("i64", str(taken.time)),
            ("i64", str(3 * width)),
        ]
        values += [("ptr", functions.at(to, plan.cache, i * part)), ("i64", layers), ("i64", str(2 * width))]
        call_kernel(to, plan.keep, [*values, ("i64", str(config.n_positions)), ("i64", length), ("i64", count)])
    return place(run.outputs[0])
