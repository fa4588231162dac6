"""GPT-2 in the file layout of the Hugging Face library: `config.json` and `model.safetensors` in one folder."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wyrm.errors import CheckpointError
from wyrm.graph.typing import DTypeLike
from wyrm.io.pretrained import CONFIG, Layout, check_supported, config_of, read_weights, write_folder, written_weights
from wyrm.support.files import FilePath

if TYPE_CHECKING:
    from wyrm.nn.gpt2 import GPT2, GPT2Config

_PREFIX = "transformer."
# The names of a block's modules in wyrm, by the library's names.
_BLOCK = {
    "ln_1": "attention_norm", "attn.c_attn": "attention.qkv", "attn.c_proj": "attention.out_proj",
    "ln_2": "feed_forward_norm", "mlp.c_fc": "feed_forward.fc1", "mlp.c_proj": "feed_forward.fc2",
}  # fmt: skip
# Fields for which `GPT2` supports only these values. Both activations are the approximate GELU.
_SUPPORTED: dict[str, tuple[object, ...]] = {
    "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
}
# Attention masks, which older files store beside the weights.
_IGNORED = re.compile(r"h\.[0-9]+\.attn\.(bias|masked_bias)")


def linear_modules(config: GPT2Config) -> dict[str, list[tuple[str, int]]]:
    """Return transformers' path of each linear module, with its columns, by the path here."""
    shapes = _shapes(config)
    return {
        f"blocks.{block}.{ours}": [(f"{_PREFIX}h.{block}.{theirs}", shapes[f"h.{block}.{theirs}.weight"][1])]
        for block in range(config.n_layer)
        for theirs, ours in _BLOCK.items()
        if not theirs.startswith("ln_")
    }


def _names_by_theirs(config: GPT2Config) -> dict[str, str]:
    """Return wyrm's names of all parameters, also of biases, by the library's names without their prefix."""
    names = {"wte.weight": "tokens.weight", "wpe.weight": "positions.weight"}
    for block in range(config.n_layer):
        for theirs, ours in _BLOCK.items():
            for part in ("weight", "bias"):
                names[f"h.{block}.{theirs}.{part}"] = f"blocks.{block}.{ours}.{part}"
    names |= {"ln_f.weight": "norm.weight", "ln_f.bias": "norm.bias"}
    if not config.tie_word_embeddings:
        names["lm_head.weight"] = "head"
    return names


def _shapes(config: GPT2Config) -> dict[str, tuple[int, ...]]:
    """Return the shape of every array of `_names_by_theirs`, by the library's name."""
    n_embd, inner_dim = config.n_embd, config.inner_dim
    block = {
        "ln_1": (n_embd,), "attn.c_attn": (n_embd, 3 * n_embd), "attn.c_proj": (n_embd, n_embd),
        "ln_2": (n_embd,), "mlp.c_fc": (n_embd, inner_dim), "mlp.c_proj": (inner_dim, n_embd),
    }  # fmt: skip
    modules = {f"h.{layer}.{name}": shape for layer in range(config.n_layer) for name, shape in block.items()}
    modules["ln_f"] = (n_embd,)
    weights = {f"{name}.weight": shape for name, shape in modules.items()}
    biases = {f"{name}.bias": shape[-1:] for name, shape in modules.items()}
    table = (config.vocab_size, n_embd)
    embeddings = {"wte.weight": table, "wpe.weight": (config.n_positions, n_embd)}
    return weights | biases | embeddings | ({} if config.tie_word_embeddings else {"lm_head.weight": table})


def _layout(config: GPT2Config) -> Layout:
    """Return the arrays of a model in its file."""
    copied = ("wte.weight", "lm_head.weight") if config.tie_word_embeddings else None
    return Layout(_PREFIX, partial(_shapes, config), _IGNORED, copied, config.n_layer, "n_layer")


def save_pretrained(model: GPT2, directory: FilePath) -> None:
    """Write `config.json` and `model.safetensors`, which `transformers.GPT2LMHeadModel.from_pretrained` reads.

    Each file is replaced atomically. A model without biases is written with biases of zero. Raise `CheckpointError`
    for a file that cannot be written.
    """
    config, layout = model.config, _layout(model.config)
    named = written_weights(model, _names_by_theirs(config).values())
    arrays: dict[str, np.ndarray] = {}
    for theirs, ours in _names_by_theirs(config).items():
        if ours in named:
            arrays[layout.full(theirs)] = named[ours].value
        else:
            weight = named[ours.removesuffix("bias") + "weight"]
            arrays[layout.full(theirs)] = np.zeros(weight.shape[-1], weight.dtype)
    write_folder(directory, _json(config), arrays)


def _json(config: GPT2Config) -> dict[str, Any]:
    """Return the contents of `config.json`."""
    values = asdict(config)
    del values["bias"]  # the library always has biases
    return {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new",
        "initializer_range": 0.02, "n_ctx": config.n_positions,
        "bos_token_id": config.vocab_size - 1, "eos_token_id": config.vocab_size - 1, **values,
    }  # fmt: skip


def read_config(kind: type[GPT2Config], path: FilePath) -> GPT2Config:
    """Return the configuration of a `config.json`; a field that is missing has the library's default.

    Raise `CheckpointError` for a file that is missing, damaged, or of a model that `GPT2` cannot be.
    """
    contents = config_of(path, ("gpt2",))
    check_supported(path, contents, "GPT2", _SUPPORTED)
    names = [field.name for field in fields(kind) if field.name != "bias"]
    try:
        return kind(**{name: contents[name] for name in names if name in contents})
    except ValueError as error:
        raise CheckpointError(f"{os.fspath(path)!r}: {error}") from error


def from_pretrained(
    model_class: type[GPT2], kind: type[GPT2Config], directory: FilePath, *, dtype: DTypeLike = np.float32
) -> GPT2:
    """Return the model in `config.json` and `model.safetensors`, as the Hugging Face library writes them.

    The weights may be divided over several files, which `model.safetensors.index.json` lists. The model is in
    evaluation mode.

    Raises:
        CheckpointError: a file is missing, damaged or of another model, or the arrays do not match the configuration.
    """
    folder = Path(directory)
    config = read_config(kind, folder / CONFIG)
    arrays = read_weights(folder, _layout(config))
    model = model_class(config, dtype=dtype)
    named = dict(model.named_parameters())
    for theirs, ours in _names_by_theirs(config).items():
        named[ours].set(arrays[theirs].astype(dtype))
    return model.eval()
