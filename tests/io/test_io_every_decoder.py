"""Thirty odd models of each family of transformers: the same logits and gradients, within 1e-5 of the largest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.io import decoder_files, hugging_face
from wyrm.nn import GPT2, CachedDecoder, Decoder

# Models of each family.
COUNT = 30
NO_TOKENS = {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None}


def choose(random: np.random.Generator, *values: Any) -> Any:
    """Return one of some values."""
    return values[random.integers(len(values))]


def sizes(random: np.random.Generator) -> dict[str, Any]:
    """Return sizes whose heads often have other features than a part of the width."""
    heads = choose(random, 1, 2, 3, 4, 6)
    shared = choose(random, *[each for each in (1, 2, 3, 4, 6) if heads % each == 0])
    size = choose(random, 2, 4, 6, 8, 10, 14)
    return {
        "vocab_size": choose(random, 2, 3, 17, 61, 127, 130), "hidden_size": heads * choose(random, 2, 3, 5, 6, 8),
        "intermediate_size": choose(random, 1, 7, 24, 33), "num_hidden_layers": choose(random, 1, 2, 3),
        "num_attention_heads": heads, "num_key_value_heads": shared, "head_dim": size,
        "max_position_embeddings": choose(random, 21, 40, 64), "rms_norm_eps": choose(random, 1e-6, 1e-5, 1e-2),
        "tie_word_embeddings": choose(random, False, True), "rope_parameters": rotations(random),
    }  # fmt: skip


def rotations(random: np.random.Generator) -> dict[str, Any]:
    """Return the options of rotations of each kind."""
    theta = choose(random, 100.0, 10_000.0, 1e6)
    kinds: tuple[dict[str, Any], ...] = (
        {"rope_type": "default"},
        {"rope_type": "linear", "factor": choose(random, 1.5, 4.0)},
        {"rope_type": "llama3", "factor": choose(random, 2.0, 8.0), "low_freq_factor": 1.0,
         "high_freq_factor": choose(random, 2.0, 4.0), "original_max_position_embeddings": choose(random, 8, 16)},
    )  # fmt: skip
    return {**choose(random, *kinds), "rope_theta": theta}


def window(random: np.random.Generator) -> dict[str, Any]:
    """Return the options of a window over all layers, or of none."""
    windowed = choose(random, False, True)
    return {
        "use_sliding_window": windowed, "sliding_window": choose(random, 1, 3, 20, 50) if windowed else None,
        "max_window_layers": 0 if windowed else 3,
    }  # fmt: skip


def llama(random: np.random.Generator) -> dict[str, Any]:
    """Return the options of a Llama."""
    return {
        **sizes(random), "attention_bias": choose(random, False, True), "mlp_bias": choose(random, False, True),
        "hidden_act": choose(random, "silu", "gelu", "gelu_pytorch_tanh"),
    }  # fmt: skip


def mistral(random: np.random.Generator) -> dict[str, Any]:
    """Return the options of a Mistral."""
    return {**sizes(random), "sliding_window": choose(random, None, 1, 4, 20, 50)}


def qwen2(random: np.random.Generator) -> dict[str, Any]:
    """Return the options of a Qwen 2, whose heads are parts of the width."""
    found = {**sizes(random), **window(random)}
    return found | {"hidden_size": found["num_attention_heads"] * found.pop("head_dim")}


def qwen3(random: np.random.Generator) -> dict[str, Any]:
    """Return the options of a Qwen 3."""
    return {**sizes(random), **window(random), "attention_bias": choose(random, False, True)}


def gemma(random: np.random.Generator) -> dict[str, Any]:
    """Return the options of a Gemma."""
    act = choose(random, "gelu_pytorch_tanh", "silu")
    return {**sizes(random), "attention_bias": choose(random, False, True), "hidden_act": act}


def gpt2(random: np.random.Generator) -> dict[str, Any]:
    """Return the options of a GPT-2."""
    heads = choose(random, 1, 2, 3, 4)
    return {
        "vocab_size": choose(random, 2, 17, 61, 130), "n_positions": choose(random, 20, 33), "n_head": heads,
        "n_layer": choose(random, 1, 2, 3), "n_embd": heads * choose(random, 1, 3, 4, 8),
        "n_inner": choose(random, None, 1, 13, 40), "tie_word_embeddings": choose(random, True, False),
        "layer_norm_epsilon": choose(random, 1e-5, 1e-3),
        "activation_function": choose(random, "gelu_new", "gelu_pytorch_tanh"),
    }  # fmt: skip


FAMILIES: dict[str, tuple[str, Callable[[np.random.Generator], dict[str, Any]]]] = {
    "llama": ("LlamaForCausalLM", llama), "mistral": ("MistralForCausalLM", mistral),
    "qwen2": ("Qwen2ForCausalLM", qwen2), "qwen3": ("Qwen3ForCausalLM", qwen3), "gemma": ("GemmaForCausalLM", gemma),
    "gpt2": ("GPT2LMHeadModel", gpt2),
}  # fmt: skip


def theirs(family: str, seed: int) -> Any:
    """Return a model of transformers with drawn options and weights."""
    torch = pytest.importorskip("torch", reason="transformers needs PyTorch")
    transformers = pytest.importorskip("transformers", reason="transformers, which it compares with, is not installed")
    kind, options = FAMILIES[family]
    model_class = getattr(transformers, kind)
    config = model_class.config_class(**options(np.random.default_rng([seed, 53])), **NO_TOKENS)
    config._attn_implementation = "eager"
    torch.manual_seed(seed)
    model = model_class(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # far from the small first values, also for norms and biases
            parameter.add_(torch.randn_like(parameter) * 0.1)
    # Norms of few features are far more exact so; those of the other families are float32 in transformers.
    return model.double() if family == "gpt2" else model


def gradients(model: GPT2 | Decoder) -> dict[str, np.ndarray]:
    """Return the gradients of a model by transformers' names."""
    named = {name: np.asarray(each.gradient) for name, each in model.named_parameters()}
    if isinstance(model, GPT2):
        names = hugging_face._names_by_theirs(model.config)
        return {hugging_face._layout(model.config).full(name): named[ours] for name, ours in names.items()}
    layout = decoder_files._layout(model.config)
    found = {"embed_tokens.weight": named["tokens.weight"]}
    found |= {} if model.config.tie_word_embeddings else {"lm_head.weight": named["head"]}
    for part in decoder_files._parts(model.config):
        ends = np.cumsum([columns for _, columns in part.theirs])[:-1]
        for each in ("weight", "bias") if part.bias else ("weight",):
            pieces = np.split(named[f"{part.ours}.{each}"], ends, axis=-1)
            found |= {f"{name}.{each}": piece.T for (name, _), piece in zip(part.theirs, pieces, strict=True)}
    return {layout.full(name): each for name, each in found.items()}


