"""GPT-2 on TinyStories learns as PyTorch's does: `python -m bench.learning [--steps N] [--batch-size N]`.

Both begin with equal weights and see equal batches, without dropout; every 50 steps it prints the loss on text that
neither has seen.
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import count, islice
from typing import Any

import numpy as np

import wyrm as wy
from bench.models import DATA, THREADS

CONTEXT, VOCABULARY = 128, 8000
OPTIONS: dict[str, Any] = {"betas": (0.9, 0.95), "weight_decay": 0.1}


class Batch(wy.Dim): ...


def main() -> None:
    """Train both, print both validation losses and how far training losses were apart."""
    import torch
    from transformers import GPT2LMHeadModel

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=64)
    arguments = parser.parse_args()
    text = wy.data.read_text(DATA / "tinystories.txt")
    tokenizer = wy.data.Tokenizer.train(text[:4_000_000], VOCABULARY)
    blocks = wy.data.TokenBlocks(tokenizer.encode(text), CONTEXT, vocab_size=VOCABULARY)
    training, validation = blocks.split(0.05)
    held_out = list(islice(validation.batches(arguments.batch_size, shuffle=False), 10))

    wy.nn.seed(0)
    model = wy.nn.GPT2(
        wy.nn.GPT2Config(
            vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=64, n_layer=8, n_head=16, resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0,
        )
    )  # fmt: skip
    tokens, following = (wy.IndexInput(dims=(Batch(), CONTEXT), name=name) for name in ("tokens", "following"))
    loss = model.loss(tokens, following)
    program = wy.compile(loss, wy.optim.AdamW(model.parameters(), 2e-3, epsilon=1e-8, **OPTIONS))
    validate = wy.compile(loss)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        theirs: Any = GPT2LMHeadModel.from_pretrained(folder)
    torch.set_num_threads(THREADS)
    optimizer = torch.optim.AdamW(theirs.parameters(), 2e-3, eps=1e-8, fused=True, **OPTIONS)

    def torch_loss(inputs: Any, targets: Any) -> Any:
        logits = theirs(torch.from_numpy(inputs)).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(targets).flatten())

    apart = 0.0
    batches = (batch for epoch in count() for batch in training.batches(arguments.batch_size, epoch))
    for step, (inputs, targets) in enumerate(islice(batches, arguments.steps), 1):
        columns = {tokens: inputs, following: targets}
        mine = program.epoch(columns, batch_size=len(inputs), threads=THREADS, mode="synchronized")
        optimizer.zero_grad()
        other = torch_loss(inputs, targets)
        other.backward()
        optimizer.step()
        if step <= 20:
            apart = max(apart, abs(mine - other.item()))
        if step == 20:
            print(f"the losses of the first 20 steps differ by at most {apart:.1e}", flush=True)
        if step % 50 == 0 or step == arguments.steps:
            ours = np.mean([float(validate({tokens: x, following: y})) for x, y in held_out])
            with torch.no_grad():
                wanted = np.mean([torch_loss(x, y).item() for x, y in held_out])
            print(f"step {step}: validation loss {ours:.4f}, PyTorch's {wanted:.4f}", flush=True)


if __name__ == "__main__":
    main()
