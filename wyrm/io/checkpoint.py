"""Parameters in a file and back: all of them, or none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import CheckpointError, DTypeError, NotFinite
from wyrm.io.arrays import Outline, load_some, outlines, save_arrays
from wyrm.io.files import FilePath
from wyrm.nn.module import Module
from wyrm.node.buffer import Buffer
from wyrm.node.leaves import Parameter

Kept = Parameter[Any] | Buffer[Any]
Parameters = Module | Mapping[str, Parameter[Any]]


def by_name(parameters: Parameters) -> dict[str, Kept]:
    """The parameters and buffers of a module, or those of a mapping, by name, at least one."""
    if isinstance(parameters, Module):
        named: dict[str, Kept] = dict([*parameters.named_parameters(), *parameters.named_buffers()])
    else:
        named = dict(parameters)
    for name, leaf in named.items():
        if not isinstance(leaf, Parameter | Buffer):
            raise DTypeError(f"{name} is no parameter, but {leaf!r}; save_arrays takes arrays")
    if not named:
        raise CheckpointError(
            f"{type(parameters).__name__} has no parameters; a module finds those in its attributes, and in lists, "
            f"tuples and dicts of them"
        )
    return named


def save(parameters: Parameters, path: FilePath, metadata: Mapping[str, str] | None = None) -> None:
    """Write the parameters and buffers of a module, or a mapping of names to them, to a safetensors file.

    A module's have the names of `named_parameters()` and `named_buffers()`. `metadata` is text by name to keep beside
    them, which `load_arrays` gives back. A file that is there is replaced in a single step once the new one is whole
    and on the disk; whatever goes wrong before that, it stays as it was.

    Raises:
        CheckpointError: the file cannot be written, or there are no parameters.
        NotFinite: a parameter holds a NaN or an infinity; a good file is not replaced by that.
        DTypeError: the mapping holds something else, or the metadata is no text.

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
                f"saving {os.fspath(path)!r}: {name} holds a NaN or an infinity, so the file is left as it was; "
                f"save_arrays writes any numbers"
            )
    save_arrays(path, arrays, metadata)


def load(parameters: Parameters, path: FilePath) -> None:
    """Set the parameters and buffers of a module, or of a mapping of names, from a file that `save` wrote.

    The file holds exactly these names with these shapes and dtypes, and finite numbers; everything is checked before
    the first parameter is set.

    Raises:
        CheckpointError: there is no such file, it is truncated, corrupt or of another format, or it holds other
            parameters; the message lists those that are missing, those too many, and those that differ.
        DTypeError: the mapping holds something else than parameters.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:  # doctest: +ELLIPSIS
    ...     save(wy.nn.Linear(2, 3), f"{directory}/model.safetensors")
    ...     load(wy.nn.Linear(2, 4, bias=False), f"{directory}/model.safetensors")
    Traceback (most recent call last):
    ...
    wyrm.errors.CheckpointError: '.../model.safetensors' was made for other parameters than those of Linear:
      extra in the file: bias
      weight: (2, 3) float32 in the file, (2, 4) float32 here
    """
    named, what = by_name(parameters), repr(os.fspath(path))
    # Before anything is read: what has the right shapes takes no more memory than the parameters do.
    _refuse(parameters, what, differences(named, outlines(path)))
    _set_all(parameters, load_some(path, named), what, "file")


def load_state_dict(parameters: Parameters, state: Mapping[str, NDArray[Any]]) -> None:
    """Set the parameters and buffers of a module, or of a mapping of names, from arrays by name.

    The arrays have exactly these names, shapes and dtypes, and finite numbers, else a `CheckpointError` lists what
    differs and nothing is set.

    >>> model, twin = wy.nn.Linear(2, 3), wy.nn.Linear(2, 3)
    >>> load_state_dict(twin, model.state_dict())
    >>> bool((twin.weight.value == model.weight.value).all())
    True
    """
    _set_all(parameters, {name: np.asarray(array) for name, array in state.items()}, "the state", "state")


def _set_all(parameters: Parameters, arrays: Mapping[str, NDArray[Any]], what: str, where: str) -> None:
    named = by_name(parameters)
    _refuse(parameters, what, differences(named, arrays, where) + not_finite(arrays, where))
    for name, parameter in named.items():
        parameter.set(arrays[name])


def _refuse(parameters: Parameters, what: str, problems: list[str]) -> None:
    if problems:
        what = f"{what} was made for other parameters than those of {type(parameters).__name__}:"
        raise CheckpointError("\n".join([what, *problems]))


def differences(
    named: Mapping[str, Kept], found: Mapping[str, Outline | NDArray[Any]], where: str = "file"
) -> list[str]:
    """Why arrays of these shapes and dtypes cannot be the parameters' values, line by line; none where they can."""
    problems = [
        f"  {what}: {', '.join(names)}"
        for what, names in (
            (f"missing in the {where}", [name for name in named if name not in found]),
            (f"extra in the {where}", [name for name in found if name not in named]),
        )
        if names
    ]
    return problems + [
        f"  {name}: {found[name].shape} {found[name].dtype} in the {where}, {parameter.shape} {parameter.dtype} here"
        for name, parameter in named.items()
        if name in found and (found[name].shape != parameter.shape or found[name].dtype != parameter.dtype)
    ]


def not_finite(arrays: Mapping[str, NDArray[Any]], where: str = "file") -> list[str]:
    """A line for each array with a number that no parameter can have."""
    return [
        f"  {name}: a NaN or an infinity in the {where}"
        for name, array in arrays.items()
        if not np.isfinite(array).all()
    ]
