"""The sampling of tokens from logits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.native.run.shuffle import compiled
from wyrm.errors import DTypeError, IndexOutOfRange, NotFinite, OptionError, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.graph.axes import axis_size
from wyrm.graph.base import describe
from wyrm.graph.node import IndexNode, Node
from wyrm.ops.random.sampled_tokens import SampledTokens
from wyrm.ops.random.token_kernels import draw_rows, sample_given
from wyrm.support.options import number, whole


def sample_tokens(
    logits: np.ndarray,
    rng: np.random.Generator,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float | None = None,
    previous: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Sample a token from each row of logits, (..., vocab_size); the result has the leading axes.

    Probabilities are `softmax(logits / temperature)`. A `temperature` of 0 takes the most likely token and draws
    nothing. `top_k`, at least 1, keeps the most likely tokens. `top_p`, above 0 and at most 1, then keeps the smallest
    set of most likely tokens whose probability reaches `top_p` (nucleus sampling; Holtzman et al., "The Curious Case of
    Neural Text Degeneration", 2020). `min_p`, in [0, 1], then keeps the tokens that are at least `min_p` times as
    likely as the most likely one (Nguyen et al., "Turning up the heat", 2025). Of equal logits the lower token counts
    as more likely. A logit of minus infinity is never sampled.

    `repetition_penalty`, above 0, comes first: it divides the logits of tokens in `previous` that are above 0, and
    multiplies the others (Keskar et al., "CTRL", 2019). `previous`, (..., count), has earlier tokens for each row.

    Raise `ValueError` for an option out of range or a penalty without `previous`, `DTypeError` for logits that are not
    floats or an option that is not a number, `ShapeError` for logits without a last axis of at least one token or a
    `previous` of other leading axes, `IndexOutOfRange` for tokens in it that are none, and `NotFinite` for a NaN, an
    infinity, or a row of minus infinities.

    >>> logits = np.array([[0.0, 3.0, 1.0], [2.0, -np.inf, 1.0]])
    >>> sample_tokens(logits, np.random.default_rng(0), temperature=0.0).tolist()
    [1, 0]
    >>> sample_tokens(logits, np.random.default_rng(0), top_k=1).tolist()
    [1, 0]
    >>> previous = np.array([[1], [1]])
    >>> sample_tokens(logits, np.random.default_rng(0), 0.0, repetition_penalty=4.0, previous=previous).tolist()
    [2, 0]
    """
    options = SamplingOptions(temperature, top_k, top_p, min_p, repetition_penalty)
    return tokens_of(logits, options, rng.random, previous)


@dataclass(frozen=True)
class SamplingOptions:
    """How tokens are sampled: see `sample_tokens`, which says what it raises for options out of range."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None

    def __post_init__(self) -> None:
        checked = {
            "temperature": number("temperature", self.temperature, 0.0), "top_p": _top_p(self.top_p),
            "top_k": None if self.top_k is None else whole("top_k", self.top_k, 1),
            "min_p": None if self.min_p is None else _probability("min_p", self.min_p),
            "repetition_penalty": None if self.repetition_penalty is None else _penalty(self.repetition_penalty),
        }  # fmt: skip
        for name, value in checked.items():  # the options are frozen
            object.__setattr__(self, name, value)

    @property
    def numbers(self) -> dict[str, Any]:
        """The options as `SampledTokens` takes them: 0 leaves one out."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: int(value or 0) if name == "top_k" else float(value or 0.0) for name, value in given.items()}


def sampled_tokens(
    logits: Node,
    draws: Node,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float | None = None,
    seen: Node | None = None,
) -> IndexNode:
    """Return a token for each row of logits, (batch, vocab_size), as a graph; the result has the axis (batch,).

    `draws`, (batch,), has a number from [0, 1) for each row: the same draws give the same tokens in every engine, those
    of `sample_tokens`, which says what the options mean and raises for them. `repetition_penalty` is for the tokens
    that `seen`, a mask of (batch, vocab_size), has. Gradients do not pass. Logits are numbers or minus infinity, and of
    a row not all are: of others the result is some token.

    Raise `ShapeError` for other axes, `OptionError` for a penalty without `seen`.

    >>> logits = wy.Constant([[0.0, 3.0, 1.0], [2.0, -np.inf, 1.0]])
    >>> sampled_tokens(logits, wy.Constant([0.99, 0.99])).forward().tolist()
    [2, 2]
    >>> sampled_tokens(logits, wy.Constant([0.99, 0.99]), top_k=1).forward().tolist()
    [1, 0]
    """
    options = SamplingOptions(temperature, top_k, top_p, min_p, repetition_penalty)
    if len(logits.dims) != 2 or not axis_size(logits.dims[-1]):
        raise ShapeError(
            f"sampled_tokens takes logits of the axes (batch, vocab_size), with a size, not {describe(logits)}"
        )
    if len(draws.dims) != 1:
        raise ShapeError(f"sampled_tokens takes draws of the axis (batch,), not {describe(draws)}")
    if options.repetition_penalty is None:
        seen = None
    elif seen is None:
        raise OptionError("repetition_penalty needs seen, a mask of the earlier tokens of each row")
    return SampledTokens(logits, draws.astype(np.float64), seen, **options.numbers)


