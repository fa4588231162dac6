"""GPT-2 learns as PyTorch's does: equal initial weights and batches of real text, no dropout, the same losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.examples.test_examples import DATA, needs_data

STEPS, BATCH, CONTEXT = 20, 8, 32


@needs_data
def test_twenty_steps_have_the_losses_of_torch(tmp_path: Any) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    text = wy.data.read_text(DATA / "tinystories.txt")[:200_000]
    tokens = np.frombuffer(text.encode("utf-8"), np.uint8).astype(np.int64)  # bytes will do
    blocks = wy.data.TokenBlocks(tokens, CONTEXT, vocab_size=256)
    wy.nn.seed(0)
    model = wy.nn.GPT2(
        wy.nn.GPT2Config(
            vocab_size=256, n_positions=CONTEXT, n_embd=32, n_layer=3, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )  # fmt: skip
    model.save_pretrained(tmp_path)
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path)

    class Texts(wy.Dim): ...

    read, following = (wy.IndexInput(dims=(Texts(), CONTEXT), name=name) for name in ("read", "following"))
    options: dict[str, Any] = {"betas": (0.9, 0.95), "weight_decay": 0.1}
    program = wy.compile(model.loss(read, following), wy.optim.AdamW(model.parameters(), 2e-3, epsilon=1e-8, **options))
    optimizer = torch.optim.AdamW(theirs.parameters(), 2e-3, eps=1e-8, **options)
    losses: list[tuple[float, float]] = []
    for inputs, targets in list(blocks.batches(BATCH))[:STEPS]:
        mine = program.epoch({read: inputs, following: targets}, batch_size=BATCH, threads=2, mode="synchronized")
        logits = theirs(torch.from_numpy(inputs)).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(targets).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append((mine, loss.item()))
    assert len(losses) == STEPS and losses[0][0] - losses[-1][0] > 1.0
    ours, wanted = np.transpose(losses)
    np.testing.assert_allclose(ours, wanted, atol=1e-3)
