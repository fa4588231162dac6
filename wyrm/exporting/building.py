"""An export before it is written for a language: programs that share one block of memory, joined to one object file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from wyrm.engines.module_paths import paths_of_leaves
from wyrm.engines.native.llvm import cache
from wyrm.engines.native.llvm.emit import ENTRY
from wyrm.engines.native.llvm.optimize import Unit, codegen_level, optimized
from wyrm.engines.native.products.target import Target
from wyrm.engines.native.products.writer import SHARED
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.errors import CompileError, ShapeError
from wyrm.exporting.batches import BatchSizes, NotPolynomial
from wyrm.exporting.embedding import EmbeddedWeights
from wyrm.exporting.errors import BATCH, ERRORS
from wyrm.exporting.functions import Module
from wyrm.exporting.generation import ExportedDecoder, define_generation, plan_generation
from wyrm.exporting.image import Image, Kind, Region
from wyrm.exporting.interface import Interface, Tensor
from wyrm.exporting.names import OPTIMIZER, PROGRAM, check_names
from wyrm.exporting.plan import Prediction, axes_of, largest_bytes, plan_prediction, plan_training, refuse
from wyrm.exporting.predicting import Start, define_prediction, define_start
from wyrm.exporting.routines import ArrayRegions, Code
from wyrm.exporting.training import define_training
from wyrm.graph.axes import Dim
from wyrm.graph.base import label
from wyrm.graph.parameters import Kept, NarrowFactors, NarrowNumbers, Parameter
from wyrm.graph.storage import bound_array
from wyrm.graph.traversal import topological_order
from wyrm.support.memory import with_collector_paused


def object_file(units: Sequence[Unit], symbols: Mapping[str, str], target: Target) -> tuple[bytes, list[str]]:
    """Return the object file, and the names of functions that it calls outside.

    Only the functions with a symbol are visible, by that name.
    """
    machine = target.machine(2)
    whole: Any = None
    for unit in units:
        module = llvm.parse_bitcode(_bitcode(unit, target))
        if whole is None:
            whole = module
        else:
            whole.link_in(module)
    for each in [*whole.functions, *whole.global_variables]:
        if each.name in symbols:
            each.name = symbols[each.name]
        elif not each.is_declaration:
            each.linkage = "internal"
    # Each unit is optimized already. All that is left is to remove functions that nobody calls.
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0))
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(whole, builder)
    try:
        code = bytes(machine.emit_object(whole))
    except RuntimeError as error:
        raise CompileError(f"LLVM cannot compile for {target.triple}: {error}") from error
    outside = [
        each.name for each in whole.functions if each.is_declaration and not each.name.startswith("llvm.")
    ]  # fmt: skip
    return code, sorted(outside)


def _bitcode(unit: Unit, target: Target) -> bytes:
    """Return an optimized unit, compiled or from the cache; its exported function has the unit's symbol."""
    names = (target.triple, target.cpu, target.features)
    name = f"wyrm_{cache.key(repr(('bitcode', names, unit.symbol, unit.text, unit.level)))}.machine"
    kept = cache.store().read(name)
    if kept is not None:
        return kept
    text = unit.text
    for exported in (SHARED, ENTRY):
        text = text.replace(f"@{exported}(", f"@{unit.symbol}(")
    module, _ = optimized(text, unit.level, target.machine(codegen_level(unit.level)))
    found = bytes(module.as_bitcode())
    cache.store().write(name, found)
    return found


# The least bytes of a packed block of an operand.
_SMALLEST_BLOCK = 4096


@dataclass
class Built:
    """An export: its interface, its modules, and the values of its tensors.

    `object_file` compiles the modules for the target. `initial` has the arrays whose values are saved, by name: views
    of the parameters and of the optimizer's state, and counts.
    """

    interface: Interface
    units: list[Unit]
    target: Target
    initial: dict[str, np.ndarray]
    # The parameters and buffers by the names of their tensors.
    leaves: dict[str, Any]
    training: Any = None
    predictions: Mapping[str, Any] = field(default_factory=dict)
    constant_bytes: int = 0
    embedding: EmbeddedWeights | None = None

    def object_file(self) -> tuple[bytes, list[str]]:
        """Return the object file, and the functions of other libraries that it calls."""
        symbols = {each.name: self.interface.symbol(each.name) for each in self.interface.functions}
        return object_file(self.units, symbols, self.target)


