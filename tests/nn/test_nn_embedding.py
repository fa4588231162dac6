from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import pytest

import wyrm as wy
from tests.pytorch import torch
from wyrm.errors import DTypeError, IndexOutOfRange, ShapeError


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


class Words(wy.Dim): ...


class Width(wy.Dim): ...


WORDS, WIDTH = Words(7), Width(3)


@pytest.mark.parametrize("shape", [(), (5,), (5, 4), (0,)])
def test_values_and_gradients_are_pytorchs(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    table = wy.nn.Embedding(7, 3, dtype=np.float64)
    indices, weights = random.integers(0, 7, shape), random.normal(size=(*shape, 3))
    result = table(wy.IndexInput(indices))
    (result * weights).sum().backward()
    twin = torch.tensor(table.weight.value, requires_grad=True)
    expected = torch.nn.functional.embedding(torch.tensor(indices), twin)
    (expected * torch.tensor(weights)).sum().backward()
    np.testing.assert_array_equal(result.forward(), expected.detach().numpy())
    np.testing.assert_allclose(table.weight.gradient, twin.grad.numpy(), rtol=1e-9)


def test_the_gradient_holds_only_the_rows_used() -> None:
    table = wy.nn.Embedding(1000, 2)
    table(wy.IndexInput([5, 900, 5])).sum().backward()
    rows = table.weight.row_gradient
    assert rows is not None
    assert rows.summed().rows.tolist() == [5, 900]
    assert rows.summed().values.tolist() == [[2.0, 2.0], [1.0, 1.0]]


def test_named_axes_are_kept() -> None:
    table = wy.nn.Embedding(WORDS, WIDTH)
    assert_type(table, wy.nn.Embedding[Words, Width])
    one = table(wy.IndexInput(dims=(Batch(5),)))
    two = table(wy.IndexInput(dims=(Batch(5), Time(4))))
    assert_type(one, wy.Tensor[Batch, Width])
    assert_type(two, wy.Tensor[Batch, Time, Width])
    assert one.dims == (Batch(5), WIDTH)
    assert two.dims == (Batch(5), Time(4), WIDTH)


def test_numbers_as_axes_are_unchecked_by_mypy() -> None:
    assert_type(wy.nn.Embedding(7, 3), wy.nn.Embedding[Any, Any])
    assert_type(wy.nn.Embedding(7, WIDTH), wy.nn.Embedding[Any, Width])
    assert_type(wy.nn.Embedding(WORDS, 3), wy.nn.Embedding[Words, Any])
    wanted: wy.Tensor[Batch, Width] = wy.nn.Embedding(7, 3)(wy.IndexInput(dims=(5,)))
    assert wanted.shape == (5, 3)


def test_the_parameter_is_the_table() -> None:
    table = wy.nn.Embedding(WORDS, WIDTH)
    assert list(dict(table.named_parameters())) == ["weight"]
    assert table.weight.name == "weight" and table.weight.dims == (WORDS, WIDTH)
    assert repr(table) == "Embedding(Words(7), Width(3))"


def test_the_table_starts_normal_unless_told_otherwise() -> None:
    values = wy.nn.Embedding(200, 100, seed=0).weight.value
    assert abs(float(values.std()) - 0.1) < 0.002
    assert abs(float(values.mean())) < 0.002
    assert not wy.nn.Embedding(2, 2, initializer=wy.nn.initializers.Zeros()).weight.value.any()


def test_seed_and_dtype() -> None:
    first, second = wy.nn.Embedding(7, 3, seed=4), wy.nn.Embedding(7, 3, seed=4, dtype=np.float64)
    assert second.weight.dtype == np.float64
    np.testing.assert_array_equal(first.weight.value, second.weight.value.astype(np.float32))


def test_an_index_beyond_the_table_is_an_error_when_it_is_set() -> None:
    words = wy.IndexInput(dims=(2,), name="words")
    table = wy.nn.Embedding(7, 3)
    result = table(words)
    with pytest.raises(IndexOutOfRange, match=r"words .* holds 7 at position \(1,\).*takes 0 to 6"):
        words.set([0, 7])
    words.set([0, 6])
    assert result.forward().shape == (2, 3)


def test_floats_as_indices_are_an_error() -> None:
    with pytest.raises(DTypeError, match="indices must be integers"):
        wy.nn.Embedding(7, 3)(wy.Input(dims=(5,)))  # type: ignore[arg-type]  # the mistake that mypy finds


def test_rows_without_a_size_are_an_error() -> None:
    with pytest.raises(ShapeError, match=r"Embedding: num_embeddings is Words\(\)"):
        wy.nn.Embedding(Words(), WIDTH)


def test_columns_without_a_size_are_an_error() -> None:
    with pytest.raises(ShapeError, match=r"Embedding: embedding_dim is Width\(\)"):
        wy.nn.Embedding(WORDS, Width())


@pytest.mark.parametrize("rows", [20, 2000])
def test_a_dtype_that_parameters_do_not_have_is_an_error_for_tables_of_all_sizes(rows: int) -> None:
    with pytest.raises(DTypeError, match="float16"):
        wy.nn.Embedding(rows, 400, dtype=np.float16)


def test_a_string_as_axis_is_an_error() -> None:
    with pytest.raises(DTypeError, match="num_embeddings must be a Dim or an integer, not 'words'"):
        wy.nn.Embedding("words", 3)  # type: ignore[arg-type]  # the mistake


@pytest.mark.parametrize("engine", ["numpy", "native", "jax"])
@pytest.mark.parametrize("dense", [False, True])
def test_adam_moves_the_rows_used_or_with_dense_all_of_them_as_pytorch_does(dense: bool, engine: str) -> None:
    table = wy.nn.Embedding(6, 3, dense=dense)
    twin: Any = torch.nn.Embedding.from_pretrained(torch.tensor(table.weight.value), freeze=False, sparse=not dense)
    indices = wy.IndexInput(dims=(Batch(),), name="indices")
    loss = table(indices).square().sum()
    optimizer: Any = wy.optim.Adam(table.parameters(), learning_rate=0.1)
    program: Any = None if engine == "numpy" else wy.compile(loss, optimizer, engine=engine)
    adam: Any = torch.optim.Adam if dense else torch.optim.SparseAdam
    torch_optimizer = adam(twin.parameters(), lr=0.1)
    for rows in ([1, 1, 2], [0, 4, 2], [5, 5, 5]):
        if program is None:
            indices.set(np.array(rows))
            loss.backward()
            optimizer.step()
            optimizer.zero_gradient()
        else:
            program({indices: np.array(rows)})
        torch_optimizer.zero_grad()
        twin(torch.tensor(rows)).square().sum().backward()
        torch_optimizer.step()
    np.testing.assert_allclose(table.weight.value, twin.weight.detach().numpy(), atol=1e-4)
    assert repr(table) == f"Embedding(6, 3{', dense=True' if dense else ''})"
