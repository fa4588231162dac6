"""`Decoder` in the files of transformers: the models of Llama, Mistral, Qwen 2, Qwen 3 and Gemma."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wyrm.errors import CheckpointError
from wyrm.graph.typing import DTypeLike
from wyrm.io.pretrained import CONFIG, Layout, check_supported, config_of, read_weights, write_folder, written_weights
from wyrm.support.files import FilePath

if TYPE_CHECKING:
    from wyrm.nn.decoder import Decoder
    from wyrm.nn.decoder_config import DecoderConfig

# Fields that all families have with the meaning of `DecoderConfig`, and those of them without which there is no model.
_SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
_SHARED = (
    *_SIZES, "num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "attention_dropout",
    "tie_word_embeddings", "head_dim", "hidden_act",
)  # fmt: skip
# Fields of some families, and what the others have in their place.
_OPTIONAL: dict[str, Any] = {
    "attention_bias": False, "mlp_bias": False, "sliding_window": None, "qk_norm": False, "zero_centered_norms": False,
}  # fmt: skip


@dataclass(frozen=True)
class Family:
    """How a family writes a decoder: its class, the `_OPTIONAL` fields in its files, and what all of its models have.

    `defaults` are those of fields that a file lacks. The projection of the results of attention has a bias by
    `attention_bias`, too, unless `has_output_bias` is False. With `scales_embeddings` they are multiplied by the root
    of `hidden_size`.
    """

    architecture: str
    reads: tuple[str, ...] = ()
    always: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    activations: Mapping[str, str] = field(default_factory=dict)
    has_output_bias: bool = True
    scales_embeddings: bool = False
    needs_divisible: bool = False

    def fits(self, config: DecoderConfig) -> bool:
        """Return whether files of the family can say what a configuration has."""
        fixed = {name: value for name, value in (_OPTIONAL | dict(self.always)).items() if name not in self.reads}
        scale = math.sqrt(config.hidden_size) if self.scales_embeddings else 1.0
        output_bias = config.attention_bias and self.has_output_bias
        return (
            all(getattr(config, name) == value for name, value in fixed.items())
            and config.embedding_scale == scale
            and config.has_output_bias == output_bias
            and config.hidden_act not in self.activations
            and not (self.needs_divisible and config.hidden_size % config.num_attention_heads)
        )


FAMILIES: dict[str, Family] = {
    "llama": Family("LlamaForCausalLM", ("attention_bias", "mlp_bias"), needs_divisible=True),
    "mistral": Family(
        "MistralForCausalLM", ("sliding_window",),
        defaults={"sliding_window": 4096, "num_key_value_heads": 8, "max_position_embeddings": 131072},
    ),
    "qwen2": Family(
        "Qwen2ForCausalLM", ("sliding_window",), {"attention_bias": True},
        {"sliding_window": None, "max_position_embeddings": 32768}, has_output_bias=False,
    ),
    "qwen3": Family(
        "Qwen3ForCausalLM", ("attention_bias", "sliding_window"), {"qk_norm": True},
        {"sliding_window": None, "max_position_embeddings": 32768, "head_dim": 128},
    ),
    "gemma": Family(
        "GemmaForCausalLM", ("attention_bias",), {"zero_centered_norms": True},
        {"tie_word_embeddings": True, "max_position_embeddings": 8192, "head_dim": 256,
         "hidden_act": "gelu_pytorch_tanh"},
        # Early files say "gelu" for the approximation.
        activations={"gelu": "gelu_pytorch_tanh"}, scales_embeddings=True,
    ),
}  # fmt: skip
# Other names of activations.
_ACTIVATIONS = {"swish": "silu", "gelu_new": "gelu_pytorch_tanh"}
# Fields that would make another model of it, with the values that do not.
_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "quantization_config": (None,),
    "use_bidirectional_attention": (None, False),
    "partial_rotary_factor": (None, 1.0),
    "attn_logit_softcapping": (None,),
    "final_logit_softcapping": (None,),
    "is_decoder": (None, True, False),
}
_PREFIX = "model."
# Frequencies of rotations, which older files store beside the weights.
_IGNORED = re.compile(r"layers\.[0-9]+\.self_attn\.rotary_emb\.inv_freq")


class Part(NamedTuple):
    """A module of `Decoder`: its path, transformers' paths with the columns of each, and whether it has a bias.

    A linear module, which transformers store transposed, has `rows`; a norm or a table None.
    """

    ours: str
    theirs: tuple[tuple[str, int], ...]
    rows: int | None
    bias: bool


def _parts(config: DecoderConfig) -> Iterator[Part]:
    """Yield the modules of a decoder but for its embedding and its output layer."""
    embed, inner, size = config.hidden_size, config.intermediate_size, config.features_of_head
    wide, shared = config.num_attention_heads * size, config.heads_of_keys * size
    qkv = (("self_attn.q_proj", wide), ("self_attn.k_proj", shared), ("self_attn.v_proj", shared))
    block = [
        Part("attention_norm", (("input_layernorm", embed),), None, False),
        Part("attention.qkv", qkv, embed, config.attention_bias),
        Part("attention.out_proj", (("self_attn.o_proj", embed),), wide, config.has_output_bias),
        Part("feed_forward_norm", (("post_attention_layernorm", embed),), None, False),
        Part("feed_forward.gate", (("mlp.gate_proj", inner),), embed, config.mlp_bias),
        Part("feed_forward.value", (("mlp.up_proj", inner),), embed, config.mlp_bias),
        Part("feed_forward.output", (("mlp.down_proj", embed),), inner, config.mlp_bias),
    ]
    if config.qk_norm:
        block.append(Part("attention.query_norm", (("self_attn.q_norm", size),), None, False))
        block.append(Part("attention.key_norm", (("self_attn.k_norm", size),), None, False))
    for layer in range(config.num_hidden_layers):
        for part in block:
            theirs = tuple((f"layers.{layer}.{name}", columns) for name, columns in part.theirs)
            yield part._replace(ours=f"blocks.{layer}.{part.ours}", theirs=theirs)
    yield Part("norm", (("norm", embed),), None, False)


def linear_modules(config: DecoderConfig) -> dict[str, list[tuple[str, int]]]:
    """Return transformers' paths of the parts of each linear module, with their columns, by the path here."""
    return {
        part.ours: [(f"{_PREFIX}{name}", columns) for name, columns in part.theirs]
        for part in _parts(config)
        if part.rows is not None
    }


