"""Language models that are read and continued, vs llama.cpp and CTranslate2, and trained in bfloat16, vs PyTorch.

The models have the shapes of stories15M, SmolLM2 135M and GPT-2 124M, and random weights. llama.cpp, by
llama-cpp-python, reads them from GGUF: q8_0 stands beside int8, and q4_0 beside int4. CTranslate2 reads GPT-2 from
transformers. PyTorch trains models of transformers by autocast, with the fused AdamW. Each contender has a process of
its own.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import Case
from bench.models import THREADS
from bench.workers import in_worker

SHAPES: dict[str, dict[str, Any]] = {
    "15M": {
        "vocab_size": 32000, "hidden_size": 288, "intermediate_size": 768, "num_hidden_layers": 6,
        "num_attention_heads": 6, "max_position_embeddings": 1024, "tie_word_embeddings": True,
    },
    "135M": {
        "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
        "num_attention_heads": 9, "num_key_value_heads": 3, "max_position_embeddings": 1024,
        "tie_word_embeddings": True,
    },
}  # fmt: skip
# The types of llama.cpp that stand beside those of wyrm.
TYPES = {"float32": "float32", "bfloat16": "bfloat16", "int8": "q8_0", "int4": "q4_0"}
# Tokens that follow 64 earlier ones, and those of a prompt.
TOKENS, EARLIER, PROMPT = 32, 64, 512
# The lengths of prompts that are continued together.
LENGTHS = (5, 90, 33, 12, 61, 24, 48, 75)


def _decoder(shape: str) -> Any:
    import wyrm as wy

    wy.nn.seed(0)
    if shape == "124M":
        return wy.nn.GPT2(wy.nn.GPT2Config()).eval()
    return wy.nn.Decoder(wy.nn.DecoderConfig(**SHAPES[shape])).eval()


def _cached(shape: str, storage: str, sequences: int = 1) -> Any:
    """Return a decoder; products with narrow weights are in bfloat16, where llama.cpp rounds to integers of 8 bits."""
    import wyrm as wy

    model = _decoder(shape)
    if storage == "float32":
        return wy.nn.CachedDecoder(model, sequences)
    model.quantize(storage)
    return wy.nn.CachedDecoder(model, sequences, compute_dtype="bfloat16")


def limit_threads(threads: int) -> None:
    """Let this process run on so many processors."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def wyrm_work(shape: str, storage: str, threads: int, prompt: int) -> Callable[[], object]:
    """Return the work of reading a prompt, or else of taking tokens one by one."""
    limit_threads(threads)
    decoder, tokens = _cached(shape, storage), np.arange(max(prompt, EARLIER + TOKENS)) % 1000

    def read() -> object:
        decoder.reset()
        return decoder.logits_after(tokens[None, :prompt])

    def follow() -> object:
        decoder.reset()
        decoder.read(tokens[None, :EARLIER])
        for token in tokens[EARLIER:]:
            decoder.step(token[None])
        return decoder

    return read if prompt else follow


def wyrm_texts(shape: str, storage: str, threads: int, together: int) -> Callable[[], object]:
    """Return the work of continuing prompts of different lengths, so many of them at once."""
    limit_threads(threads)
    import wyrm as wy

    prompts = [(np.arange(length) * (place + 7) % 1000).tolist() for place, length in enumerate(LENGTHS)]
    decoder = _cached(shape, storage, together)

    def continued() -> object:
        decoder.reset()
        return [list(text) for text in wy.nn.generate(decoder, prompts, TOKENS, temperature=0.8, top_k=40)]

    return continued


def llama_work(shape: str, storage: str, threads: int, prompt: int) -> Callable[[], object]:
    """Return the same work of llama.cpp."""
    limit_threads(threads)
    from llama_cpp import Llama

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.gguf")
        if shape == "124M":
            _save_gpt2(_decoder(shape), path, TYPES[storage])
        else:
            _decoder(shape).save_gguf(path, TYPES[storage])
        model = Llama(path, n_ctx=1024, n_threads=threads, n_threads_batch=threads, verbose=False)
    tokens = [token % 1000 for token in range(max(prompt, EARLIER + TOKENS))]

    def read() -> object:
        model.reset()
        return model.eval(tokens[:prompt])

    def follow() -> object:
        model.reset()
        model.eval(tokens[:EARLIER])
        for token in tokens[EARLIER:]:
            model.eval([token])
        return model

    return read if prompt else follow


# The modules of a block of GPT-2 in GGUF, by those of `wy.nn.GPT2`.
_GPT2 = {
    "attention_norm": "attn_norm", "attention.qkv": "attn_qkv", "attention.out_proj": "attn_output",
    "feed_forward_norm": "ffn_norm", "feed_forward.fc1": "ffn_up", "feed_forward.fc2": "ffn_down",
}  # fmt: skip


