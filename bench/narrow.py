"""Narrow weights: what they take and lose, a step of LoRA beside them vs PyTorch and peft, and a table of ten million.

Ratios of memory, of perplexity and of recall are those of float32 divided by those of the narrow weights. The small
Llama whose perplexity is measured is trained for some minutes on nine tenths of TinyStories, byte by byte.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from bench.harness import Case, Contender, Measurement, timed
from bench.language_models import limit_threads
from bench.models import DATA, MOVIELENS, THREADS, has_movielens
from bench.workers import in_worker

STORIES = DATA / "tinystories.txt"
# The most bytes and perplexity of narrow weights, relative to those of float32.
MOST_BYTES = {"int8": 0.27, "int4": 0.16}
MOST_PERPLEXITY = {"int8": 1.01, "int4": 1.04}
BATCH, LENGTH, RANK = 4, 128, 8
ITEMS, DIMENSIONS = 10_000_000, 64


# --- a step of LoRA ---------------------------------------------------------------------------------------------------


def _tokens() -> Any:
    return np.random.default_rng(0).integers(0, 50257, (BATCH, LENGTH + 1))


def wyrm_step(storage: str, threads: int, *remat: str) -> Callable[[], object]:
    """Return a step on GPT-2 124M whose weights are narrow, with products of bfloat16."""
    limit_threads(threads)
    import wyrm as wy

    wy.nn.seed(0)
    model = wy.nn.GPT2(wy.nn.GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
    model.quantize(storage)  # type: ignore[arg-type]  # one of its types
    adapter = wy.nn.LoRA(model.train(), rank=RANK, targets="blocks.*")
    x, y = (wy.IndexInput(dims=(BATCH, LENGTH), name=name) for name in ("tokens", "following"))
    optimizer = wy.optim.AdamW(adapter.parameters(), 1e-3)
    step = wy.compile(model.loss(x, y), optimizer, compute_dtype="bfloat16", remat=remat)
    tokens = _tokens()
    return partial(step, {x: tokens[:, :-1], y: tokens[:, 1:]})


def torch_step(threads: int) -> Callable[[], object]:
    """Return the same step of transformers and peft, all in bfloat16."""
    limit_threads(threads)
    import peft
    import torch
    import transformers

    torch.set_num_threads(threads)
    config = transformers.GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    base = transformers.GPT2LMHeadModel(config).to(torch.bfloat16)
    chosen = peft.LoraConfig(
        r=RANK, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True, task_type="CAUSAL_LM"
    )  # fmt: skip
    model: Any = peft.get_peft_model(base, chosen, autocast_adapter_dtype=False).train()
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], 1e-3)
    tokens = torch.from_numpy(_tokens())

    def step() -> object:
        logits = model(tokens[:, :-1]).logits.flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(logits, tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def _resident() -> float:
    """Return the megabytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096 / 1e6


def memory_of(modules: str, make: Callable[[], Callable[[], object]]) -> Callable[[], Measurement]:
    """Return what measures the most megabytes during a step, beside those of the imported modules."""
    for name in modules.split():
        __import__(name)
    before, step = _resident(), make()
    step()

    def once() -> Measurement:
        peak, done = 0.0, threading.Event()

        def watch() -> None:
            nonlocal peak
            while not done.is_set():
                peak = max(peak, _resident())
                time.sleep(0.003)

        watcher = threading.Thread(target=watch)
        watcher.start()
        step()
        done.set()
        watcher.join()
        return Measurement(peak - before)

    return once


def _in_worker(call: str, modules: str = "") -> Contender:
    served = f"serve(lambda: {call})"
    if modules:
        served = f"serve_measured(lambda: memory_of({modules!r}, lambda: {call}))"
    names = "memory_of, torch_step, wyrm_step"
    return in_worker(f"from bench.workers import serve, serve_measured\nfrom bench.narrow import {names}\n{served}")


