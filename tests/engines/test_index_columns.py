"""Columns of indices that loops, slices and transposes use: every engine checks them before a step runs."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines import registry as engines
from wyrm.errors import IndexOutOfRange

engines.register("written", "tests.engines.written:WrittenEngine")
ENGINES = ["native", "jax"]
ROWS, STEPS, SIZE = 8, 3, 5


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


def embedding(dense: bool = False) -> Any:
    return wy.nn.Embedding(SIZE, 2, dense=dense, seed=0)


def summed(layer: Any) -> Any:
    return lambda state, x: (state + layer(x), state)


def recurrent(layer: Any, tokens: Any) -> Any:
    start = wy.zeros_like(layer(wy.zeros_like(tokens[:, 0])))
    return wy.nn.Recurrent(summed(layer))(tokens, start).state


def by_scan(layer: Any, tokens: Any) -> Any:
    start = wy.zeros_like(layer(wy.zeros_like(tokens[:, 0])))
    return wy.scan(summed(layer), start, tokens.transpose(1, 0))[0]


def nested(layer: Any, tokens: Any) -> Any:
    """A loop over time whose step has a loop over the batch's tokens of that step."""

    def step(state: Any, x: Any) -> Any:
        inside = wy.scan(lambda s, token: (s + layer(token), None), wy.zeros((2,)), x)[0]
        return state + inside, None

    return wy.scan(step, wy.zeros((2,)), tokens.transpose(1, 0))[0]


def classes(layer: Any, tokens: Any) -> Any:
    """The loss of every step inside of the loop."""

    def step(state: Any, x: Any) -> Any:
        logits = (layer(wy.zeros_like(x)) @ np.ones((2, SIZE), np.float32)) + state
        return logits, logits.cross_entropy(x)

    return wy.scan(step, wy.zeros((SIZE,)).broadcast_to((tokens.shape[0], SIZE)), tokens.transpose(1, 0))[1]


def part_of_each_row(layer: Any, tokens: Any) -> Any:
    """Rows of two numbers, of which a step uses one."""
    pairs = tokens[:, 1:].reshape((tokens.shape[0], 1, 2))
    start = wy.zeros_like(layer(wy.zeros_like(tokens[:, 0])))
    return wy.nn.Recurrent(lambda state, x: (state + layer(x[:, 1]), state))(pairs, start).state


# What builds a graph, and the positions in a row that it uses as indices.
GRAPHS: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...]]] = {
    "recurrent": (recurrent, (0, 1, 2)),
    "scan": (by_scan, (0, 1, 2)),
    "nested": (nested, (0, 1, 2)),
    "cross_entropy": (classes, (0, 1, 2)),
    "vmap": (lambda layer, tokens: wy.vmap(lambda row: layer(row).sum(axis=0))(tokens), (0, 1, 2)),
    "slice": (lambda layer, tokens: layer(tokens[:, 1:]), (1, 2)),
    "last": (lambda layer, tokens: layer(tokens[:, -1]), (2,)),
    "transpose": (lambda layer, tokens: layer(tokens.T)[1:], (0, 1, 2)),
    "part of each row": (part_of_each_row, (2,)),
}


def data(position: int | None = None, value: int = SIZE) -> np.ndarray:
    found = np.random.default_rng(0).integers(0, SIZE, (ROWS, STEPS))
    if position is not None:
        found[ROWS - 1, position] = value
    return found


# An engine that computes node by node, by `SimpleEngine`, has no loops over axes without sizes.
CASES = [(engine, name) for engine in ENGINES for name in GRAPHS]
CASES += [("written", name) for name in ("nested", "slice", "last", "transpose")]


@pytest.mark.parametrize(("engine", "name"), CASES)
@pytest.mark.parametrize("value", [SIZE, -1])
def test_a_bad_index_in_the_last_row_stops_an_epoch_before_it_begins(engine: Any, name: str, value: int) -> None:
    build, used = GRAPHS[name]
    layer = embedding()
    tokens = wy.IndexInput(dims=(ROWS if name == "nested" else Batch(), STEPS), name="tokens")
    loss = build(layer, tokens).square().mean()
    program = wy.compile(loss, wy.optim.SGD([layer.weight], 0.1), engine=engine)
    before, batch = layer.weight.value.copy(), ROWS if name == "nested" else 2
    op = "cross_entropy" if name == "cross_entropy" else "index of weight"
    for position in range(STEPS):
        bad = data(position, value)
        if position not in used:
            assert np.isfinite(program.epoch({tokens: bad}, batch_size=batch))
            tokens.set(bad)
            before = layer.weight.value.copy()
            continue
        told = (
            rf"{value} in row {ROWS - 1}, position \({position},\), but {op} at test_index_columns.py:\d+ takes 0 to 4"
        )
        for run in (
            lambda columns: program.epoch(columns, batch_size=batch, shuffle=True),
            lambda columns: program.evaluate(columns, batch_size=batch),
            program,
        ):
            with pytest.raises(IndexOutOfRange, match=f"column tokens holds {told}; no parameter has moved"):
                run({tokens: bad})
        assert (layer.weight.value == before).all()
        with pytest.raises(IndexOutOfRange, match=rf"tokens .* holds {value} at position \({ROWS - 1}, {position}\)"):
            tokens.set(bad)
    assert np.isfinite(program.epoch({tokens: data()}, batch_size=batch))


