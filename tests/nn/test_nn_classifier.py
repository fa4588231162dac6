"""A model as users write it: typed, built, trained."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import pytest

import wyrm as wy
from tests.pytorch import torch
from wyrm.errors import ShapeError


class Batch(wy.Dim): ...


class Pixels(wy.Dim): ...


class Hidden(wy.Dim): ...


class Classes(wy.Dim): ...


class Classifier(wy.nn.Module):
    def __init__(self, pixels: Pixels, hidden: Hidden, classes: Classes) -> None:
        self.hidden = wy.nn.Linear(pixels, hidden, seed=1)
        self.output = wy.nn.Linear(hidden, classes, seed=2)

    def __call__(self, x: wy.Tensor[Batch, Pixels]) -> wy.Tensor[Batch, Classes]:
        return self.output(self.hidden(x).relu())


class Swapped(Classifier):
    def __call__(self, x: wy.Tensor[Batch, Pixels]) -> wy.Tensor[Batch, Classes]:
        return self.hidden(self.output(x).relu())  # type: ignore[arg-type,return-value]  # the mistake that mypy finds


def inputs(batch: Batch) -> tuple[wy.Input[tuple[Batch, Pixels]], wy.IndexInput[tuple[Batch]]]:
    images = wy.Input(dims=(batch, Pixels(784)), name="images")
    labels = wy.IndexInput(dims=(batch,), name="labels")
    return images, labels


def test_the_model_is_typed_and_its_parameters_are_named() -> None:
    images, labels = inputs(Batch())
    model = Classifier(Pixels(784), Hidden(128), Classes(10))
    logits = model(images)
    assert_type(logits, wy.Tensor[Batch, Classes])
    assert logits.dims == (Batch(), Classes(10))
    loss = logits.cross_entropy(labels)
    assert loss.dims == ()
    assert list(dict(model.named_parameters())) == ["hidden.weight", "hidden.bias", "output.weight", "output.bias"]
    assert set(loss.parameters()) == set(model.parameters())
    assert repr(model) == (
        "Classifier\n  hidden: Linear(Pixels(784), Hidden(128))\n  output: Linear(Hidden(128), Classes(10))"
    )


def test_one_graph_takes_batches_of_any_size() -> None:
    images, labels = inputs(Batch())
    loss = Classifier(Pixels(784), Hidden(128), Classes(10))(images).cross_entropy(labels)
    for size in (32, 7, 32):
        images.set(np.zeros((size, 784)))
        labels.set(np.arange(size) % 10)
        assert float(loss.forward()) == pytest.approx(np.log(10.0))


def test_ten_steps_are_pytorchs() -> None:
    random = np.random.default_rng(0)
    data, answers = random.normal(size=(16, 784)).astype(np.float32), random.integers(0, 10, 16)
    images, labels = inputs(Batch())
    model = Classifier(Pixels(784), Hidden(128), Classes(10))
    loss = model(images).cross_entropy(labels)
    images.set(data)
    labels.set(answers)
    twin = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    layers: list[tuple[Any, Any]] = [(model.hidden, twin[0]), (model.output, twin[2])]
    for layer, other in layers:
        with torch.no_grad():
            other.weight.copy_(torch.tensor(layer.weight.value.T))
            other.bias.copy_(torch.tensor(layer.bias.value))
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
    for _ in range(10):
        loss.backward()
        for parameter in model.parameters():
            parameter.set(parameter.value - 0.1 * parameter.gradient)
        loss.zero_gradient()
        optimizer.zero_grad()
        expected = torch.nn.functional.cross_entropy(twin(torch.tensor(data)), torch.tensor(answers))
        expected.backward()
        optimizer.step()
    assert float(loss.forward()) < 0.5
    for layer, other in layers:
        np.testing.assert_allclose(layer.weight.value, other.weight.detach().numpy().T, rtol=1e-3, atol=1e-5)


def test_swapped_layers_are_an_error() -> None:
    images, _ = inputs(Batch())
    with pytest.raises(ShapeError, match=r"Pixels\(784\) against Hidden\(128\)"):
        Swapped(Pixels(784), Hidden(128), Classes(10))(images)
