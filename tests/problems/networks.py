"""Small networks written with array functions; see `statistics`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.problems.problem import Problem

_random = np.random.default_rng(2)


def _normal(*shape: int) -> Any:
    return _random.standard_normal(shape)


_X, _Y, _SEQUENCE, _IMAGE = _normal(6, 3), _normal(6, 2), _normal(7, 3), _normal(8, 8)


def _softmax(xp: Any, x: Any) -> Any:
    powers = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return powers / xp.sum(powers, axis=-1, keepdims=True)


def perceptron(xp: Any, first: Any, bias: Any, second: Any) -> Any:
    """A network of two layers."""
    return xp.mean((xp.tanh(_X @ first + bias) @ second - _Y) ** 2.0)


def autoencoder(xp: Any, weights: Any) -> Any:
    """An autoencoder with tied weights."""
    return xp.mean((xp.tanh(_X @ weights) @ xp.transpose(weights) - _X) ** 2.0)


def recurrent(xp: Any, inner: Any, outer: Any) -> Any:
    """A recurrent network over seven steps (Elman, 1990)."""
    state = np.zeros(4)
    for x in _SEQUENCE:
        state = xp.tanh(inner @ state + outer @ x)
    return xp.sum(state * state)


def gated(xp: Any, weights: Any) -> Any:
    """A gated recurrent unit over seven steps (Cho et al., 2014)."""
    state = np.zeros(2)
    for x in _SEQUENCE:
        both = xp.concatenate([x, state])
        update = 1.0 / (1.0 + xp.exp(-(weights[0] @ both)))
        reset = 1.0 / (1.0 + xp.exp(-(weights[1] @ both)))
        new = xp.tanh(weights[2] @ xp.concatenate([x, reset * state]))
        state = (1.0 - update) * state + update * new
    return xp.sum(state * state)


def long_short_term_memory(xp: Any, weights: Any) -> Any:
    """An LSTM over seven steps (Hochreiter and Schmidhuber, 1997)."""
    state = cell = np.zeros(2)
    for x in _SEQUENCE:
        gates = weights @ xp.concatenate([x, state])
        keep, write, show = (1.0 / (1.0 + xp.exp(-gates[2 * i : 2 * i + 2])) for i in range(3))
        cell = keep * cell + write * xp.tanh(gates[6:])
        state = show * xp.tanh(cell)
    return xp.sum(state)


def attention(xp: Any, queries: Any, keys: Any, values: Any) -> Any:
    """Scaled dot-product attention (Vaswani et al., 2017)."""
    shares = _softmax(xp, (_SEQUENCE @ queries) @ xp.transpose(_SEQUENCE @ keys) / 2.0)
    return xp.sum((shares @ (_SEQUENCE @ values)) ** 2.0)


def layer_normalization(xp: Any, x: Any, weight: Any, bias: Any) -> Any:
    """Layer normalization (Ba et al., 2016), followed by a nonlinearity."""
    centred = x - xp.mean(x, axis=1, keepdims=True)
    scale = xp.sqrt(xp.mean(centred * centred, axis=1, keepdims=True) + 1e-5)
    return xp.sum(xp.tanh(centred / scale * weight + bias))


def convolution(xp: Any, window: Any) -> Any:
    """A convolution by einsum over windows, followed by the maximum of each pair of rows."""
    windows = np.lib.stride_tricks.sliding_window_view(_IMAGE, (3, 3))
    found = xp.einsum("ijab,ab->ij", windows, window)
    return xp.sum(xp.max(xp.reshape(found, (3, 2, 6)), axis=1) ** 2.0)


def residual_network(xp: Any, blocks: Any) -> Any:
    """Four residual blocks."""
    x = _X
    for i in range(4):
        x = x + xp.maximum(x @ blocks[i], 0.1 * (x @ blocks[i]))
    return xp.mean(x * x)


def contrastive(xp: Any, weights: Any) -> Any:
    """A contrastive loss (van den Oord et al., 2018): matching rows should be similar, others not."""
    found = _X @ weights
    found = found / xp.sqrt(xp.sum(found * found, axis=1, keepdims=True))
    close = found[:3] @ xp.transpose(found[3:]) * 4.0
    return -xp.sum(xp.log(xp.sum(_softmax(xp, close) * np.eye(3), axis=1)))


def variational(xp: Any, encoder: Any, decoder: Any) -> Any:
    """A variational autoencoder with fixed noise (Kingma and Welling, 2014)."""
    hidden = _X @ encoder
    mean, log_scale = hidden[:, :2], hidden[:, 2:] * 0.1
    drawn = mean + xp.exp(log_scale) * _Y
    divergence = 0.5 * xp.sum(xp.exp(2.0 * log_scale) + mean**2.0 - 1.0 - 2.0 * log_scale)
    return xp.sum((drawn @ decoder - _X) ** 2.0) + divergence


def mixture_of_experts(xp: Any, gate: Any, experts: Any) -> Any:
    """A mixture of three linear experts (Jacobs et al., 1991)."""
    shares = _softmax(xp, _X @ gate)
    found = xp.einsum("ni,eio->neo", _X, experts)
    return xp.mean((xp.sum(xp.expand_dims(shares, -1) * found, axis=1) - _Y) ** 2.0)


PROBLEMS = [
    Problem(perceptron, (_normal(3, 4), _normal(4), _normal(4, 2))),
    Problem(autoencoder, (_normal(3, 2),)),
    Problem(recurrent, (0.5 * _normal(4, 4), _normal(4, 3))),
    Problem(gated, (_normal(3, 2, 5),)),
    Problem(long_short_term_memory, (_normal(8, 5),)),
    Problem(attention, (_normal(3, 4), _normal(3, 4), _normal(3, 4))),
    Problem(layer_normalization, (_normal(4, 5), _normal(5), _normal(5))),
    Problem(convolution, (_normal(3, 3),)),
    Problem(residual_network, (0.5 * _normal(4, 3, 3),)),
    Problem(contrastive, (_normal(3, 4),)),
    Problem(variational, (_normal(3, 4), _normal(2, 3))),
    Problem(mixture_of_experts, (_normal(3, 3), _normal(3, 3, 2))),
]
