"""Attention to long sequences under JAX: tiles give the numbers of the whole, and no array holds all scores."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import jax
import jax._src.cudnn.fused_attention_stablehlo as fused
import jax.numpy as jnp
import numpy as np
import pytest

import wyrm as wy
from tests.engines.jax.test_blocks import compare
from wyrm.graph.node import Node
from wyrm.ops.attention import cudnn_jax, jax_form, tiles_jax

LONG = 1024


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 32 rows, for sequences of more than 40."""
    monkeypatch.setattr(jax_form, "LONGEST_WHOLE", 40)
    monkeypatch.setattr(tiles_jax, "_ROWS_ON_CPU", 32)


WHOLE_BATCH: dict[str, Any] = {}
IN_BLOCKS: dict[str, Any] = {"block_bytes": 2**12, "shards": 3}
ATTENTIONS: list[dict[str, Any]] = [
    {}, {"causal": True}, {"alibi": True, "dropout_rate": 0.2, "stream": 4},
    {"causal": True, "dropout_rate": 0.3, "seed": 5, "stream": 9}, {"masked": "queries"}, {"masked": "keys"},
    {"masked": "queries", "causal": True, "dropout_rate": 0.3, "stream": 2**33},
]  # fmt: skip
# Each attention with whole tiles and with a last one that is shorter, and with blocks and without; and each of these
# four together.
TILED = [
    (attention, time, options)
    for turn, attention in enumerate(ATTENTIONS)
    for time, options in zip((71, 96), (WHOLE_BATCH, IN_BLOCKS) if turn % 2 else (IN_BLOCKS, WHOLE_BATCH), strict=True)
]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("attention", "time", "options"), TILED, ids=str)
def test_tiles_give_the_numbers_of_the_whole(attention: dict[str, Any], time: int, options: dict[str, Any]) -> None:
    random, attention = np.random.default_rng(0), dict(attention)
    kind = attention.pop("masked", None)
    mask = None if kind is None else random.random((6, time if kind == "queries" else 1, time)) < 0.5
    if mask is not None:
        mask[1, 0] = False  # a query that sees no key
        mask[2, :, :40] = False  # a first tile of keys that no query sees
    compare(wy.attention(wy.Parameter(random.normal(size=(6, time, 3, 2, 4))), mask, **attention), **options)


@pytest.mark.usefixtures("small")
def test_scores_far_apart_do_not_overflow() -> None:
    qkv = np.zeros((1, 96, 3, 1, 2), np.float32)
    qkv[0, :, 0], qkv[0, :, 1, 0, 0] = 100.0, np.linspace(-2000.0, 2000.0, 96)
    qkv[0, :, 2, 0, 0] = np.arange(96)
    function, parameters = wy.jax.lower(wy.attention(wy.Parameter(qkv, name="qkv")))
    assert np.asarray(jax.jit(function)(parameters))[0, :, 0].tolist() == [[95.0, 0.0]] * 96


@pytest.mark.usefixtures("small")
def test_second_derivatives_and_tangents_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    x = wy.Parameter(np.random.default_rng(0).normal(size=(1, 50, 3, 1, 2)).astype(np.float32), name="x")
    function, parameters = wy.jax.lower(wy.attention(x, causal=True).square().sum())
    ones = {"x": np.cos(np.arange(300, dtype=np.float32)).reshape(1, 50, 3, 1, 2)}

    def derivatives() -> list[Any]:
        def of(parameters: Any) -> list[Any]:
            gradient = jax.grad(function)
            tangent = jax.jvp(function, (parameters,), (ones,))[1]
            along = jax.grad(lambda p: jnp.vdot(gradient(p)["x"], ones["x"]))(parameters)["x"]
            return [tangent, along, jax.jvp(gradient, (parameters,), (ones,))[1]["x"]]

        compiled = jax.jit(of).lower(parameters).compile()
        in_tiles.append(" while(" in compiled.as_text())
        found: list[Any] = compiled(parameters)
        return found

    in_tiles: list[bool] = []
    tiled = derivatives()
    monkeypatch.setattr(jax_form, "LONGEST_WHOLE", 10**9)
    whole = derivatives()
    assert in_tiles == [True, False]
    for mine, theirs in zip(tiled, whole, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-4)


