"""GPT-2 as the Hugging Face library keeps it: `config.json` and `model.safetensors` in one folder."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from wyrm.errors import CheckpointError
from wyrm.io.arrays import Outline, load_some, outlines, save_arrays
from wyrm.io.checkpoint import not_finite
from wyrm.io.files import FilePath, replacing
from wyrm.nn.gpt2 import GPT2, GPT2Config

CONFIG, WEIGHTS = "config.json", "model.safetensors"
_PREFIX = "transformer."
# Names of a block's parts there, by their names here.
_BLOCK = {
    "ln_1": "attention_norm", "attn.c_attn": "attention.packed", "attn.c_proj": "attention.mixed",
    "ln_2": "feed_forward_norm", "mlp.c_fc": "feed_forward.inner", "mlp.c_proj": "feed_forward.outer",
}  # fmt: skip
# Masks that older files keep beside the weights.
_IGNORED = re.compile(r"h\.[0-9]+\.attn\.(bias|masked_bias)")


def _names(config: GPT2Config) -> dict[str, str]:
    """The name there of every parameter, without the prefix, and its name here; biases whether there are any or not."""
    found = {"wte.weight": "tokens.table", "wpe.weight": "positions.table"}
    for block in range(config.layers):
        for there, here in _BLOCK.items():
            for part in ("weight", "bias"):
                found[f"h.{block}.{there}.{part}"] = f"blocks.{block}.{here}.{part}"
    found |= {"ln_f.weight": "norm.weight", "ln_f.bias": "norm.bias"}
    if not config.tied:
        found["lm_head.weight"] = "head"
    return found


def _shapes(config: GPT2Config) -> dict[str, tuple[int, ...]]:
    """The shape there of every array of `_names`."""
    width, inner = config.width, config.inner
    block = {
        "ln_1": (width,), "attn.c_attn": (width, 3 * width), "attn.c_proj": (width, width),
        "ln_2": (width,), "mlp.c_fc": (width, inner), "mlp.c_proj": (inner, width),
    }  # fmt: skip
    parts = {f"h.{layer}.{part}": shape for layer in range(config.layers) for part, shape in block.items()}
    weights = {f"{part}.weight": shape for part, shape in (parts | {"ln_f": (width,)}).items()}
    biases = {f"{part}.bias": shape[-1:] for part, shape in (parts | {"ln_f": (width,)}).items()}
    tables = {"wte.weight": (config.vocabulary, width), "wpe.weight": (config.context, width)}
    return weights | biases | tables | ({} if config.tied else {"lm_head.weight": (config.vocabulary, width)})


def _full(name: str) -> str:
    return name if name.startswith("lm_head") else _PREFIX + name


def save_pretrained(model: GPT2, directory: FilePath) -> None:
    """Write `config.json` and `model.safetensors`, which `transformers.GPT2LMHeadModel.from_pretrained` reads.

    Each file is replaced in a single step. A model without biases gets zeros for them. `CheckpointError` where a file
    cannot be written.
    """
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"cannot make the folder {os.fspath(directory)!r}: {error.strerror or error}") from error
    config, named = model.config, model.named_parameters()
    arrays: dict[str, NDArray[Any]] = {}
    for there, here in _names(config).items():
        if here in named:
            arrays[_full(there)] = named[here].value
        else:
            weight = named[here.removesuffix("bias") + "weight"]
            arrays[_full(there)] = np.zeros(weight.shape[-1], weight.dtype)
    save_arrays(folder / WEIGHTS, arrays, {"format": "pt"})
    text = json.dumps(_described(config), indent=2) + "\n"
    with replacing(folder / CONFIG) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _described(config: GPT2Config) -> dict[str, Any]:
    return {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new",
        "vocab_size": config.vocabulary, "n_positions": config.context, "n_ctx": config.context,
        "n_layer": config.layers, "n_head": config.heads, "n_embd": config.width, "n_inner": config.hidden,
        "attn_pdrop": config.dropout, "embd_pdrop": config.dropout, "resid_pdrop": config.dropout,
        "layer_norm_epsilon": config.epsilon, "tie_word_embeddings": config.tied, "initializer_range": 0.02,
        "bos_token_id": config.vocabulary - 1, "eos_token_id": config.vocabulary - 1,
    }  # fmt: skip


def read_config(path: FilePath) -> GPT2Config:
    """The configuration in a `config.json`; `CheckpointError` where it is of another model or none at all."""
    file = os.fspath(path)
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"no such file: {file!r}") from error
    except (OSError, ValueError, RecursionError) as error:  # all that can be wrong with text, JSON and its numbers
        raise CheckpointError(f"cannot read {file!r}: {error}") from error
    if not isinstance(found, dict) or found.get("model_type") != "gpt2":
        kind = found.get("model_type") if isinstance(found, dict) else None
        raise CheckpointError(f"{file!r} describes a model of type {kind!r}, not 'gpt2'")
    wanted = {"activation_function": "gelu_new", "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False}
    for name, value in wanted.items():
        if found.get(name, value) != value:
            raise CheckpointError(f"{file!r} has {name} = {found[name]!r}; GPT2 has {value!r} only")
    rates = [found.get(name, 0.1) for name in ("attn_pdrop", "embd_pdrop", "resid_pdrop")]
    if any(rate != rates[0] for rate in rates):
        different = ", ".join(sorted({repr(rate) for rate in rates}))
        raise CheckpointError(f"{file!r} has different rates of dropout, [{different}]; GPT2 has one")
    try:
        return GPT2Config(
            vocabulary=found["vocab_size"], context=found.get("n_positions", 1024), layers=found["n_layer"],
            heads=found["n_head"], width=found["n_embd"], hidden=found.get("n_inner"), dropout=rates[0],
            tied=found.get("tie_word_embeddings", True), epsilon=found.get("layer_norm_epsilon", 1e-5),
        )  # fmt: skip
    except KeyError as error:
        raise CheckpointError(f"{file!r} does not say {error.args[0]}") from error
    except ValueError as error:
        raise CheckpointError(f"{file!r}: {error}") from error


def from_pretrained(directory: FilePath, *, dtype: DTypeLike = np.float32) -> GPT2:
    """A model from `config.json` and `model.safetensors`, as the Hugging Face library writes them.

    Raises:
        CheckpointError: a file is missing, damaged, of another model, or its arrays do not fit its configuration.
    """
    folder = Path(directory)
    config = read_config(folder / CONFIG)
    file = os.fspath(folder / WEIGHTS)
    found = outlines(file)
    full = {name.removeprefix(_PREFIX): name for name in found}
    # A configuration can ask for more than there is memory for, so all is compared before anything is made or read.
    if config.layers > len(full):
        raise CheckpointError(f"{file!r} holds {len(full)} arrays, too few for the {config.layers} layers of {CONFIG}")
    shapes = _shapes(config)
    if config.tied and "lm_head.weight" in full:  # which older files repeat
        shapes["lm_head.weight"] = shapes["wte.weight"]
    missing = [name for name in shapes if name not in full]
    extra = [name for name in full if name not in shapes and not _IGNORED.fullmatch(name)]
    twice = [name for name in full if name in found and _PREFIX + name in found]
    problems = [f"  missing: {', '.join(missing)}"] if missing else []
    problems += [f"  there with and without {_PREFIX!r}: {', '.join(twice)}"] if twice else []
    problems += [f"  of no use here: {', '.join(extra)}"] if extra else []
    problems += [
        f"  {name}: {problem}"
        for name, shape in shapes.items()
        if name in full and (problem := _problem(found[full[name]], shape))
    ]
    arrays: dict[str, NDArray[Any]] = {}
    if not problems:
        read = load_some(file, [full[name] for name in shapes])
        arrays = {name: read[full[name]] for name in shapes}
        problems = not_finite(arrays)
        table = arrays["wte.weight"]
        if config.tied and not np.array_equal(arrays.get("lm_head.weight", table), table):
            problems.append("  lm_head.weight: other numbers than those of wte.weight, to which it is tied")
    if problems:
        raise CheckpointError("\n".join([f"{file!r} does not fit the configuration beside it:", *problems]))
    model = GPT2(config, dtype=dtype)
    named = model.named_parameters()
    for there, here in _names(config).items():
        named[here].set(arrays[there].astype(dtype))
    return model


def _problem(found: Outline, shape: tuple[int, ...]) -> str | None:
    """Why an array of a file cannot be a parameter's value."""
    if found.shape != shape:
        return f"{found.shape} in the file, {shape} by the configuration"
    return None if found.dtype.kind == "f" else f"holds {found.dtype}"