def build(
    name: str,
    target: Target,
    train: Any | None,
    predict: Mapping[str, Any],
    batch_sizes: object,
    sizes: Mapping[type[Dim], int],
    embed: str | None = None,
    generate: object = None,
) -> Built:
    """Plan and write the functions of an export; raise `OptionError` or `ShapeError` for what cannot leave."""
    # The batch sizes of each prediction by its name, and those of the training by None.
    given = dict.fromkeys([None, *predict], BatchSizes.of(batch_sizes))
    decoder = None if generate is None else ExportedDecoder(generate)
    errors: dict[str | None, ShapeError] = {}
    while True:
        try:
            return with_collector_paused(_build_all, name, target, train, predict, given, sizes, embed, decoder)
        except NotPolynomial:
            given = {each: batches.every() for each, batches in given.items()}
        except _Refused as refused:
            error = errors.setdefault(refused.program, refused.error)
            fewer = given[refused.program].without_least()
            if fewer is None:
                raise error from None
            given[refused.program] = fewer


def _rows_text(given: Mapping[str | None, BatchSizes]) -> str:
    """Return how many rows a batch may have, once if it is the same for all programs."""
    texts = {
        "training" if name is None else name: ", ".join(map(str, each.listed)) or f"{each.least} to {each.most}"
        for name, each in given.items()
    }
    if len(set(texts.values())) == 1:
        return f"{next(iter(texts.values()))} rows"
    return " and ".join(f"{text} rows in {name}" for name, text in texts.items())


class _Refused(Exception):
    """A program that cannot be planned for its batch sizes: the name of a prediction, or None for the training."""

    def __init__(self, program: str | None, error: ShapeError) -> None:
        super().__init__(program)
        self.program = program
        self.error = error


@contextmanager
def _of_program(name: str | None) -> Iterator[None]:
    """Say whose error a `ShapeError` within the block is."""
    try:
        yield
    except ShapeError as error:
        raise _Refused(name, error) from None


