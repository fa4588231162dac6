"""Samples of the attention ops; the expected values and gradients are PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.pytorch import torch
from tests.samples.sample import Sample, mask, normal
from wyrm.ops.attention.attention import Attention, AttentionGradient, AttentionMask
from wyrm.ops.attention.cached_attention import CachedAttention, CachedStep
from wyrm.ops.random.dropout_mask import drop_threshold, dropout_mask, kept_factor
from wyrm.ops.random.philox import STEP

BATCH, TIME, HEADS, FEATURES = 2, 5, 2, 3
RATE, SEED, STREAM = 0.3, 4, 2


def masks(
    qkv: Any, *allowed: Any, causal: bool = False, alibi: bool = False, dropout_rate: float = 0.0
) -> tuple[Any, Any]:
    """Return the bias of the scores and the factors of the attention weights."""
    batch, time, _, heads, _ = qkv.shape
    sees = torch.ones(batch, heads, time, time, dtype=torch.bool)
    if causal:
        sees = sees.tril()
    for key_mask in allowed:
        sees = sees & key_mask[:, None]
    positions = torch.arange(time)
    slopes = torch.tensor([2.0 ** (-8.0 * (h + 1) / heads) if alibi else 0.0 for h in range(heads)])
    bias = -slopes.to(qkv.dtype)[:, None, None] * (positions[:, None] - positions).abs()
    factors = sees.to(qkv.dtype)
    if dropout_rate > 0.0:
        keep = dropout_mask(batch * heads * time, time, drop_threshold(dropout_rate), int(STEP.value), SEED, STREAM)
        factors = factors * torch.tensor(keep).reshape(factors.shape) * kept_factor(dropout_rate)
    return torch.where(sees, bias, torch.tensor(-1e30, dtype=qkv.dtype)), factors


def attend(qkv: Any, *allowed: Any, **options: Any) -> Any:
    """Return the value of `Attention` as a tensor."""
    bias, factors = masks(qkv, *allowed, **options)
    queries, keys, values = (qkv[:, :, i].transpose(1, 2) for i in range(3))
    scores = queries @ keys.transpose(2, 3) * qkv.shape[-1] ** -0.5 + bias
    return ((scores.softmax(-1) * factors) @ values).transpose(1, 2)


def attention(*operands: Any, **options: Any) -> NDArray[Any]:
    """Return the value of `Attention`."""
    result: NDArray[Any] = attend(*map(torch.tensor, operands), **options).numpy()
    return result


def attention_gradient(qkv: Any, gradient: Any, *allowed: Any, **options: Any) -> NDArray[Any]:
    """Return the value of `AttentionGradient`."""
    leaf = torch.tensor(qkv).requires_grad_()
    (attend(leaf, *map(torch.tensor, allowed), **options) * torch.tensor(gradient)).sum().backward()
    assert leaf.grad is not None
    result: NDArray[Any] = leaf.grad.numpy()
    return result


def attention_mask(part: int, *operands: Any, **options: Any) -> NDArray[Any]:
    """Return the value of `AttentionMask`."""
    qkv = torch.tensor(operands[0])
    both = masks(qkv, *map(torch.tensor, operands[1:]), **options)
    batch, time, _, heads, _ = qkv.shape
    result: NDArray[Any] = both[part].broadcast_to(batch, heads, time, time).numpy()
    return result


def cached_attention(qkv: Any, cache: Any, allowed: Any) -> NDArray[Any]:
    """Return the value of `CachedAttention`: the last rows of a causal attention to the filled part of the cache."""
    past = cache[..., allowed].transpose(0, 4, 1, 2, 3)
    whole = np.concatenate([np.concatenate([past[:, :, :1], past], axis=2), qkv], axis=1)
    return attention(whole, causal=True)[:, past.shape[1] :]


def samples() -> list[Sample]:
    """Return samples of the ops: plain, causal, masked, with ALiBi, with dropout."""
    qkv, cotangent = (BATCH, TIME, 3, HEADS, FEATURES), (BATCH, TIME, HEADS, FEATURES)
    allowed = mask(BATCH, TIME, TIME) | np.eye(TIME, dtype=np.bool_)
    allowed[0, 2] = False  # a query that may attend to no key
    cases: list[tuple[str, dict[str, Any], tuple[Any, ...]]] = [
        ("plain", {}, ()),
        ("causal", {"causal": True}, ()),
        ("masked", {}, (allowed,)),
        ("padded", {"causal": True}, (np.array([[[True] * 4 + [False]]]),)),
        ("alibi", {"causal": True, "alibi": True}, ()),
        ("dropout", {"causal": True, "dropout_rate": RATE}, ()),
    ]
    samples = []
    for name, options, extra in cases:
        filled = {"alibi": False, "causal": False, "masked": bool(extra), "dropout_rate": 0.0} | options
        filled |= {"seed": SEED, "stream": STREAM}
        step = (STEP,) if filled["dropout_rate"] else ()
        tags = frozenset(["random"]) if step else frozenset[str]()

        def build(op: Any, filled: Any = filled, step: Any = step, **more: Any) -> Any:
            return lambda *operands: op(*operands, *step, **filled, **more)

        samples += [
            Sample(
                Attention, build(Attention), (normal(*qkv), *extra), lambda *o, p=options: attention(*o, **p),
                name=f"Attention-{name}", empty=not extra, misfit=(normal(BATCH, TIME, 2, HEADS, FEATURES), *extra),
                tags=tags,
            ),
            Sample(
                AttentionGradient, build(AttentionGradient), (normal(*qkv), normal(*cotangent), *extra),
                lambda *o, p=options: attention_gradient(*o, **p), name=f"AttentionGradient-{name}", empty=not extra,
                misfit=(normal(*qkv), normal(BATCH, TIME, HEADS, FEATURES + 1), *extra), tags=tags,
            ),
        ]  # fmt: skip
        for part in ("bias", "factors"):
            samples.append(
                Sample(
                    AttentionMask, build(AttentionMask, part=part), (normal(*qkv), *extra),
                    lambda *o, p=options, i=part == "factors": attention_mask(i, *o, **p), differentiable=False,
                    name=f"AttentionMask-{name}-{part}", empty=False, tags=tags,
                )
            )  # fmt: skip
    cache = normal(BATCH, 2, HEADS, FEATURES, TIME)
    for op, time in ((CachedAttention, TIME - 1), (CachedStep, 1)):
        for name, seen in (("begun", [True, True, False, True, False]), ("empty", [False] * TIME)):
            samples.append(
                Sample(
                    op, op, (normal(BATCH, time, 3, HEADS, FEATURES), cache, np.array(seen)), cached_attention,
                    name=f"{op.__name__}-{name}", empty=False,
                    misfit=(normal(BATCH, time, 3, HEADS, FEATURES + 1), cache, np.array(seen)),
                )
            )  # fmt: skip
    return samples
