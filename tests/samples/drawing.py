"""Samples of dropout and of random rows."""

from __future__ import annotations

from typing import Any

import numpy as np

import wyrm as wy
from tests.samples.sample import Sample, distinct, integers, mask, normal
from wyrm.ops.random.dropout import Dropout
from wyrm.ops.random.philox import STEP
from wyrm.ops.random.sampled_tokens import SampledTokens
from wyrm.ops.random.sampling import RandomIndex


def _negatives(users: Any, dims: tuple[int, ...] = (3, 4), **options: Any) -> Any:
    known = (np.array([0, 2, 2, 5]), np.array([1, 4, 0, 2, 6]))
    return wy.random.index(7, dims, exclude=known, rows=users, seed=3, stream=5, **options)


def _drawn(node: Any) -> Any:
    return node.evaluate(np, *(parent.value for parent in node.parents), shape=node.shape)


_SAMPLING: dict[str, dict[str, Any]] = {
    "plain": {}, "greedy": {"temperature": 0.0}, "top_k": {"top_k": 3, "temperature": 0.7}, "top_p": {"top_p": 0.6},
    "min_p": {"min_p": 0.2, "temperature": 2.0},
    "together": {"top_k": 5, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.4},
}  # fmt: skip


def _tokens(logits: Any, draws: Any, seen: Any = None, *, temperature: float = 1.0, **options: Any) -> Any:
    """Return the token of each row by a plain loop."""
    found = []
    for row, (scores, draw) in enumerate(zip(logits, draws, strict=True)):
        penalty = options.get("repetition_penalty", 1.0)
        if seen is not None:
            scores = np.where(seen[row], np.where(scores < 0, scores * penalty, scores / penalty), scores)
        order = sorted(range(len(scores)), key=lambda token: -scores[token])
        if temperature == 0.0:
            found.append(order[0])
            continue
        weights = np.exp((scores - scores.max()) / temperature)
        kept = order[: options["top_k"]] if "top_k" in options else order if "top_p" in options else range(len(scores))
        whole, part, tokens = sum(weights[token] for token in kept), 0.0, []
        for token in kept:
            if part / whole < options.get("top_p", 2.0) and weights[token] >= options.get("min_p", 0.0):
                tokens.append(token)
            part += weights[token]
        sums = np.cumsum([weights[token] for token in tokens])
        found.append(tokens[int((sums > draw * sums[-1]).argmax())])
    return np.array(found, np.int64)


def samples() -> list[Sample]:
    return [
        *(
            Sample(
                SampledTokens,
                lambda x, draws, *seen, o=options: SampledTokens(x, draws, *seen, **o),
                (distinct(4, 9), np.array([0.05, 0.31, 0.62, 0.97]), *([mask(4, 9)] if name == "together" else [])),
                lambda x, draws, *seen, o=options: _tokens(x, draws, *seen, **o),
                name=f"SampledTokens-{name}",
                differentiable=False,
                misfit=(distinct(4, 9), np.zeros(3), *([mask(4, 9)] if name == "together" else [])),
            )
            for name, options in _SAMPLING.items()
        ),
        Sample(
            Dropout,
            lambda x: Dropout(x, 0.4, 3, 5),
            (normal(3, 4),),
            lambda x: Dropout(wy.Constant(x), 0.4, 3, 5).evaluate(np, x, int(STEP.value), shape=x.shape),
            tags=frozenset(["random"]),
        ),
        Sample(
            RandomIndex,
            lambda: wy.random.index(7, (3, 5), seed=3, stream=5),
            (),
            lambda: _drawn(wy.random.index(7, (3, 5), seed=3, stream=5)),
            differentiable=False,
            empty=False,
            tags=frozenset(["random"]),
        ),
        Sample(
            RandomIndex,
            _negatives,
            (integers(3, 3, 4),),
            lambda users: _drawn(_negatives(wy.IndexConstant(users))),
            name="RandomIndex-known",
            differentiable=False,
            empty=False,
            misfit=(integers(3, 3, 5),),
            tags=frozenset(["random"]),
        ),
        Sample(
            RandomIndex,
            lambda users: _negatives(users, weights=np.arange(7.0)),
            (integers(3, 3, 4),),
            lambda users: _drawn(_negatives(wy.IndexConstant(users), weights=np.arange(7.0))),
            name="RandomIndex-weights",
            differentiable=False,
            empty=False,
            tags=frozenset(["random"]),
        ),
        Sample(
            RandomIndex,
            lambda lists: wy.random.index(7, (3, 4), exclude=lists, seed=3, stream=5),
            (integers(7, 3, 5),),
            lambda lists: _drawn(wy.random.index(7, (3, 4), exclude=lists, seed=3, stream=5)),
            name="RandomIndex-lists",
            differentiable=False,
            empty=False,
            misfit=(integers(7, 2, 5),),
            tags=frozenset(["random"]),
        ),
    ]