def _save_gpt2(model: Any, path: str, kind: str) -> None:
    """Write a GPT-2 as llama.cpp reads it, without a tokenizer."""
    import gguf

    config, names = model.config, {"tokens": "token_embd", "positions": "position_embd", "norm": "output_norm"}
    for layer in range(config.n_layer):
        names |= {f"blocks.{layer}.{own}": f"blk.{layer}.{other}" for own, other in _GPT2.items()}
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_context_length(config.n_positions)
    writer.add_embedding_length(config.n_embd)
    writer.add_feed_forward_length(config.inner_dim)
    writer.add_block_count(config.n_layer)
    writer.add_head_count(config.n_head)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    writer.add_vocab_size(config.vocab_size)
    writer.add_string("tokenizer.ggml.model", "no_vocab")
    for name, array in model.state_dict().items():
        module, _, last = name.rpartition(".")
        is_matrix = array.ndim == 2
        # Their matrices have a row for each result; vectors and positions are read in float32.
        ready = np.ascontiguousarray(array if module in ("tokens", "positions") else array.T)
        types = gguf.GGMLQuantizationType
        chosen = types[{"float32": "F32", "bfloat16": "BF16"}.get(kind, kind.upper())]
        chosen = chosen if is_matrix and module != "positions" else types.F32
        writer.add_tensor(f"{names[module]}.{last}", gguf.quants.quantize(ready, chosen), raw_dtype=chosen)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def ctranslate2_work(shape: str, storage: str, threads: int, prompt: int) -> Callable[[], object]:
    """Return the work of reading a prompt with GPT-2 of 124M, by CTranslate2."""
    limit_threads(threads)
    import ctranslate2
    import transformers
    from ctranslate2.converters.transformers import GPT2Loader

    names = [str(token) for token in range(50257)]
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    spec = GPT2Loader().get_model_spec(model)
    spec.register_vocabulary(names)
    spec.config.unk_token = spec.config.bos_token = spec.config.eos_token = names[0]
    spec.validate()
    spec.optimize(quantization=None if storage == "float32" else storage)
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        generator = ctranslate2.Generator(folder, "cpu", compute_type=storage, inter_threads=1, intra_threads=threads)
    tokens = [names[token % 1000] for token in range(prompt)]
    # One token follows, whose cost is that of the last one of the prompt.
    return lambda: generator.generate_batch(
        [tokens], max_length=1, include_prompt_in_result=False, sampling_topk=1, return_scores=False
    )


KNOWN = 400


def wyrm_known_prefix(shape: str, storage: str, threads: int, requests: int) -> Callable[[], object]:
    """Return the work of so many requests whose first tokens were read before, or of two steps behind so many."""
    limit_threads(threads)
    import wyrm as wy

    model = _decoder(shape)
    if storage != "float32":
        model.quantize(storage)
    decoder, prefix = wy.nn.CachedDecoder(model), np.arange(KNOWN) % 1000
    decoder.logits_after(prefix[None])

    def answer() -> object:
        # Another token each time, behind the prefix that the last request had too.
        for request in range(requests):
            list(wy.nn.generate(decoder, [*prefix.tolist(), 1000 + request], 1, temperature=0.0))
        return decoder

    def steps() -> object:
        decoder.truncate(KNOWN)
        for token in (1, 2):
            decoder.step(np.array([token]))
        return decoder

    return answer if requests else steps


# Sequences and tokens of a training step.
STEPS = (("15M", 4, 64), ("15M", 8, 256), ("124M", 4, 128))
RATE = 1e-3


def _batch(sequences: int, tokens: int) -> Any:
    return np.random.default_rng(0).integers(0, 32000, (sequences, tokens + 1))