def shapes_of(config: DecoderConfig) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all arrays."""
    table = (config.vocab_size, config.hidden_size)
    shapes: dict[str, tuple[int, ...]] = {"embed_tokens.weight": table}
    for part in _parts(config):
        for name, columns in part.theirs:
            shapes[f"{name}.weight"] = (columns,) if part.rows is None else (columns, part.rows)
            shapes |= {f"{name}.bias": (columns,)} if part.bias else {}
    return shapes if config.tie_word_embeddings else shapes | {"lm_head.weight": table}


def _layout(config: DecoderConfig) -> Layout:
    """Return the arrays of a model in its file."""
    copied = ("embed_tokens.weight", "lm_head.weight") if config.tie_word_embeddings else None
    shapes = partial(shapes_of, config)
    return Layout(_PREFIX, shapes, _IGNORED, copied, config.num_hidden_layers, "num_hidden_layers")


def family_of(config: DecoderConfig) -> str:
    """Return the name of the first of `FAMILIES` that has all options; raise `CheckpointError` if none has them."""
    family = next((name for name, each in FAMILIES.items() if each.fits(config)), None)
    if family is None:
        raise CheckpointError(f"none of {', '.join(FAMILIES)} has the options of {config}; use model.save(file)")
    return family


def arrays_of(model: Decoder) -> dict[str, np.ndarray]:
    """Return the weights as transformers store them, by their names without a prefix."""
    config = model.config
    kinds = {f"{part.ours}.{kind}" for part in _parts(config) for kind in ("weight", "bias")}
    named = written_weights(model, kinds | {"tokens.weight", "head"})
    arrays: dict[str, np.ndarray] = {"embed_tokens.weight": named["tokens.weight"].value}
    for part in _parts(config):
        ends = np.cumsum([columns for _, columns in part.theirs])[:-1]
        for kind in ("weight", "bias") if part.bias else ("weight",):
            pieces = np.split(named[f"{part.ours}.{kind}"].value, ends, axis=-1)
            for (name, _), piece in zip(part.theirs, pieces, strict=True):
                arrays[f"{name}.{kind}"] = np.ascontiguousarray(piece.T)
    if not config.tie_word_embeddings:
        arrays["lm_head.weight"] = named["head"].value
    return arrays


def set_arrays(model: Decoder, arrays: Mapping[str, np.ndarray]) -> None:
    """Set the weights from arrays of `arrays_of`."""
    named = dict(model.named_parameters())
    dtype = named["tokens.weight"].dtype
    named["tokens.weight"].set(arrays["embed_tokens.weight"].astype(dtype))
    for part in _parts(model.config):
        for each in ("weight", "bias") if part.bias else ("weight",):
            pieces = [arrays[f"{name}.{each}"].T for name, _ in part.theirs]
            named[f"{part.ours}.{each}"].set(np.concatenate(pieces, axis=-1).astype(dtype))
    if not model.config.tie_word_embeddings:
        named["head"].set(arrays["lm_head.weight"].astype(dtype))


def save_pretrained(model: Decoder, directory: FilePath) -> None:
    """Write `config.json` and `model.safetensors`, which transformers read.

    The family is the first of `FAMILIES` that has all options. Raise `CheckpointError` for a file that cannot be
    written, and where no family has them.
    """
    config, layout, family = model.config, _layout(model.config), family_of(model.config)
    arrays = {layout.full(name): array for name, array in arrays_of(model).items()}
    write_folder(directory, _json(family, config), arrays)


def _json(name: str, config: DecoderConfig) -> dict[str, Any]:
    """Return the contents of `config.json`."""
    family, theta = FAMILIES[name], config.rope_theta
    values: dict[str, Any] = {each: getattr(config, each) for each in (*_SHARED, *family.reads)}
    values |= {"num_key_value_heads": config.heads_of_keys, "head_dim": config.features_of_head}
    scaling = None if config.rope_scaling is None else dict(config.rope_scaling)
    # Both spellings: that of `rope_parameters` is newer.
    values |= {"rope_theta": theta, "rope_scaling": scaling}
    values["rope_parameters"] = {**(scaling or {"rope_type": "default"}), "rope_theta": theta}
    if name.startswith("qwen"):
        windowed = config.sliding_window is not None
        kind = "sliding_attention" if windowed else "full_attention"
        values |= {"use_sliding_window": windowed, "max_window_layers": 0 if windowed else config.num_hidden_layers}
        values["layer_types"] = [kind] * config.num_hidden_layers
    return {
        "architectures": [family.architecture], "model_type": name, "initializer_range": 0.02, **values,
        # Without it, Gemma takes 0, whose row of the embedding gets no gradient in transformers.
        "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
    }  # fmt: skip


def read_config(kind: type[DecoderConfig], path: FilePath) -> DecoderConfig:
    """Return the configuration of a `config.json`; a field that is missing has the family's default.

    Raise `CheckpointError` for a file that is missing, damaged, or of a model that `Decoder` cannot be.
    """
    file, contents = os.fspath(path), config_of(path, FAMILIES)
    family = FAMILIES[contents["model_type"]]
    check_supported(path, contents, "Decoder", _SUPPORTED)
    others = {name: (value, None) for name, value in _OPTIONAL.items() if name not in (*family.reads, *family.always)}
    check_supported(path, contents, f"Decoder of the type {contents['model_type']!r}", others)
    for name in _SIZES:
        if not _is_size(contents.get(name)):
            found = f"has {name} = {contents[name]!r}" if name in contents else f"lacks {name}"
            raise CheckpointError(f"{file!r} {found}; it must be an integer above 0")
    values: dict[str, Any] = dict(family.defaults)
    values |= {name: contents[name] for name in (*_SHARED, *family.reads) if name in contents}
    values |= family.always
    values = {name: value for name, value in values.items() if value is not None}
    values["hidden_act"] = _activation(family, contents, values.get("hidden_act", "silu"))
    values |= _rotations(file, contents)
    if not family.has_output_bias:
        values["attention_output_bias"] = False
    if family.scales_embeddings:
        values["embedding_scale"] = math.sqrt(contents["hidden_size"])
    if "layer_types" in contents or "use_sliding_window" in contents:
        values["sliding_window"] = _window(file, contents)
    try:
        return kind(**values)
    except ValueError as error:
        raise CheckpointError(f"{file!r}: {error}") from error


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _activation(family: Family, contents: Mapping[str, Any], given: Any) -> Any:
    """Return the name of the activation of the feed-forward layers."""
    found = contents.get("hidden_activation") or given
    return family.activations.get(found, _ACTIVATIONS.get(found, found)) if isinstance(found, str) else found


def _rotations(file: str, contents: Mapping[str, Any]) -> dict[str, Any]:
    """Return the base and the scaling of rotations, which newer files have in `rope_parameters`."""
    given = contents.get("rope_parameters") or contents.get("rope_scaling") or {}
    if not isinstance(given, dict):
        raise CheckpointError(f"{file!r} has rope_parameters or rope_scaling that are no object: {given!r}")
    check_supported(file, given, "Decoder", {"partial_rotary_factor": (None, 1.0)})
    theta = given.get("rope_theta", contents.get("rope_theta"))
    scaling = {name: value for name, value in given.items() if name not in ("rope_theta", "partial_rotary_factor")}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    found: dict[str, Any] = {} if kind == "default" else {"rope_scaling": scaling}
    return found if theta is None else {**found, "rope_theta": theta}


def _window(file: str, contents: Mapping[str, Any]) -> Any:
    """Return the sliding window of all layers; raise `CheckpointError` where only some have one."""
    layers, window = contents["num_hidden_layers"], contents.get("sliding_window")
    given = contents.get("layer_types")
    if isinstance(given, list):
        kinds = set(map(str, given))
    else:
        slides = bool(contents.get("use_sliding_window")) and window is not None
        full = contents.get("max_window_layers", 28) if slides else layers
        whole = isinstance(full, int) and full > 0
        kinds = ({"full_attention"} if whole else set()) | (
            {"sliding_attention"} if not whole or full < layers else set()
        )
    if len(kinds) != 1 or not kinds <= {"full_attention", "sliding_attention"}:
        raise CheckpointError(
            f"{file!r} has layers of {' and '.join(sorted(kinds))} by layer_types or max_window_layers; Decoder has "
            f"the same attention in all"
        )
    return window if "sliding_attention" in kinds else None


def from_pretrained(
    model_class: type[Decoder], kind: type[DecoderConfig], directory: FilePath, *, dtype: DTypeLike = np.float32
) -> Decoder:
    """Return the model in `config.json` and `model.safetensors`, as transformers write them, in evaluation mode.

    Raises:
        CheckpointError: a file is missing, damaged or of another model, or the arrays do not match the configuration.
    """
    folder = Path(directory)
    config = read_config(kind, folder / CONFIG)
    arrays = read_weights(folder, _layout(config))
    model = model_class(config, dtype=dtype)
    set_arrays(model, arrays)
    return model.eval()
