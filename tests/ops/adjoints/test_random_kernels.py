"""Derivatives of random kernels equal complex steps; `python -m tests.ops.adjoints.random_kernels` checks thousands."""

from __future__ import annotations

import pytest

from tests.ops.adjoints.random_kernels import Generator, Tree, check, failure, made, shrunk, text_of

# Seeds of kernels that once had a wrong derivative or none, and what was wrong.
FOUND = {
    0: "the size of a tape that depends on how often a loop turned",
    11: "a variable that branches within branches join",
    14: "a view that is bound again",
    17: "a branch in both branches of a branch",
}


@pytest.mark.parametrize("seed", [*FOUND, *range(100, 112)])
def test_derivatives_of_both_orders_equal_complex_steps(seed: int) -> None:
    body = Generator(seed).kernel()
    assert check(body, seed) in ("both orders", "first order"), text_of(body)


@pytest.mark.parametrize("seed", [202, 203, 207])
def test_compiled_derivatives_equal_complex_steps(seed: int) -> None:
    body = Generator(seed).kernel()
    assert check(body, seed, machine=True) in ("both orders", "first order"), text_of(body)


def test_a_failing_kernel_is_shrunk() -> None:
    body: list[Tree] = [
        "w = np.zeros(n)",
        "a = s * r",
        ("for i in range(n):", ["x[i] = a", "b = unknown(a)"]),
        "return a",
    ]
    found = failure(body, 0, False)
    assert found is None  # the kernel itself fails, which says nothing of its derivative
    body[2] = ("for i in range(n):", ["x[i] = a", "b = math.lgamma(1.0 + s * s)", "r = b"])
    found = failure(body, 0, False)
    assert found is None or "lgamma" in found
    assert made(body).__name__ == "f"
    if found is not None:
        assert len(text_of(shrunk(body, 0, False)).splitlines()) < 5