def wyrm_step(shape: str, compute_dtype: Any, threads: int, sequences: int, tokens: int) -> Callable[[], object]:
    """Return a training step with AdamW; threads share its products and loops."""
    limit_threads(threads)
    import wyrm as wy

    if shape == "124M":
        wy.nn.seed(0)
        model: Any = wy.nn.GPT2(wy.nn.GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
    else:
        model = _decoder(shape).train()
    batch = wy.Dim()
    inputs = [wy.IndexInput(dims=(batch, tokens), name=name) for name in ("tokens", "targets")]
    loss = model.loss(*inputs)
    program: Any = wy.compile(loss, wy.optim.AdamW(loss.parameters(), RATE), compute_dtype=compute_dtype)
    drawn = _batch(sequences, tokens)
    data = dict(zip(inputs, (drawn[:, :-1].copy(), drawn[:, 1:].copy()), strict=True))

    return lambda: float(program(data))


def torch_step(shape: str, compute_dtype: Any, threads: int, sequences: int, tokens: int) -> Callable[[], object]:
    """Return the same step of PyTorch, by autocast for bfloat16."""
    limit_threads(threads)
    import torch
    import transformers

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    if shape == "124M":
        of_gpt2 = transformers.GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
        model: Any = transformers.GPT2LMHeadModel(of_gpt2)
    else:
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPES[shape], use_cache=False))
    optimizer = torch.optim.AdamW(model.parameters(), RATE, fused=True)
    read = torch.from_numpy(_batch(sequences, tokens)[:, :-1].copy())

    def step() -> object:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=compute_dtype == "bfloat16"):
            loss = model(input_ids=read, labels=read).loss
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def _step_case(shape: str, sequences: int, tokens: int, threads: int) -> Case:
    def contender(work: str) -> Any:
        given = f"{work}({shape!r}, 'bfloat16', {threads}, {sequences}, {tokens})"
        return in_worker(
            f"from bench.workers import serve\nfrom bench.language_models import {work}\nserve(lambda: {given})"
        )

    return Case(
        "language_models",
        f"a training step in bfloat16, {shape}, {sequences} x {tokens}, {threads} thread{'s' * (threads > 1)}",
        {"wyrm": contender("wyrm_step"), "torch autocast": contender("torch_step")},
        floors={"torch autocast": 1.5},
        quick=shape == "15M" and threads == 1,
    )


def _contender(work: str, shape: str, storage: str, threads: int, prompt: int, units: int = 0) -> Any:
    given = f"{work}({shape!r}, {storage!r}, {threads}, {prompt})"
    return in_worker(
        f"from bench.workers import serve\nfrom bench.language_models import {work}\n"
        f"serve(lambda: {given}, {units or (1 if prompt else TOKENS)})"
    )


def _case(shape: str, storage: str, threads: int, prompt: int = 0) -> Case:
    what = f"a prompt of {prompt} tokens" if prompt else "a token"
    return Case(
        "language_models",
        f"{what}, {shape}, {storage}, {threads} thread{'s' * (threads > 1)}",
        {
            "wyrm": _contender("wyrm_work", shape, storage, threads, prompt),
            "llama.cpp": _contender("llama_work", shape, storage, threads, prompt),
        },
        floors={"llama.cpp": 1.0},
        quick=storage != "bfloat16" and (threads == 1 or shape == "135M"),
    )


def _texts(shape: str, storage: str) -> Case:
    """Return the case of several texts at once, beside one after the other."""
    units = TOKENS * len(LENGTHS)
    return Case(
        "language_models",
        f"a token of {len(LENGTHS)} texts of different lengths, {shape}, {storage}, 1 thread",
        {
            "wyrm": _contender("wyrm_texts", shape, storage, 1, len(LENGTHS), units),
            "wyrm, one after the other": _contender("wyrm_texts", shape, storage, 1, 1, units),
        },
        floors={"wyrm, one after the other": 4.0},
        quick=shape == "15M",
    )


def _prompt_of_gpt2(storage: str) -> Case:
    """Return the case of a prompt of GPT-2 beside CTranslate2."""
    return Case(
        "language_models",
        f"a prompt of {PROMPT} tokens, 124M, {storage}, 1 thread",
        {
            "wyrm": _contender("wyrm_work", "124M", storage, 1, PROMPT),
            "CTranslate2": _contender("ctranslate2_work", "124M", storage, 1, PROMPT),
        },
        floors={"CTranslate2": 1.2 if storage == "float32" else 1.0},
        quick=False,
    )


def _known_prefix() -> Case:
    """Return the case of the first token of a request whose first tokens are known, beside two steps."""
    return Case(
        "language_models",
        f"the first token behind {KNOWN} known ones and a new one, 15M, float32, 1 thread",
        {
            "wyrm": _contender("wyrm_known_prefix", "15M", "float32", 1, 8, 8),
            "wyrm, two steps": _contender("wyrm_known_prefix", "15M", "float32", 1, 0, 1),
        },
        floors={"wyrm, two steps": 1.0},
    )


def cases() -> list[Case]:
    """A token after 64 others, with 64 of these read at once, a prompt, several texts at once, and a training step."""
    shapes = (*SHAPES, "124M")
    found = [_case(shape, storage, threads) for threads in (1, THREADS) for shape in shapes for storage in TYPES]
    found += [_case("135M", storage, 1, PROMPT) for storage in ("float32", "int8", "int4")]
    found += [_prompt_of_gpt2(storage) for storage in ("float32", "int8")] + [_known_prefix()]
    found += [_texts(shape, storage) for shape in SHAPES for storage in ("float32", "int8")]
    return found + [_step_case(*step, threads) for threads in (1, THREADS) for step in STEPS]
