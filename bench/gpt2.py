"""GPT-2: a training step with AdamW, and generation, vs PyTorch and JAX, each in its own process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.harness import Case
from bench.models import THREADS
from bench.workers import beside_a_busy_core, in_worker

RATE, BETAS, EPSILON = 2e-3, (0.9, 0.95), 1e-8


@dataclass(frozen=True)
class Size:
    """A configuration and its batch size; the output head is tied to the token embedding."""

    vocabulary: int
    context: int
    layers: int
    heads: int
    width: int
    batch: int


SIZES = {
    "default": Size(vocabulary=8000, context=128, layers=8, heads=16, width=64, batch=64),
    "124M": Size(vocabulary=50257, context=64, layers=12, heads=12, width=768, batch=4),
}


def tokens(size: Size) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a batch of sequences, and the token after each token."""
    drawn = np.random.default_rng(0).integers(0, size.vocabulary, (size.batch, size.context + 1))
    return drawn[:, :-1].copy(), drawn[:, 1:].copy()


def _program(size: Size, dropout: float, **options: Any) -> tuple[Any, dict[Any, NDArray[np.int64]]]:
    """Return a program that trains a model, and its data."""
    import wyrm as wy

    class Batch(wy.Dim): ...

    wy.nn.seed(0)
    config = wy.nn.GPT2Config(
        vocab_size=size.vocabulary, n_positions=size.context, n_embd=size.width, n_layer=size.layers, n_head=size.heads,
        resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout,
    )  # fmt: skip
    model, batch = wy.nn.GPT2(config), Batch()
    inputs = [wy.IndexInput(dims=(batch, size.context), name=name) for name in ("tokens", "targets")]
    loss = model.loss(*inputs)
    optimizer = wy.optim.AdamW(loss.parameters(), RATE, betas=BETAS, epsilon=EPSILON)
    program = wy.compile(loss, optimizer, **options)
    return program, dict(zip(inputs, tokens(size), strict=True))


def wyrm_step(size: Size, dropout: float, threads: int = THREADS) -> Callable[[], object]:
    """Data-parallel threads for a small model, multi-threaded BLAS for a large one."""
    program, columns = _program(size, dropout)
    large = size.width > 256

    def step() -> object:
        if large:
            return program(columns)
        return program.epoch(columns, batch_size=size.batch, threads=threads, mode="synchronized")

    return step


def profile_of_step(size: Size) -> Any:
    """Profile a step as `wyrm_step` runs it."""
    program, columns = _program(size, 0.0)
    if size.width > 256:
        return program.profile(columns, method="call")
    return program.profile(columns, batch_size=size.batch, threads=THREADS, mode="synchronized")


def engine_step(size: Size, dropout: float) -> Callable[[], object]:
    """The engine `jax`: one call of XLA."""
    program, columns = _program(size, dropout, engine="jax")
    return lambda: float(program(columns))


def engine_compilation(layers: int) -> Callable[[], object]:
    """Trace and compile a step of the engine `jax` for a model of this depth, and run it on a small batch."""
    size = replace(SIZES["default"], layers=layers, batch=2)

    def work() -> object:
        program, columns = _program(size, 0.2, engine="jax")
        return float(program(columns))

    return work


def _torch_model(torch: Any, size: Size, dropout: float) -> Any:
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]  # the module is Any
        def __init__(self) -> None:
            super().__init__()
            width = size.width
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.packed, self.mixed = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.drop = nn.Dropout(dropout)

        def forward(self, x: Any) -> Any:
            batch, time, width = x.shape
            packed = self.packed(self.first(x)).view(batch, time, 3, size.heads, -1)
            q, k, v = packed.permute(2, 0, 3, 1, 4).unbind(0)
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
            x = x + self.drop(self.mixed(attended.transpose(1, 2).reshape(batch, time, width)))
            hidden = nn.functional.gelu(self.inner(self.second(x)), approximate="tanh")
            return x + self.drop(self.outer(hidden))

    class Model(nn.Module):  # type: ignore[misc, name-defined]  # as above
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.positions = (nn.Embedding(count, size.width) for count in (size.vocabulary, size.context))
            self.drop = nn.Dropout(dropout)
            self.blocks = nn.ModuleList([Block() for _ in range(size.layers)])
            self.norm = nn.LayerNorm(size.width)
            for parameter in self.parameters():
                if parameter.ndim > 1:
                    nn.init.normal_(parameter, std=0.02)

        def forward(self, read: Any, following: Any) -> Any:
            x = self.drop(self.tokens(read) + self.positions.weight[: read.shape[1]])
            for block in self.blocks:
                x = block(x)
            logits = self.norm(x) @ self.tokens.weight.T
            return nn.functional.cross_entropy(logits.flatten(0, 1), following.flatten())

    return Model()