def _steps_of_lora() -> list[Case]:
    found = []
    for threads in (1, THREADS):
        contenders = {
            "wyrm": _in_worker(f"wyrm_step('int8', {threads}, 'activation')"),
            "wyrm, activations kept": _in_worker(f"wyrm_step('int8', {threads})"),
            "wyrm, weights in bfloat16": _in_worker(f"wyrm_step('bfloat16', {threads})"),
            "PyTorch, bfloat16": _in_worker(f"torch_step({threads})"),
        }
        name = f"LoRA step, 124M {BATCH} x {LENGTH}, int8, {threads} thread{'s' * (threads > 1)}"
        found.append(Case("narrow", name, contenders, floors={"PyTorch, bfloat16": 1.5}))
    memory = {
        "wyrm": _in_worker("wyrm_step('int8', 1, 'activation')", "wyrm"),
        "wyrm, activations kept": _in_worker("wyrm_step('int8', 1)", "wyrm"),
        "PyTorch, bfloat16": _in_worker("torch_step(1)", "torch transformers peft"),
    }
    name = f"memory of a LoRA step, 124M {BATCH} x {LENGTH}, int8"
    return [*found, Case("narrow", name, memory, floors={"PyTorch, bfloat16": 1 / 0.6}, unit="MB", rounds=2)]


# --- bytes and perplexity ---------------------------------------------------------------------------------------------


def _megabytes(storage: str) -> Measurement:
    import wyrm as wy

    wy.nn.seed(0)
    model = wy.nn.GPT2(wy.nn.GPT2Config())
    if storage != "float32":
        model.quantize(storage)  # type: ignore[arg-type]  # one of its types
    return Measurement(sum(array.nbytes for array in model.state_dict().values()) / 1e6)