def draws_at(seeds: NDArray[np.uint64], positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return a number from [0, 1) for each seed and position of a text; exported decoders draw the same numbers."""
    out = np.empty(len(positions))
    compiled(draw_rows)(seeds, positions, out)
    return out


def tokens_of(
    logits: object,
    options: SamplingOptions,
    draw: Callable[[int], NDArray[np.float64]],
    previous: object = None,
) -> NDArray[np.int64]:
    """Return the result of `sample_tokens`; `draw` gives numbers from [0, 1) for so many rows, if any are needed."""
    array = as_array(logits)
    if array.dtype.kind != "f":
        raise DTypeError(f"logits have dtype {array.dtype}; expected floats")
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ShapeError(f"logits have shape {array.shape}; expected (..., vocab_size), at least one token")
    rows, size = math.prod(array.shape[:-1]), array.shape[-1]
    seen = None if options.repetition_penalty is None else _seen(array.shape, previous)
    if not rows:
        return np.empty(array.shape[:-1], np.int64)
    draws = None if options.temperature == 0.0 else draw(rows)
    key = rows, size, np.dtype(np.float32 if array.dtype.itemsize <= 4 else np.float64)
    kept = _samplers.setdefault(key, []) if key in _samplers or len(_samplers) < _KINDS else []
    sampler = kept.pop() if kept else _Sampler(*key)
    sampled = sampler.tokens_of(array.reshape(rows, size), draws, seen, options)
    kept.append(sampler)
    if sampled.min() < 0:
        raise _no_numbers(array)
    return sampled.reshape(array.shape[:-1])


class _Sampler:
    """Memory for the logits of some rows and for what the kernel needs, so that its call is prepared once."""

    def __init__(self, rows: int, size: int, dtype: np.dtype) -> None:
        self._logits, self._draws, self._seen = np.empty((rows, size), dtype), np.zeros(rows), np.zeros((1, size), bool)
        self._numbers, self._tokens = np.zeros(len(fields(SamplingOptions))), np.empty(rows, np.int64)
        self._scratch = np.empty(size, dtype), np.empty(size), np.empty(size, np.int64)

    def tokens_of(
        self,
        logits: np.ndarray,
        draws: NDArray[np.float64] | None,
        seen: NDArray[np.bool_] | None,
        options: SamplingOptions,
    ) -> NDArray[np.int64]:
        """Return the token of each row, -1 for one that has none."""
        self._logits[...] = logits
        self._draws[...] = 0.0 if draws is None else draws
        self._numbers[...] = list(options.numbers.values())
        seen = self._seen if seen is None else seen
        compiled(sample_given)(
            self._logits, self._draws, seen, self._numbers, self._tokens, *self._scratch
        )  # fmt: skip
        return self._tokens.copy()


# Idle samplers, for so many kinds of logits.
_KINDS = 8
_samplers: dict[tuple[int, int, np.dtype], list[_Sampler]] = {}


def _penalty(value: object) -> float:
    factor = number("repetition_penalty", value)
    if factor <= 0.0:
        raise OptionError(f"repetition_penalty must be above 0, not {factor}")
    return factor


def _seen(shape: tuple[int, ...], previous: object) -> NDArray[np.bool_]:
    """Return a mask of the earlier tokens of each row, (rows, vocab_size), for logits of a shape."""
    if previous is None:
        raise OptionError("repetition_penalty needs previous, the earlier tokens of each row")
    tokens = as_array(previous)
    if tokens.dtype.kind not in "iu":
        raise DTypeError(f"previous must hold the numbers of tokens, not {tokens.dtype}")
    if tokens.ndim != len(shape) or tokens.shape[:-1] != shape[:-1]:
        raise ShapeError(
            f"previous has the shape {tokens.shape}; for logits of {shape} it must be {shape[:-1]} with an axis of "
            f"tokens"
        )
    outside = tokens[(tokens < 0) | (tokens >= shape[-1])]
    if outside.size:
        raise IndexOutOfRange(f"previous has the token {outside[0]}; it must be in 0..{shape[-1] - 1}")
    seen = np.zeros(shape, np.bool_)
    np.put_along_axis(seen, tokens, True, axis=-1)
    return seen.reshape(-1, shape[-1])


def _no_numbers(logits: np.ndarray) -> NotFinite:
    """Return the error of logits that cannot be sampled."""
    wrong = np.isnan(logits) | np.isposinf(logits)
    if wrong.any():
        return NotFinite(f"logits hold {logits[wrong][0]} at {_first(wrong)}; expected numbers, or minus infinity")
    empty = np.asarray(np.isneginf(logits).all(axis=-1))
    return NotFinite(f"all logits of row {_first(empty)} are minus infinity, so there is no token to sample")


def _first(mask: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return the index of the first true element."""
    return tuple(int(i) for i in np.argwhere(mask)[0])


def _top_p(value: object) -> float | None:
    if value is None:
        return None
    top_p = _probability("top_p", value)
    if top_p == 0.0:
        raise OptionError("top_p must be in (0, 1], not 0.0")
    return top_p


def _probability(name: str, value: object) -> float:
    """Return an option as a number from 0 to 1."""
    probability = number(name, value)
    if not 0.0 <= probability <= 1.0:
        raise OptionError(f"{name} must be in {'(' if name == 'top_p' else '['}0, 1], not {probability}")
    return probability
