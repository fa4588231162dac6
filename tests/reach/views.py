"""Random graphs of views of one axis: divided, exchanged, joined again, and met; masks by positions, and `eye`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import wyrm as wy

# The most elements of a node.
_MOST = 2000


class Items(wy.Dim): ...


class Views:
    """A graph that grows by views of inputs of one axis, and by ops along and between the axes of these."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng((59, seed))
        self.size = int(self.choice(4, 6, 8, 9, 12))
        self.is_open = bool(self.random.random() < 0.25)
        self.axis: Any = Items() if self.is_open else Items(self.size)
        self.leaves: dict[Any, np.ndarray] = {}
        for name in ("x", "y")[: int(self.random.integers(1, 3))]:
            leaf: Any = wy.Input(dims=(self.axis,), dtype=np.float64, name=name)
            self.leaves[leaf] = self.random.uniform(0.3, 1.7, self.size) * self.random.choice([-1.0, 1.0], self.size)
        self.nodes: list[Any] = list(self.leaves)

    def choice(self, *options: Any) -> Any:
        return options[int(self.random.integers(len(options)))]

    def pick(self) -> Any:
        return self.nodes[int(max(self.random.integers(0, len(self.nodes), 2)))]

    def extent(self, axis: Any) -> int:
        return self.size if isinstance(axis, Items) else int(axis)

    def named(self, sizes: list[int]) -> tuple[Any, ...]:
        """Return axes of these sizes, those as long as the input with its name."""
        return tuple(self.axis if size == self.size and self.random.random() < 0.8 else size for size in sizes)

    # --- views --------------------------------------------------------------------------------------------------------

    def divided(self, x: Any) -> Any:
        k = int(self.random.integers(x.ndim))
        whole = self.extent(x.dims[k])
        parts = self.choice(*[d for d in range(2, whole) if whole % d == 0])
        return x.reshape((*x.dims[:k], parts, whole // parts, *x.dims[k + 1 :]))

    def joined(self, x: Any) -> Any:
        k = int(self.random.integers(x.ndim - 1))
        sizes = [self.extent(axis) for axis in x.dims]
        (whole,) = self.named([sizes[k] * sizes[k + 1]])
        return x.reshape((*x.dims[:k], whole, *x.dims[k + 2 :]))

    def aligned(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Return two nodes with axes of size 1 put in, so that their axes stand side by side or apart."""
        while x.ndim + y.ndim < 6 and self.random.random() < 0.6:
            k = int(self.random.integers(x.ndim + 1))
            x, y = y, x.expand_dims(k)
        return x, y

    def beside(self, x: Any, y: Any) -> Any:
        x, y = self.aligned(x, y)
        return self.choice(lambda: x + y, lambda: x * y, lambda: x - y)()

    # --- positions ----------------------------------------------------------------------------------------------------

    def positions(self, x: Any, k: int) -> Any:
        """Return the positions along an axis of a node, with the axes after it."""
        return wy.arange(x.dims[k]).reshape((x.dims[k], *(1 for _ in range(k + 1, x.ndim))))

    def mask(self, x: Any) -> Any:
        rows, columns = self.random.integers(0, x.ndim, 2)
        i, j = self.positions(x, int(rows)), self.positions(x, int(columns))
        shift = int(self.random.integers(-1, 2))
        return self.choice(
            lambda: i >= j + shift, lambda: i > j, lambda: i <= j, lambda: i == j, lambda: i != j, lambda: i < 2,
            lambda: i * 2 >= j, lambda: (i >= j) & (i <= j + 1), lambda: i == j + shift,
        )()  # fmt: skip

    def matrix(self, axis: Any) -> Any:
        """Return a constant matrix of an axis, alike everywhere or not."""
        eye, ones = wy.eye(axis, dtype=np.float64), wy.ones((axis, axis), dtype=np.float64)
        size = self.extent(axis)
        return self.choice(
            lambda: eye, lambda: 1.0 - eye, lambda: ones, lambda: wy.tril(ones), lambda: ones + eye * 2.0,
            lambda: wy.eye(axis, k=1, dtype=np.float64),
            lambda: wy.Constant(np.eye(size)[:, ::-1].copy(), dims=(axis, axis)),
            lambda: wy.Constant(np.diag(np.arange(1.0, size + 1)), dims=(axis, axis)),
            lambda: wy.Constant(np.ones((size, size)) - np.eye(size), dims=(axis, axis)),
        )()  # fmt: skip

    def attention(self, x: Any) -> Any:
        if x.ndim == 1:
            x = x[:, None] * self.choice(x, wy.ones_like(x))
        y = self.choice(x, x * 0.5)
        scores = x @ y.swapaxes(-1, -2) * 0.3
        i, j = wy.arange(scores.dims[-2])[:, None], wy.arange(scores.dims[-1])[None, :]
        seen = self.choice(lambda: i >= j, lambda: i <= j, lambda: i + 1 >= j, lambda: i != j, lambda: i > j)()
        low = self.choice(-np.inf, -1e9, -1e30)
        if low == -np.inf:  # a row of it has no softmax
            seen = seen | (i == j)
        masked = wy.where(seen, scores, low)
        exponentials = (masked - masked.max(-1, keepdims=True)).exp()
        return (
            self.choice(
                lambda: masked.softmax(),
                lambda: exponentials / exponentials.sum(-1, keepdims=True),
                lambda: exponentials,
                lambda: (masked - masked.logsumexp(-1, keepdims=True)).exp(),
                lambda: masked.log_softmax().exp(),
            )()
            @ y
        )

    def met(self, x: Any, y: Any) -> Any:
        """Return two views of a divided axis that meet, exchanged or not, as one axis again."""
        parts = self.choice(*[d for d in range(2, self.size) if self.size % d == 0])
        shape, turned = (parts, self.size // parts), (self.size // parts, parts)
        p, q = x.reshape(shape), self.choice(y.reshape(shape), y.reshape(turned).T)
        square = self.choice(q, q.T) if shape == turned else q
        return self.choice(
            lambda: p + square, lambda: p * q, lambda: (p[:, :, None] * q[:, None]).sum(2), lambda: p @ q.T @ p,
            lambda: (p[:, :, None] - q[:, :1, None]).max(2), lambda: wy.where(self.mask(p), p, q),
            lambda: (p[:, :, None] * y.reshape((1, 1, self.size))).sum(2), lambda: p.cumsum(axis=1) * q,
        )().reshape((self.axis,))  # fmt: skip

    def chunked(self, x: Any) -> Any:
        """Return attention of the positions of each part of an axis to those of that part and of another one."""
        parts = self.choice(*[d for d in range(2, self.size) if self.size % d == 0])
        size, ahead = self.size // parts, int(self.random.integers(1, parts))
        c = x.reshape((parts, size, 1)) * wy.Constant(np.ones(2))
        zeros = wy.zeros_like(c[:ahead])
        earlier = wy.concatenate([zeros, c[:-ahead]], axis=0)
        other = self.choice(earlier, earlier, wy.concatenate([c[ahead:], zeros], axis=0), wy.roll(c, ahead, 0))
        keys = wy.concatenate(self.choice([other, c], [other, c], [c, other], [other, other]), axis=1)
        i, j = wy.arange(size)[:, None], wy.arange(2 * size)[None, :]
        shift = int(self.random.integers(-1, 3)) + size
        seen = self.choice(lambda: i + shift >= j, lambda: (i + shift >= j) & (j > i), lambda: j <= i, lambda: i != j)()
        array = np.tri(size, 2 * size, shift, dtype=bool)
        masked = wy.where(self.choice(seen, seen, array), c @ keys.swapaxes(-1, -2), self.choice(-np.inf, 0.0, -1e30))
        return (self.choice(masked.softmax(), masked.tanh()) @ keys)[..., 0].reshape((self.axis,))

    # --- the graph ----------------------------------------------------------------------------------------------------

    def step(self) -> Any:
        x, y = self.pick(), self.pick()
        k = int(self.random.integers(x.ndim)) if x.ndim else 0
        before, ahead = (slice(None),) * k, int(self.random.integers(1, 3))
        of_axis = (1,) * (x.ndim - k - 1)

        def shifted() -> Any:
            part = x[(*before, slice(None, -ahead))]
            return wy.concatenate([wy.zeros_like(x[(*before, slice(None, ahead))]), part], axis=k)

        def neighbours() -> Any:
            return wy.concatenate([shifted(), x], axis=self.choice(k, max(0, k - 1), x.ndim - 1))

        ordered = wy.sort(x, axis=k) if x.ndim else x
        return self.choice(
            lambda: self.divided(x), lambda: self.divided(x), lambda: self.divided(x), lambda: self.joined(x),
            lambda: self.joined(x), lambda: self.joined(x), lambda: x.transpose(*self.random.permutation(x.ndim)),
            lambda: x.swapaxes(-1, -2), lambda: self.beside(x, y), lambda: self.beside(x, y),
            lambda: self.beside(x, x.swapaxes(-1, -2)), lambda: x @ y, lambda: x @ y.swapaxes(-1, -2),
            lambda: x.cumsum(axis=k), lambda: x.sum(axis=k), lambda: x.max(axis=k, keepdims=True),
            lambda: x.mean(axis=k), lambda: x - x.mean(axis=k, keepdims=True), lambda: wy.flip(x, k),
            lambda: x[(*before, slice(None, None, 2))], lambda: x[(*before, slice(1, None))], shifted, neighbours,
            lambda: wy.where(self.mask(x), x, 0.0), lambda: wy.where(self.mask(x), x, y), lambda: x.tanh(),
            lambda: wy.where(self.mask(x), x, -np.inf).max(axis=k), lambda: self.attention(x),
            lambda: self.attention(x), lambda: self.chunked(x), lambda: self.chunked(x),
            lambda: self.met(x, y), lambda: self.met(x, x),
            lambda: self.matrix(self.axis) @ x, lambda: self.matrix(self.axis) * x,
            lambda: self.matrix(x.dims[k]) @ x, lambda: x * self.positions(x, k).astype(np.float64),
            lambda: ordered, lambda: ordered[(*before, -1)], lambda: ordered[(*before, slice(1, -1))].mean(axis=k),
            lambda: wy.quantile(x, 0.3, axis=k), lambda: wy.top_k(x, 2, k)[0], lambda: x * wy.sort(y, axis=k),
            lambda: ordered * wy.arange(x.dims[k]).reshape(
                (x.dims[k], *of_axis)).astype(np.float64),
            lambda: wy.take_along_axis(x, wy.argsort(x, k), k), lambda: wy.cumsum(ordered, axis=k),
            lambda: x[(*before, self.random.integers(0, self.extent(x.dims[k]), self.extent(x.dims[k])))],
            lambda: wy.repeat(x, 2, k), lambda: wy.stack([x, y], axis=k), lambda: x.at[(*before, 0)].set(0.0),
        )()  # fmt: skip

    def ends(self, x: Any) -> list[Any]:
        """Return a node as nodes of the axis of the input, where it fits."""
        if self.is_open:
            return []
        sizes, found = [self.extent(axis) for axis in x.dims], []
        for first in range(len(sizes)):
            for last in range(first + 1, len(sizes) + 1):
                if math.prod(sizes[first:last]) == self.size:
                    others = tuple(k for k in range(len(sizes)) if not first <= k < last)
                    found.append((x.sum(others) if others else x).reshape((self.axis,)))
        return found

    def outputs(self) -> list[Any]:
        wanted, tries = int(self.random.integers(3, 11)), 0
        while wanted and tries < 60:
            tries += 1
            try:
                node = self.step()
                fits = node.ndim and math.prod(self.extent(axis) for axis in node.dims) <= _MOST
            except (wy.WyrmError, IndexError, ValueError, TypeError):  # ops of other ranks and sizes
                continue
            if fits and node.dtype.kind == "f":
                self.nodes.append(node)
                wanted -= 1
        ends = [end for node in self.nodes[-3:] for end in self.ends(node)[:2]]
        return [*self.nodes[len(self.leaves) :], *ends, self.nodes[-1].sum()]