def _build_all(
    name: str, target: Target, train: Any | None, predict: Mapping[str, Any], given: Mapping[str | None, BatchSizes],
    sizes: Mapping[type[Dim], int], embed: str | None, decoder: ExportedDecoder | None,
) -> Built:  # fmt: skip
    programs = [*([] if train is None else [train]), *predict.values()]
    graphs: list[NativeGraph] = [program._engine.graph for program in programs]
    axes = axes_of(graphs, sizes)
    if decoder is not None:
        graphs += [each.graph for each in decoder.passes]
    check_names(name, predict, graphs)
    for graph in graphs:
        refuse(graph)
    if axes.batch is None:
        given = dict.fromkeys(given, BatchSizes(1))
    batches = given[None] if train is not None or not predict else given[next(iter(predict))]
    # No operand of a product is larger than the largest array, and a larger block of one is never packed.
    largest = max(largest_bytes(graph, axes, batches.most) for graph in graphs)
    small = min(target.block_bytes, max(_SMALLEST_BLOCK, -(-largest // 4096) * 4096 + 4096))
    code, image = Code(replace(target, block_bytes=small)), Image()
    places = ArrayRegions(image)
    embedding = None if embed is None else EmbeddedWeights(embed)  # type: ignore[arg-type]  # checked before
    if decoder is not None:
        for slot in decoder.slots:
            places.share(bound_array(slot.held), Kind.EXPANDED)
    kept = frozenset[Parameter]() if decoder is None else decoder.kept
    held = _Tensors(graphs, places, embedding, kept)
    counters = held.count(train)
    training, predictions = None, list[Prediction]()
    if train is not None:
        with _of_program(None):
            training = plan_training(train, code, places, given[None], axes, counters)
    for each, program in predict.items():
        with _of_program(each):
            predictions.append(plan_prediction(each, program, code, places, given[each], axes))
    generation = None if decoder is None else plan_generation(decoder, code, places)
    # What products pack is used while transient memory is: it has memory of its own.
    packed = image.add(code.packed_bytes, Kind.SCRATCH)
    if training is not None:
        training.snapshot.size = image.room(Kind.CHANGED)
    groups = () if training is None else training.groups
    image.place(64 + 8 * len(groups))
    tensors = held.tensors()
    module = Module(code, image, batches, tensors, held.changed, places.bound, packed)
    start = Start(groups, () if embedding is None else tuple(embedding.packed), not tensors)
    define_start(module, name, start)
    if training is not None:
        define_training(module, training, name)
    for prediction in predictions:
        define_prediction(module, name, prediction)
    if generation is not None:
        define_generation(module, name, generation)
    errors = ERRORS | {f"OPERATION_{number}": (number, message) for message, number in module.own_errors.items()}
    taken = {each: batches for each, batches in given.items() if each is not None or train is not None}
    if axes.batch is not None and taken:
        errors["BATCH"] = BATCH, f"{ERRORS['BATCH'][1]}; it takes {_rows_text(taken)}"
    interface = Interface(
        name, image.size, tensors, module.signatures, errors, batches.most, batches.listed, batches.least,
        module.kernels[1],
    )  # fmt: skip
    units = [*code.units, Unit("wyrm_exported", module.text(interface.version), 2)]
    plans = {each.name: each for each in predictions}
    return Built(
        interface, units, target, held.values(), held.leaves, training, plans, len(image.data), embedding
    )  # fmt: skip


class _Tensors:
    """The arrays that an export saves, by name."""

    def __init__(
        self,
        graphs: Sequence[NativeGraph],
        places: ArrayRegions,
        embedding: EmbeddedWeights | None,
        others: frozenset[Parameter],
    ) -> None:
        self._places = places
        self._found: dict[str, tuple[np.ndarray, Region]] = {}
        self.changed: set[str] = set()
        self.leaves: dict[str, Any] = {}
        leaves = [leaf for graph in graphs for leaf in graph.schedule.leaves if isinstance(leaf, Kept)]
        optimizers = [graph.optimizer for graph in graphs if graph.optimizer is not None]
        leaves += [leaf for optimizer in optimizers for leaf in optimizer.parameters]
        trained = {leaf for graph in graphs for leaf in graph.trained}
        paths = paths_of_leaves(topological_order([output for graph in graphs for output in graph.outputs]))
        for leaf in dict.fromkeys(leaves):
            if leaf in others:
                continue
            name = self._free(paths.get(leaf) or label(leaf))
            array = bound_array(leaf)
            if embedding is not None:
                embedding.add(name, array, places, exact=isinstance(leaf, NarrowNumbers | NarrowFactors))
                continue
            self._add(name, array, changes=leaf in trained)
            self.leaves[name] = leaf

    def _free(self, name: str) -> str:
        found, count = name, 1
        while found in self._found:
            count += 1
            found = f"{name}.{count}"
        return found

    def _add(self, name: str, array: np.ndarray, *, changes: bool) -> Region:
        region = self._places.share(array, Kind.CHANGED if changes else Kind.TENSOR)
        self._found[name] = array, region
        if changes:
            self.changed.add(name)
        return region

    def count(self, train: Any | None) -> dict[str, Region]:
        """Add the optimizer's state and the counts of a training; return the regions of the counts."""
        if train is None:
            return {}
        optimizer: Any = train.optimizer
        for position, parameter in enumerate(optimizer.parameters):
            for slot, array in optimizer.state_of(parameter).items():
                name = f"{OPTIMIZER}{position}.{slot}"
                self._add(name, array, changes=True)
        counts = optimizer.step_counts()
        program = train.state_dict()
        arrays = {
            "optimizer_steps": (f"{OPTIMIZER}steps", np.array(counts[0], np.int64)),
            "counts": (f"{OPTIMIZER}counts", np.array(counts[1:], np.int64)),
            "steps": (f"{PROGRAM}steps", np.array(program["steps"], np.int64)),
            "epochs": (f"{PROGRAM}epochs", np.array(program["epochs"], np.int64)),
        }
        return {key: self._add(name, array, changes=True) for key, (name, array) in arrays.items()}

    def tensors(self) -> list[Tensor]:
        """Return the tensors, once their places are known."""
        return [
            Tensor(name, array.dtype, array.shape, region.offset) for name, (array, region) in self._found.items()
        ]  # fmt: skip

    def values(self) -> dict[str, np.ndarray]:
        """Return the arrays."""
        return {name: array for name, (array, _) in self._found.items()}
