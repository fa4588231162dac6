"""FizzBuzz: an epoch of a small dense network in batches of 32, vs PyTorch and JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.harness import Case, Contender, Measurement, timed
from bench.models import (
    BITS,
    FIZZBUZZ_BATCH,
    FIZZBUZZ_DECAY,
    FIZZBUZZ_RATE,
    WORDS,
    FizzBuzz,
    fizzbuzz,
)

HIDDEN = 128
BETAS, EPSILON = (0.9, 0.999), 1e-8  # AdamW


def _wyrm() -> Callable[[], Measurement]:
    bits, words = fizzbuzz()
    model = FizzBuzz(HIDDEN)
    return timed(lambda: model.epoch(bits, words))


def _torch_parameters(torch: Any) -> list[Any]:
    """Return weights (out, in) and biases of the two layers, initialized like wyrm's."""
    torch.manual_seed(0)
    shapes = (HIDDEN, BITS), (WORDS, HIDDEN)
    return [
        parameter
        for shape in shapes
        for parameter in (torch.nn.init.xavier_uniform_(torch.empty(shape)), torch.zeros(shape[0]))
    ]


def _torch_epoch(torch: Any, step: Callable[[Any, Any], Any], rows: int | None = None) -> Callable[[], float]:
    bits, words = (torch.from_numpy(column[:rows]) for column in fizzbuzz())

    def epoch() -> float:
        order = torch.randperm(len(bits))
        total = torch.zeros(())
        for x, y in zip(bits[order].split(FIZZBUZZ_BATCH), words[order].split(FIZZBUZZ_BATCH), strict=True):
            total += step(x, y) * len(y)
        return float(total) / len(bits)

    return epoch


def _torch_loss(torch: Any) -> Callable[[list[Any], Any, Any], Any]:
    linear, cross_entropy = torch.nn.functional.linear, torch.nn.functional.cross_entropy

    def loss(parameters: list[Any], bits: Any, words: Any) -> Any:
        hidden = linear(bits, *parameters[:2]).relu()
        return cross_entropy(linear(hidden, *parameters[2:]), words)

    return loss


def _torch() -> Callable[[], Measurement]:
    import torch

    torch.set_num_threads(1)  # arrays this small do not profit from more
    parameters = [parameter.requires_grad_() for parameter in _torch_parameters(torch)]
    optimizer = torch.optim.AdamW(parameters, FIZZBUZZ_RATE, BETAS, EPSILON, FIZZBUZZ_DECAY, fused=True)
    batch_loss = _torch_loss(torch)

    def step(bits: Any, words: Any) -> Any:
        loss = batch_loss(parameters, bits, words)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return timed(_torch_epoch(torch, step))


def torch_compile_epoch(rows: int | None = None) -> Callable[[], float]:
    """Return an epoch of compiled steps over the first rows, by default all.

    A hand-written AdamW compiles in a third of the time of PyTorch's.
    """
    import torch

    torch.set_num_threads(1)
    parameters = _torch_parameters(torch)
    means, squares = ([torch.zeros_like(parameter) for parameter in parameters] for _ in range(2))
    count = torch.zeros(())
    gradient = torch.func.grad_and_value(_torch_loss(torch))

    def step(bits: Any, words: Any) -> Any:
        changes, loss = gradient(parameters, bits, words)
        count.add_(1.0)
        rate, root = FIZZBUZZ_RATE / (1.0 - BETAS[0] ** count), (1.0 - BETAS[1] ** count).sqrt()
        for parameter, mean, square, change in zip(parameters, means, squares, changes, strict=True):
            mean.lerp_(change, 1.0 - BETAS[0])
            square.mul_(BETAS[1]).addcmul_(change, change, value=1.0 - BETAS[1])
            parameter.mul_(1.0 - FIZZBUZZ_RATE * FIZZBUZZ_DECAY)
            parameter.sub_(rate * mean / (square.sqrt() / root + EPSILON))
        return loss

    return _torch_epoch(torch, torch.compile(step, fullgraph=True, dynamic=False), rows)


