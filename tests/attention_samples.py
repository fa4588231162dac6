"""Samples of attention, with PyTorch's functions and gradients as reference."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.sampling import Sample, mask, normal
from wyrm.ops.attention import Attention, AttentionGradient, AttentionMask
from wyrm.ops.cached_attention import CachedAttention
from wyrm.ops.dropout_mask import drop_threshold, dropout_mask
from wyrm.ops.philox import STEP

BATCH, TIME, HEADS, FEATURES = 2, 5, 2, 3
RATE, SEED, STREAM = 0.3, 4, 2


def masks(packed: Any, *allowed: Any, causal: bool = False, alibi: bool = False, rate: float = 0.0) -> tuple[Any, Any]:
    """Return the bias added to the scores, and the factors multiplied with the attention weights."""
    import torch

    batch, time, _, heads, _ = packed.shape
    sees = torch.ones(batch, heads, time, time, dtype=torch.bool)
    if causal:
        sees = sees.tril()
    for one in allowed:
        sees = sees & one[:, None]
    places = torch.arange(time)
    slopes = torch.tensor([2.0 ** (-8.0 * (h + 1) / heads) if alibi else 0.0 for h in range(heads)])
    bias = -slopes.to(packed.dtype)[:, None, None] * (places[:, None] - places).abs()
    factors = sees.to(packed.dtype)
    if rate > 0.0:
        keep = dropout_mask(batch * heads * time, time, drop_threshold(rate), int(STEP.value), SEED, STREAM)
        factors = factors * torch.tensor(keep).reshape(factors.shape) / (1.0 - rate)
    return torch.where(sees, bias, torch.tensor(-1e30, dtype=packed.dtype)), factors


def attend(packed: Any, *allowed: Any, **options: Any) -> Any:
    """Reference for `Attention`, as a tensor."""
    bias, factors = masks(packed, *allowed, **options)
    queries, keys, values = (packed[:, :, i].transpose(1, 2) for i in range(3))
    scores = queries @ keys.transpose(2, 3) * packed.shape[-1] ** -0.5 + bias
    return ((scores.softmax(-1) * factors) @ values).transpose(1, 2)


def attention(*operands: Any, **options: Any) -> NDArray[Any]:
    """Reference for `Attention`."""
    import torch

    result: NDArray[Any] = attend(*map(torch.tensor, operands), **options).numpy()
    return result


def attention_gradient(packed: Any, gradient: Any, *allowed: Any, **options: Any) -> NDArray[Any]:
    """Reference for `AttentionGradient`."""
    import torch

    leaf = torch.tensor(packed).requires_grad_()
    (attend(leaf, *map(torch.tensor, allowed), **options) * torch.tensor(gradient)).sum().backward()
    assert leaf.grad is not None
    result: NDArray[Any] = leaf.grad.numpy()
    return result


def attention_mask(part: int, *operands: Any, **options: Any) -> NDArray[Any]:
    """Reference for `AttentionMask`."""
    import torch

    packed = torch.tensor(operands[0])
    both = masks(packed, *map(torch.tensor, operands[1:]), **options)
    batch, time, _, heads, _ = packed.shape
    result: NDArray[Any] = both[part].broadcast_to(batch, heads, time, time).numpy()
    return result


def cached_attention(packed: Any, cache: Any, allowed: Any) -> NDArray[Any]:
    """Reference for `CachedAttention`: the last query of a causal attention over the content of the cache."""
    past = cache[..., allowed].transpose(0, 4, 1, 2, 3)
    whole = np.concatenate([np.concatenate([past[:, :, :1], past], axis=2), packed[:, None]], axis=1)
    return attention(whole, causal=True)[:, -1]


def attention_samples() -> list[Sample]:
    """Samples of the attention ops: plain, causal, masked, with ALiBi slopes, with dropout."""
    packed, given = (BATCH, TIME, 3, HEADS, FEATURES), (BATCH, TIME, HEADS, FEATURES)
    allowed = mask(BATCH, TIME, TIME) | np.eye(TIME, dtype=np.bool_)
    allowed[0, 2] = False  # a query that may attend to nothing
    cases: list[tuple[str, dict[str, Any], tuple[Any, ...]]] = [
        ("plain", {}, ()),
        ("causal", {"causal": True}, ()),
        ("masked", {}, (allowed,)),
        ("padded", {"causal": True}, (np.array([[[True] * 4 + [False]]]),)),
        ("alibi", {"causal": True, "alibi": True}, ()),
        ("dropout", {"causal": True, "rate": RATE}, ()),
    ]
    samples = []
    for name, options, extra in cases:
        filled = {"alibi": False, "causal": False, "masked": bool(extra), "rate": 0.0} | options
        filled |= {"seed": SEED, "stream": STREAM}
        step = (STEP,) if filled["rate"] else ()
        tags = frozenset(["random"]) if step else frozenset[str]()

        def build(op: Any, filled: Any = filled, step: Any = step, **more: Any) -> Any:
            return lambda *operands: op(*operands, *step, **filled, **more)

        samples += [
            Sample(
                Attention, build(Attention), (normal(*packed), *extra), lambda *o, p=options: attention(*o, **p),
                name=f"Attention-{name}", empty=not extra, misfit=(normal(BATCH, TIME, 2, HEADS, FEATURES), *extra),
                tags=tags,
            ),
            Sample(
                AttentionGradient, build(AttentionGradient), (normal(*packed), normal(*given), *extra),
                lambda *o, p=options: attention_gradient(*o, **p), name=f"AttentionGradient-{name}", empty=not extra,
                misfit=(normal(*packed), normal(BATCH, TIME, HEADS, FEATURES + 1), *extra), tags=tags,
            ),
        ]  # fmt: skip
        for part in ("bias", "factors"):
            samples.append(
                Sample(
                    AttentionMask, build(AttentionMask, part=part), (normal(*packed), *extra),
                    lambda *o, p=options, i=part == "factors": attention_mask(i, *o, **p), differentiable=False,
                    name=f"AttentionMask-{name}-{part}", empty=False, tags=tags,
                )
            )  # fmt: skip
    cached = normal(BATCH, 3, HEADS, FEATURES), normal(BATCH, 2, HEADS, FEATURES, TIME)
    for name, seen in (("begun", [True, True, False, False, False]), ("empty", [False] * TIME)):
        samples.append(
            Sample(
                CachedAttention, CachedAttention, (*cached, np.array(seen)), cached_attention,
                name=f"CachedAttention-{name}", empty=False,
                misfit=(normal(BATCH, 3, HEADS, FEATURES + 1), cached[1], np.array(seen)),
            )
        )  # fmt: skip
    return samples
