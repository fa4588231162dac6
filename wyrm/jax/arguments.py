"""The arguments of the functions of `wy.jax`: checked before anything is computed or written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from wyrm.errors import DTypeError, OptionError
from wyrm.graph.axes import Dim, is_name
from wyrm.graph.base import BaseNode, describe
from wyrm.support.options import whole
from wyrm.train.program import Program


def jax_engine(program: object, who: str, trains: bool = True) -> Any:
    """Return the engine of a program; raise an error unless it computes, and with `trains` has an optimizer, in JAX."""
    if not isinstance(program, Program):
        raise DTypeError(
            f"{who} takes a program, such as wy.compile(loss, optimizer, engine='jax'), not {shown(program)}"
        )
    if program.engine != "jax" or (trains and program.optimizer is None):
        does, remedy = ("train", "an optimizer and ") if trains else ("run", "")
        raise OptionError(f"{who}: {program!r} does not {does} with JAX: compile it with {remedy}engine='jax'")
    return program._training


def checked_path(path: object, who: str, name: str) -> Path:
    """Return a path; raise `DTypeError` for anything else."""
    if not isinstance(path, str | os.PathLike):
        raise DTypeError(f"{who}: {name} must be a path, not {path!r}")
    return Path(path)


def checked_inputs(inputs: object, who: str) -> list[BaseNode]:
    """Return inputs as a list; raise `DTypeError` unless they are nodes."""
    if isinstance(inputs, BaseNode) or not isinstance(inputs, Iterable):
        raise DTypeError(f"{who}: inputs must be a list of leaves, such as inputs=[x, y], not {shown(inputs)}")
    return list(inputs)


def checked_sizes(sizes: object, who: str) -> dict[type[Dim], int]:
    """Return the sizes of axes; raise an error unless they are a mapping from classes of axes to sizes."""
    if sizes is None:
        return {}
    if not isinstance(sizes, Mapping) or not all(map(is_name, sizes)):
        raise DTypeError(f"{who}: sizes must map classes of axes to sizes, such as sizes={{Batch: 32}}, not {sizes!r}")
    return {name: whole(f"{who}: the size of {name.__name__}", size, 0) for name, size in sizes.items()}


def shown(value: object) -> str:
    """Return what an error says of a wrong argument."""
    return describe(value) if isinstance(value, BaseNode) else repr(value)
