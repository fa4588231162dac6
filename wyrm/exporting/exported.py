"""`export`: programs as files for other languages; `Exported` is what was written, and brings trained tensors home."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from wyrm.engines.columns import checked_columns
from wyrm.engines.native.products.target import Target
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.errors import CheckpointError, DTypeError, OptionError
from wyrm.exporting import c, wasm, wheel
from wyrm.exporting.building import Built, build
from wyrm.exporting.embedding import EMBEDS, EmbedKind
from wyrm.exporting.interface import Interface
from wyrm.exporting.names import OPTIMIZER, PROGRAM
from wyrm.exporting.story import Story, story_of
from wyrm.exporting.targets import target_named
from wyrm.exporting.tokenizer import ExportedTokenizer
from wyrm.graph.axes import Dim
from wyrm.graph.base import label
from wyrm.graph.modes import warn_of_training
from wyrm.graph.ragged import entries_of
from wyrm.io.files import load_arrays, replacing, save_arrays, write_arrays
from wyrm.support.files import FilePath, path_of
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.notices import say
from wyrm.support.options import choice, whole

if TYPE_CHECKING:
    from wyrm.nn.cached_decoder import LanguageModel
    from wyrm.train.program import Program

AnyProgram: TypeAlias = "Program[Any, Any]"


@dataclass
class Exported:
    """The files of an export, and how many bytes its code and its block of memory take.

    `load` takes over tensors that the exported code has trained and saved; `save` writes those of Python for it.
    """

    folder: Path
    interface: Interface = field(repr=False)
    files: list[Path]
    code_bytes: int
    externals: list[str]
    built: Built = field(repr=False)
    _train: Any = field(repr=False, default=None)

    def __str__(self) -> str:
        files = ", ".join(path.name for path in self.files)
        return f"{files}: {self.code_bytes:,} bytes of code (flash), {self.memory_bytes:,} of memory (RAM)"

    @property
    def memory_bytes(self) -> int:
        """The bytes of the block of memory."""
        return self.interface.memory_bytes

    def save(self, path: FilePath) -> None:
        """Write the tensors as they are in Python: parameters, and for a training its state and counts."""
        save_arrays(path, tensors_of(self.built, self._train), {"wyrm": c.FORMAT})

    def load(self, path: FilePath) -> None:
        """Set parameters, the optimizer's state and counts from a file that exported code, or `save`, has written.

        Raise `CheckpointError` for a file of another model, or one that is damaged; nothing has changed then.
        """
        load_tensors(self.built, self._train, path)


def tensors_of(built: Built, train: Any) -> dict[str, np.ndarray]:
    """Return the arrays of the tensors by name, as they are now."""
    found = {name: np.array(array) for name, array in built.initial.items()}
    if train is not None:
        counts, program = train.optimizer.step_counts(), train.state_dict()
        found[f"{OPTIMIZER}steps"] = np.array(counts[0], np.int64)
        found[f"{OPTIMIZER}counts"] = np.array(counts[1:], np.int64)
        found |= {f"{PROGRAM}{name}": np.array(program[name], np.int64) for name in ("steps", "epochs")}
    return found


def load_tensors(built: Built, train: Any, path: FilePath) -> None:
    """Set the arrays of the tensors from a file."""
    arrays = load_arrays(path).arrays
    own = built.initial
    wrong = [
        f"{name}: {found.shape} {found.dtype} in the file, {mine.shape} {mine.dtype} here"
        for name, mine in own.items()
        if (found := arrays.get(name)) is not None and (found.shape, found.dtype) != (mine.shape, mine.dtype)
    ]
    wrong += [f"missing in the file: {name}" for name in own if name not in arrays]
    wrong += [f"extra in the file: {name}" for name in arrays if name not in own]
    wrong += [f"{name} holds a NaN or an infinity" for name, each in arrays.items() if not np.isfinite(each).all()]
    if wrong:
        raise CheckpointError("\n  ".join([f"{str(path)!r} does not fit this export:", *wrong]))
    if train is not None:
        state = {name[len(OPTIMIZER) :]: each for name, each in arrays.items() if name.startswith(OPTIMIZER)}
        counts = {name: int(arrays[f"{PROGRAM}{name}"]) for name in ("steps", "epochs")}
        train.optimizer.load_state_dict(state)
        train.load_state_dict(train.state_dict() | counts)
    for name, leaf in built.leaves.items():
        leaf.set(arrays[name])


@explains_keywords
def export(
    folder: FilePath,
    *,
    train: AnyProgram | None = None,
    predict: AnyProgram | Mapping[str, AnyProgram] | None = None,
    target: str = "c",
    cpu: str | None = None,
    features: str | None = None,
    blas: Literal["cblas"] | None = None,
    name: str = "model",
    batch_sizes: int | Sequence[int] = 32,
    sizes: Mapping[type[Dim], int] | None = None,
    embed: EmbedKind = False,
    generate: LanguageModel | None = None,
    tokenizer: ExportedTokenizer | None = None,
    ram: int | None = None,
    flash: int | None = None,
    columns: Mapping[Any, Any] | None = None,
) -> Exported:
    """Write programs, which share their parameters, as code that needs no Python.

    The folder gets `NAME.o`, an object file for the target; `NAME.h`, C99 that declares its functions and errors;
    `NAME.safetensors`, the parameters and what training changes; `NAME_file.h`, which reads and writes that file in C;
    and `example.c`, which `cc example.c NAME.o -lm` compiles. The functions work in one block of memory that their
    caller gives, call nothing but the C library's mathematics, and may run in several threads, each with its own block.

    - `train`: a program with an optimizer: `NAME_epoch` and `NAME_step` do what `Program.epoch`, with one thread, and a
      call do. Shuffles, random nodes, schedules and counts go on where they are.
    - `predict`: a program without one, `NAME_predict`, or several by name.
    - `generate`: a language model, such as a `wy.nn.GPT2`, that `wy.nn.CachedDecoder` takes: `NAME_begin` begins a
      sequence, `NAME_read_tokens` takes the tokens of a prompt, at once if the model has no recurrent state, and
      `NAME_next` takes a token and draws the next one.
    - `tokenizer`: for WebAssembly, that of the model `generate`, a `wy.data.Tokenizer` or `wy.io.tokenizer(folder)`:
      the page continues texts.
    - `target`: "c", this processor and system; "python", a wheel for them; "wasm32", "cortex-m4", or a triple of LLVM
      such as "aarch64-linux-gnu", "riscv64-linux-gnu", "armv7-linux-gnueabihf", "x86_64-pc-windows-msvc" or
      "arm64-apple-macosx11.0.0".
    - `cpu` and `features`: LLVM's names, such as "x86-64-v3" or "+avx2,+fma"; code for "c" may need this processor.
      Without a `cpu`, features are added to those of the target. With "+relaxed-simd", WebAssembly multiplies and adds
      in one instruction, in browsers that have it.
    - `blas="cblas"`: large products call `cblas_sgemm` and `cblas_dgemm` of the library that you link, such as
      `-lopenblas`, with 32-bit integers. By default the object has products of its own.
    - `batch_sizes`: the most rows of a batch, or a list of all sizes that occur, the last batch of an epoch included.
    - `sizes`: the sizes of other axes without one, by class; of one of different lengths, the most entries of a batch.
    - `columns`: for WebAssembly, the data that the page trains on, as `Program.epoch` takes it.
    - `embed`: whether the weights are data of the code, without a file, for programs that predict alone. "float16" and
      "int8", a factor for each row of a weight, take fewer bytes of code; the loss of accuracy is printed.
    - `ram` and `flash`: the bytes that a microcontroller has for the block and for the code.

    With `target="wasm32"` the folder gets `NAME.wasm`, linked by `ziglang` (`pip install "wyrm-autodiff[wasm]"`) or
    LLVM's `wasm-ld`; `NAME.mjs`, whose `load()` gives an object with a method for each function, in Node and browsers;
    `NAME.d.ts`, their types; and for a training `index.html`, a page that trains in a worker and draws the loss
    (`python -m http.server` shows it). With a `tokenizer`, the page continues what one types, and with a training of
    `model.loss(tokens, targets)`, such as of a `wy.nn.LoRA`, trains on a text that one pastes. The folder then has the
    tokenizer in JavaScript too, `NAME_tokenizer.mjs`.

    With `target="python"` the folder gets a wheel of the package `NAME`, whose `Model` has a method for each function
    and needs NumPy alone. `ziglang` links it, or a C compiler of this machine for this machine. Before the code is
    loaded it checks that the processor has what the code uses: all that this one has, unless `cpu` is one of
    "x86-64-v2" to "x86-64-v4". Wheels for other systems are "python-linux-x86_64", "python-linux-aarch64",
    "python-macos-x86_64", "python-macos-arm64" and "python-windows-x86_64".

    Raise `OptionError` for a program that does not fit, or that cannot leave Python, as one that has an op without a
    native form or a `compute_dtype`, and `ShapeError` for an axis without a size; nothing is written then.

    >>> import tempfile
    >>> class Batch(wy.Dim): ...
    >>> x, y = wy.Input(dims=(Batch(),), name="x"), wy.Input(dims=(Batch(),), name="y")
    >>> slope = wy.Parameter(0.0, name="slope")
    >>> loss = (slope * x - y).square().mean()
    >>> train = wy.compile(loss, wy.optim.SGD([slope], learning_rate=0.1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     exported = wy.export(folder, train=train, predict=wy.compile(slope * x), name="line")
    ...     sorted(path.name for path in exported.files)
    ['example.c', 'line.h', 'line.o', 'line.safetensors', 'line_file.h']
    """
    kind = "float32" if embed is True else embed or None
    if kind is not None:
        choice("embed", kind, EMBEDS)
        if train is not None:
            raise OptionError("embed makes weights constant: it is for programs that predict alone")
    if tokenizer is not None and (generate is None or not target.startswith("wasm")):
        raise OptionError('tokenizer is for the page of a model: it needs generate=model and target="wasm32"')
    if train is None and predict is None and generate is None:
        raise OptionError("export takes a program that trains, programs that predict, or both")
    programs = {} if predict is None else dict(predict) if isinstance(predict, Mapping) else {"predict": predict}
    for program in [*programs.values(), *([] if train is None else [train])]:
        _check_program(program, trains=program is train)
    place = path_of("folder", folder)
    _check_folder(place)
    checked: tuple[str, ...] = ()
    as_wheel = target.startswith(wheel.PYTHON)
    if as_wheel:
        if blas is not None or generate is not None:
            what = "blas" if generate is None else "generate"
            raise OptionError(f"a wheel has no {what}: it predicts and trains by itself")
        chosen, checked = wheel.target_of_wheel(target, cpu, features)
    else:
        chosen = target_named(target, cpu, features, blas)
    built = build(name, chosen, train, programs, batch_sizes, {} if sizes is None else sizes, kind, generate)
    if built.embedding is not None and kind != "float32":
        loss = built.embedding.loss_of_accuracy
        say(f"the weights as {kind} differ by {loss:.2%} (root mean square)")
    story = None if tokenizer is None else story_of(tokenizer, generate, built.training)
    code, externals = built.object_file()
    for memory, has, needs in (("RAM", ram, built.interface.memory_bytes), ("flash", flash, len(code))):
        if has is not None and needs > whole(memory.lower(), has, 1):
            raise OptionError(
                f"{name} needs {needs:,} bytes of {memory}, and there are {has:,}; a smaller batch_sizes takes less of "
                f"RAM, and embed='int8' less of flash"
            )
    data = _columns_by_name(built, {} if columns is None else columns)
    arrays = {f"{name}_data.safetensors": data} if data else {}
    if built.interface.tensors:
        arrays = {f"{name}.safetensors": tensors_of(built, train)} | arrays
    if as_wheel:
        tensors = {file: _file_of(each) for file, each in arrays.items()}
        contents, arrays = wheel.files(built.interface, code, target, checked, tensors), {}
    else:
        contents = _contents(built, chosen, code, externals, story)
    files = [place / file for file in (*contents, *arrays)]
    _make_folder(place, files)
    with ExitStack() as written:  # earlier files are replaced once all new ones are complete
        for file, content in contents.items():
            written.enter_context(replacing(place / file)).write_bytes(content)
        for file, each in arrays.items():
            write_arrays(written.enter_context(replacing(place / file)), str(place / file), each, {"wyrm": c.FORMAT})
    return Exported(place, built.interface, files, len(code), externals, built, train)


def _file_of(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return a file of tensors."""
    with TemporaryDirectory() as folder:
        write_arrays(Path(folder, "arrays"), "arrays", dict(arrays), {"wyrm": c.FORMAT})
        return Path(folder, "arrays").read_bytes()


def _check_folder(place: Path) -> None:
    """Raise `OptionError` for a folder that cannot be made or written; nothing is made."""
    nearest = next(each for each in (place.absolute(), *place.absolute().parents) if os.path.lexists(each))
    if not nearest.is_dir():
        kind = "a file" if nearest.exists() else "a link to nothing"
        raise OptionError(f"folder must be a folder, and {str(nearest)!r} is {kind}")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise OptionError(f"folder must be one that this user may write to, and {str(nearest)!r} is not")


def _make_folder(place: Path, files: Sequence[Path]) -> None:
    """Make a folder for files; raise `OptionError` if that fails, or if a folder has the name of a file."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        taken = [file for file in files if file.is_dir()]
    except (OSError, ValueError) as error:  # no path has a NUL
        raise OptionError(f"folder cannot be {str(place)!r}: {getattr(error, 'strerror', None) or error}") from error
    if taken:
        raise OptionError(f"folder must have no folder of the name of a file, and {str(taken[0])!r} is one")


def _check_program(program: Program[Any, Any], *, trains: bool) -> None:
    """Raise for anything but a program of the native engine, with or without an optimizer."""
    if not hasattr(program, "_engine"):
        raise DTypeError(f"export takes programs, as wy.compile returns them, not {type(program).__name__}")
    if not isinstance(program.graph, NativeGraph):
        raise OptionError(f"export takes programs of the native engine, not of {program.engine!r}: compile it again")
    if program._choices.get("compute_dtype") is not None:
        raise OptionError(
            "exported products are those of float32, and this program rounds their operands: compile it again without "
            "compute_dtype"
        )
    if trains != (program.optimizer is not None):
        raise OptionError(
            "train= takes a program with an optimizer" if trains else "predict= takes programs without an optimizer"
        )
    if not trains and program._modes:
        warn_of_training(program._modes, program._predicts)


def _contents(
    built: Built, target: Target, code: bytes, externals: Sequence[str], story: Story | None
) -> dict[str, bytes]:
    """Return the contents of the files for a target by their names."""
    import wyrm

    name = built.interface.name
    if target.triple.startswith("wasm"):
        return wasm.files(built.interface, code, externals, min(32, built.interface.most), story)
    texts = c.files(built.interface, target, wyrm.__version__)
    return {f"{name}.o": code} | {file: text.encode() for file, text in texts.items()}


def _columns_by_name(built: Built, columns: Mapping[Any, Any]) -> dict[str, np.ndarray]:
    """Return the columns of a training by the names that exported functions have for them."""
    given = {} if built.training is None else {each.leaf: each for each in built.training.given}
    strange = [label(leaf) for leaf in columns if leaf not in given]
    if strange or (columns and len(columns) < len(given)):
        names = ", ".join(label(leaf) for leaf in given) or "none, because nothing is trained"
        raise OptionError(f"columns must have those of the training ({names}), not {', '.join(map(label, columns))}")
    if not columns:
        return {}
    found: dict[str, np.ndarray] = {}
    assert built.training is not None
    for leaf, array in checked_columns(columns, list(given), built.training.graph.ranges.limits).given.items():
        own = given[leaf]
        found[own.name] = entries_of(array)
        if own.along is not None:
            found[built.training.lengths[own.along].offsets] = array.offsets
    return found


__all__ = ["Exported", "export", "target_named"]