def torch_step(size: Size, dropout: float, compiled: bool = False) -> Callable[[], object]:
    """Fused AdamW; with `compiled`, the model and its gradients are one graph each."""
    import torch

    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    model = _torch_model(torch, size, dropout)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, betas=BETAS, eps=EPSILON, fused=True)
    read, following = map(torch.from_numpy, tokens(size))
    run = torch.compile(model) if compiled else model

    def step() -> object:
        optimizer.zero_grad(set_to_none=True)
        loss = run(read, following)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def jax_step(size: Size, dropout: float) -> Callable[[], object]:
    """One jitted function with donated state."""
    import jax
    import jax.numpy as jnp

    keys = iter(jax.random.split(jax.random.key(0), 4 + 4 * size.layers))
    width = size.width

    def normal(*shape: int) -> Any:
        return 0.02 * jax.random.normal(next(keys), shape)

    def norm_parameters() -> Any:
        return jnp.ones(width), jnp.zeros(width)

    blocks = [
        {
            "first": norm_parameters(), "second": norm_parameters(),
            "packed": (normal(width, 3 * width), jnp.zeros(3 * width)),
            "mixed": (normal(width, width), jnp.zeros(width)),
            "inner": (normal(width, 4 * width), jnp.zeros(4 * width)),
            "outer": (normal(4 * width, width), jnp.zeros(width)),
        }
        for _ in range(size.layers)
    ]  # fmt: skip
    tables = normal(size.vocabulary, width), normal(size.context, width)
    parameters = {"tables": tables, "blocks": blocks, "norm": norm_parameters()}

    def norm(x: Any, weights: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weights[0] + weights[1]

    def drop(x: Any, key: Any) -> Any:
        if not dropout:
            return x
        return jnp.where(jax.random.bernoulli(key, 1.0 - dropout, x.shape), x / (1.0 - dropout), 0.0)

    def linear(x: Any, weights: Any) -> Any:
        return x @ weights[0] + weights[1]

    causal = jnp.tril(jnp.ones((size.context, size.context), bool))

    def loss(parameters: Any, read: Any, following: Any, key: Any) -> Any:
        batch, time = read.shape
        dropped = iter(jax.random.split(key, 1 + 3 * size.layers))
        x = drop(parameters["tables"][0][read] + parameters["tables"][1][:time], next(dropped))
        for block in parameters["blocks"]:
            packed = linear(norm(x, block["first"]), block["packed"]).reshape(batch, time, 3, size.heads, -1)
            q, k, v = jnp.moveaxis(packed, (2, 3), (0, 2))
            scores = jnp.where(causal, q @ jnp.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5, -jnp.inf)
            shares = drop(jax.nn.softmax(scores), next(dropped))
            attended = jnp.swapaxes(shares @ v, 1, 2).reshape(batch, time, width)
            x = x + drop(linear(attended, block["mixed"]), next(dropped))
            hidden = jax.nn.gelu(linear(norm(x, block["second"]), block["inner"]))
            x = x + drop(linear(hidden, block["outer"]), next(dropped))
        logits = norm(x, parameters["norm"]) @ parameters["tables"][0].T
        chosen = jnp.take_along_axis(logits, following[..., None], -1)[..., 0]
        return (jax.nn.logsumexp(logits, -1) - chosen).mean()

    return jax_training_step(size, parameters, loss)


def jax_training_step(size: Size, parameters: Any, loss: Callable[..., Any]) -> Callable[[], object]:
    """Return a step of AdamW as a jitted function with donated state, for `loss(parameters, tokens, targets, key)`."""
    import jax
    import jax.numpy as jnp

    def step(state: Any, key: Any, read: Any, following: Any) -> Any:
        parameters, first, second, count = state
        value, slopes = jax.value_and_grad(loss)(parameters, read, following, key)
        count = count + 1
        first = jax.tree.map(lambda m, g: BETAS[0] * m + (1 - BETAS[0]) * g, first, slopes)
        second = jax.tree.map(lambda v, g: BETAS[1] * v + (1 - BETAS[1]) * g * g, second, slopes)
        scale = RATE / (1 - BETAS[0] ** count)
        parameters = jax.tree.map(
            lambda p, m, v: p * (1 - RATE * 0.01) - scale * m / (jnp.sqrt(v / (1 - BETAS[1] ** count)) + EPSILON),
            parameters, first, second,
        )  # fmt: skip
        return (parameters, first, second, count), value

    jitted = jax.jit(step, donate_argnums=0)
    state = (parameters, *(jax.tree.map(jnp.zeros_like, parameters) for _ in range(2)), jnp.zeros(()))
    key = jax.random.key(1)
    read, following = (jnp.asarray(array, jnp.int32) for array in tokens(size))

    def once() -> object:
        nonlocal state, key
        key, now = jax.random.split(key)
        state, value = jitted(state, now, read, following)
        return float(value)

    return once


GENERATED = 128  # tokens


def wyrm_generation(size: Size) -> Callable[[], object]:
    """Generate token by token, each sampled from the softmax."""
    import wyrm as wy
    from wyrm.nn import CachedDecoder, sample_tokens

    wy.nn.seed(0)
    config = wy.nn.GPT2Config(
        vocab_size=size.vocabulary, n_positions=size.context, n_embd=size.width, n_layer=size.layers, n_head=size.heads
    )
    decoder, random = CachedDecoder(wy.nn.GPT2(config)), np.random.default_rng(0)

    def tell() -> object:
        decoder.reset()
        token = np.zeros(1, np.int64)
        for _ in range(GENERATED):
            token = sample_tokens(decoder.step(token), random)
        return token

    return tell


def torch_generation(size: Size) -> Callable[[], object]:
    """Generate with the same model, and a preallocated KV cache."""
    import torch

    torch.set_num_threads(1)  # one token does not profit from more
    torch.manual_seed(0)
    model = _torch_model(torch, size, 0.0).eval()
    features = size.width // size.heads
    caches = [torch.zeros(2, 1, size.heads, size.context, features) for _ in range(size.layers)]
    attend = torch.nn.functional.scaled_dot_product_attention

    def tell() -> object:
        token = torch.zeros(1, dtype=torch.int64)
        with torch.inference_mode():
            for place in range(GENERATED):
                x = model.tokens(token) + model.positions.weight[place]
                for block, cache in zip(model.blocks, caches, strict=True):
                    packed = block.packed(block.first(x)).view(1, 3, size.heads, 1, features)
                    cache[:, :, :, place] = packed[0, 1:, :, 0][:, None]
                    found = attend(packed[:, 0], cache[0, :, :, : place + 1], cache[1, :, :, : place + 1])
                    x = x + block.mixed(found.reshape(1, size.width))
                    inner = torch.nn.functional.gelu(block.inner(block.second(x)), approximate="tanh")
                    x = x + block.outer(inner)
                shares = torch.softmax(model.norm(x) @ model.tokens.weight.T, -1)
                token = torch.multinomial(shares, 1)[:, 0]
        return token

    return tell


def _worker(call: str) -> Any:
    return in_worker(f"from bench.gpt2 import *; from bench.workers import serve; serve(lambda: {call})")


def _jax_cases() -> list[Case]:
    """Return cases of the engine `jax`: a step, and compilation."""
    arguments = "SIZES['default'], 0.2"
    by_hand = f"from bench.gpt2_jax import jax_fused_step; step = jax_fused_step({arguments})"
    steps = {
        "wyrm": _worker(f"engine_step({arguments})"),
        "jax, same fusions": in_worker(
            f"from bench.gpt2 import *; from bench.workers import serve; {by_hand}; serve(lambda: step)"
        ),
        "jax": _worker(f"jax_step({arguments})"),
    }
    compilations = {
        "wyrm": _worker("engine_compilation(24)"),
        "wyrm, 6 layers": _worker("engine_compilation(6)"),
    }
    return [
        Case(
            "gpt2", "engine jax: step, default, dropout 0.2", steps, rounds=5, floors={"jax, same fusions": 1.0},
            quick=False,
        ),
        Case(
            "gpt2", "engine jax: compile 24 layers", compilations, rounds=2, floors={"wyrm, 6 layers": 0.83},
            quick=False,
        ),
    ]  # fmt: skip


def cases() -> list[Case]:
    """Steps of the small model without and with dropout, of the 124M model, compilation by JAX, and generation."""
    found = []
    for name, dropout, memory, floors in (
        ("default", 0.0, "peak at most 0.4 of torch's", {"torch eager": 2.2, "torch.compile": 2.0}),
        ("default", 0.2, "", {"torch eager": 8.0, "torch.compile": 7.0, "jax": 11.0}),
        ("124M", 0.0, "peak at most 0.9 of torch's", {"torch eager": 1.3}),
    ):
        arguments = f"SIZES[{name!r}], {dropout}"
        contenders = {
            "wyrm": _worker(f"wyrm_step({arguments})"),
            "torch eager": _worker(f"torch_step({arguments})"),
        }
        slow: tuple[str, ...] = ()
        if name == "default":
            contenders["torch.compile"] = _worker(f"torch_step({arguments}, True)")
            contenders["jax"] = _worker(f"jax_step({arguments})")
            slow = ("torch.compile", "jax")
        steps = Case("gpt2", f"step, {name}, dropout {dropout}", contenders, memory, rounds=5, floors=floors, slow=slow)
        found.append(steps)
        if not dropout:
            contenders = {who: beside_a_busy_core(contenders[who]) for who in ("wyrm", "torch eager")}
            found.append(Case("gpt2", f"step, {name}, a core kept busy", contenders, rounds=5, quick=False))
    found += _jax_cases()
    contenders = {
        "wyrm": _worker("wyrm_generation(SIZES['default'])"),
        "torch eager": _worker("torch_generation(SIZES['default'])"),
    }
    found.append(Case("gpt2", f"{GENERATED} tokens, default, batch 1", contenders, floors={"torch eager": 7.0}))
    return found
