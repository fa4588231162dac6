"""Saving and loading all parameters of a module."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np

from wyrm.errors import CheckpointError, DTypeError, NotFinite
from wyrm.graph.parameters import Buffer, Kept, Parameter
from wyrm.io.files import Outline, save_arrays, stored_arrays
from wyrm.support.files import FilePath, path_of


class HasParameters(Protocol):
    """An object with named parameters and buffers, such as a `wyrm.nn.Module`."""

    def named_parameters(self) -> list[tuple[str, Parameter]]: ...
    def named_buffers(self) -> list[tuple[str, Buffer]]: ...


Parameters: TypeAlias = HasParameters | Mapping[str, Parameter]


def by_name(parameters: Parameters) -> dict[str, Kept]:
    """Return the parameters and buffers of a module or a mapping by name; at least one."""
    if hasattr(type(parameters), "named_parameters"):
        module: Any = parameters
        weights = module.named_narrow_weights() if hasattr(module, "named_narrow_weights") else []
        narrow = [part for path, weight in weights for part in weight.parts(path)]
        named: dict[str, Kept] = dict([*module.named_parameters(), *module.named_buffers(), *narrow])
    elif isinstance(parameters, Mapping):
        named = dict(parameters)
    else:
        raise DTypeError(
            f"parameters must be a module, or a dict of parameters by name, as in {{'slope': slope}}, not "
            f"{parameters!r}"
        )
    for name, leaf in named.items():
        if not isinstance(leaf, Kept):
            raise DTypeError(f"{name} is {leaf!r}, not a parameter; use save_arrays for arrays")
    if not named:
        raise CheckpointError(
            f"{type(parameters).__name__} has no parameters; a module collects those in its attributes, and in lists, "
            f"tuples and dicts of them"
        )
    return named


def save(parameters: Parameters, path: FilePath, metadata: Mapping[str, str] | None = None) -> None:
    """Write the parameters and buffers of a module, or a mapping of names to them, to a safetensors file.

    The names are those of `named_parameters()` and `named_buffers()`. The format does not depend on the name of the
    file, which usually ends with ".safetensors". `metadata` maps strings to strings; `load_arrays` returns it. The
    write is atomic: an existing file is replaced once the new one is complete and on disk, and is unchanged if anything
    fails before. A digest in the file tells `load` whether it was damaged since.

    Raises:
        CheckpointError: the file cannot be written, or there are no parameters.
        NotFinite: a parameter holds a NaN or an infinity; an existing file is unchanged.
        DTypeError: the mapping holds something else, or the metadata is not text.

    >>> import tempfile
    >>> model, twin = wy.nn.Linear(2, 3), wy.nn.Linear(2, 3)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     save(model, f"{directory}/model.safetensors")
    ...     load(twin, f"{directory}/model.safetensors")
    >>> bool((twin.weight.value == model.weight.value).all())
    True
    """
    arrays = {name: parameter.value for name, parameter in by_name(parameters).items()}
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise NotFinite(
                f"saving {os.fspath(path)!r}: {name} holds a NaN or an infinity; the file is unchanged. "
                f"save_arrays writes non-finite values"
            )
    save_arrays(path, arrays, metadata)


def load(parameters: Parameters, path: FilePath) -> None:
    """Set the parameters and buffers of a module, or of a mapping of names, from a file that `save` wrote.

    The file must hold exactly these names, with these shapes and dtypes, and finite values. Everything is checked
    before the first parameter is set. Arrays of bfloat16 count as float32. The arrays may be divided over several
    files, which an index beside them lists, such as `model.safetensors.index.json`. The number of batches that batch
    norms of PyTorch count, `num_batches_tracked`, is left out where no layer has it. A file without a digest, as of
    other libraries and earlier versions, is read as it is.

    Raises:
        CheckpointError: the file is missing, truncated, corrupt, or of another format, or does not match its digest, or
            holds other parameters; the message lists missing, extra and mismatched ones.
        DTypeError: the mapping holds something other than parameters.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:  # doctest: +ELLIPSIS
    ...     save(wy.nn.Linear(2, 3), f"{directory}/model.safetensors")
    ...     load(wy.nn.Linear(2, 4, bias=False), f"{directory}/model.safetensors")
    Traceback (most recent call last):
    ...
    wyrm.errors.CheckpointError: '.../model.safetensors' does not match the parameters of Linear:
      extra in the file: bias
      weight: (2, 3) float32 in the file, (2, 4) float32 here
    """
    named, what = by_name(parameters), repr(os.fspath(path_of("file", path)))
    # Compare shapes before reading: arrays of the right shapes need no more memory than the parameters.
    stored = stored_arrays(path)
    _refuse(parameters, what, differences(named, stored.outlines))
    _set_all(parameters, stored.read(named), what, "file")


def load_state_dict(parameters: Parameters, state: Mapping[str, np.ndarray]) -> None:
    """Set the parameters and buffers of a module, or of a mapping of names, from arrays by name.

    The arrays must have exactly these names, shapes and dtypes, and finite numbers; else a `CheckpointError` lists what
    differs, and nothing is set. Raise `DTypeError` for anything else than arrays by name.

    >>> model, twin = wy.nn.Linear(2, 3), wy.nn.Linear(2, 3)
    >>> load_state_dict(twin, model.state_dict())
    >>> bool((twin.weight.value == model.weight.value).all())
    True
    """
    if not isinstance(state, Mapping):
        raise DTypeError(f"load_state_dict takes arrays by name, as state_dict() returns them, not {state!r}")
    arrays = {str(name): np.asarray(array) for name, array in state.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub":
            raise DTypeError(f"load_state_dict takes arrays of numbers by name; {name!r} is {state.get(name)!r}")
    _set_all(parameters, arrays, "the state", "state")


def _set_all(parameters: Parameters, arrays: Mapping[str, np.ndarray], what: str, where: str) -> None:
    named = by_name(parameters)
    _refuse(parameters, what, differences(named, arrays, where) + not_finite(arrays, where))
    for name, parameter in named.items():
        parameter.set(arrays[name])


def _refuse(parameters: Parameters, what: str, problems: list[str]) -> None:
    if problems:
        what = f"{what} does not match the parameters of {type(parameters).__name__}:"
        raise CheckpointError("\n".join([what, *problems]))


def differences(named: Mapping[str, Kept], found: Mapping[str, Outline | np.ndarray], where: str = "file") -> list[str]:
    """Return one line per mismatch between the file's arrays and the parameters: names, shapes and dtypes."""
    problems = [
        f"  {what}: {', '.join(names)}"
        for what, names in (
            (f"missing in the {where}", [name for name in named if name not in found]),
            (f"extra in the {where}", [name for name in found if name not in named and not _counts_batches(name)]),
        )
        if names
    ]
    return problems + [
        f"  {name}: {found[name].shape} {found[name].dtype} in the {where}, {parameter.shape} {parameter.dtype} here"
        for name, parameter in named.items()
        if name in found
        and (found[name].shape != parameter.shape or found[name].dtype != parameter.dtype)
        and not (_counts_batches(name) and found[name].shape == () and found[name].dtype == np.int64)
    ]


def _counts_batches(name: str) -> bool:
    """Return whether an array is the number of batches, an int64 that every batch norm of PyTorch keeps.

    Here it is a float, and only the layers have it that need it.
    """
    return name.rpartition(".")[2] == "num_batches_tracked"


def not_finite(arrays: Mapping[str, np.ndarray], where: str = "file") -> list[str]:
    """Return one line per array with a NaN or an infinity."""
    return [
        f"  {name}: a NaN or an infinity in the {where}"
        for name, array in arrays.items()
        if not np.isfinite(array).all()
    ]
