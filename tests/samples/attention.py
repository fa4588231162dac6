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
        sees = sees & key_mask
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


def cached_attention(
    query: Any, key: Any, value: Any, cache: Any, allowed: Any, scale: float | None = None, window: int | None = None
) -> NDArray[Any]:
    """Return the value of `CachedAttention`: the softmax over the filled part of the cache and the new positions."""
    rows = [
        _cached_row([each[row : row + 1] for each in (query, key, value, cache)], allowed[row], scale, window)
        for row in range(len(query))
    ]
    return np.concatenate(rows) if rows else np.zeros_like(query)


def _cached_row(operands: list[Any], allowed: Any, scale: float | None, window: int | None) -> NDArray[Any]:
    """Return the value of `CachedAttention` for one sequence."""
    query, key, value, cache = operands
    heads, time = query.shape[2], query.shape[1]
    filled = np.flatnonzero(allowed)
    first = filled[-1] + 1 if filled.size else 0
    places = np.concatenate([filled, first + np.arange(time)])
    past = cache[:, :, allowed].transpose(1, 0, 2, 3, 4)
    keys, values = (
        torch.tensor(np.concatenate([old, new], axis=1)).repeat_interleave(heads // new.shape[2], 2)
        for old, new in zip(past, (key, value), strict=True)
    )
    behind = (first + np.arange(time))[:, None] - places
    seen = torch.tensor((behind >= 0) & (behind < (window or 10**6)))
    parts = [each.transpose(1, 2) for each in (torch.tensor(query), keys, values)]
    found = torch.nn.functional.scaled_dot_product_attention(*parts, attn_mask=seen, scale=scale)
    result: NDArray[Any] = found.transpose(1, 2).numpy()
    return result


def attend_apart(
    query: Any, key: Any, value: Any, *masks: Any, scale: float | None = None, causal: bool = False
) -> Any:
    """Return the attention of operands that are apart as a tensor."""
    allowed = torch.ones(query.shape[1], key.shape[1], dtype=torch.bool)
    allowed = allowed.tril() if causal else allowed
    bias: Any = torch.zeros((), dtype=query.dtype)
    for each in masks:
        allowed, bias = (allowed & each, bias) if each.dtype == torch.bool else (allowed, each)
    query, key, value = (each.transpose(1, 2) for each in (query, key, value))
    group = query.shape[1] // key.shape[1]
    key, value = (each.repeat_interleave(group, 1) for each in (key, value))
    scores = query @ key.transpose(2, 3) * (scale or query.shape[-1] ** -0.5) + bias
    weights = scores.masked_fill(~allowed, -1e30).softmax(-1) * allowed
    return (weights @ value).transpose(1, 2)


def attention_apart(*operands: Any, **options: Any) -> NDArray[Any]:
    """Return the value of `Attention` of operands that are apart."""
    result: NDArray[Any] = attend_apart(*map(torch.tensor, operands), **options).numpy()
    return result


def gradient_apart(query: Any, key: Any, value: Any, gradient: Any, *masks: Any, **options: Any) -> NDArray[Any]:
    """Return the value of `AttentionGradient` of operands that are apart."""
    leaves = [torch.tensor(each).requires_grad_() for each in (query, key, value)]
    (attend_apart(*leaves, *map(torch.tensor, masks), **options) * torch.tensor(gradient)).sum().backward()
    found = [leaf.grad for leaf in leaves]
    if query.shape[1] == key.shape[1] and key.shape == value.shape:
        result: NDArray[Any] = torch.cat([each for each in found if each is not None], 2).numpy()
        return result
    flat: NDArray[Any] = torch.cat([each.flatten(1) for each in found if each is not None], 1).numpy()
    return flat


def _apart() -> list[Sample]:
    """Return samples of queries, keys and values that are apart, with heads that share keys and values."""
    allowed = mask(1, 4, 3, 5)
    allowed[0, 1, 2] = False  # a query that may attend to no key
    # The heads of the keys, their number, the features of values, options, masks.
    cases: list[tuple[str, tuple[int, int, int], dict[str, Any], tuple[Any, ...]]] = [
        ("grouped", (2, 3, 3), {"causal": True}, ()),
        ("multi-query", (1, 3, 3), {"scale": 0.3}, ()),
        ("longer", (2, 5, 2), {"causal": True}, ()),
        ("shorter", (4, 2, 3), {"causal": True, "scale": 0.7}, ()),
        ("hidden", (2, 5, 3), {}, (allowed,)),
        ("biased", (4, 5, 3), {}, (normal(BATCH, 1, 3, 5),)),
        ("hidden-biased", (2, 5, 3), {"causal": True}, (allowed, normal(1, 4, 1, 5))),
    ]
    found = []
    for name, (shared, keys, columns), options, extra in cases:
        floats = [each.dtype.kind == "f" for each in extra]
        filled: dict[str, Any] = {"alibi": False, "causal": False, "masked": False in floats, "biased": True in floats}
        filled |= {"scale": None, "dropout_rate": 0.0, "seed": SEED, "stream": STREAM} | options
        key, value = normal(BATCH, keys, shared, FEATURES), normal(BATCH, keys, shared, columns)
        query, cotangent = normal(BATCH, 3, 4, FEATURES), normal(BATCH, 3, 4, columns)
        wrong = normal(BATCH, keys, shared, FEATURES + 1)
        found += [
            Sample(
                op, lambda *o, made=op, p=filled: made(*o, **p), (query, key, value, *more, *extra),
                lambda *o, p=options, f=expected: f(*o, **p), name=f"{op.__name__}-{name}", empty=False,
                misfit=(query, wrong, value, *more, *extra),
            )
            for op, expected, more in (
                (Attention, attention_apart, ()), (AttentionGradient, gradient_apart, (cotangent,))
            )
        ]  # fmt: skip
    return found


def samples() -> list[Sample]:
    """Return samples of the ops: plain, causal, masked, with ALiBi, with dropout."""
    qkv, cotangent = (BATCH, TIME, 3, HEADS, FEATURES), (BATCH, TIME, HEADS, FEATURES)
    allowed = mask(BATCH, TIME, TIME) | np.eye(TIME, dtype=np.bool_)
    allowed[0, 2] = False  # a query that may attend to no key
    cases: list[tuple[str, dict[str, Any], tuple[Any, ...]]] = [
        ("plain", {}, ()),
        ("causal", {"causal": True}, ()),
        ("masked", {}, (allowed[:, None],)),
        ("padded", {"causal": True}, (np.array([[[[True] * 4 + [False]]]]),)),
        ("alibi", {"causal": True, "alibi": True}, ()),
        ("dropout", {"causal": True, "dropout_rate": RATE}, ()),
    ]
    samples = []
    for name, options, extra in cases:
        filled: dict[str, Any] = {"alibi": False, "causal": False, "masked": bool(extra), "biased": False}
        filled |= {"scale": None, "dropout_rate": 0.0, "seed": SEED, "stream": STREAM} | options
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
    samples += _apart()
    kinds: list[tuple[str, int, dict[str, Any]]] = [
        ("", HEADS, {}), ("-grouped", 2 * HEADS, {"scale": 0.3}), ("-windowed", HEADS, {"window": 2}),
        ("-wider", 2 * HEADS, {"window": 4}),
    ]  # fmt: skip
    cache = normal(BATCH, 2, TIME, HEADS, FEATURES)
    # The sequences have different lengths, and the first one a position that does not count.
    begun = np.zeros((BATCH, TIME), np.bool_)
    begun[0, [0, 1, 3]] = begun[1:, :2] = True
    for op, time in ((CachedAttention, TIME - 1), (CachedStep, 1)):
        for kind, heads, chosen in kinds:
            for name, seen in (("begun", begun), ("empty", np.zeros_like(begun))):
                key, value = (normal(BATCH, time, HEADS, FEATURES) for _ in range(2))
                samples.append(
                    Sample(
                        op, lambda *o, made=op, p=chosen: made(*o, **p),
                        (normal(BATCH, time, heads, FEATURES), key, value, cache, seen),
                        lambda *o, p=chosen: cached_attention(*o, **p), name=f"{op.__name__}-{name}{kind}", empty=False,
                        misfit=(normal(BATCH, time, heads, FEATURES + 1), key, value, cache, seen),
                    )
                )  # fmt: skip
    return samples
