"""Text generation in exported code: a decoder that keeps its keys and values, and the draw of the next token."""

from __future__ import annotations

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
from wyrm.exporting.kernels import keep_position, next_token
from wyrm.exporting.routines import ArrayRegions, Code, Entry, array_kind
from wyrm.exporting.runs import BoundRun, place_run
from wyrm.exporting.writing import Value, address, call_kernel, load, refuse_if, store
from wyrm.graph.storage import bound_array
from wyrm.nn.generation import CachedDecoder, as_gpt2

# The most tokens that a draw chooses from.
MOST_CANDIDATES = 1024


@dataclass
class Generation:
    """A planned decoder of one sequence; `state` has the number of tokens that it has taken."""

    decoder: CachedDecoder
    graph: NativeGraph
    run: BoundRun
    cache: Region
    state: Region
    candidates: Region
    keep: Entry
    draw: Entry


def decoder_of(model: object) -> CachedDecoder:
    """Return a decoder of a model."""
    return CachedDecoder(as_gpt2("generate", model))


def plan_generation(decoder: CachedDecoder, code: Code, places: ArrayRegions) -> Generation:
    """Plan the functions of a decoder, whose cache has a place already."""
    graph: NativeGraph = decoder._step.program._engine.graph  # type: ignore[assignment]  # the native engine's
    run = place_run(graph, code, places, BatchSizes(1), None, {}, given=graph.inputs)
    number = scalar_of(decoder._cache.dtype)
    assert number is not None
    image = places.image
    integer, words = NumKind(INT64), array_kind(INT64)
    return Generation(
        decoder, graph, run, places.share(bound_array(decoder._cache), Kind.EXPANDED), image.add(8, Kind.EXPANDED),
        # A draw reads the logits, which lie in transient memory: it has memory of its own.
        image.add(16 * min(decoder.config.vocab_size, MOST_CANDIDATES), Kind.SCRATCH),
        code.kernel(keep_position, array_kind(number, 2), array_kind(number, 3), integer),
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

    def start(to: Writer) -> None:
        functions.check_memory(to)
        store(to, "i64", 0, functions.at(to, plan.state))

    functions.define(begin, start)
    functions.define(follow, lambda to: _next(functions, to, plan))
    return [begin, follow]


def _next(functions: ModuleText, to: Writer, plan: Generation) -> None:
    decoder, run = plan.decoder, plan.run
    config = decoder.config
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
    table = functions.tables.fill(to, run.bound, "1", "0")
    given = {
        decoder._step.tokens: ("i64", "%token"), decoder._step.positions: ("i64", length),
        decoder._step.length: ("double", to.new(f"sitofp i64 {length} to double")),
    }  # fmt: skip
    for leaf, (type, value) in given.items():
        store(to, type, value, functions.tables.pointer(to, run.fed[leaf].address, "1", "0"))
    status = to.new(f"call i32 @{run.bound.entry.symbol}(ptr {table})")
    failed = to.new(f"icmp ne i32 {status}, 0")
    to.branch(failed, lambda: to.leave(f"ret i32 {to.new(f'call i32 @error_of(i32 {status})')}"))
    logits, new = (functions.tables.pointer(to, array.address, "1", "0") for array in run.outputs)
    layers, width, positions = config.n_layer, config.n_embd, config.n_positions
    values: list[Value] = [("ptr", new), ("i64", str(layers)), ("i64", str(3 * width))]
    values += [("ptr", functions.at(to, plan.cache)), ("i64", str(layers)), ("i64", str(2 * width))]
    call_kernel(to, plan.keep, [*values, ("i64", str(positions)), ("i64", length)])
    candidates = functions.at(to, plan.candidates)
    room = min(config.vocab_size, MOST_CANDIDATES)
    sums = address(to, candidates, 8 * room)
    values = [("ptr", logits), ("i64", str(config.vocab_size)), ("double", "%temperature"), ("i64", "%top_k")]
    values += [("i64", "%seed"), ("i64", length), ("ptr", candidates), ("i64", str(room))]
    found = call_kernel(to, plan.draw, [*values, ("ptr", sums), ("i64", str(room))], "i64")
    refuse_if(to, to.compare("slt", found, 0), code_of("DIVERGED"))
    store(to, "i64", to.add(length, 1), state)
    store(to, "i64", found, "%next")
