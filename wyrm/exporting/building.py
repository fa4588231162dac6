"""An export before it is written for a language: programs that share one block of memory, joined to one object file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from wyrm.engines.native.ir.types import UINT8, scalar_of
from wyrm.engines.native.llvm import cache
from wyrm.engines.native.llvm.emit import ENTRY
from wyrm.engines.native.llvm.optimize import Unit, codegen_level, optimized
from wyrm.engines.native.products.target import Target
from wyrm.engines.native.products.writer import SHARED, Writer
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.errors import CompileError, ShapeError
from wyrm.exporting.batches import BatchSizes, NotPolynomial
from wyrm.exporting.embedding import EmbeddedWeights, Packed
from wyrm.exporting.functions import MEMORY, RATES, READY, VERSION, Kernels, ModuleText, code_of, input_parameters
from wyrm.exporting.generation import ExportedDecoder, plan_generation
from wyrm.exporting.generation import define as generation_functions
from wyrm.exporting.image import Image, Kind, Region
from wyrm.exporting.interface import ERRORS, FunctionParameter, FunctionSignature, Interface, Role, Tensor
from wyrm.exporting.names import OPTIMIZER, PROGRAM, check_names, identifier
from wyrm.exporting.plan import Prediction, Training, axes_of, largest_bytes, plan_prediction, plan_training, refuse
from wyrm.exporting.routines import ArrayRegions, Code
from wyrm.exporting.training import TrainingFunctions
from wyrm.exporting.writing import address, call_kernel, double, load, refuse_if, store
from wyrm.graph.axes import Dim
from wyrm.graph.base import label
from wyrm.graph.parameters import Buffer, Parameter
from wyrm.graph.storage import bound_array


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


_BYTE = UINT8
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
    given = BatchSizes.of(batch_sizes)
    decoder = None if generate is None else ExportedDecoder(generate)
    refused: ShapeError | None = None
    while True:
        try:
            return _build(name, target, train, predict, given, sizes, embed, decoder)
        except NotPolynomial:
            given = given.every()
        except ShapeError as error:
            fewer, refused = given.without_least(), refused or error
            if fewer is None:
                raise refused from None
            given = fewer


def _build(
    name: str, target: Target, train: Any | None, predict: Mapping[str, Any], batches: BatchSizes,
    sizes: Mapping[type[Dim], int], embed: str | None, decoder: ExportedDecoder | None,
) -> Built:  # fmt: skip
    programs = [*([] if train is None else [train]), *predict.values()]
    graphs: list[NativeGraph] = [program._engine.graph for program in programs]
    axes = axes_of(graphs, sizes)
    if decoder is not None:
        graphs += [decoder.step.graph, decoder.read.graph]
    check_names(name, predict, graphs)
    for graph in graphs:
        refuse(graph)
    if axes.batch is None:
        batches = BatchSizes(1)
    # No operand of a product is larger than the largest array, and a larger block of one is never packed.
    largest = max(largest_bytes(graph, axes, batches.most) for graph in graphs)
    small = min(target.block_bytes, max(_SMALLEST_BLOCK, -(-largest // 4096) * 4096 + 4096))
    code, image = Code(replace(target, block_bytes=small)), Image()
    places = ArrayRegions(image)
    embedding = None if embed is None else EmbeddedWeights(embed)  # type: ignore[arg-type]  # checked before
    if decoder is not None:
        places.share(bound_array(decoder.cache), Kind.EXPANDED)
    held = _Tensors(graphs, places, embedding, frozenset() if decoder is None else frozenset([decoder.cache]))
    counters = held.count(train)
    training = None if train is None else plan_training(train, code, places, batches, axes, counters)
    predictions = [plan_prediction(each, program, code, places, batches, axes) for each, program in predict.items()]
    generation = None if decoder is None else plan_generation(decoder, code, places)
    kernels = Kernels(code)
    for prediction in predictions:
        for array in prediction.run.outputs:
            if not array.contiguous:
                kernels.assign(array)
    packed = image.add(code.packed_bytes, Kind.TRANSIENT)
    groups = len(training.rates) if training is not None else 0
    if training is not None:
        training.snapshot.size = sum(-(-region.size // 64) * 64 for region in image.of(Kind.TENSOR))
    _prepare(kernels, training, predictions)
    packed.size = code.packed_bytes
    # What products pack is used while other transient memory is: it has memory of its own.
    packed.kind = Kind.SCRATCH
    image.place(64 + 8 * groups)
    tensors = held.tensors()
    functions = ModuleText(code, image, kernels, batches, packed)
    functions.trained = [tensor for tensor in tensors if tensor.name in held.changed]
    packed_weights = [] if embedding is None else embedding.packed
    found = [_init(functions, name, training, packed_weights), _ready(functions, name, tensors)]
    if training is not None:
        found += TrainingFunctions(functions, training, name).define()
    found += [_predict(functions, name, each) for each in predictions]
    if generation is not None:
        found += generation_functions(functions, name, generation)
    errors = ERRORS | {f"OPERATION_{number}": (number, message) for message, number in functions.own_errors.items()}
    interface = Interface(
        name, image.size, tensors, found, errors, batches.most, batches.listed, batches.least,
        frozenset(unit.symbol for unit in code.units),
    )  # fmt: skip
    text = functions.text(interface.version)
    units = [*code.units, Unit("wyrm_exported", text, 2)]
    plans = {each.name: each for each in predictions}
    return Built(
        interface, units, target, held.values(), held.leaves, training, plans, len(image.data), embedding
    )  # fmt: skip


def _prepare(kernels: Kernels, training: Training | None, predictions: Sequence[Prediction]) -> None:
    """Compile the kernels that the functions will call."""
    runs = [each.run for each in predictions] + ([] if training is None else [training.run])
    for run in runs:
        for each in run.touched:
            kernels.forget_rows(each.sums.dtype)
    plans = [each.given for each in predictions] + ([] if training is None else [training.given])
    for plan in plans:
        for given in plan:
            number = scalar_of(given.leaf.dtype)
            if number is not None and number.kind in "bi":
                kernels.within(number if number.kind == "i" else _BYTE)


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
        leaves = [leaf for graph in graphs for leaf in graph.schedule.leaves if isinstance(leaf, Parameter | Buffer)]
        optimizers = [graph.optimizer for graph in graphs if graph.optimizer is not None]
        leaves += [leaf for optimizer in optimizers for leaf in optimizer.parameters]
        trained = {leaf for graph in graphs for leaf in graph.trained}
        for leaf in dict.fromkeys(leaves):
            if leaf in others:
                continue
            name = self._free(label(leaf))
            array = bound_array(leaf)
            if embedding is not None:
                embedding.add(name, array, places)
                continue
            self._add(name, array)
            self.leaves[name] = leaf
            if leaf in trained:
                self.changed.add(name)

    def _free(self, name: str) -> str:
        found, count = name, 1
        while found in self._found:
            count += 1
            found = f"{name}.{count}"
        return found

    def _add(self, name: str, array: np.ndarray) -> Region:
        region = self._places.share(array, Kind.TENSOR)
        self._found[name] = array, region
        return region

    def count(self, train: Any | None) -> dict[str, Region]:
        """Add the optimizer's state and the counts of a training; return the regions of the counts."""
        if train is None:
            return {}
        optimizer: Any = train.optimizer
        for position, parameter in enumerate(optimizer.parameters):
            for slot, array in optimizer.state_of(parameter).items():
                name = f"{OPTIMIZER}{position}.{slot}"
                self._add(name, array)
                self.changed.add(name)
        counts = optimizer.step_counts()
        program = train.state_dict()
        arrays = {
            "optimizer_steps": (f"{OPTIMIZER}steps", np.array(counts[0], np.int64)),
            "counts": (f"{OPTIMIZER}counts", np.array(counts[1:], np.int64)),
            "steps": (f"{PROGRAM}steps", np.array(program["steps"], np.int64)),
            "epochs": (f"{PROGRAM}epochs", np.array(program["epochs"], np.int64)),
        }
        return {key: self._add(name, array) for key, (name, array) in arrays.items()}

    def tensors(self) -> list[Tensor]:
        """Return the tensors, once their places are known."""
        return [
            Tensor(name, array.dtype, array.shape, region.offset) for name, (array, region) in self._found.items()
        ]  # fmt: skip

    def values(self) -> dict[str, np.ndarray]:
        """Return the arrays."""
        return {name: array for name, (array, _) in self._found.items()}


