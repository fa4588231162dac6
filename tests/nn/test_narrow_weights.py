"""Weights in narrow numbers: the same products and rows in every engine, of numbers that nothing widens in memory."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.exporting.loaded import loaded
from wyrm.errors import (
    CheckpointError,
    DTypeError,
    IndexOutOfRange,
    NotFinite,
    OptionError,
    ShapeError,
    UnusedParameter,
)
from wyrm.graph.parameters import NarrowNumbers
from wyrm.graph.storage import bound_array
from wyrm.ops.cross_entropy.linear_cross_entropy import NarrowHeadSlopes
from wyrm.ops.products.narrow_product import NarrowProduct
from wyrm.support.narrow_numbers import as_bfloat16, from_bfloat16

STORAGES = "int8", "bfloat16", "int4"
# More rows than columns, with factors of rows, and fewer, with factors of columns.
SHAPES = (64, 32), (32, 96)


class Batch(wy.Dim): ...


def weight_of(shape: tuple[int, int], storage: Any, along: Any = 1) -> wy.NarrowWeight:
    values = np.random.default_rng(0).normal(size=shape) * np.linspace(0.1, 3.0, shape[1])
    return wy.NarrowWeight(values.astype(np.float32), storage=storage, along=along, name="weight")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("storage", "along"), [("int8", 1), ("bfloat16", 1), ("int4", 0), ("int4", 1)])
def test_products_and_rows_in_every_engine(storage: Any, along: Any, shape: tuple[int, int]) -> None:
    weight, random, batch = weight_of(shape, storage, along), np.random.default_rng(1), Batch()
    x = wy.Input(dims=(batch, shape[0]), name="x")
    y = wy.Input(dims=(batch, 3, shape[1]), name="y")
    rows = wy.IndexInput(dims=(batch, 2), name="rows")
    outputs: list[wy.Node] = [x @ weight, y @ weight.T, weight.index(rows), x[0] @ weight]
    outputs.append(wy.grad((outputs[0] * outputs[0]).sum(), x))
    wide = weight.value
    programs = [wy.compile(outputs), wy.compile(outputs, engine="jax")]
    for count in (1, 2, 5, 33):
        data: dict[Any, Any] = {
            x: random.normal(size=(count, shape[0])).astype(np.float32),
            y: random.normal(size=(count, 3, shape[1])).astype(np.float32),
            rows: random.integers(0, shape[0], (count, 2)),
        }
        expected = [data[x] @ wide, data[y] @ wide.T, wide[data[rows]], data[x][0] @ wide]
        expected.append(2.0 * expected[0] @ wide.T)
        for leaf, array in data.items():
            leaf.set(array)
        found = [[node.forward() for node in outputs], *(program(data) for program in programs)]
        for values in found:
            for value, wanted in zip(values, expected, strict=True):
                np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("storage", ["int8", "bfloat16"])
def test_products_of_few_rows_of_any_size(storage: Any) -> None:
    # Rows of the weight in groups of 8, 4, 2 and 1, and columns that are no whole vectors or cache lines.
    random, batch = np.random.default_rng(2), Batch()
    for shape in ((15, 131), (300, 64), (8, 5), (1, 33)):
        weight = weight_of(shape, storage)
        x = wy.Input(dims=(batch, shape[0]), name="x")
        program = wy.compile(x @ weight)
        for count in (1, 2, 3, 4, 5, 7, 8, 9):
            data = random.normal(size=(count, shape[0])).astype(np.float32)
            wanted = data.astype(np.float64) @ weight.value
            np.testing.assert_allclose(program({x: data}), wanted, rtol=1e-5, atol=2e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("storage", STORAGES)
def test_native_products_read_the_narrow_numbers(storage: Any) -> None:
    # The operand of the product is the leaf of the numbers itself, and no array of the program has the weight's size.
    weight = weight_of((40, 32), storage)
    x = wy.Input(dims=(Batch(), 32), name="x")
    hidden: Any = x @ weight.T
    program = wy.compile((hidden, weight.index(wy.IndexConstant([3, 1])), wy.grad((hidden * hidden).sum(), x)))
    graph: Any = program._engine.graph
    products = [node for node in graph.schedule.nodes if isinstance(node, NarrowProduct)]
    assert [type(node.parents[1]) for node in products] == [NarrowNumbers] * 2
    assert products[0].parents[1].dtype == {"int8": "int8", "bfloat16": "uint16", "int4": "uint8"}[storage]
    assert [leaf for leaf in graph.schedule.leaves if leaf.dtype == np.float32 and leaf.dims == weight.dims] == []
    assert "narrow_product_kernel(" in program.source
    assert [
        buffer for buffer in graph.tree.buffers.values() if buffer.dims == weight.dims and buffer.leaf is None
    ] == []


def test_numbers_of_bfloat16_are_the_nearest() -> None:
    random = np.random.default_rng(2)
    exact = np.concatenate([random.normal(size=1000) * 10.0 ** random.integers(-30, 30, 1000), [0.0, -0.0, 3.39e38]])
    values = exact.astype(np.float32)
    found = from_bfloat16(as_bfloat16(values))
    assert np.isfinite(found).all()
    assert (np.abs(found - values) <= 2.0**-8 * np.abs(values)).all()
    # Numbers that bfloat16 has are kept; of two as near, the even one is taken.
    np.testing.assert_array_equal(from_bfloat16(as_bfloat16(found)), found)
    middle = np.array([0x3F808000, 0x3F818000], np.uint32).view(np.float32)
    assert [hex(bits) for bits in as_bfloat16(middle)] == ["0x3f80", "0x3f82"]


def test_integers_are_within_half_a_step() -> None:
    for shape in SHAPES:
        values = np.random.default_rng(3).normal(size=shape).astype(np.float32)
        weight = wy.NarrowWeight(values)
        assert weight.factors is not None
        assert (np.abs(weight.value - values) <= 0.5001 * weight.factors.value).all()
        assert weight.nbytes == values.size + 4 * max(shape)
    np.testing.assert_array_equal(wy.NarrowWeight(np.zeros((2, 3), np.float32)).value, 0.0)


def test_integers_of_int4_are_within_a_sixteenth() -> None:
    values = np.random.default_rng(4).normal(size=(6, 96)).astype(np.float32)
    cases: list[tuple[Any, np.ndarray]] = [(1, values), (0, values.T)]
    for along, given in cases:
        weight = wy.NarrowWeight(given, storage="int4", along=along)
        errors = np.abs(weight.value - given) if along == 1 else np.abs(weight.value - given).T
        largest = np.abs(values).reshape(6, 3, 32).max(axis=2, keepdims=True)
        assert (errors.reshape(6, 3, 32) <= 0.1251 * largest).all()
        assert weight.nbytes == 6 * 3 * 20
    np.testing.assert_array_equal(wy.NarrowWeight(np.zeros((2, 32), np.float32), storage="int4").value, 0.0)


@pytest.mark.parametrize("storage", STORAGES)
def test_a_model_is_quantized_saved_and_loaded(storage: Any, tmp_path: Path) -> None:
    def model(seed: int) -> wy.nn.GPT2:
        config = wy.nn.GPT2Config(vocab_size=50, n_positions=16, n_embd=32, n_layer=2, n_head=4)
        with wy.nn.seeded(seed):
            return wy.nn.GPT2(config).eval()

    tokens = wy.IndexInput(np.arange(10).reshape(2, 5), dims=(2, 5))
    exact, narrow, twin = model(0), model(0), model(1)
    errors = narrow.quantize(storage)
    assert len(errors) == 10
    assert 0.0 < max(errors.values()) < {"int8": 0.01, "bfloat16": 0.003, "int4": 0.11}[storage]
    assert narrow.head_weight is narrow.tokens.weight
    assert all(parameter.ndim == 1 for parameter in narrow.parameters())
    wanted = exact.logits(tokens).forward()
    found = [wy.compile(narrow.logits(tokens))({tokens: tokens.value}), narrow.logits(tokens).forward()]
    for values in found:
        assert 0.0 < np.abs(values - wanted).max() < (0.4 if storage == "int4" else 0.05) * np.abs(wanted).max()
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3, atol=1e-4)

    narrow.save(tmp_path / "model.safetensors")
    twin.quantize(storage)
    twin.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(twin.logits(tokens).forward(), found[1])
    copy = pickle.loads(pickle.dumps(narrow))
    np.testing.assert_array_equal(copy.logits(tokens).forward(), found[1])
    twin.load_state_dict(narrow.state_dict())
    with pytest.raises(CheckpointError, match=r"tokens\.weight: .* float32 here"):
        exact.load(tmp_path / "model.safetensors")
    assert list(wy.nn.generate(narrow, [1, 2], 4)) == list(wy.nn.generate(copy, [1, 2], 4))
    assert storage in repr(narrow.blocks[0].attention) or "Linear" in repr(narrow)


def test_a_decoder_reads_a_text_again_after_its_narrow_weights_changed() -> None:
    config = wy.nn.GPT2Config(vocab_size=50, n_positions=16, n_embd=32, n_layer=1, n_head=4)
    models = [wy.nn.GPT2(config).eval() for _ in range(2)]
    for model in models:
        model.quantize("int8")
    decoder, text = wy.nn.CachedDecoder(models[0]), np.array([[1, 2, 3, 4]])
    decoder.logits_after(text)
    models[0].load_state_dict(models[1].state_dict())
    wanted = wy.nn.CachedDecoder(models[1]).logits_after(text)
    np.testing.assert_array_equal(decoder.logits_after(text), wanted)


def test_what_is_around_a_narrow_model_is_trained() -> None:
    wy.nn.seed(0)
    base, extra = wy.nn.Linear(8, 16), wy.nn.Linear(16, 3)
    base.quantize("int8", only="weight")
    held = base.weight.value
    x, labels = wy.Input(dims=(Batch(), 8), name="x"), wy.IndexInput(dims=(Batch(),), name="labels")
    loss = extra(base(x).relu()).cross_entropy(labels)
    train = wy.compile(loss, wy.optim.Adam(loss.parameters(), learning_rate=0.05))
    random = np.random.default_rng(0)
    data = {x: random.normal(size=(64, 8)).astype(np.float32), labels: random.integers(0, 3, 64)}
    losses = [float(train.epoch(data, batch_size=16)) for _ in range(30)]
    assert losses[-1] < 0.7 * losses[0]
    np.testing.assert_array_equal(base.weight.value, held)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("embed", [None, "int8"])
def test_exports_keep_the_numbers_narrow(storage: Any, embed: Any) -> None:
    weight = weight_of((320, 2000), storage, 0)
    x = wy.Input(dims=(4, 320), name="x")
    program = wy.compile(x @ weight)
    export = loaded(predict=program, embed=embed)
    assert export.start() == 0
    data = np.random.default_rng(0).normal(size=(4, 320)).astype(np.float32)
    code, found = export.call("predict", x=data)
    assert code == 0
    np.testing.assert_allclose(next(iter(found.values())), program({x: data}), rtol=1e-4, atol=1e-2)
    # In float32 the weight takes 2,400,000 bytes. Numbers in the code take no memory; packed operands do.
    held = 0 if embed else weight.nbytes
    assert held < export.interface.memory_bytes < held + 1_000_000


def test_mistakes_are_named() -> None:
    with pytest.raises(ShapeError, match=r"two axes, not the shape \(3,\)"):
        wy.NarrowWeight([1.0, 2.0, 3.0])
    with pytest.raises(DTypeError, match="stands for float32, not float64"):
        wy.NarrowWeight(np.ones((2, 2)))
    with pytest.raises(NotFinite, match="nan at position"):
        wy.NarrowWeight([[1.0, np.nan]])
    with pytest.raises(OptionError, match="storage must be 'int8', 'bfloat16' or 'int4', not 'int2'"):
        wy.NarrowWeight([[1.0]], storage="int2")  # type: ignore[arg-type]  # the mistake
    with pytest.raises(OptionError, match=r"no matrix of float32 at 'blocks\.\*'; its matrices are: weight of float32"):
        wy.nn.Linear(2, 3).quantize(only="blocks.*")
    with pytest.raises(OptionError, match="storage must be 'int8', 'bfloat16' or 'int4', not 'fp8'"):
        wy.nn.Linear(2, 3).quantize("fp8")  # type: ignore[arg-type]  # the mistake
    twice = wy.nn.Linear(2, 3)
    twice.quantize("int8")
    with pytest.raises(OptionError, match="its matrices are: weight of int8"):
        twice.quantize("bfloat16")
    with pytest.raises(ShapeError, match=r"axis 1 of the shape \(32, 33\) is divided into blocks of 32"):
        wy.NarrowWeight(np.ones((32, 33), np.float32), storage="int4")
    with pytest.raises(OptionError, match="along must be 0 or 1, not 2"):
        wy.NarrowWeight(np.ones((32, 32), np.float32), storage="int4", along=2)  # type: ignore[arg-type]  # the mistake
    table = wy.NarrowWeight(np.ones((3, 2), np.float32))
    rows = wy.IndexInput(dims=(Batch(),), name="rows")
    program = wy.compile(table.index(rows))
    with pytest.raises(IndexOutOfRange):
        program({rows: np.array([3])})
    with pytest.raises(ShapeError, match="do not match"):
        wy.Input(dims=(4, 5)) @ table


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_narrow_output_layer_is_read_as_it_is(storage: Any, weighted: bool) -> None:
    # The loss and its gradient with respect to x are those of the widened weight, and no array has the weight's size.
    random, weight = np.random.default_rng(3), weight_of((200, 32), storage)
    labels = random.integers(0, 200, 301)
    labels[::7] = -1
    x = wy.Parameter(random.normal(size=(301, 32)).astype(np.float32))
    options: dict[str, Any] = {"ignore_index": -1, "label_smoothing": 0.1 if weighted else 0.0}
    if weighted:
        options["sample_weight"] = random.uniform(size=301).astype(np.float32)
    loss = wy.linear_cross_entropy(x, weight, wy.IndexConstant(labels), **options)
    wide = wy.linear_cross_entropy(x, wy.Constant(weight.value), wy.IndexConstant(labels), **options)
    program = wy.compile((loss, wy.grad(loss, x)))
    wanted = [wide.forward(), wy.grad(wide, x).forward()]
    for found in (program({}), [wy.compile(loss)({}), wanted[1]], [loss.forward(), wy.grad(loss, x).forward()]):
        np.testing.assert_allclose(found[0], wanted[0], rtol=1e-6)
        np.testing.assert_allclose(found[1], wanted[1], rtol=1e-5, atol=1e-6 * np.abs(wanted[1]).max())
    graph: Any = program._engine.graph
    assert not any(isinstance(leaf, wy.NarrowWeight) for leaf in graph.schedule.leaves)
    (slopes,) = [node for node in graph.schedule.nodes if isinstance(node, NarrowHeadSlopes)]
    operands = [bound_array(parent) for parent in slopes.parents]
    evaluated = slopes.evaluate(np, *operands, shape=(302, 32))
    np.testing.assert_allclose(evaluated[1:], wanted[1], rtol=1e-5, atol=1e-6 * np.abs(wanted[1]).max())


def test_a_copy_in_float32_is_made_once_and_again_after_a_change() -> None:
    weight = weight_of((6, 4), "int8")
    program = wy.compile(weight.sum())  # an op that reads a copy
    first = float(program({}))
    runner: Any = program._engine.runner  # type: ignore[attr-defined]  # the native engine's
    (binding,) = runner._held()
    assert float(program({})) == first and list(runner._held()) == [binding]
    weight.numbers.set(np.zeros_like(weight.numbers.value))
    assert float(program({})) == 0.0
    with pytest.raises(ValueError, match="read-only"):
        weight.value[0, 0] = 1.0


def test_a_trained_model_loses_little_perplexity() -> None:
    random = np.random.default_rng(0)
    names, things = ["Tom", "Lily", "Sam", "Anna"], ["ball", "kite", "book", "cake"]
    text = "".join(f"{random.choice(names)} had a {random.choice(things)} and was happy. " for _ in range(400))
    letters = np.frombuffer(text.encode(), np.uint8).astype(np.int64)
    blocks = wy.data.TokenBlocks(letters, 32, vocab_size=128, seed=0)
    training, held_out = blocks.split(0.2)
    config = wy.nn.DecoderConfig(
        vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32,
    )  # fmt: skip
    with wy.nn.seeded(0):
        model = wy.nn.Decoder(config)
    tokens = wy.IndexInput(dims=(Batch(), 32), name="tokens")
    targets = wy.IndexInput(dims=tokens.dims, name="targets")
    train = wy.compile(model.loss(tokens, targets), wy.optim.Adam(model.parameters(), 5e-3))
    for _ in range(3):
        train.epoch({tokens: training.inputs, targets: training.targets}, batch_size=16, shuffle=True)
    state = model.state_dict()

    def loss(storage: Any) -> float:
        other = wy.nn.Decoder(config).eval()
        other.load_state_dict(state)
        if storage is not None:
            other.quantize(storage)
        found = wy.compile(other.loss(tokens, targets))
        return float(found.evaluate({tokens: held_out.inputs, targets: held_out.targets}, batch_size=16))

    exact = loss(None)
    assert exact < 1.5  # of 4.9 without training
    assert [np.exp(loss(each) - exact) < most for each, most in (("int8", 1.01), ("int4", 1.04))] == [True, True]


def test_a_narrow_weight_says_that_it_is_constant() -> None:
    weight: Any = wy.NarrowWeight(np.ones((4, 3), np.float32))
    with pytest.raises(
        AttributeError, match=r"'set': a narrow weight is constant: make another one, wy\.NarrowWeight\("
    ):
        weight.set(np.zeros((4, 3)))
    with pytest.raises(AttributeError, match=r"'gradient': a narrow weight is constant, .*wy\.nn\.LoRA beside it"):
        _ = weight.gradient
    with pytest.raises(AttributeError, match="'clear_gradient': a narrow weight is constant"):
        weight.clear_gradient()


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_what_was_compiled_before_trains_no_weight_that_the_model_has_no_more(engine: Any) -> None:
    with wy.nn.seeded(0):
        model = wy.nn.Sequential(wy.nn.Linear(8, 32), wy.nn.Linear(32, 2))
    x = wy.Input(dims=(4, 8), name="x")
    loss: Any = model(x).square().mean()
    optimizer = wy.optim.SGD(loss.parameters(), 0.1)
    train = wy.compile(loss, optimizer, engine=engine)
    predict = wy.compile(loss, engine=engine)
    data = {x: np.ones((4, 8), np.float32)}
    train(data)
    train.epoch(data, batch_size=4)
    x.set(data[x])
    loss.backward()
    before = float(predict(data))
    model.quantize("int8", only="layers.0.weight")
    biases = [each.value.copy() for each in model.parameters()]
    message = r"SGD would train parameters that the model has no more: layers\.0\.weight, which quantize\(\) replaced"
    for step in (lambda: train(data), lambda: train.epoch(data, batch_size=4), optimizer.step):
        with pytest.raises(UnusedParameter, match=message):
            step()
    assert float(predict(data)) == before
    assert all((each.value == bias).all() for each, bias in zip(model.parameters(), biases, strict=True))
    again: Any = model(x).square().mean()
    losses = [float(wy.compile(again, wy.optim.SGD(again.parameters(), 0.1), engine=engine)(data)) for _ in range(2)]
    assert losses[1] < losses[0]
    # An optimizer of all parameters steps where only those that the model has are trained.
    optimizer.zero_gradient()
    again.backward()
    optimizer.step()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the memory of a process there")
def test_quantize_returns_the_memory_of_the_weights_to_the_system() -> None:
    """Narrow weights are allocated between the weights that they replace, so the C library would keep these."""
    measured = """
import numpy as np
import wyrm as wy

def resident():
    with open("/proc/self/status", encoding="ascii") as file:
        return 1024 * next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))

wy.nn.Linear(64, 64).quantize("int8")
np.ones(2**21)  # the C library keeps arrays of less than the largest one that was freed
before = resident()
model = wy.nn.Sequential(*(wy.nn.Linear(768, 768) for _ in range(60)))
for parameter in model.parameters():
    parameter.value  # which draws it
exact = resident() - before
model.quantize("int8")
print(exact, resident() - before)
"""
    found = subprocess.run([sys.executable, "-c", measured], check=True, capture_output=True, text=True)
    exact, narrow = map(int, found.stdout.split())
    assert narrow < 0.4 * exact
