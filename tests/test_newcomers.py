"""Mistakes of people who come from PyTorch, JAX, NumPy and Keras: each error says what to do instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy

# Untyped: the type checker refuses most of these.
W: Any = wy
IMAGES = np.zeros((6, 4), np.float32)
LABELS = np.array([0, 1, 2, 0, 1, 2])


class Batch(wy.Dim): ...


class Forward(wy.nn.Module):
    """A module as PyTorch has them."""

    def forward(self, x: Any) -> Any:
        return x


def images() -> Any:
    return wy.Input(dims=(Batch(), 4), name="images")


def labels() -> Any:
    return wy.IndexInput(dims=(Batch(),), name="labels")


def weights() -> Any:
    return wy.Parameter(np.ones(3, np.float32), name="weights")


def layer() -> Any:
    return wy.nn.Linear(4, 3)


def gpt2() -> Any:
    return wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=9, n_positions=4, n_embd=4, n_layer=1, n_head=2))


def train() -> tuple[Any, Any, Any]:
    x, y, model = images(), labels(), layer()
    loss = model(x).cross_entropy(y)
    return x, y, wy.compile(loss, wy.optim.SGD(model.parameters(), learning_rate=0.1))


def program_of_names() -> None:
    _, _, program = train()
    program.epoch({"pictures": IMAGES, "labels": LABELS})


def float_labels() -> None:
    x, y, program = train()
    program.epoch({x: IMAGES, y: LABELS.astype(np.float64)})


def keras_epochs() -> None:
    x, y, program = train()
    program.epoch({x: IMAGES, y: LABELS}, epochs=3)


def fit_with(**keywords: Any) -> Callable[[], Any]:
    """Return a training with these keywords."""

    def fit() -> None:
        x, y, program = train()
        W.train.fit(program, {x: IMAGES, y: LABELS}, **{"epochs": 1, **keywords})

    return fit


def update_in_place() -> None:
    model = layer()
    model.weight -= 0.1 * model.weight


def replaced_by_an_array() -> None:
    model = layer()
    model.bias = np.zeros(3)


def import_tensor() -> None:
    from wyrm import tensor  # type: ignore[attr-defined]  # noqa: F401  # as from torch


def import_relu() -> None:
    from wyrm.nn import ReLU  # type: ignore[attr-defined]  # noqa: F401  # as from torch.nn


MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "from wyrm import tensor": (import_tensor, ImportError, "wyrm has no attribute 'tensor': use wy.Parameter"),
    "from wyrm.nn import ReLU": (import_relu, ImportError, "has no attribute 'ReLU': use wy.nn.relu between layers"),
    "forward": (lambda: W.nn.Sequential(Forward())(images()), TypeError, "Forward defines forward, but model(x) calls"),
    "forward with data": (lambda: weights().sum().forward(IMAGES), TypeError, "use wy.compile(x)({input: array})"),
    "in place": (update_in_place, TypeError, "Linear.weight is a parameter, which this would replace"),
    "assigned": (replaced_by_an_array, TypeError, "use .bias.set(array)"),
    "set on an operation": (lambda: (weights() + 1.0).set(0.0), AttributeError, "only leaves hold data that is set"),
    "set on a constant": (lambda: W.Constant(1.0).set(0.0), AttributeError, "make it a wy.Input, wy.Parameter"),
    "Input(shape=)": (lambda: W.Input(shape=(3,)), TypeError, "Input takes no keyword 'shape': use dims="),
    "None for the batch": (lambda: W.Input(dims=(None, 4)), TypeError, "declare `class Batch(wy.Dim): ...` and give"),
    "axes as text": (lambda: W.Input(dims=("batch", 4)), TypeError, "an axis is a number or a Dim, not 'batch'"),
    # A mistake that mypy finds.
    "a size as text": (
        lambda: W.nn.Linear(Batch("4"), 3),  # type: ignore[arg-type]
        TypeError,
        "Batch: a size is a whole number, not '4'",
    ),
    "axis by name": (
        lambda: images().softmax(axis="Batch"),
        TypeError,
        "an axis is given by its number, not by 'Batch'",
    ),
    "index by text": (lambda: weights()["a"], TypeError, "indexed by integers, slices, None and ..., not by 'a'"),
    "index by a float": (lambda: weights()[1.0], TypeError, "not by 1.0"),
    "index out of range": (lambda: weights()[5], IndexError, "operand  weights (3,) float32 (at test_newcomers.py:"),
    "operands of einsum": (lambda: W.einsum(weights(), weights(), "i,i->"), TypeError, "the subscripts come first"),
    "methods of integers": (
        lambda: labels().mean(),
        AttributeError,
        "convert with x.astype(np.float32) for other functions",
    ),
    "integers for floats": (lambda: W.losses.mse(images()[:, 0], labels()), TypeError, "for numbers use a wy.Input"),
    "floats for integers": (float_labels, TypeError, "the data is float64; convert with array.astype(np.int64)"),
    "other names": (program_of_names, ValueError, "no column 'images' for the input images; the columns are: "),
    "epochs=": (keras_epochs, TypeError, "takes no keyword 'epochs': use wy.train.fit(program, columns, epochs=10)"),
    "compile(loss=)": (lambda: W.compile(weights().sum(), loss="mse"), TypeError, "wy.compile(loss, optimizer)"),
    "compile(metrics=)": (
        lambda: W.compile(weights().sum(), metrics=[]),
        TypeError,
        "metrics must be a dict of scalar nodes",
    ),
    "compile a module": (lambda: W.compile(layer()), TypeError, "build the graph first, as in wy.compile(model(x))"),
    "optimizer of a module": (lambda: W.optim.SGD(layer(), 0.1), TypeError, "not Linear: pass model.parameters()"),
    "optimizer of names": (
        lambda: W.optim.SGD(layer().named_parameters(), 0.1),
        TypeError,
        "as model.parameters() gives; an element is tuple",
    ),
    "Linear(activation=)": (lambda: W.nn.Linear(4, 3, activation="relu"), TypeError, "put it after the layer"),
    "strict=": (lambda: layer().load_state_dict({}, strict=False), TypeError, "every name and shape has to match"),
    "grad of a function": (lambda: W.grad(lambda x: x), TypeError, "for a Python function use wy.function(f).grad()"),
    "value_and_grad": (lambda: W.value_and_grad(abs), TypeError, "for a Python function use wy.function(f).grad()"),
    "argnums=": (lambda: W.function(abs).grad(argnums=0), TypeError, "takes no keyword 'argnums': use wrt="),
    "number of an argument": (
        lambda: W.function(lambda x: float(x))(1.0),
        ValueError,
        "x () float32 (at test_newcomers.py:",
    ),
    "number of a result": (
        lambda: W.function(lambda x: float(x * 2.0))(1.0),
        ValueError,
        "has no value while a function of x is traced: return the node from the function",
    ),
    "jvp of an array": (lambda: W.jvp(abs, IMAGES, IMAGES), TypeError, "as in wy.jvp(f, (x,), (tangent,))"),
    "hvp of an array": (lambda: W.hvp(abs, IMAGES, IMAGES), TypeError, "as in wy.hvp(f, (x,), (tangent,))"),
    "vmap in_axes": (lambda: W.vmap(abs, in_axes=2)(IMAGES), ValueError, "vmap of abs: in_axes of x: axis 2 is out"),
    "vmap out_axes": (lambda: W.vmap(abs, out_axes=2)(IMAGES), ValueError, "vmap of abs: out_axes: axis 2 is out"),
    "vmap of two batches": (
        lambda: W.vmap(lambda x, y: x * y)(IMAGES, IMAGES[:2]),
        ValueError,
        "batch sizes differ: 2 and 6, in x (6, 4)",
    ),
    "DataLoader of arrays": (lambda: W.data.DataLoader((IMAGES, LABELS), 2), TypeError, "DataLoader takes a Dataset"),
    "Dataset of an array": (lambda: W.data.Dataset(IMAGES), TypeError, "as in Dataset(images=x, labels=y)"),
    "load_mnist": (lambda: W.data.load_mnist(), AttributeError, "use wy.data.read_idx(path)"),
    "GPT2 of options": (lambda: W.nn.GPT2(vocab_size=9), TypeError, "use wy.nn.GPT2(wy.nn.GPT2Config("),
    "GPT2 of floats": (lambda: gpt2()(np.ones((1, 2))), TypeError, "convert with array.astype(np.int64)"),
    "model.generate": (lambda: gpt2().generate([1], 2), AttributeError, "use wy.nn.generate(model, prompt,"),
    "generate from text": (lambda: W.nn.generate(gpt2(), "a b", 2), TypeError, "as tokenizer.encode(text) gives"),
    "generate from text in a list": (
        lambda: W.nn.generate(gpt2(), ["a b"], 2),
        TypeError,
        "as tokenizer.encode(text) gives",
    ),
    "from_pretrained": (lambda: wy.nn.GPT2.from_pretrained("gpt2"), ValueError, "wyrm downloads no models"),
    "bernoulli of probabilities": (
        lambda: W.random.bernoulli(images().sigmoid()),
        TypeError,
        "the axes of the draws come first, as in random.bernoulli(x.dims)",
    ),
    "uniform of bounds": (lambda: W.random.uniform(0.0, 1.0), TypeError, "come first, as in random.uniform((2, 3))"),
    "normal(size=)": (lambda: W.random.normal(size=(2, 3)), TypeError, "give the shape first, as in wy.random.normal("),
    "randint as in NumPy": (lambda: W.random.randint(0, 10, (3,)), TypeError, "as in random.randint((2, 3), 0, 10)"),
    "np.mean of integers": (lambda: np.mean(labels()), AttributeError, "convert with x.astype(np.float32)"),
    "concatenate of integers": (lambda: W.concatenate([labels(), labels()]), TypeError, "holds integers; convert them"),
    "at a mask": (lambda: weights().at[weights() > 0.0].set(0.0), TypeError, "use wy.where(mask, values, x)"),
    "at[...].multiply": (lambda: weights().at[0].multiply(2.0), AttributeError, "x.at[key].set(f(x[key]))"),
    "random.randn": (lambda: W.random.randn(2, 3), AttributeError, "use wy.random.normal((2, 3))"),
    "eig of a rotation": (
        lambda: W.linalg.eigvals(np.array([[0.0, -1.0], [1.0, 0.0]])).forward(),
        np.linalg.LinAlgError,
        "eig: the matrix has the complex eigenvalue 0+1j, and wyrm has no complex numbers",
    ),
    "keepdims by position": (lambda: weights().sum(0, 2), TypeError, "keepdims must be True or False, not 2"),
    "strides=": (lambda: W.nn.Conv2d(1, 4, 3, strides=2), TypeError, "takes no keyword 'strides': use stride="),
    "Conv2d(in_features=)": (
        lambda: W.nn.Conv2d(in_features=1, out_features=4, kernel_size=3),
        TypeError,
        "in_channels= of a convolution",
    ),
    "channels last": (
        lambda: W.nn.Conv2d(1, 4, 3)(W.zeros((2, 8, 8, 1))),
        ValueError,
        "the axes are (batch, channels, *sizes)",
    ),
    "setting lr": (
        lambda: setattr(W.optim.SGD([weights()], 0.1), "lr", 0.2),
        AttributeError,
        "use optimizer.learning_",
    ),
    "pooling an array": (lambda: W.nn.max_pool2d(np.zeros((1, 1, 4, 4)), 2), TypeError, "as in wy.Constant(array)"),
    "mse of an array": (lambda: W.losses.mse(IMAGES, images()), TypeError, "prediction must be a node, not ndarray"),
    "randn_like": (lambda: W.random.randn_like(images()), AttributeError, "use wy.random.normal_like(x)"),
    "SGD(lr=) alone": (lambda: W.optim.SGD([weights()], lr=0.1), TypeError, "use learning_rate="),
    "attn_mask=": (
        lambda: W.nn.MultiHeadAttention(4, 2)(W.zeros((1, 2, 4)), attn_mask=None),
        TypeError,
        "takes no keyword 'attn_mask': use mask=",
    ),
    "min_delta=": (lambda: W.train.EarlyStopping(min_delta=0.1), TypeError, "use minimum_change="),
    "validation_data=": (fit_with(validation_data={}), TypeError, "use validation= of wy.train.fit"),
    "one callback": (fit_with(callbacks=wy.train.EarlyStopping()), TypeError, "as in callbacks=[EarlyStopping(...)]"),
    "a function as callback": (fit_with(callbacks=[print]), TypeError, "wy.train.LambdaCallback for functions"),
    "summary of a shape": (lambda: W.summary(layer(), (4,)), TypeError, "as in wy.summary(model, wy.Input("),
    "cho_solve of a matrix": (
        lambda: W.linalg.cho_solve(W.eye(3), weights()),
        TypeError,
        "as in cho_solve((factor, True), b)",
    ),
    "check_grads": (lambda: W.testing.check_grads(abs), TypeError, "check_grads takes a node, not builtin_function"),
    "to_text of a module": (lambda: W.view.to_text(layer()), TypeError, "as of model(x), not of Linear"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_error_says_what_to_do(mistake: str) -> None:
    do, kind, message = MISTAKES[mistake]
    with pytest.raises(kind, match=re.escape(message)):
        do()


def test_a_parameter_can_be_replaced_on_purpose() -> None:
    model = layer()
    model.weight = wy.Parameter(np.ones((4, 3), np.float32))
    model.bias = wy.Constant(np.zeros(3, np.float32))  # no longer trained
    assert [name for name, _ in model.named_parameters()] == ["weight"]
    del model.weight
    model.weight = wy.Parameter(np.ones((4, 3), np.float32)) * 2.0
    assert model.parameters() == []


def test_a_scalar_is_formatted_as_its_value() -> None:
    loss = wy.Parameter(1.25, name="loss") * 2.0
    loss.forward()
    assert f"{loss:.2f}" == "2.50"
    assert f"{loss}" == repr(loss)
    with pytest.raises(wy.errors.NotSet, match=r"call \.forward\(\) on it"):
        _ = f"{loss * 2.0:.2f}"


def test_layers_by_position_and_arrays_of_tokens() -> None:
    first = layer()
    model = wy.nn.Sequential(first, wy.nn.relu)
    assert model[0] is first
    assert model[-1] is wy.nn.relu
    tokens: Any = np.array([[1, 2, 3]])
    assert gpt2()(tokens).shape == (1, 3, 4)


def test_counts_divide_into_rates() -> None:
    predicted, actual = wy.IndexConstant([0, 2, 1, 1]), wy.IndexConstant([0, 1, 1, 1])
    hits = (predicted == actual).sum()
    assert (hits / 4).forward() == (hits / wy.IndexConstant(4)).forward() == np.float32(0.75)
    assert (predicted / np.array([1, 4, 2, 2])).forward().tolist() == [0.0, 0.5, 0.5, 0.5]
    assert (predicted / 2.0).dtype == np.float32
    with pytest.raises(TypeError, match="holds integers, and weights"):
        _ = W.IndexConstant([1, 1, 1]) / weights()


def test_lists_replace_elements_and_arrays_give_logits() -> None:
    assert weights().at[:2].set([2.0, 3]).forward().tolist() == [2.0, 3.0, 1.0]
    assert wy.random.categorical(W.random.normal((2, 3)).forward()).shape == (2,)
    assert W.random.normal_like(IMAGES).dtype == np.float32
    assert (weights() + [1.0, 2.0, 3.0]).forward().tolist() == [2.0, 3.0, 4.0]
    assert W.where(weights() > 2.0, 0.0, [1, 2, 3]).forward().tolist() == [1.0, 2.0, 3.0]
    counts: Any = np.bincount(W.IndexConstant([0, 2, 2]), minlength=3)
    assert counts.forward().tolist() == [1.0, 0.0, 2.0]


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (wy.nn.Conv2d(1, 2, 3), (2, 1, 5, 5)),
        (wy.nn.GRU(3, 2), (2, 4, 3)),
        (wy.nn.LSTM(3, 2), (2, 4, 3)),
        (wy.nn.LayerNorm(3), (2, 3)),
        (wy.nn.RMSNorm(3), (2, 3)),
    ],
)
def test_layers_take_arrays(model: Any, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).normal(size=shape)
    found, expected = (model(x)[0] for x in (array, wy.Constant(array.astype(np.float32))))
    np.testing.assert_array_equal(found.forward(), expected.forward())
