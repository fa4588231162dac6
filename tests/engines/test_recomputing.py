"""`remat`: the modules that it names, and no others, are recomputed in the backward pass, with the same numbers."""

from __future__ import annotations

import copy
import pickle
import re
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, OptionError

BATCH, WIDTH, INNER, HEAD = 64, 16, 48, 24


class Width(wy.Dim): ...


class FeedForward(wy.nn.Module):
    def __init__(self) -> None:
        self.up, self.down = wy.nn.Linear(Width(WIDTH), INNER), wy.nn.Linear(INNER, Width(WIDTH))

    def __call__(self, x: Any) -> Any:
        return self.down(self.up(x).tanh().dropout(0.2))


class Mixer(wy.nn.Module):
    def __init__(self) -> None:
        self.head, self.back = wy.nn.Linear(Width(WIDTH), HEAD), wy.nn.Linear(HEAD, Width(WIDTH))

    def __call__(self, x: Any) -> Any:
        return self.back(self.head(x).sigmoid())


class Block(wy.nn.Module):
    def __init__(self) -> None:
        self.norm, self.mixer, self.feed_forward = wy.nn.BatchNorm1d(WIDTH), Mixer(), FeedForward()

    def __call__(self, x: Any) -> Any:
        x = x + self.mixer(self.norm(x))
        return x + self.feed_forward(x)


class Model(wy.nn.Module):
    def __init__(self, blocks: int = 3) -> None:
        wy.nn.seed(1)
        self.blocks = [Block() for _ in range(blocks)]
        self.table = wy.nn.Embedding(7, Width(WIDTH))

    def __call__(self, x: Any, kind: Any) -> Any:
        h = x + self.table(kind)
        for block in self.blocks:
            h = block(h)
        return h.square().mean()


class Case:
    def __init__(self, engine: str, blocks: int = 3, **options: Any) -> None:
        x, kind = wy.Input(dims=(BATCH, Width(WIDTH)), name="x"), wy.IndexInput(dims=(BATCH,), name="kind")
        self.model = Model(blocks)
        self.loss = self.model(x, kind)
        self.program = wy.compile(
            self.loss, wy.optim.Adam(self.model.parameters(), 0.01), engine=engine, metrics={"l": self.loss}, **options
        )
        generator = np.random.default_rng(0)
        self.data = {"x": generator.normal(size=(BATCH, WIDTH)), "kind": generator.integers(0, 7, BATCH)}

    def run(self) -> list[Any]:
        losses = [float(self.program(self.data)["loss"]) for _ in range(3)]
        return [losses, *(leaf.value.tolist() for _, leaf in sorted(self.model.named_parameters()))] + [
            leaf.value.tolist() for _, leaf in sorted(self.model.named_buffers())
        ]

    def made(self) -> Counter[tuple[str, str]]:
        """Return how many nodes of each class each module made, gradients included."""
        nodes = self.program._engine.graph.schedule.nodes
        calls = [(node, node.origin[2]) for node in nodes if not node.is_leaf]
        return Counter((type(node).__name__, "" if call is None else call.path) for node, call in calls)


CHOICES: dict[str, tuple[Any, str]] = {
    "an attribute": ({"feed_forward"}, r"blocks\[\d\]\.feed_forward"),
    "a name alone": ("mixer", r"blocks\[\d\]\.mixer"),
    "two": (["mixer", "feed_forward"], r"blocks\[\d\]\.(mixer|feed_forward)"),
    "a class": ({"FeedForward"}, r"blocks\[\d\]\.feed_forward"),
    "a path": ({"blocks.1.mixer", "blocks[2].feed_forward"}, r"blocks\[(1\]\.mixer|2\]\.feed_forward)"),
    "an end of a path": ({"mixer.head"}, r"blocks\[\d\]\.mixer\.head"),
    "a list": ({"blocks"}, r"blocks\[\d\]"),
    "one inside of another": ({"blocks", "head"}, r"blocks\[\d\]"),
    "a layer with statistics": ({"norm"}, r"blocks\[\d\]\.norm"),
}


@cache
def without_names() -> tuple[Counter[tuple[str, str]], list[Any]]:
    """Return what modules make, and what training finds, where nothing is recomputed."""
    case = Case("native")
    return case.made(), case.run()


@pytest.mark.parametrize("choice", CHOICES)
def test_the_modules_that_a_name_chooses_are_recomputed_and_no_others(choice: str) -> None:
    names, paths = CHOICES[choice]
    (plain, results), chosen = without_names(), Case("native", remat=names)
    more = chosen.made() - plain
    assert any(kind == "OptimizationBarrier" for kind, _ in more)
    # A barrier stands where its value was made, before the module.
    assert {path for kind, path in more if kind != "OptimizationBarrier" and not re.match(paths, path)} == set()
    assert not plain - chosen.made() - more
    assert chosen.run() == results


def products(case: Case) -> Counter[str]:
    """Return the shapes of the products in the StableHLO of a step, and how many there are of each."""
    case.program(case.data)
    return Counter(re.findall(r"stablehlo\.dot_general.*-> (tensor<[^>]*>)", case.program.source))


def test_jax_computes_just_their_products_again() -> None:
    pytest.importorskip("jax")
    # Of one block, because equal ones are a loop, whose products stand once in the text.
    plain = products(Case("jax", 1))
    for name, width in (("feed_forward", INNER), ("mixer", HEAD)):
        assert products(Case("jax", 1, remat={name})) - plain == {f"tensor<{BATCH}x{width}xf32>": 1}