# --- functions of every export ----------------------------------------------------------------------------------------


def _init(functions: ModuleText, name: str, training: Training | None, weights: Sequence[Packed]) -> FunctionSignature:
    """Write the function that prepares a block."""
    size = FunctionParameter("size", Role.ROWS)
    function = FunctionSignature(
        f"{name}_init", [MEMORY, size], "Prepare a block of memory of `size` bytes; tensors are 0."
    )

    def body(to: Writer) -> None:
        image = functions.image
        word = to.new("ptrtoint ptr %memory to i64")
        refuse_if(to, to.compare("eq", word, 0), code_of("MEMORY"))
        refuse_if(to, to.compare("ne", to.new(f"and i64 {word}, 63"), 0), code_of("MEMORY"))
        refuse_if(to, to.compare("slt", "%size", image.size), code_of("MEMORY"))
        functions.zero(to, "%memory", image.size)
        if training is not None:
            groups = training.graph.optimizer.groups  # type: ignore[union-attr]  # a training has one
            for position, (index, *_) in enumerate(training.numbers.groups):
                if training.rates[position] is None:
                    rate = double(float(groups[index].learning_rate))
                    store(to, "double", rate, functions.head(to, RATES + position))
        for packed in weights:
            _expand(functions, to, packed)
        if not image.of(Kind.TENSOR):
            store(to, "i64", 1, functions.head(to, READY))
        store(to, "i64", load(to, "i64", "@version"), functions.head(to, VERSION))

    functions.define(function, body)
    return function


