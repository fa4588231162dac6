"""What every program of the corpus starts from: axes, leaves, and a few small modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

import wyrm as wy


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


class In(wy.Dim): ...


class Hid(wy.Dim): ...


class Out(wy.Dim): ...


class Words(wy.Dim): ...


class Emb(wy.Dim): ...


class Source(wy.Dim): ...


class Heads(wy.Dim): ...


class Key(wy.Dim): ...


class Colours(wy.Dim): ...


class Height(wy.Dim): ...


class Width(wy.Dim): ...


class Clicks(wy.Ragged): ...


class Purchases(wy.Ragged): ...


batch, time, in_, hid, out = Batch(4), Time(5), In(7), Hid(11), Out(3)
words, emb, source, heads, key = Words(20), Emb(12), Source(6), Heads(3), Key(4)
colours, tall, broad = Colours(3), Height(8), Width(6)


def numbers(*shape: int) -> NDArray[np.float32]:
    """Some array of this shape."""
    return np.random.default_rng(0).uniform(0.1, 1.0, shape).astype(np.float32)


array = numbers(4, 7)
x = wy.Input(numbers(4, 7), dims=(batch, in_))
x2 = wy.Input(numbers(4, 7), dims=(batch, in_))
y = wy.Input(numbers(4, 3), dims=(batch, out))
h0 = wy.Input(numbers(4, 11), dims=(batch, hid))
vector = wy.Input(numbers(7), dims=(in_,))
sequence = wy.Input(numbers(4, 5, 7), dims=(batch, time, in_))
pictures = wy.Input(numbers(4, 3, 8, 6), dims=(batch, colours, tall, broad))
scores = wy.Input(numbers(4, 3, 5, 5), dims=(batch, heads, time, time))
w = wy.Parameter.zeros((in_, out))
w1 = wy.Parameter.zeros((in_, hid))
w2 = wy.Parameter.zeros((hid, out))
wh = wy.Parameter.zeros((hid, hid))
b = wy.Parameter.zeros((out,))
b1 = wy.Parameter.zeros((hid,))
scale = wy.Parameter(2.0)
table = wy.Parameter.zeros((words, emb))
labels = wy.IndexInput([0, 2, 1, 2], dims=(batch,))
tokens = wy.IndexInput(np.zeros((4, 5), np.int64), dims=(batch, time))
clicked = wy.IndexInput([[1, 2], [], [3], [4, 5, 6]], dims=(batch, Clicks()))
dwell = wy.Input([[0.5, 2.0], [], [1.0], [3.0, 1.0, 0.2]], dims=(batch, Clicks()))
visits = wy.Input([numbers(length, 7) for length in (2, 0, 1, 3)], dims=(batch, Clicks(), in_))
purchases = wy.Input([[1.0], [], [2.0], []], dims=(batch, Purchases()))
unknown: wy.Node = wy.Input(numbers(4, 7))

B = TypeVar("B", bound=wy.Dim)
M = TypeVar("M", bound=wy.Dim)
N = TypeVar("N", bound=wy.Dim)
I = TypeVar("I", bound=wy.Dim)
H = TypeVar("H", bound=wy.Dim)
D = TypeVar("D", bound=wy.Dim)


class LSTMCell(wy.nn.Module, Generic[I, H]):
    def __init__(self, inputs: I, hidden: H) -> None:
        joined: Any = wy.Plus((hidden, inputs))
        self.forget: wy.Parameter[tuple[wy.Plus[H, I], H]] = wy.Parameter.zeros((joined, hidden))
        self.update: wy.Parameter[tuple[wy.Plus[H, I], H]] = wy.Parameter.zeros((joined, hidden))
        self.output: wy.Parameter[tuple[wy.Plus[H, I], H]] = wy.Parameter.zeros((joined, hidden))
        self.bias = wy.Parameter.zeros((hidden,))

    def __call__(
        self, state: tuple[wy.Tensor[B, H], wy.Tensor[B, H]], x: wy.Tensor[B, I]
    ) -> tuple[wy.Tensor[B, H], wy.Tensor[B, H]]:
        cell, hidden = state
        joined = hidden.concat(x)
        forget = (joined @ self.forget + self.bias).sigmoid()
        new = forget * cell + (1.0 - forget) * (joined @ self.update + self.bias).tanh()
        return new, (joined @ self.output + self.bias).sigmoid() * new.tanh()


class LSTM(wy.nn.Module, Generic[I, H]):
    def __init__(self, inputs: I, hidden: H) -> None:
        self.cell = LSTMCell(inputs, hidden)
        self.hidden = hidden

    def __call__(self, xs: Sequence[wy.Tensor[B, I]]) -> list[wy.Tensor[B, H]]:
        start = wy.Constant(np.zeros((4, self.hidden), np.float32), dims=(xs[0].dims[0], self.hidden))
        state: tuple[wy.Tensor[B, H], wy.Tensor[B, H]] = (start, start)
        outputs = []
        for x in xs:
            state = self.cell(state, x)
            outputs.append(state[1])
        return outputs


class Attention(wy.nn.Module, Generic[D]):
    def __init__(self, width: D) -> None:
        self.query = wy.Parameter(numbers(int(width), int(width)), dims=(width, width))

    def __call__(self, q: wy.Tensor[B, M, D], k: wy.Tensor[B, N, D], v: wy.Tensor[B, N, D]) -> wy.Tensor[B, M, D]:
        return ((q @ self.query) @ k.mT * 0.125).softmax() @ v