def squares(node: Node, name: str) -> list[str]:
    """Return the types of arrays with two axes of the length of the sequence, in a gradient's StableHLO and HLO."""
    function, parameters = wy.jax.lower(node)
    lowered = jax.jit(jax.value_and_grad(function)).lower(parameters)
    text = lowered.as_text() + lowered.compile().as_text()
    assert f"x{LONG}x" in text or f",{LONG}," in text, name
    return re.findall(rf"tensor<[^>]*{LONG}x{LONG}[^>]*>|\w+\[[\d,]*{LONG},{LONG}[\d,]*\]", text)


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"causal": True, "dropout_rate": 0.1, "alibi": True}])
def test_no_array_holds_all_scores(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    node = wy.attention(wy.Parameter.zeros((2, LONG, 3, 4, 8), name="qkv"), **options).sum()
    assert squares(node, "in tiles") == []
    monkeypatch.setattr(jax_form, "LONGEST_WHOLE", LONG)
    if not options:  # the test sees them where they are
        assert squares(node, "at once")


@cache
def losses_of_long_sequences(**options: Any) -> list[float]:
    """Return the losses of steps of a language model whose sequences take several tiles."""
    config = wy.nn.GPT2Config(n_layer=2, n_embd=16, n_head=2, n_positions=640, vocab_size=20)
    wy.nn.seed(0)
    model = wy.nn.GPT2(config, seed=0)
    tokens, targets = (wy.IndexInput(dims=(2, 640), name=name) for name in ("tokens", "targets"))
    program = wy.compile(model.loss(tokens, targets), wy.optim.Adam(model.parameters(), 0.01), **options)
    data = np.random.default_rng(0).integers(0, 20, (2, 640))
    return [float(program({tokens: data, targets: np.roll(data, 1)})) for _ in range(4)]


@pytest.mark.parametrize("compute_dtype", [None, "bfloat16"])
def test_a_model_of_long_sequences_trains_as_natively(compute_dtype: Any) -> None:
    found = losses_of_long_sequences(engine="jax", compute_dtype=compute_dtype)
    np.testing.assert_allclose(found, losses_of_long_sequences(), rtol=1e-5 if compute_dtype is None else 1e-2)


# --- cuDNN ------------------------------------------------------------------------------------------------------------


def parts_of(dtype: Any, features: int = 64, shared: int = 4) -> list[Any]:
    return [jax.ShapeDtypeStruct((2, LONG, heads, features), dtype) for heads in (4, shared, shared)]


@pytest.fixture(autouse=True)
def asks_anew() -> Iterator[None]:
    """What JAX says of a device is not remembered from one test to the next."""
    cudnn_jax.has_kernels.cache_clear()
    yield
    cudnn_jax.has_kernels.cache_clear()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """What JAX says on an H100, for tracing alone."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(fused, "check_cudnn_version", lambda: 91_000)
    monkeypatch.setattr(fused, "check_compute_capability", lambda capability: True)


def attention_of(dtype: Any = np.float32, features: int = 64, **options: Any) -> Any:
    return wy.attention(wy.Parameter.zeros((2, LONG, 3, 4, features), dtype=dtype), **options)


@pytest.mark.usefixtures("gpu")
def test_cudnn_takes_bfloat16_without_masks_dropout_and_alibi() -> None:
    assert cudnn_jax.takes(attention_of(causal=True), parts_of(jnp.bfloat16))
    assert not cudnn_jax.takes(attention_of(), parts_of(jnp.float32))
    assert not cudnn_jax.takes(attention_of(), parts_of(jnp.bfloat16, 60))
    for options in ({"alibi": True}, {"dropout_rate": 0.1}, {"mask": np.ones((1, 1, LONG), np.bool_)}):
        assert not cudnn_jax.takes(attention_of(**options), parts_of(jnp.bfloat16))


@pytest.mark.usefixtures("gpu")
def test_equal_attentions_ask_once(monkeypatch: pytest.MonkeyPatch) -> None:
    trace, traced = jax.nn.dot_product_attention, list[int]()

    def counted(*given: Any, **more: Any) -> Any:
        traced.append(1)
        return trace(*given, **more)

    monkeypatch.setattr(jax.nn, "dot_product_attention", counted)
    for _ in range(3):
        assert cudnn_jax.takes(attention_of(causal=True), parts_of(jnp.bfloat16))
    assert len(traced) == 1
    assert cudnn_jax.takes(attention_of(), parts_of(jnp.bfloat16)) and len(traced) == 2


def test_cudnn_takes_nothing_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not cudnn_jax.takes(attention_of(), parts_of(jnp.bfloat16))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert not cudnn_jax.takes(attention_of(), parts_of(jnp.bfloat16)), "JAX does not find cuDNN"


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("causal", [False, True])
def test_a_gpu_computes_attention_and_its_gradient_by_the_kernels_of_cudnn(causal: bool) -> None:
    node = attention_of(causal=causal)

    def function(parts: Any, cotangent: Any) -> Any:
        return cudnn_jax.attended(node, parts), cudnn_jax.gradients(node, parts, cotangent)

    cotangent = jax.ShapeDtypeStruct((2, LONG, 4, 64), jnp.float32)
    traced = jax.jit(function).trace(parts_of(jnp.bfloat16), cotangent)
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    calls = re.findall(r"custom_call @(__cudnn\$\w+)", text)
    assert set(calls) == {"__cudnn$fmhaSoftmax", "__cudnn$fmhaSoftmaxBackward"}
    assert ("CAUSAL" in text) == causal
    assert f"{LONG}x{LONG}" not in text
