"""Equal layers: how they are found in a schedule, and the loops that compute them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.jax.loops import Repeat, find_repeats
from wyrm.engines.jax.lower import Lowerer, words
from wyrm.errors import RegistrationError
from wyrm.graph.jax_form import JAX
from wyrm.graph.node import Node
from wyrm.graph.schedule import Schedule
from wyrm.graph.storage import bound_array
from wyrm.ops.random.dropout import Dropout
from wyrm.ops.random.philox import STEP, Counter

Build = Callable[[np.random.Generator], Node]
LAYERS = 6


def parameter(random: np.random.Generator, *shape: int) -> wy.Parameter:
    return wy.Parameter(random.normal(size=shape) * 0.3)


def residual(random: np.random.Generator) -> Node:
    """Layers that add to a stream."""
    x: Node = parameter(random, 5, 4)
    for _ in range(LAYERS):
        hidden = (x @ parameter(random, 4, 7) + parameter(random, 7)).tanh()
        x = x + hidden @ parameter(random, 7, 4)
    return x


def perceptron(random: np.random.Generator) -> Node:
    """Layers without residuals, between two others."""
    x: Node = parameter(random, 5, 3) @ parameter(random, 3, 4)
    for _ in range(LAYERS):
        x = ((x @ parameter(random, 4, 4)).sigmoid() + parameter(random, 4)) * 2.0
    return x @ parameter(random, 4, 2)


def shared(random: np.random.Generator) -> Node:
    """Layers that share a parameter, and that all read one value computed before."""
    x: Node = parameter(random, 5, 4)
    weight, scale = parameter(random, 4, 4), parameter(random, 4).exp()
    for _ in range(LAYERS):
        x = x + (x @ weight + parameter(random, 4)).tanh() * scale
    return x


def two_stacks(random: np.random.Generator) -> Node:
    """Two stacks of different layers; the second reads the values of the first in reverse, as a U-Net does."""
    x: Node = parameter(random, 5, 4)
    values: list[Node] = []
    for _ in range(LAYERS):
        x = (x @ parameter(random, 4, 4) + parameter(random, 4)).tanh() * 1.5
        values.append(x)
    for value in reversed(values):
        x = (x + value @ parameter(random, 4, 4)).sin() * parameter(random, 4)
    return x


def dropped(random: np.random.Generator) -> Node:
    """Layers with dropout, each with its own stream."""
    x: Node = parameter(random, 5, 4)
    for _ in range(LAYERS):
        x = x + (x @ parameter(random, 4, 4)).tanh().dropout(0.3, seed=7) * parameter(random, 4)
    return x


BUILDS: dict[Build, int] = {residual: 2, perceptron: 2, shared: 2, two_stacks: 4, dropped: 2}


def targets(build: Build) -> list[Node]:
    """Return a loss and the gradients of its parameters."""
    result = build(np.random.default_rng(0))
    loss: Node = (result * result).sum()
    return [loss, *wy.grad(loss, loss.parameters())]


def lowered(outputs: Sequence[Node], **options: Any) -> list[np.ndarray]:
    """Return the values of nodes as one jitted function computes them."""
    schedule = Schedule(outputs)
    data = {leaf: bound_array(leaf) for leaf in schedule.leaves if not isinstance(leaf, Counter) and leaf.dims}

    def function(step: Any, *arrays: Any) -> list[Any]:
        return Lowerer(**options).run(schedule, {STEP: step, **dict(zip(data, arrays, strict=True))})

    with jax.enable_x64(True):
        return [np.asarray(value) for value in jax.jit(function)(words(3), *data.values())]


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.__name__)
def test_layers_and_their_backward_passes_are_found(build: Build) -> None:
    schedule = Schedule(targets(build))
    plan = find_repeats(schedule, (), LAYERS - 2)
    repeats = [item for item in plan if isinstance(item, Repeat)]
    assert len(repeats) == BUILDS[build]
    assert all(repeat.count >= LAYERS - 2 for repeat in repeats)
    every = [p for item in plan for p in (chain(*item.positions) if isinstance(item, Repeat) else [item])]
    assert sorted(every) == [i for i, node in enumerate(schedule.nodes) if not node.is_leaf]


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.__name__)
def test_loops_compute_what_the_graph_does(build: Build) -> None:
    outputs = targets(build)
    wy.random.set_step(4)  # below, forward() has drawn for step 3
    expected = []
    for output in outputs:
        wy.random.set_step(3)
        expected.append(output.forward())
    for value, reference in zip(lowered(outputs, repeats=LAYERS - 2), expected, strict=True):
        np.testing.assert_allclose(value, reference, rtol=1e-9, atol=1e-12)


def test_code_does_not_grow_with_the_number_of_layers() -> None:
    def equations(layers: int) -> int:
        random = np.random.default_rng(0)
        x: Node = wy.Constant(np.ones((5, 4)))
        weights = [parameter(random, 4, 4) for _ in range(layers)]
        for weight in weights:
            x = x + ((x @ weight).tanh() * 2.0).sin()
        schedule = Schedule([x])

        def function(*arrays: Any) -> list[Any]:
            return Lowerer(repeats=4).run(schedule, dict(zip(weights, arrays, strict=True)))

        with jax.enable_x64(True):
            return len(jax.make_jaxpr(function)(*(weight.value for weight in weights)).eqns)

    assert equations(12) - equations(6) <= 6  # a reshape of each weight


def test_other_layers_are_no_run() -> None:
    random = np.random.default_rng(0)
    x: Node = parameter(random, 5, 4)
    for layer in range(LAYERS):
        x = ((x @ parameter(random, 4 + layer, 5 + layer)).tanh() + parameter(random, 5 + layer)).sin() * 2.0
    plan = find_repeats(Schedule([x]), (), LAYERS)
    assert all(isinstance(item, int) for item in plan)


@pytest.mark.parametrize(("layers", "nodes", "loops"), [(2, 7, []), (2, 8, [2]), (3, 5, []), (3, 6, [3]), (5, 3, [])])
def test_a_loop_has_sixteen_nodes_in_all(layers: int, nodes: int, loops: list[int]) -> None:
    ops: list[Callable[[Node], Node]] = [wy.sin, wy.cos, wy.tanh, wy.sigmoid, wy.exp, wy.arctan, wy.sinh]
    random = np.random.default_rng(0)
    x: Node = parameter(random, 5, 4)
    for _ in range(layers):
        x = x @ parameter(random, 4, 4)
        for op in ops[: nodes - 1]:
            x = op(x)
    plan = find_repeats(Schedule([x]), (), 2)
    assert [item.count for item in plan if isinstance(item, Repeat)] == loops


def test_scalars_that_differ_between_layers_are_values_of_the_loop() -> None:
    random = np.random.default_rng(0)
    x: Node = parameter(random, 5, 4)
    for layer in range(LAYERS):
        x = ((x @ parameter(random, 4, 4)).tanh() + float(layer)).sin() * 2.0
    plan = find_repeats(Schedule([x]), (), LAYERS)
    assert [item.count for item in plan if isinstance(item, Repeat)] == [LAYERS]
    np.testing.assert_allclose(lowered([x], repeats=LAYERS)[0], x.forward(), rtol=1e-9)


def test_a_form_that_ignores_the_stream_of_a_layer_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ignoring(wy.JaxForm):
        def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Any) -> Any:
            return operands[0] * float(node.stream)

    form = Ignoring()

    def of(rules: Any, node: Any) -> Any:
        return form if rules is JAX and isinstance(node, Dropout) else rules.default

    monkeypatch.setattr(type(JAX), "of", of)
    with pytest.raises(RegistrationError, match=r"must read the stream by lowering.attribute\(node, 'stream'\)"):
        lowered([dropped(np.random.default_rng(0))], repeats=LAYERS)


def language_model(layers: int, rate: float) -> tuple[Any, dict[Any, Any]]:
    """Return a program that trains GPT-2 with dropout of this rate, and its data."""
    config = wy.nn.GPT2Config(
        vocab_size=16, n_positions=8, n_embd=8, n_layer=layers, n_head=2, resid_pdrop=rate, attn_pdrop=rate,
        embd_pdrop=rate,
    )  # fmt: skip
    tokens, following = wy.IndexInput(dims=(2, 8)), wy.IndexInput(dims=(2, 8))
    model = wy.nn.GPT2(config)
    program = wy.compile(model.loss(tokens, following), wy.optim.SGD(model.parameters(), 0.1), engine="jax")
    return program, {tokens: np.zeros((2, 8), int), following: np.zeros((2, 8), int)}


@pytest.mark.parametrize("layers", [2, 3, 5])
@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_equal_layers_of_a_language_model_are_two_loops_from_two_layers_on(layers: int, rate: float) -> None:
    program, _ = language_model(layers, rate)
    repeats = [item for item in program._engine.functions._plan if isinstance(item, Repeat)]
    assert [repeat.count for repeat in repeats] == [layers, layers]


@pytest.mark.parametrize(("layers", "rate"), [(2, 0.1), (3, 0.1), (5, 0.0)])
def test_code_of_a_language_model_does_not_grow_with_its_layers(layers: int, rate: float) -> None:
    program, data = language_model(layers, rate)
    program(data)
    # One for each weight of a layer and of its gradients.
    assert program.source.count("stablehlo.dot_general") == 23


@pytest.mark.parametrize("layers", [2, 3])
def test_equal_loops_of_the_graph_are_those_of_native_code(layers: int) -> None:
    """Each layer is a `wy.scan`, whose residuals JAX keeps in parts."""
    random = np.random.default_rng(0)
    x = wy.Input(dims=(5, 3), dtype=np.float64, name="x")
    h: Any = x
    weights: list[wy.Parameter] = []
    for _ in range(layers):
        weight = parameter(random, 3, 3)
        weights.append(weight)
        start = wy.Constant(np.zeros(3))

        def step(state: Any, row: Any, weight: Any = weight) -> Any:
            following = (state + row @ weight).tanh()
            return following, following

        _, h = wy.scan(step, start, h)
        h = ((h * 1.5 + h.sin()).tanh() + h.cos()).exp().sigmoid() - h.square()
    loss = h.square().mean()
    data = {x: random.normal(size=(5, 3))}
    expected = [wy.compile(gradient)(data) for gradient in wy.grad(loss, weights)]
    found = wy.compile(wy.grad(loss, weights), engine="jax")(data)
    for have, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-9)
