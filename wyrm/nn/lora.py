"""Fine-tuning by matrices of low rank beside the weights of linear layers.

Hu et al., "LoRA: Low-rank adaptation of large language models" (2021).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from wyrm.errors import CheckpointError, DTypeError, OptionError
from wyrm.graph.node import Node, Tensor
from wyrm.graph.parameters import Parameter
from wyrm.graph.storage import mark_replaced
from wyrm.graph.typing import FloatArray
from wyrm.io import decoder_files, hugging_face
from wyrm.io.peft_files import LinearModules, Matrices, save_pretrained
from wyrm.module import Module, replace_members
from wyrm.nn.axes import Bs, In, Out
from wyrm.nn.decoder import Decoder
from wyrm.nn.dropout import Dropout
from wyrm.nn.gpt2 import GPT2
from wyrm.nn.initializers import Uniform, initialized
from wyrm.nn.linear import Linear
from wyrm.nn.seeding import generator
from wyrm.support.files import path_of
from wyrm.support.options import number, whole


class AdaptedLinear(Linear[In, Out]):
    """A linear layer with a product of two matrices of low rank beside its weight; `LoRA` makes it.

    It returns `x @ weight + bias + scale * (dropout(x) @ down @ up)`. `down` has the axes (in_features, rank), `up`
    (rank, out_features). `weight` and `bias` are those of the layer that it replaces.

    >>> model = wy.nn.Linear(8, 16) >> wy.nn.relu
    >>> adapter = LoRA(model, rank=2)
    >>> adapter.layers["layers.0"](wy.Input(dims=(3, 8))).shape
    (3, 16)
    """

    down: Parameter[tuple[In, Any]]
    up: Parameter[tuple[Any, Out]]

    def __init__(
        self, base: Linear[In, Out], rank: int, scale: float, dropout: float, random: np.random.Generator, seed: int
    ) -> None:
        self.weight = base.weight
        self.bias = base.bias
        inputs, outputs = map(int, base.weight.dims)
        start = Uniform(-(inputs**-0.5), inputs**-0.5)
        down = initialized("LoRA", "down", start, (inputs, rank), random, base.weight.dtype)
        self.set_matrices(down, np.zeros((rank, outputs)))
        self.scale: float = scale
        self.dropout: Dropout = Dropout(dropout, seed)

    def set_matrices(self, down: FloatArray, up: FloatArray) -> None:
        """Replace the matrices by parameters of these numbers, (in_features, rank) and (rank, out_features)."""
        inputs, outputs = self.weight.dims
        dtype, rank = self.weight.dtype, down.shape[1]
        self.down = Parameter(down, (inputs, rank), name="down", dtype=dtype)
        self.up = Parameter(up, (rank, outputs), name="up", dtype=dtype)

    def __call__(self, x: Tensor[*Bs, In]) -> Tensor[*Bs, Out]:
        """Return the result of the layer and of the matrices: the leading axes of `x`, then `out_features`."""
        result: Node = super().__call__(x)
        low: Node = (self.dropout(x) @ self.down) @ self.up
        total: Tensor[*Bs, Out] = result + low * self.scale
        return total

    def merged(self) -> Linear[In, Out]:
        """Return a linear layer whose weight has the product added; it shares the bias."""
        if not isinstance(self.weight, Parameter):
            raise DTypeError(
                "merge adds to weights of float32, and a narrow weight would round what is added: merge before "
                "quantize(), or keep the adapter beside the narrow weight"
            )
        layer: Linear[In, Out] = object.__new__(Linear)
        total = self.weight.value + self.scale * (self.down.value @ self.up.value)
        dims: Any = self.weight.dims
        layer.weight = Parameter(total.astype(self.weight.dtype), dims, name="weight")
        layer.bias = self.bias
        return layer

    def __repr__(self) -> str:
        return f"Adapted{super().__repr__()[:-1]}, rank={int(self.down.shape[1])})"


def _generator(seed: int | None, path: str) -> np.random.Generator:
    """Return the random generator of the layer at a path: layers of one seed and shape begin with other matrices."""
    return generator() if seed is None else np.random.default_rng([whole("LoRA: seed", seed, 0), *path.encode()])


class LoRA:
    """Matrices of low rank beside the linear layers of a model, which are trained while the model stays as it is.

    Each layer at a path that one of `targets` matches, with `*` for any part, gets two matrices: it then computes
    `x @ weight + bias + alpha / rank * (x @ down @ up)`. `up` begins with zeros, so the model computes at first what it
    did. With a `seed`, `down` follows from it and the path of the layer.
    `dropout` is the rate for the inputs of the matrices while the model trains. Graphs built from now on have
    them. The optimizer gets `adapter.parameters()` alone, so neither gradients nor its state are computed for the
    model, whose weights may be narrow (see `wyrm.nn.Module.quantize`).

    `adapter.save(path)` and `load(path)` keep the matrices, `save_pretrained(folder)` and `from_pretrained` do so in
    the files of peft, and `merge()` adds them to the weights.

    Raise `OptionError` where no linear layer has such a path, for a rank below 1 or above a layer's features, and for
    an `alpha` or a `dropout` out of range; the model is then unchanged.

    >>> model = wy.nn.Linear(8, 16) >> wy.nn.relu >> wy.nn.Linear(16, 3)
    >>> model.quantize("int8")  # doctest: +ELLIPSIS
    {...}
    >>> adapter = LoRA(model, rank=2)
    >>> [name for name, _ in adapter.named_parameters()]
    ['layers.0.down', 'layers.0.up', 'layers.2.down', 'layers.2.up']
    """

    def __init__(
        self,
        model: Module,
        rank: int = 8,
        *,
        alpha: float = 16.0,
        dropout: float = 0.0,
        targets: str | Sequence[str] = "*",
        seed: int | None = None,
    ) -> None:
        rank = whole("LoRA: rank", rank, 1)
        scale = number("LoRA: alpha", alpha, 0.0) / rank
        number("LoRA: dropout", dropout, 0.0, 1.0)
        patterns = [targets] if isinstance(targets, str) else list(targets)
        layers = {path: layer for path, layer in model.named_modules() if path and type(layer) is Linear}
        chosen = {path: each for path, each in layers.items() if any(fnmatchcase(path, one) for one in patterns)}
        if not chosen:
            raise OptionError(
                f"LoRA: {type(model).__name__} has no linear layer at {' or '.join(map(repr, patterns))}; the paths of "
                f"its linear layers are: {', '.join(layers) or 'none'}"
            )
        for path, layer in chosen.items():
            if rank > min(layer.weight.shape):
                raise OptionError(f"LoRA: rank {rank} is above the features of {path}, {layer!r}")
        self.rank: int = rank
        self.alpha: float = float(alpha)
        self.dropout: float = float(dropout)
        self._model: Module = model
        self.layers: dict[str, AdaptedLinear] = {
            path: AdaptedLinear(layer, rank, scale, dropout, _generator(seed, path), seed or 0)
            for path, layer in chosen.items()
        }
        for path, adapted in self.layers.items():
            adapted.training = chosen[path].training
        replace_members(model, {id(chosen[path]): layer for path, layer in self.layers.items()})

    def named_parameters(self) -> list[tuple[str, Parameter]]:
        """Return pairs of path and matrix, as `("blocks.0.attention.qkv.down", ...)`."""
        return [
            (f"{path}.{name}".removeprefix("."), matrix)
            for path, layer in self.layers.items()
            for name, matrix in (("down", layer.down), ("up", layer.up))
        ]

    def named_buffers(self) -> list[tuple[str, Any]]:
        """Return nothing: matrices of low rank have no buffers."""
        return []

    def parameters(self) -> list[Parameter]:
        """Return the matrices, which are what an optimizer trains."""
        return [matrix for _, matrix in self.named_parameters()]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the matrices, and the rank and alpha, to a safetensors file, atomically; see `wyrm.io.save`."""
        from wyrm.io.checkpoint import save

        save(self, path, {"rank": str(self.rank), "alpha": repr(self.alpha)})

    def load(self, path: str | os.PathLike[str]) -> None:
        """Set the matrices from a file that `save` wrote: all, or none on a `CheckpointError`.

        A file of matrices that another `alpha` multiplies is refused.
        """
        from wyrm.io.checkpoint import load
        from wyrm.io.files import stored_arrays

        stored = stored_arrays(path_of("file", path)).metadata()
        alpha = float(stored.get("alpha", self.alpha))
        # Matrices of another rank have other shapes, which are refused by name.
        if alpha != self.alpha and stored.get("rank") == str(self.rank):
            raise CheckpointError(
                f"{os.fspath(path)!r} has matrices for alpha={alpha:g}, and this adapter has alpha={self.alpha:g}: "
                f"make it by LoRA(model, rank={self.rank}, alpha={alpha:g})"
            )
        load(self, path)

    def save_pretrained(self, directory: str | os.PathLike[str]) -> None:
        """Write `adapter_config.json` and `adapter_model.safetensors` as peft reads them, for a `GPT2` or a `Decoder`.

        Raise `CheckpointError` for a file that cannot be written, and for another model.
        """
        save_pretrained(self, _linear_modules(self._model), directory)

    @classmethod
    def from_pretrained(cls, model: Module, directory: str | os.PathLike[str]) -> LoRA:
        """Return the adapter that peft, or `save_pretrained`, wrote to a folder, beside the layers of a model.

        Raise `CheckpointError` for a file that is missing, damaged, or of an adapter that the model cannot have; the
        model is then unchanged.
        """
        found = Matrices(model, _linear_modules(model), directory)
        adapter = cls(model, found.rank, alpha=found.alpha, dropout=found.dropout, targets=list(found.layers))
        for path, (down, up) in found.layers.items():
            adapter.layers[path].set_matrices(down, up)
        return adapter

    def merge(self) -> None:
        """Add the matrices to the weights of the model, whose layers are then linear layers as before.

        Graphs that exist keep the matrices and the weights of before; a step that would train them raises
        `UnusedParameter`. Raise `DTypeError` if a weight is narrow; nothing is changed then.
        """
        merged = {id(layer): layer.merged() for layer in self.layers.values()}
        for path, layer in self.layers.items():
            merged[id(layer)].training = layer.training
            for name in ("down", "up", "weight"):
                mark_replaced(getattr(layer, name), f"{path}.{name}", "merge()")
        replace_members(self._model, merged)
        self.layers = {}

    def __repr__(self) -> str:
        return f"LoRA(rank={self.rank}, alpha={self.alpha:g}, layers={len(self.layers)})"


def _linear_modules(model: Module) -> LinearModules:
    """Return transformers' linear modules by the path of the layer; raise `CheckpointError` for another model."""
    if isinstance(model, GPT2):
        return hugging_face.linear_modules(model.config)
    if isinstance(model, Decoder):
        return decoder_files.linear_modules(model.config)
    raise CheckpointError(
        f"{type(model).__name__} is no model of transformers, such as wy.nn.GPT2 and wy.nn.Decoder, whose adapters "
        f"peft has: adapter.save(file) and load(file) keep those of any model"
    )
