"""GPT-2 on TinyStories, trained twice: `python -m bench.learning [--bfloat16] [--steps N] [--batch-size N]`.

Both trainings start from equal weights and see equal batches, without dropout. Native code trains beside PyTorch, and
every 50 steps both losses on held-out text are printed. With `--bfloat16`, the jax engine trains beside itself with
`compute_dtype="bfloat16"`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np

import wyrm as wy
from bench.models import DATA, THREADS

CONTEXT, VOCABULARY = 128, 8000
OPTIONS: dict[str, Any] = {"betas": (0.9, 0.95), "weight_decay": 0.1}
Batches = Iterator[tuple[np.ndarray, np.ndarray]]


class Batch(wy.Dim): ...


class Training(NamedTuple):
    """A model, its loss and its data."""

    model: wy.nn.GPT2
    loss: Any
    tokens: Any
    following: Any

    def compiled(self, **options: Any) -> Any:
        """Return a program that trains the model."""
        optimizer = wy.optim.AdamW(self.model.parameters(), 2e-3, epsilon=1e-8, **OPTIONS)
        return wy.compile(self.loss, optimizer, **options)

    def columns(self, inputs: np.ndarray, targets: np.ndarray) -> dict[Any, np.ndarray]:
        """Return a batch as data of the loss."""
        return {self.tokens: inputs, self.following: targets}


def training() -> Training:
    """Return a model whose weights are the same in every call."""
    wy.nn.seed(0)
    model = wy.nn.GPT2(
        wy.nn.GPT2Config(
            vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=64, n_layer=8, n_head=16, resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0,
        )
    )  # fmt: skip
    tokens, following = (wy.IndexInput(dims=(Batch(), CONTEXT), name=name) for name in ("tokens", "following"))
    return Training(model, model.loss(tokens, following), tokens, following)


def beside_bfloat16(batches: Batches) -> None:
    """Train in float32 and in bfloat16; print losses, and the largest relative difference of those of one step."""
    ours, theirs = training(), training()
    exact, rounded = ours.compiled(engine="jax"), theirs.compiled(engine="jax", compute_dtype="bfloat16")
    largest = 0.0
    for step, batch in enumerate(batches, 1):
        wanted, found = float(exact(ours.columns(*batch))), float(rounded(theirs.columns(*batch)))
        largest = max(largest, abs(found / wanted - 1))
        if step % 50 == 0:
            print(f"step {step}: loss {wanted:.4f}, in bfloat16 {found:.4f}", flush=True)
    print(f"the losses of a step differ by at most {largest:.2%}")


def beside_torch(batches: Batches, held_out: list[Any], steps: int) -> None:
    """Train with wyrm and PyTorch; print validation losses and the largest difference of the first losses."""
    import torch
    from transformers import GPT2LMHeadModel

    ours = training()
    program, validate = ours.compiled(), wy.compile(ours.loss)
    with tempfile.TemporaryDirectory() as folder:
        ours.model.save_pretrained(folder)
        theirs: Any = GPT2LMHeadModel.from_pretrained(folder)
    torch.set_num_threads(THREADS)
    optimizer = torch.optim.AdamW(theirs.parameters(), 2e-3, eps=1e-8, fused=True, **OPTIONS)

    def torch_loss(inputs: Any, targets: Any) -> Any:
        logits = theirs(torch.from_numpy(inputs)).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(targets).flatten())

    largest_difference = 0.0
    for step, (inputs, targets) in enumerate(batches, 1):
        columns = ours.columns(inputs, targets)
        mine = program.epoch(columns, batch_size=len(inputs), threads=THREADS, mode="synchronized")
        optimizer.zero_grad()
        other = torch_loss(inputs, targets)
        other.backward()
        optimizer.step()
        if step <= 20:
            largest_difference = max(largest_difference, abs(mine - other.item()))
        if step == 20:
            print(f"the losses of the first 20 steps differ by at most {largest_difference:.1e}", flush=True)
        if step % 50 == 0 or step == steps:
            loss = np.mean([float(validate(ours.columns(*batch))) for batch in held_out])
            with torch.no_grad():
                expected = np.mean([torch_loss(x, y).item() for x, y in held_out])
            print(f"step {step}: validation loss {loss:.4f}, PyTorch's {expected:.4f}", flush=True)


def main() -> None:
    """Train both, and print how they differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bfloat16", action="store_true", help="compare float32 with bfloat16 in place of PyTorch")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=64)
    arguments = parser.parse_args()
    text = wy.data.read_text(DATA / "tinystories.txt")
    tokenizer = wy.data.Tokenizer.train(text[:4_000_000], VOCABULARY)
    blocks = wy.data.TokenBlocks(tokenizer.encode(text), CONTEXT, vocab_size=VOCABULARY)
    trained_on, validation = blocks.split(0.05)
    every = (batch for epoch in count() for batch in trained_on.batches(arguments.batch_size, epoch))
    batches = islice(every, arguments.steps)
    if arguments.bfloat16:
        beside_bfloat16(batches)
    else:
        held_out = list(islice(validation.batches(arguments.batch_size, shuffle=False), 10))
        beside_torch(batches, held_out, arguments.steps)


if __name__ == "__main__":
    main()