def close(have: np.ndarray, want: np.ndarray) -> bool:
    """Return whether numbers are within 1e-5 of the largest; a gradient that is zero has rounding alone."""
    return have.shape == want.shape and bool(np.abs(have - want).max() <= 1e-5 * np.abs(want).max() + 1e-7)


def theirs_and_ours(family: str, seed: int, folder: Path) -> tuple[Any, Any]:
    """Return a model of transformers with random weights, and the same one read from its files."""
    other = theirs(family, seed)
    other.save_pretrained(folder)
    exact = family == "gpt2"
    return other, GPT2.from_pretrained(folder, dtype=np.float64) if exact else Decoder.from_pretrained(folder)


@pytest.mark.parametrize("seed", range(COUNT))
@pytest.mark.parametrize("family", FAMILIES)
def test_any_model_of_a_family_is_the_same_here(family: str, seed: int, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    other, model = theirs_and_ours(family, seed, tmp_path)
    texts = np.random.default_rng(seed).integers(0, other.config.vocab_size, (3, 21))
    read, following = texts[:, :-1], texts[:, 1:]
    logits = other(torch.from_numpy(read)).logits
    tokens: Any = wy.IndexInput(read)
    assert close(np.asarray(model.logits(tokens).forward()), logits.detach().numpy())
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(following.copy()).flatten())
    loss.backward()
    mine = model.loss(tokens, wy.IndexInput(following))
    assert float(mine.forward()) == pytest.approx(loss.item(), rel=1e-5)
    mine.backward()
    slopes = {name: each.grad.numpy() for name, each in other.named_parameters()}
    have = gradients(model)
    assert have.keys() == slopes.keys()
    wrong = [name for name, want in slopes.items() if not close(have[name], want)]
    assert not wrong, other.config


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("family", FAMILIES)
def test_a_pass_of_a_prompt_has_the_logits_of_its_last_token(family: str, seed: int, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    other, model = theirs_and_ours(family, seed, tmp_path)
    text = np.random.default_rng(seed).integers(0, other.config.vocab_size, 20)
    with torch.no_grad():
        logits = other(torch.from_numpy(text[None])).logits.numpy()
    decoder = CachedDecoder(model)
    assert close(decoder.logits_after([text[:19]]), logits[:, 18])
    assert decoder._ask.is_compiled
    # The next token is a step behind what the pass kept.
    assert close(decoder.logits_after([text]), logits[:, 19])