def _jax_training() -> tuple[Any, Any, Callable[..., Any]]:
    """Return the key for orders, the first state, and a step from a state with the sum of losses."""
    import jax
    import jax.numpy as jnp

    def batch_loss(parameters: Any, bits: Any, words: Any) -> Any:
        hidden = jax.nn.relu(bits @ parameters[0] + parameters[1])
        logarithms = jax.nn.log_softmax(hidden @ parameters[2] + parameters[3])
        return -(logarithms * jax.nn.one_hot(words, WORDS)).sum(1).mean()

    def step(state: Any, batch: Any) -> tuple[Any, None]:
        parameters, means, squares, count, total = state
        loss, changes = jax.value_and_grad(batch_loss)(parameters, *batch)
        count = count + 1.0
        rate, root = FIZZBUZZ_RATE / (1.0 - BETAS[0] ** count), jnp.sqrt(1.0 - BETAS[1] ** count)
        means = [BETAS[0] * m + (1.0 - BETAS[0]) * g for m, g in zip(means, changes, strict=True)]
        squares = [BETAS[1] * s + (1.0 - BETAS[1]) * g * g for s, g in zip(squares, changes, strict=True)]
        parameters = [
            (1.0 - FIZZBUZZ_RATE * FIZZBUZZ_DECAY) * p - rate * m / (jnp.sqrt(s) / root + EPSILON)
            for p, m, s in zip(parameters, means, squares, strict=True)
        ]
        return (parameters, means, squares, count, total + loss * len(batch[1])), None

    first, second, key = jax.random.split(jax.random.key(0), 3)
    draw = jax.nn.initializers.xavier_uniform()
    parameters = [draw(first, (BITS, HIDDEN)), jnp.zeros(HIDDEN), draw(second, (HIDDEN, WORDS)), jnp.zeros(WORDS)]
    state = [parameters, *([jnp.zeros_like(p) for p in parameters] for _ in range(2)), jnp.zeros(())]
    return key, state, step


def jax_step() -> Callable[[], float]:
    """Return one jitted step of the first batch."""
    import jax

    _, state, step = _jax_training()
    batch = [column[:FIZZBUZZ_BATCH] for column in fizzbuzz()]
    jitted = jax.jit(lambda state, batch: step((*state, 0.0), batch)[0], donate_argnums=0)
    return lambda: float(jitted(state, batch)[-1])


def jax_epoch() -> Callable[[], float]:
    """Return an epoch: one jitted scan over all full batches, then the smaller last one; buffers are donated."""
    import jax
    import jax.numpy as jnp

    bits, words = map(jnp.asarray, fizzbuzz())
    full = len(bits) // FIZZBUZZ_BATCH
    whole_batches = full * FIZZBUZZ_BATCH
    key, state, step = _jax_training()

    def whole(state: Any, key: Any, bits: Any, words: Any) -> tuple[Any, Any]:
        order = jax.random.permutation(key, len(bits))
        columns = bits[order], words[order]
        batches = [c[:whole_batches].reshape(full, FIZZBUZZ_BATCH, *c.shape[1:]) for c in columns]
        state, _ = jax.lax.scan(step, (*state, 0.0), batches)
        (*state, total), _ = step(state, [column[whole_batches:] for column in columns])
        return state, total / len(bits)

    jitted = jax.jit(whole, donate_argnums=0)

    def epoch() -> float:
        nonlocal state, key
        key, now = jax.random.split(key)
        state, loss = jitted(state, now, bits, words)
        return float(loss)

    return epoch


def cases() -> list[Case]:
    """One case: an epoch over the numbers from 101 to 1023."""
    contenders: dict[str, Contender] = {
        "wyrm": _wyrm, "torch eager": _torch, "torch.compile": lambda: timed(torch_compile_epoch()),
        "jax": lambda: timed(jax_epoch()),
    }  # fmt: skip
    return [
        Case(
            "fizzbuzz", f"epoch in batches of 32, {HIDDEN} hidden", contenders,
            floors={"torch eager": 10.0, "jax": 3.0},
        )
    ]  # fmt: skip