def _expand(functions: ModuleText, to: Writer, packed: Packed) -> None:
    """Write weights that the data has in fewer bytes."""
    data, out = functions.at(to, packed.data), functions.at(to, packed.region)
    if packed.scales is None:
        count = str(packed.rows * packed.columns)
        values = [("ptr", data), ("i64", count), ("ptr", out), ("i64", count)]
        call_kernel(to, functions.kernels.float16, values)
        return
    shape = [("i64", str(packed.rows)), ("i64", str(packed.columns))]
    scales = functions.at(to, packed.scales)
    values = [("ptr", data), *shape, ("ptr", scales), ("i64", str(packed.rows)), ("ptr", out), *shape]
    call_kernel(to, functions.kernels.int8, values)


def _ready(functions: ModuleText, name: str, tensors: Sequence[Tensor]) -> FunctionSignature:
    """Write the function that checks the tensors and allows the others."""
    function = FunctionSignature(
        f"{name}_ready", [MEMORY], "Check the tensors that were written to the block; call it before other functions."
    )

    def body(to: Writer) -> None:
        functions.check_memory(to, ready=False)
        store(to, "i64", 0, functions.head(to, READY))  # until all tensors are found to be good
        for each in tensors:
            number = scalar_of(each.dtype)
            if number is None or not each.bytes:
                continue
            place, count = address(to, "%memory", each.offset), each.bytes // each.dtype.itemsize
            if number.kind == "f":
                values = [("ptr", place), ("i64", str(count))]
                finite = call_kernel(to, functions.kernels.finite[number], values, "i64")
                refuse_if(to, to.compare("eq", finite, 0), code_of("TENSORS"))
            elif each.name.startswith((OPTIMIZER, PROGRAM)):

                def negative(index: str, place: str = place) -> None:
                    value = load(to, "i64", to.address("i64", place, index))
                    refuse_if(to, to.compare("slt", value, 0), code_of("TENSORS"))

                to.loop(count, 1, negative)
        store(to, "i64", 1, functions.head(to, READY))

    functions.define(function, body)
    return function


def _predict(functions: ModuleText, name: str, prediction: Prediction) -> FunctionSignature:
    """Write the function that computes the outputs of a program."""
    by_rows = any(each.by_rows for each in prediction.given)
    taken = [each.name for each in prediction.given]
    outputs: list[FunctionParameter] = []
    for node, array in zip(prediction.outputs, prediction.run.outputs, strict=False):
        own = identifier(node.name or prediction.name, [*taken, "memory", "rows"])
        taken.append(own)
        first = bool(array.shape) and array.shape[0].value.constant is None
        shape = tuple(axis.value.constant or 0 for axis in array.shape[first:])
        outputs.append(
            FunctionParameter(own, Role.OUTPUT, array.dtype, shape, first, int(np.prod(shape, dtype=np.int64)))
        )
    rows = [FunctionParameter("rows", Role.ROWS)] if by_rows else []
    function = FunctionSignature(
        f"{name}_{prediction.name}", [MEMORY, *input_parameters(prediction.given), *rows, *outputs],
        f"Compute {', '.join(each.name for each in outputs)}.",
    )  # fmt: skip

    def body(to: Writer) -> None:
        functions.check_memory(to)
        size = "%rows" if by_rows else "1"
        place = to.new(f"call i64 @place_of(i64 {size})") if by_rows else "0"
        if by_rows:
            refuse_if(to, to.compare("slt", place, 0), code_of("BATCH"))
        for each in prediction.given:
            functions.check_data(to, each, size, prediction.limits)
        for output in outputs:
            functions.check_pointer(to, output.name)
        run = prediction.run
        table = functions.tables.fill(to, run.bound, size, place)
        for each in prediction.given:
            if each.leaf in run.fed:
                functions.copy_in(to, run.fed[each.leaf], f"%{each.name}", size, place)
        if prediction.counter is not None:
            counter = functions.at(to, prediction.counter)
            step = load(to, "i64", counter)
            store(to, "i64", step, to.address("i64", table, run.bound.entry.starts[3]))
            store(to, "i64", to.add(step, 1), counter)
        status = to.new(f"call i32 @{run.bound.entry.symbol}(ptr {table})")

        def fail() -> None:
            functions.forget(to, run, size, place)
            to.leave(f"ret i32 {to.new(f'call i32 @error_of(i32 {status})')}")

        to.branch(to.new(f"icmp ne i32 {status}, 0"), fail)
        for parameter, array in zip(outputs, run.outputs, strict=False):
            functions.copy_out(to, array, f"%{parameter.name}", size, place)

    functions.define(function, body)
    return function