@cache
def _small_llama() -> tuple[Any, Any]:
    """Return a trained model, and held-out blocks."""
    import wyrm as wy

    text = np.frombuffer(STORIES.read_bytes(), np.uint8).astype(np.int64)
    training, held_out = wy.data.TokenBlocks(text, 128, vocab_size=256, seed=0).split(0.1)
    wy.nn.seed(0)
    config = wy.nn.DecoderConfig(
        vocab_size=256, hidden_size=192, intermediate_size=512, num_hidden_layers=4, num_attention_heads=6,
        num_key_value_heads=3, max_position_embeddings=128,
    )  # fmt: skip
    model = wy.nn.Decoder(config)

    class Batch(wy.Dim): ...

    tokens, targets = (wy.IndexInput(dims=(Batch(), 128), name=name) for name in ("tokens", "targets"))
    steps = 3 * -(-len(training) // 16)
    rate = wy.optim.schedules.WarmupCosine(3e-3, steps // 20, steps, 3e-4)
    train = wy.compile(model.loss(tokens, targets), wy.optim.AdamW(model.parameters(), rate, betas=(0.9, 0.95)))
    for _ in range(3):
        train.epoch({tokens: training.inputs, targets: training.targets}, batch_size=16, shuffle=True)
    return model.eval(), held_out


@cache
def perplexity(storage: str) -> float:
    """Return the perplexity of a byte of held-out stories."""
    import wyrm as wy

    trained, held_out = _small_llama()
    model = wy.nn.Decoder(trained.config).eval()
    model.load_state_dict(trained.state_dict())
    if storage != "float32":
        model.quantize(storage)  # type: ignore[arg-type]  # one of its types
    tokens, targets = (wy.IndexInput(dims=(wy.Dim(), 128), name=name) for name in ("tokens", "targets"))
    targets = wy.IndexInput(dims=tokens.dims, name="targets")
    loss = wy.compile(model.loss(tokens, targets))
    return float(np.exp(loss.evaluate({tokens: held_out.inputs, targets: held_out.targets}, batch_size=16)))


def _of_number(work: Callable[[str], Measurement], storage: str) -> Contender:
    return lambda: partial(work, storage)


def _perplexity(storage: str) -> Measurement:
    return Measurement(perplexity(storage))


def _sizes() -> list[Case]:
    found = []
    for storage, most in MOST_BYTES.items():
        contenders = {"wyrm": _of_number(_megabytes, storage), "float32": _of_number(_megabytes, "float32")}
        found.append(
            Case(
                "narrow",
                f"weights of GPT-2 124M, {storage}",
                contenders,
                floors={"float32": 1 / most},
                unit="MB",
                rounds=2,
            )
        )
    if STORIES.is_file():
        for storage, most in MOST_PERPLEXITY.items():
            contenders = {"wyrm": _of_number(_perplexity, storage), "float32": _of_number(_perplexity, "float32")}
            name = f"perplexity of a byte of TinyStories, {storage}"
            floors = {"float32": 1 / most}
            found.append(Case("narrow", name, contenders, floors=floors, unit="perplexity", rounds=2, quick=False))
    return found


# --- a table ----------------------------------------------------------------------------------------------------------


@cache
def _table(narrow: bool) -> Any:
    import wyrm as wy

    items = np.random.default_rng(0).standard_normal((ITEMS, DIMENSIONS), np.float32)
    return wy.NarrowWeight(items) if narrow else items


def _recommended(narrow: bool) -> Callable[[], Measurement]:
    import wyrm as wy

    user = np.random.default_rng(1).standard_normal(DIMENSIONS, np.float32)
    return timed(partial(wy.recommend, user, _table(narrow), 10))


def _table_megabytes(narrow: bool) -> Callable[[], Measurement]:
    size = _table(narrow).nbytes / 1e6
    return lambda: Measurement(size)


@cache
def recalled(storage: str) -> float:
    """Return the recall of the best twenty films by BPR, with the films' table in these numbers: MovieLens 100K."""
    import wyrm as wy
    from bench.models import Recommender

    data = wy.data.read_movielens(MOVIELENS)
    order, shape = np.random.default_rng(0).permutation(len(data)), (data.user_count, data.item_count)
    tested, kept = np.split(order, [len(order) // 5])
    model = Recommender(*shape, DIMENSIONS)
    for _ in range(20):
        model.epoch(data.users[kept], data.items[kept], threads=1)

    def matrix(rows: Any) -> Any:
        return csr_matrix((np.ones(len(rows)), (data.users[rows], data.items[rows])), shape)

    seen, relevant = matrix(kept), matrix(tested)
    films: Any = model.item_vectors.weight.value
    if storage != "float32":
        films = wy.NarrowWeight(films, storage=storage)  # type: ignore[arg-type]  # one of its types
    found = wy.recommend(model.user_vectors.weight, films, 20, biases=model.biases, exclude=seen)
    return float(wy.metrics.recall_at_k(found, relevant, 20))


def _films_missed(storage: str) -> Measurement:
    return Measurement(1.0 - recalled(storage))


def _tables() -> list[Case]:
    recall = {"wyrm": _of_number(_films_missed, "int8"), "float32": _of_number(_films_missed, "float32")}
    name = f"{ITEMS // 1_000_000} million x {DIMENSIONS} in int8"
    cases = [
        Case(
            "narrow", f"the best of {name}, for one user",
            {"wyrm": partial(_recommended, True), "float32": partial(_recommended, False)}, floors={"float32": 1.0},
            quick=False,
        ),
        Case(
            "narrow", f"a table of {name}",
            {"wyrm": partial(_table_megabytes, True), "float32": partial(_table_megabytes, False)},
            floors={"float32": 1 / 0.27}, unit="MB", rounds=2, quick=False,
        ),
    ]  # fmt: skip
    if has_movielens("narrow"):
        goal, what = "recall within 0.5 % of that of float32", "films that the best twenty miss, BPR in int8, MovieLens"
        cases.append(Case("narrow", what, recall, goal, rounds=2, unit="1 - recall"))
    return cases


def cases() -> list[Case]:
    """Steps of LoRA, bytes, perplexity, and a table of ten million rows."""
    return [*_steps_of_lora(), *_sizes(), *_tables()]