@pytest.mark.parametrize("engine", ENGINES)
def test_an_open_time_and_batches_of_a_loader(engine: Any) -> None:
    layer, tokens = embedding(dense=True), wy.IndexInput(dims=(Batch(), Time()), name="tokens")
    loss = recurrent(layer, tokens).square().mean()
    batches: Any = [{tokens: data()[:2]}, {tokens: data(1)}]
    program = wy.compile(loss, wy.optim.SGD([layer.weight], 0.1), engine=engine)
    with pytest.raises(
        IndexOutOfRange, match=r"column tokens holds 5 in row 7, position \(1,\), but index of weight at"
    ):
        program.epoch(batches)
    with pytest.raises(IndexOutOfRange, match="column tokens holds 5 in row 7"):
        program.backward({tokens: data(1)})


def test_inputs_of_one_row_and_a_batch_with_a_size() -> None:
    for dims, batch in (((STEPS,), 1), ((2, STEPS), 2)):
        layer, tokens = embedding(), wy.IndexInput(dims=dims, name="tokens")
        part = layer(tokens[1:] if batch == 1 else tokens[:, 1:])
        program = wy.compile(part.square().mean(), wy.optim.SGD([layer.weight], 0.1))
        assert np.isfinite(program.epoch({tokens: data(0, 99)}, batch_size=batch))
        with pytest.raises(IndexOutOfRange, match=r"column tokens holds 99 in row 7, position \(1,\)"):
            program.epoch({tokens: data(1, 99)}, batch_size=batch)


def test_a_part_that_depends_on_the_batches_is_checked_where_it_is_used() -> None:
    layer, tokens = embedding(), wy.IndexInput(dims=(2, STEPS), name="tokens")
    program = wy.compile(layer(tokens[0]).square().mean(), wy.optim.SGD([layer.weight], 0.1))
    assert np.isfinite(program.epoch({tokens: data(1, 99)}, batch_size=2))  # the last row is the second of its batch
    with pytest.raises(IndexOutOfRange, match="99 at position"):
        program.epoch({tokens: data(1, 99)[::-1]}, batch_size=2)
    with pytest.raises(IndexOutOfRange, match=r"column tokens holds 99 in row 0, position \(1,\)"):
        program({tokens: data(1, 99)[[7, 0]]})


def test_data_that_only_a_branch_uses_may_be_anything() -> None:
    layer, tokens = embedding(), wy.IndexInput(dims=(STEPS,), name="tokens")
    taken = wy.Input(name="taken", dtype=np.float32)
    chosen = wy.cond(taken > 0.0, lambda: layer(tokens).sum(), lambda: taken * 1.0)
    program = wy.compile(chosen)
    program({tokens: [0, 99, 1], taken: -1.0})
    with pytest.raises(
        IndexOutOfRange, match=r"tokens .* holds 99 at position .1,., but index of weight at .* takes 0 to"
    ):
        program({tokens: [0, 99, 1], taken: 1.0})
    tokens.set([0, 99, 1])


class Fed(wy.nn.Module):
    """A cell over tokens that feeds numbers beyond its table back."""

    def __init__(self) -> None:
        self.embedding = embedding()

    def __call__(self, state: Any, token: Any) -> Any:
        return state + self.embedding(token).sum(), token + 2


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_an_index_that_a_loop_computes_is_named_with_its_step(engine: Any) -> None:
    first = wy.IndexInput(dims=(2,), name="first")
    made = wy.nn.Recurrent(Fed()).run(first, 4, wy.zeros((2,))).state
    told = r"holds 5 at position \(1,\), but index of weight at .*test_index_columns.py:\d+ takes 0 to 4, in step 2 of"
    with pytest.raises(IndexOutOfRange, match=told):
        if engine == "numpy":
            first.set([0, 1])
            made.forward()
        wy.compile(made, engine=engine)({first: [0, 1]})


def test_a_loop_that_is_gone_refuses_nothing() -> None:
    layer, tokens = embedding(), wy.IndexInput(dims=(2, STEPS), name="tokens")
    state = recurrent(layer, tokens)
    with pytest.raises(IndexOutOfRange):
        tokens.set(data(0)[-2:])
    with pytest.raises(IndexOutOfRange, match=r"holds 9 at position \(0, 1\), but index of weight"):
        recurrent(layer, wy.IndexConstant([[0, 9, 1], [1, 1, 1]]))
    del state
    gc.collect()
    tokens.set(data(0)[-2:])
