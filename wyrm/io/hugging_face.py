"""GPT-2 in the file layout of the Hugging Face library: `config.json` and `model.safetensors` in one folder."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wyrm.errors import CheckpointError
from wyrm.graph.typing import DTypeLike
from wyrm.io.checkpoint import not_finite
from wyrm.io.files import Outline, replacing, save_arrays, stored_arrays
from wyrm.support.files import FilePath

if TYPE_CHECKING:
    from wyrm.nn.gpt2 import GPT2, GPT2Config

CONFIG, WEIGHTS = "config.json", "model.safetensors"
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


def _names(config: GPT2Config) -> dict[str, str]:
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
    """Return the shape of every array of `_names`, by the library's name."""
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


def _full(name: str) -> str:
    return name if name.startswith("lm_head") else _PREFIX + name


def save_pretrained(model: GPT2, directory: FilePath) -> None:
    """Write `config.json` and `model.safetensors`, which `transformers.GPT2LMHeadModel.from_pretrained` reads.

    Each file is replaced atomically. A model without biases is written with biases of zero. Raise `CheckpointError`
    for a file that cannot be written.
    """
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"cannot make the folder {os.fspath(directory)!r}: {error.strerror or error}") from error
    config, named = model.config, dict(model.named_parameters())
    arrays: dict[str, np.ndarray] = {}
    for theirs, ours in _names(config).items():
        if ours in named:
            arrays[_full(theirs)] = named[ours].value
        else:
            weight = named[ours.removesuffix("bias") + "weight"]
            arrays[_full(theirs)] = np.zeros(weight.shape[-1], weight.dtype)
    save_arrays(folder / WEIGHTS, arrays, {"format": "pt"})
    text = json.dumps(_json(config), indent=2) + "\n"
    with replacing(folder / CONFIG) as temporary:
        temporary.write_text(text, encoding="utf-8")


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
    file = os.fspath(path)
    try:
        contents = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(
            f"no such file: {file!r}; give a folder on this machine, since wyrm downloads no models"
        ) from error
    except (OSError, ValueError, RecursionError) as error:  # of text, of JSON, and of its nesting
        raise CheckpointError(f"cannot read {file!r}: {error}") from error
    model_type = contents.get("model_type") if isinstance(contents, dict) else None
    if model_type != "gpt2":
        raise CheckpointError(f"{file!r} describes a model of type {model_type!r}, not 'gpt2'")
    for name, supported in _SUPPORTED.items():
        if name in contents and contents[name] not in supported:
            raise CheckpointError(
                f"{file!r} has {name} = {contents[name]!r}; GPT2 supports {' and '.join(map(repr, supported))} only"
            )
    names = [field.name for field in fields(kind) if field.name != "bias"]
    try:
        return kind(**{name: contents[name] for name in names if name in contents})
    except ValueError as error:
        raise CheckpointError(f"{file!r}: {error}") from error


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
    file, stored, _ = weights = stored_arrays(folder / WEIGHTS)
    full = {name.removeprefix(_PREFIX): name for name in stored}
    # The configuration may ask for more memory than there is: compare everything before allocating or reading arrays.
    if config.n_layer > len(full):
        raise CheckpointError(f"{file!r} holds {len(full)} arrays, too few for n_layer {config.n_layer} of {CONFIG}")
    shapes = _shapes(config)
    if config.tie_word_embeddings and "lm_head.weight" in full:  # a copy, in older files
        shapes["lm_head.weight"] = shapes["wte.weight"]
    missing = [name for name in shapes if name not in full]
    extra = [name for name in full if name not in shapes and not _IGNORED.fullmatch(name)]
    twice = [name for name in full if name in stored and _PREFIX + name in stored]
    problems = [f"  missing: {', '.join(missing)}"] if missing else []
    problems += [f"  stored with and without {_PREFIX!r}: {', '.join(twice)}"] if twice else []
    problems += [f"  unknown: {', '.join(extra)}"] if extra else []
    problems += [
        f"  {name}: {problem}"
        for name, shape in shapes.items()
        if name in full and (problem := _problem(stored[full[name]], shape))
    ]
    arrays: dict[str, np.ndarray] = {}
    if not problems:
        read = weights.read(full[name] for name in shapes)
        arrays = {name: read[full[name]] for name in shapes}
        problems = not_finite(arrays)
        table = arrays["wte.weight"]
        if config.tie_word_embeddings and not np.array_equal(arrays.get("lm_head.weight", table), table):
            problems.append("  lm_head.weight: differs from wte.weight, to which it is tied")
    if problems:
        raise CheckpointError("\n".join([f"{file!r} does not match the configuration beside it:", *problems]))
    model = model_class(config, dtype=dtype)
    named = dict(model.named_parameters())
    for theirs, ours in _names(config).items():
        named[ours].set(arrays[theirs].astype(dtype))
    return model.eval()


def _problem(stored: Outline, shape: tuple[int, ...]) -> str | None:
    """Return what is wrong with an array of the file for a parameter of this shape; None if it fits."""
    if stored.shape != shape:
        return f"{stored.shape} in the file, {shape} by the configuration"
    return None if stored.dtype.kind == "f" else f"holds {stored.dtype}, not floats"
