"""`Decoder` in GGUF, the files of llama.cpp: models of Llama, Mistral, Qwen 2, Qwen 3 and Gemma."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from wyrm.errors import CheckpointError
from wyrm.graph.typing import DTypeLike
from wyrm.io.checkpoint import not_finite
from wyrm.io.decoder_files import FAMILIES, arrays_of, family_of, set_arrays, shapes_of
from wyrm.io.files import replacing
from wyrm.ops.attention.rotary_layouts import Half, Pair, RotaryWeights
from wyrm.support.files import FilePath
from wyrm.support.imports import missing_package
from wyrm.support.options import choice

if TYPE_CHECKING:
    from wyrm.nn.decoder import Decoder
    from wyrm.nn.decoder_config import DecoderConfig

GGUFType = Literal["float32", "bfloat16", "q8_0", "q4_0"]
# The types of the format.
_TYPES = {"float32": "F32", "bfloat16": "BF16", "q8_0": "Q8_0", "q4_0": "Q4_0"}
# Mistral's files are those of Llama.
_ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma": "gemma"}
# Names in the format, by those of transformers.
_MODULES = {
    "embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output", "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}  # fmt: skip
_LAYER = re.compile(r"layers\.([0-9]+)\.")


def _check_package(caller: str) -> None:
    if find_spec("gguf") is None:
        raise missing_package(f"Decoder.{caller}", "the package gguf", "gguf", name="gguf")


def _their_name(name: str) -> str:
    """Return the name of an array in the format.

    >>> _their_name("layers.3.self_attn.q_proj.bias")
    'blk.3.attn_q.bias'
    """
    layer = _LAYER.match(name)
    module, _, kind = name[layer.end() if layer else 0 :].rpartition(".")
    return f"{f'blk.{layer[1]}.' if layer else ''}{_MODULES[module]}.{kind}"


def _rotated(array: np.ndarray, heads: int, *, back: bool) -> np.ndarray:
    """Return weights of queries or keys in the layout that the format has for Llama, or `back` in that of `Decoder`."""
    if back:
        return RotaryWeights(array, heads, Pair).to(Half).array
    return RotaryWeights(array, heads, Half).to(Pair).array


def _converted(name: str, array: np.ndarray, config: DecoderConfig, architecture: str, *, back: bool) -> np.ndarray:
    """Return an array of transformers as the format has it, or `back`."""
    if architecture == "llama" and ".self_attn.q_proj." in name:
        return _rotated(array, config.num_attention_heads, back=back)
    if architecture == "llama" and ".self_attn.k_proj." in name:
        return _rotated(array, config.heads_of_keys, back=back)
    if config.zero_centered_norms and "norm" in name:
        return array - np.float32(1.0) if back else array + np.float32(1.0)
    return array


def save_gguf(model: Decoder, path: FilePath, storage: GGUFType = "float32") -> None:
    """Write a file that llama.cpp reads; matrices have the type `storage`, and vectors float32.

    The file has no tokenizer. It is replaced atomically. Raise `CheckpointError` for a file that cannot be written,
    where no family has the options of the model, and for sizes that the blocks of a type do not divide.
    """
    _check_package("save_gguf")
    import gguf

    choice("save_gguf: storage", storage, get_args(GGUFType))
    config = model.config
    architecture = _ARCHITECTURES[family_of(config)]
    if config.sliding_window is not None or config.rope_scaling is not None or config.mlp_bias:
        raise CheckpointError(
            f"GGUF has no sliding_window, rope_scaling or mlp_bias of a model of {architecture}; use save_pretrained"
        )
    arrays = arrays_of(model)
    kind = gguf.GGMLQuantizationType[_TYPES[storage]]
    with replacing(path) as temporary:
        writer = gguf.GGUFWriter(temporary, architecture)
        for name, value in _fields(config).items():
            if isinstance(value, int):
                writer.add_uint32(f"{architecture}.{name}", value)
            else:
                writer.add_float32(f"{architecture}.{name}", value)
        writer.add_string("tokenizer.ggml.model", "no_vocab")
        for name, array in arrays.items():
            ready = _converted(name, array.astype(np.float32), config, architecture, back=False)
            chosen = kind if ready.ndim == 2 else gguf.GGMLQuantizationType.F32
            try:
                writer.add_tensor(_their_name(name), gguf.quants.quantize(ready, chosen), raw_dtype=chosen)
            except gguf.QuantError as error:
                raise CheckpointError(
                    f"{name} of the shape {array.shape} has no {storage}, whose blocks have 32 numbers: {error}"
                ) from error
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def _fields(config: DecoderConfig) -> dict[str, int | float]:
    """Return the fields of the format that say the configuration."""
    return {
        "vocab_size": config.vocab_size, "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size, "feed_forward_length": config.intermediate_size,
        "block_count": config.num_hidden_layers, "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.heads_of_keys, "attention.key_length": config.features_of_head,
        "attention.value_length": config.features_of_head, "rope.dimension_count": config.features_of_head,
        "attention.layer_norm_rms_epsilon": float(config.rms_norm_eps), "rope.freq_base": float(config.rope_theta),
    }  # fmt: skip


def from_gguf(
    model_class: type[Decoder], kind: type[DecoderConfig], path: FilePath, *, dtype: DTypeLike = np.float32
) -> Decoder:
    """Return the model in a file, in evaluation mode; numbers of any type of the format are widened.

    Raises:
        CheckpointError: the file is missing or damaged, or the model in it is none that `Decoder` can be.
    """
    _check_package("from_gguf")
    import gguf

    file = os.fspath(path)
    try:
        reader = gguf.GGUFReader(file)
    except (OSError, ValueError, IndexError, KeyError) as error:
        raise CheckpointError(f"cannot read {file!r} as GGUF: {error}") from error
    tensors = {each.name: each for each in reader.tensors}
    found = {name: each.contents() for name, each in reader.fields.items() if "tokenizer.ggml" not in name}
    config, architecture = _config(kind, file, found, tensors)
    arrays: dict[str, np.ndarray] = {}
    problems = []
    for name, shape in shapes_of(config).items():
        theirs = _their_name(name)
        if theirs not in tensors:
            problems.append(f"  missing: {theirs}")
            continue
        wide = gguf.quants.dequantize(tensors[theirs].data, tensors[theirs].tensor_type).astype(np.float32)
        if wide.shape != shape:
            problems.append(f"  {theirs}: {wide.shape} in the file, {shape} by its fields")
            continue
        arrays[name] = _converted(name, wide, config, architecture, back=True)
    problems += not_finite(arrays)
    if problems:
        raise CheckpointError("\n".join([f"{file!r} is not the model that its fields say:", *problems]))
    model = model_class(config, dtype=dtype)
    set_arrays(model, arrays)
    return model.eval()


def _config(
    kind: type[DecoderConfig], file: str, found: dict[str, Any], tensors: Mapping[str, Any]
) -> tuple[DecoderConfig, str]:
    """Return the configuration that the fields and the tensors of a file say, and its architecture."""
    architecture = str(found.get("general.architecture"))
    if architecture not in _ARCHITECTURES.values():
        known = ", ".join(dict.fromkeys(_ARCHITECTURES.values()))
        raise CheckpointError(f"{file!r} is a model of {architecture!r}; Decoder can be one of {known}")
    family = FAMILIES[architecture]
    own = {name.partition(".")[2]: value for name, value in found.items() if name.startswith(f"{architecture}.")}
    scaled = own.get("rope.scaling.type", "none") not in ("none", "") or "rope_freqs.weight" in tensors
    if scaled or own.get("attention.sliding_window"):
        raise CheckpointError(f"{file!r} has scaled rotations or a sliding window, which from_pretrained reads")

    def field(name: str, otherwise: Any = None) -> Any:
        value = own.get(name, otherwise)
        if value is None:
            raise CheckpointError(f"{file!r} lacks the field {architecture}.{name}")
        return value

    if "token_embd.weight" not in tensors:
        raise CheckpointError(f"{file!r} has no token_embd.weight, the embedding of tokens")
    embed, heads = field("embedding_length"), field("attention.head_count")
    values: dict[str, Any] = {
        "vocab_size": int(tensors["token_embd.weight"].shape[-1]), "hidden_size": embed,
        "intermediate_size": field("feed_forward_length"), "num_hidden_layers": field("block_count"),
        "num_attention_heads": heads, "num_key_value_heads": field("attention.head_count_kv", heads),
        "max_position_embeddings": field("context_length"), "head_dim": field("attention.key_length", embed // heads),
        "rms_norm_eps": float(field("attention.layer_norm_rms_epsilon")),
        "rope_theta": float(field("rope.freq_base", 10_000.0)), "tie_word_embeddings": "output.weight" not in tensors,
        "attention_bias": "blk.0.attn_q.bias" in tensors, "attention_output_bias": "blk.0.attn_output.bias" in tensors,
        **family.always,
    }  # fmt: skip
    if architecture == "gemma":
        values |= {"hidden_act": "gelu_pytorch_tanh", "embedding_scale": math.sqrt(embed)}
    try:
        return kind(**values), architecture
    except ValueError as error:
        raise CheckpointError(f"{file!r}: {error}") from error
