"""Blocks of tokens: compared with plain slices, in orders that depend on the seed and the epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wyrm as wy
from wyrm.data import TokenBlocks
from wyrm.errors import DataError, DTypeError, IndexOutOfRange, ShapeError


@settings(deadline=None)
@given(st.integers(1, 9), st.integers(0, 60))
def test_blocks_are_slices_of_the_tokens(context: int, more: int) -> None:
    tokens = np.random.default_rng(more).integers(0, 100, context + 1 + more)
    blocks = TokenBlocks(tokens, context)
    starts = range(0, len(tokens) - context, context)
    assert blocks.inputs.tolist() == [tokens[i : i + context].tolist() for i in starts]
    assert blocks.targets.tolist() == [tokens[i + 1 : i + 1 + context].tolist() for i in starts]
    assert len(blocks) == len(starts)


@pytest.mark.parametrize("dtype", ["u1", "u2", "i4", "i8", "u8"])
def test_any_integers_in_a_memory_map_are_not_copied(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "tokens.bin"
    np.arange(100).astype(dtype).tofile(path)
    tokens: Any = np.memmap(path, dtype=dtype, mode="r")
    blocks = TokenBlocks(tokens, block_size=8, vocab_size=50_257)
    assert np.shares_memory(blocks.inputs, tokens) and np.shares_memory(blocks.targets, tokens)
    for inputs, targets in blocks.batches(4):
        assert inputs.dtype == targets.dtype == np.int64
        assert (targets == inputs + 1).all()


def numbers(blocks: TokenBlocks, *arguments: Any, **options: Any) -> list[int]:
    """Return the block indices in the order of their batches, for tokens that are numbered."""
    return [
        int(first) // blocks.block_size for inputs, _ in blocks.batches(*arguments, **options) for first in inputs[:, 0]
    ]


def test_the_order_depends_on_the_seed_and_the_epoch_alone() -> None:
    def orders(seed: int) -> list[list[int]]:
        blocks = TokenBlocks(np.arange(201), block_size=4, seed=seed)
        return [numbers(blocks, 5, epoch) for epoch in (2, 0, 1, 0)]

    first, again, other = orders(0), orders(0), orders(1)
    assert first == again and first[1] == first[3]
    assert all(sorted(order) == list(range(50)) for order in first + other)
    assert len({tuple(order) for order in first + other}) == 6


def test_an_epoch_goes_on_where_it_stopped() -> None:
    blocks = TokenBlocks(np.arange(101), block_size=2)
    whole = numbers(blocks, 8, epoch=3)
    for start in range(7):
        assert numbers(blocks, 8, epoch=3, start=start) == whole[8 * start :]


def test_the_last_batch_is_left_out_unless_it_is_wanted() -> None:
    blocks = TokenBlocks(np.arange(23), block_size=2)  # 11 blocks
    assert numbers(blocks, 4, shuffle=False) == list(range(8))
    assert numbers(blocks, 4, shuffle=False, drop_last=False) == list(range(11))
    assert sorted(numbers(blocks, 4, drop_last=False)) == list(range(11))


def test_batches_are_copies() -> None:
    tokens = np.arange(9)
    for inputs, targets in TokenBlocks(tokens, block_size=4).batches(1):
        inputs[:] = targets[:] = -1
    assert tokens.tolist() == list(range(9))


def test_the_two_parts_share_no_target_and_lose_none() -> None:
    blocks = TokenBlocks(np.arange(103), block_size=5, vocab_size=103, seed=9)
    training, validation = blocks.split(0.25)
    assert np.concatenate([training.inputs, validation.inputs]).tolist() == blocks.inputs.tolist()
    assert np.concatenate([training.targets, validation.targets]).tolist() == blocks.targets.tolist()
    assert (len(training), len(validation)) == (15, 5)
    assert (training.seed, validation.vocab_size, validation.block_size) == (9, 103, 5)


@pytest.mark.parametrize("share", [0.01, 0.99])
def test_a_part_without_a_block_is_an_error(share: float) -> None:
    with pytest.raises(DataError, match=r"of 4 blocks leaves none for the (validation|training) part"):
        TokenBlocks(np.arange(9), block_size=2).split(share)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_a_part_that_is_no_fraction_is_an_error(share: float) -> None:
    with pytest.raises(DataError, match="validation_fraction must be"):
        TokenBlocks(np.arange(9), block_size=2).split(share)


@pytest.mark.parametrize("count", [0, 1, 4])
def test_too_few_tokens_are_an_error(count: int) -> None:
    with pytest.raises(DataError, match=f"{count} tokens are too few for one block of block_size 4, which needs 5"):
        TokenBlocks(np.arange(count), block_size=4)
    assert len(TokenBlocks(np.arange(5), block_size=4)) == 1


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64])
def test_an_id_beyond_the_vocabulary_is_an_error(dtype: Any) -> None:
    tokens = np.zeros(2000, dtype)
    tokens[[1500, 1700]] = 70, 90
    with pytest.raises(IndexOutOfRange, match="the token at position 1,500 has the id 70; expected 0 to 69"):
        TokenBlocks(tokens, block_size=4, vocab_size=70)
    assert len(TokenBlocks(tokens, block_size=4, vocab_size=10**30)) == 499
    TokenBlocks(tokens, block_size=4, vocab_size=91)


def test_a_negative_id_is_an_error() -> None:
    with pytest.raises(IndexOutOfRange, match="the token at position 2 has the id -1; expected at least 0"):
        TokenBlocks(np.array([3, 4, -1, 5]), block_size=2)
    with pytest.raises(IndexOutOfRange, match="the token at position 1 has the id 9; expected 0 to 8"):
        TokenBlocks(np.array([3, 9, -1, 5]), block_size=2, vocab_size=9)


def test_tokens_that_are_none() -> None:
    with pytest.raises(DTypeError, match="tokens have dtype float64; expected integers"):
        TokenBlocks(np.zeros(9), block_size=2)  # type: ignore[arg-type]  # the mistake that mypy finds
    with pytest.raises(ShapeError, match=r"tokens have shape \(3, 3\); expected one axis"):
        TokenBlocks(np.zeros((3, 3), np.int64), block_size=2)


@pytest.mark.parametrize(
    "options", [{"block_size": 0}, {"block_size": 2, "seed": -1}, {"block_size": 2, "vocab_size": 0}]
)
def test_options_out_of_range(options: Any) -> None:
    with pytest.raises(DataError, match="must be an integer of at least"):
        TokenBlocks(np.arange(9), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be an integer of at least 1, not 0"),
        ({"batch_size": 2, "epoch": -1}, "epoch must be an integer of at least 0, not -1"),
        ({"batch_size": 2, "start": 3}, r"start must be in \[0, 2\], the batches of an epoch, not 3"),
        ({"batch_size": 5}, "batch_size=5 with drop_last=True leaves no batch of 4 blocks"),
    ],
)
def test_mistakes_are_found_before_the_first_batch(options: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        TokenBlocks(np.arange(9), block_size=2).batches(**options)


def test_blocks_are_columns_of_an_epoch() -> None:
    class Batch(wy.Dim): ...

    batch, context = Batch(), 3
    tokens = wy.IndexInput(dims=(batch, context), name="tokens")
    targets = wy.IndexInput(dims=(batch, context), name="targets")
    table = wy.Parameter(np.zeros((7, 7), np.float32), name="table")
    loss = table.index(tokens).cross_entropy(targets)
    train = wy.compile(loss, wy.optim.Adam([table], learning_rate=0.1))
    blocks = TokenBlocks((np.arange(400) % 7).astype(np.uint16), context, vocab_size=7)
    for _ in range(5):
        mean_loss = train.epoch({tokens: blocks.inputs, targets: blocks.targets}, batch_size=4, shuffle=True)
    assert mean_loss < 0.1
    assert repr(blocks) == "TokenBlocks(133 blocks of 3 tokens)"
