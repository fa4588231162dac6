"""Graphs that are used in the mode of another purpose warn, at the user's line, and others do not."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import OptionError

ROWS = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)


class Batch(wy.Dim): ...


class Model(wy.nn.Module):
    """A layer with a mode of its own between two without."""

    def __init__(self, layer: Any) -> None:
        self.first, self.layer, self.second = wy.nn.Linear(3, 4), layer, wy.nn.Linear(4, 2)

    def __call__(self, x: Any) -> Any:
        return self.second(self.layer(self.first(x)))


LAYERS: dict[str, Any] = {
    "BatchNorm": lambda: wy.nn.BatchNorm(4),
    "BatchNorm1d": lambda: wy.nn.BatchNorm1d(4, affine=False),
    "Dropout": lambda: wy.nn.Dropout(0.5),
}
X: Any = wy.Input(dims=(Batch(), 3), name="x")
TRAINED = r"the graph of Model \(test_modes\.py:\d+\) was built in evaluation, so {} does in this training"
PREDICTED = r"the graph of {} \(test_modes\.py:\d+\) was built in training, so this program's outputs depend on"


@pytest.fixture(params=LAYERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made(name: str) -> Model:
    return Model(LAYERS[name]())


def trained(model: Any, loss: Any, parameters: Any = None) -> Any:
    return wy.compile(loss, wy.optim.SGD(loss.parameters() if parameters is None else parameters, 0.1))


def test_a_forgotten_train(name: str) -> None:
    model = made(name)
    predict = model.eval()(X)
    loss = model(X).square().mean()
    with pytest.warns(RuntimeWarning, match=TRAINED.format(name)) as found:
        trained(model, loss)
    assert [each.filename for each in found] == [__file__]
    # A copy of the program tells it again; an unpickled one knows no modules.
    with pytest.warns(RuntimeWarning, match=TRAINED.format(name)):
        program = copy.copy(trained(model, loss))
    pickle.loads(pickle.dumps(program))
    wy.compile(predict)({X: ROWS})


def test_a_forgotten_eval(name: str) -> None:
    model = made(name)
    predict = wy.compile(model(X).softmax())
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match=PREDICTED.format(name)) as found:
            predict({X: ROWS})
        assert [each.filename for each in found] == [__file__]


def test_a_model_that_its_factory_forgets(name: str) -> None:
    def factory(mode: str) -> Any:
        return getattr(made(name), mode)()(X)

    output = factory("train")
    with pytest.warns(RuntimeWarning, match=PREDICTED.format(name)):
        wy.compile(output.softmax())({X: ROWS})
    with pytest.raises(OptionError, match=rf"the graph of {name} \(.*\) was built in training mode"):
        wy.compile(output.square().mean()).evaluate({X: ROWS})
    wy.compile(output.square().mean())({X: ROWS})  # the loss of a batch
    wy.compile(factory("eval").softmax())({X: ROWS})


def test_an_eval_after_the_graph_was_built(name: str) -> None:
    model = made(name)
    output = model(X)
    predict, loss = wy.compile(output), wy.compile(output.square().mean())
    model.eval()
    for program in (predict, loss):
        with pytest.warns(
            RuntimeWarning, match=rf"the graph of {name} \(.*\) was built in training, and the module is"
        ):
            program({X: ROWS})


def test_each_graph_in_its_mode(name: str) -> None:
    model = made(name)
    loss = model(X).square().mean()
    predict = wy.compile(model.eval()(X).softmax())
    trained(model, loss).epoch({X: ROWS}, batch_size=4)  # compiled in evaluation, built in training
    predict({X: ROWS})
    model.train()
    again = model(X).square().mean()
    program = trained(model, again)
    program.epoch({X: ROWS}, batch_size=4)
    wy.compile(again)({X: ROWS})  # the loss of a batch


def test_a_part_of_a_model_is_trained(name: str) -> None:
    model = made(name)
    output = model.eval()(X)
    trained(model, output.square().mean(), model.second.parameters()).epoch({X: ROWS}, batch_size=4)


def test_the_mode_of_a_layer_alone_is_meant(name: str) -> None:
    model = made(name)
    model.layer.eval()
    loss = model(X).square().mean()
    trained(model, loss).epoch({X: ROWS}, batch_size=4)
    model.eval()
    model.layer.train()
    wy.compile(model(X))({X: ROWS})


def test_a_layer_alone_has_no_model_around_it(name: str) -> None:
    layer, x = LAYERS[name](), wy.Input(dims=(Batch(), 4))
    wy.compile(layer(x))({x: np.ones((8, 4), np.float32)})
    weight = wy.Parameter(np.ones(4, np.float32))
    trained(layer, (layer.eval()(x) * weight).square().mean()).epoch({x: np.ones((8, 4), np.float32)}, batch_size=4)


def test_without_a_layer_that_has_modes() -> None:
    for layer in (wy.nn.relu, wy.nn.Dropout(0.0), wy.nn.LayerNorm(4)):
        model = Model(layer)
        wy.compile(model(X))({X: ROWS})
        trained(model, model.eval()(X).square().mean()).epoch({X: ROWS}, batch_size=4)


def test_attention_and_dropout_of_residuals() -> None:
    model = wy.nn.TransformerBlock(8, 16, 2, dropout=0.1)
    x = wy.Input(dims=(Batch(), 5, 8))
    loss = model.eval()(x).square().mean()
    with pytest.warns(RuntimeWarning, match="was built in evaluation, so"):
        trained(model, loss)
    loss = model.train()(x).square().mean()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained(model, loss)
