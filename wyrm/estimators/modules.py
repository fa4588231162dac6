"""The estimator of any module."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from wyrm.estimators.base import Estimator
from wyrm.estimators.network import Batch
from wyrm.estimators.trials import Model
from wyrm.graph.base import BaseNode
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.node import Node
from wyrm.graph.parameters import Buffer, Parameter
from wyrm.module import Module

# A dtype, "i" for indices, and the axes behind that of the rows.
Kind: TypeAlias = "tuple[str, tuple[int, ...]]"


@dataclass(frozen=True, eq=False)
class _Structure:
    """A module and what it meets: arrays of these kinds and shapes. No other module shares its programs."""

    module: Module
    loss: Callable[..., Node]
    features: Kind
    target: Kind
    weighted: bool

    @property
    def form(self) -> _Structure:
        """What the code depends on: all of it."""
        return self

    def build(self) -> Model:
        """Return the graph of a copy of the module."""
        module, batch = copy.deepcopy(self.module), Batch()
        call: Callable[[Any], Node] = module  # type: ignore[assignment]  # modules of users define `__call__`
        features, target = _input(batch, "features", *self.features), _input(batch, "target", *self.target)
        weight = Input(dims=(batch,), name="weight")
        weights = {"sample_weight": weight} if self.weighted else {}
        module.train()
        training = self.loss(call(features), target, **weights)
        module.eval()
        output = call(features)
        inputs: list[BaseNode] = [features, target, *weights.values()]
        evaluated = self.loss(output, target, **weights)
        return Model({each.name or "": each for each in inputs}, training, evaluated, output, trained_leaves(module))

    def drawn(self, random: np.random.Generator) -> list[np.ndarray]:
        """Return the values that the module has."""
        return [np.array(leaf.value) for leaf in trained_leaves(self.module)]


def _input(batch: Batch, name: str, kind: str, shape: tuple[int, ...]) -> Any:
    dims: Any = (batch, *shape)
    return IndexInput(dims=dims, name=name) if kind == "i" else Input(dims=dims, name=name, dtype=np.dtype(kind))


@dataclass(eq=False, repr=False)
class ModuleEstimator(Estimator):
    """Any module and any loss as an estimator.

    `fit(X, y)` trains a copy of `module`, from the values that its parameters have, with Adam: `loss(prediction,
    target)` is what `module(features)` and the target make, such as `wy.losses.mse`. Arrays of integers are indices,
    others floats, all with one row a sample and any further axes. A loss takes `sample_weight=` where `fit` is given
    weights. `predict` returns what the module returns; `module_` is the trained module; `score` is the mean loss of the
    rows with a minus sign, so that searches find the lowest. Other options are those of `Classifier`.

    `fit` raises `TypeError` for what is no module and no loss, and what `Classifier.fit` raises.

    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> line = ModuleEstimator(wy.nn.Linear(1, 1), wy.losses.mse, learning_rate_init=0.03, max_iter=500, tol=0.0)
    >>> line.fit(x, 3.0 * x).predict([[2.0]]).round(1).tolist()
    [[6.0]]
    """

    module: Module
    loss: Callable[..., Node]

    def partial_fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train for one epoch more on these rows."""
        return self._fit(X, y, sample_weight, epochs=1)

    def predict(self, X: Any) -> np.ndarray:
        """Return what the module returns for these rows, without dropout."""
        return self._scores(X)

    def score(self, X: Any, y: Any) -> float:
        """Return the mean loss of these rows with a minus sign."""
        return -float(self.loss(Constant(self.predict(X)), self._array("y", y)).forward())

    @property
    def module_(self) -> Module:
        """A copy of the module with the parameters and buffers of the training."""
        check_is_fitted(self)
        found = copy.deepcopy(self.module)
        for leaf, array in zip(trained_leaves(found), self._state.arrays, strict=True):
            leaf.set(array)
        return found

    def _features(self, x: Any, again: bool) -> dict[str, Any]:
        if not isinstance(self.module, Module) or not callable(self.module):
            raise TypeError(f"module must be a module that can be called, not {self.module!r}")
        if not callable(self.loss):
            raise TypeError(
                f"loss must be a function of the prediction and the target, such as wy.losses.mse, not {self.loss!r}"
            )
        features = self._array("X", x)
        self._read_as = _kind(features)
        if again:
            _check_kind("X", self._read_as, self._made.features)
        return {"features": features}

    def _target(self, y: Any, weights: NDArray[np.float64], again: bool) -> NDArray[Any]:
        target = self._array("y", y)
        if again:
            _check_kind("y", _kind(target), self._made.target)
        else:
            module, weighted = copy.deepcopy(self.module), bool((weights != 1.0).any())
            self._made: _Structure = _Structure(module, self.loss, self._read_as, _kind(target), weighted)
        return target

    def _array(self, name: str, values: Any) -> NDArray[Any]:
        """Return integers as indices, and other numbers in the dtype of the module's parameters."""
        found = np.asarray(values)
        if found.ndim == 0 or found.dtype.kind not in "fiub":
            raise ValueError(
                f"{name} must be an array of numbers with one row a sample, not {found.dtype} {found.shape}"
            )
        dtype = np.result_type(*(leaf.dtype for leaf in trained_leaves(self.module)))
        return np.asarray(found, np.int64 if found.dtype.kind in "iu" else dtype)

    def _structure(self) -> _Structure:
        return self._made


def trained_leaves(module: Module) -> list[Parameter | Buffer]:
    """Return the parameters and buffers of a module."""
    return [*module.parameters(), *(buffer for _, buffer in module.named_buffers())]


def _kind(values: NDArray[Any]) -> Kind:
    return ("i" if values.dtype.kind == "i" else values.dtype.str), values.shape[1:]


def _check_kind(name: str, kind: Kind, first: Kind) -> None:
    def said(kind: Kind) -> str:
        dtype, shape = kind
        return f"{'integers' if dtype == 'i' else np.dtype(dtype)} {shape}"

    if kind != first:
        raise ValueError(f"{name} has rows of {said(kind)}, not those of the first fit, {said(first)}")