def test_jax_trains_to_the_same_numbers() -> None:
    pytest.importorskip("jax")
    plain, chosen = Case("jax").run(), Case("jax", remat={"mixer", "feed_forward"}).run()
    for mine, theirs in zip(chosen, plain, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_a_transformer_takes_less_memory(engine: str) -> None:
    if engine == "jax":
        pytest.importorskip("jax")

    def bytes_of(names: set[str]) -> int:
        config = wy.nn.GPT2Config(n_layer=4, n_embd=32, n_head=2, n_positions=64, vocab_size=50)
        wy.nn.seed(0)
        model = wy.nn.GPT2(config, seed=0)
        tokens, targets = (wy.IndexInput(dims=(8, 64), name=name) for name in ("tokens", "targets"))
        optimizer = wy.optim.SGD(model.parameters(), 0.1)
        program = wy.compile(model.loss(tokens, targets), optimizer, engine=engine, remat=names)
        program({tokens: np.ones((8, 64), int), targets: np.ones((8, 64), int)})
        return program.plan.peak_bytes

    none, half, all_of_it = (bytes_of(names) for names in (set[str](), {"feed_forward"}, {"blocks"}))
    assert all_of_it < 0.65 * none and all_of_it < 0.8 * half < 0.76 * none


def test_no_product_keeps_the_values_of_an_activation_that_is_recomputed() -> None:
    class Wide(wy.nn.Module):
        def __init__(self) -> None:
            self.up, self.activation = wy.nn.Linear(16, 256, seed=1), wy.nn.Activation("gelu")
            self.down = wy.nn.Linear(256, 16, seed=2)

        def __call__(self, x: Any) -> Any:
            return x + self.down(self.activation(self.up(x)))

    def run(names: Any) -> tuple[int, list[Any]]:
        layers, x = [Wide() for _ in range(8)], wy.Input(dims=(64, 16), name="x")
        h: Any = x
        for layer in layers:
            h = layer(h)
        parameters = [each for layer in layers for each in layer.parameters()]
        program = wy.compile(h.square().mean(), wy.optim.SGD(parameters, 0.1), remat=names)
        data = np.random.default_rng(0).normal(size=(64, 16))
        losses = [float(program({x: data})) for _ in range(3)]
        return program.plan.peak_bytes, [losses, *(each.value.tolist() for each in parameters)]

    (plain, numbers), (chosen, same) = run(()), run({"activation"})
    assert same == numbers
    # Of two arrays of (64, 256) for each of 8 layers, one is left.
    assert plain - chosen > 6 * 64 * 256 * 4


def test_lowered_functions_recompute_too() -> None:
    jax = pytest.importorskip("jax")
    x, kind = wy.Input(dims=(BATCH, Width(WIDTH)), name="x"), wy.IndexInput(dims=(BATCH,), name="kind")
    model, data = Model(), Case("native").data
    loss, names = model(x, kind), ((), {"feed_forward"})
    functions = [wy.jax.lower(loss, [x, kind], model=model, remat=each) for each in names]
    arguments = (functions[0][1], data["x"].astype(np.float32), data["kind"])
    texts = [str(jax.make_jaxpr(jax.grad(function))(*arguments)) for function, _ in functions]
    assert [text.count("remat2[") or text.count("checkpoint[") for text in texts] == [0, 3]
    plain, chosen = (jax.jit(jax.grad(function))(*arguments) for function, _ in functions)
    for name, gradient in plain.items():
        np.testing.assert_allclose(chosen[name], gradient, rtol=1e-5, atol=1e-7, err_msg=name)


def test_copies_and_pickles_recompute_too() -> None:
    case = Case("native", remat={"feed_forward"})
    wanted = case.made()
    for program in (copy.copy(case.program), copy.deepcopy(case.program), pickle.loads(pickle.dumps(case.program))):
        case.program = program
        assert case.made() == wanted


def test_two_results_of_a_module_are_recomputed() -> None:
    class Two(wy.nn.Module):
        def __init__(self) -> None:
            self.first, self.second = wy.nn.Linear(4, 5, seed=1), wy.nn.Linear(5, 5, seed=2)

        def __call__(self, x: Any) -> Any:
            hidden = self.first(x).tanh()
            return hidden, self.second(hidden).tanh()

    class Outer(wy.nn.Module):
        def __init__(self) -> None:
            self.two = Two()

        def __call__(self, x: Any) -> Any:
            first, second = self.two(x * 2.0)
            return (first * second).sum()

    def run(names: Any) -> Any:
        model, x = Outer(), wy.Input(dims=(3, 4), name="x")
        program = wy.compile(model(x), wy.optim.SGD(model.parameters(), 0.1), remat=names)
        return [float(program({x: np.ones((3, 4))})) for _ in range(3)]

    assert run("two") == run(())


def test_mistakes_name_what_there_is() -> None:
    with pytest.raises(OptionError, match=r"no module 'mixr'; .* are: table, blocks, norm, mixer, .*mean 'mixer'"):
        Case("native", remat={"mixr"})
    with pytest.raises(OptionError, match=r"remat='table': <call of Embedding table> reads no float values but param"):
        Case("native", remat={"mixer", "table"})
    with pytest.raises(OptionError, match="no module made the graph"):
        slope = wy.Parameter(1.0)
        wy.compile(slope.square(), wy.optim.SGD([slope], 0.1), remat="mixer")
    with pytest.raises(OptionError, match="a program without an optimizer has none"):
        wy.compile(Case("native").loss, remat="mixer")
    for wrong in (3, {"mixer": 1, 2: 3}, [wy.nn.Linear], True, ""):
        with pytest.raises(DTypeError, match="remat must be the names of the modules"):
            Case("native", remat=wrong)
