"""Every loss against PyTorch in float64: values and gradients, for each reduction and option."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import wyrm as wy
from tests.losses.untried import untried
from tests.pytorch import functional, torch
from wyrm import losses
from wyrm.testing import check_grads

RANDOM = np.random.default_rng(0)


class Case(NamedTuple):
    """A loss on operands, float arrays with gradients and then constants, and PyTorch's equivalent."""

    loss: Any
    differentiable: tuple[Any, ...]
    constant: tuple[Any, ...]
    options: dict[str, Any]
    expected: Callable[..., Any] | None  # elementwise, over tensors; None where PyTorch can say nothing
    torch_mean: Callable[..., Any] | None = None  # PyTorch's own mean, if it has the loss


def normal(*shape: int) -> Any:
    return RANDOM.normal(size=shape)


def between(*shape: int) -> Any:
    return RANDOM.uniform(0.02, 0.98, shape)


def signs(*shape: int) -> Any:
    return RANDOM.choice([-1.0, 1.0], shape)


def bits(*shape: int) -> Any:
    return RANDOM.choice([0.0, 1.0], shape)


def distributions(*shape: int) -> Any:
    raw = RANDOM.uniform(0.1, 1.0, shape)
    return raw / raw.sum(-1, keepdims=True)


def _kl(x: Any, t: Any, log_target: bool = False) -> Any:
    return functional.kl_div(x, t, reduction="none", log_target=log_target).sum(-1)


def _focal(x: Any, t: Any, gamma: float = 2.0, alpha: float | None = 0.25) -> Any:
    """The formula of torchvision.ops.sigmoid_focal_loss."""
    p = torch.sigmoid(x)
    right = p * t + (1 - p) * (1 - t)
    each = functional.binary_cross_entropy_with_logits(x, t, reduction="none") * (1 - right) ** gamma
    return each if alpha is None else each * (alpha * t + (1 - alpha) * (1 - t))


def _rows_last(x: Any) -> Any:
    """Move classes to the second axis, where PyTorch expects them."""
    return torch.movedim(x, -1, 1) if x.ndim > 1 else x


def _cross_entropy(x: Any, labels: Any, **options: Any) -> Any:
    return functional.cross_entropy(_rows_last(x), labels, reduction="none", **options)


def _multiclass_focal(x: Any, labels: Any, gamma: float = 2.0) -> Any:
    right = torch.log_softmax(x, -1).gather(-1, labels[..., None])[..., 0]
    return -((1 - right.exp()) ** gamma) * right


def _student_t(location: Any, target: Any, scale: Any, degrees_of_freedom: float, full: bool) -> Any:
    assert full
    return -torch.distributions.StudentT(degrees_of_freedom, location, scale).log_prob(target)


PAIRS = [(5,), (4, 3), (2, 3, 4), ()]
LABELS = np.array([2, 0, 1, 1, 2, 0])

CASES: dict[str, Case] = {}
for shape in PAIRS:
    name = "x".join(map(str, shape)) or "scalar"
    CASES |= {
        f"mse-{name}": Case(losses.mse, (normal(*shape), normal(*shape)), (), {},
            lambda x, y: functional.mse_loss(x, y, reduction="none"), functional.mse_loss),
        f"l1-{name}": Case(losses.l1, (normal(*shape), normal(*shape)), (), {},
            lambda x, y: functional.l1_loss(x, y, reduction="none"), functional.l1_loss),
        f"bce-{name}": Case(losses.bce, (between(*shape), between(*shape)), (), {},
            lambda x, y: functional.binary_cross_entropy(x, y, reduction="none"), functional.binary_cross_entropy),
        f"bce_with_logits-{name}": Case(losses.bce_with_logits, (3.0 * normal(*shape), between(*shape)), (), {},
            lambda x, y: functional.binary_cross_entropy_with_logits(x, y, reduction="none"),
            functional.binary_cross_entropy_with_logits),
        f"hinge-{name}": Case(losses.hinge, (normal(*shape),), (signs(*shape),), {},
            lambda x, t: torch.relu(1 - t * x)),
        f"squared_hinge-{name}": Case(losses.squared_hinge, (normal(*shape),), (signs(*shape),), {},
            lambda x, t: torch.relu(1 - t * x) ** 2),
        f"bpr-{name}": Case(losses.bpr, (normal(*shape), normal(*shape)), (), {},
            lambda x, y: -functional.logsigmoid(x - y)),
    }  # fmt: skip
for delta in (0.3, 1.0, 2.5, float("inf")):
    CASES[f"huber-{delta}"] = Case(losses.huber, (normal(6, 4), normal(6, 4)), (), {"delta": delta},
        lambda x, y, delta: functional.huber_loss(x, y, reduction="none", delta=min(delta, 1e9)),
        lambda x, y, delta: functional.huber_loss(x, y, delta=min(delta, 1e9)))  # fmt: skip
for smoothing in (0.0, 0.1, 1.0):
    for labels, leading in ((LABELS, (6,)), (LABELS.reshape(2, 3), (2, 3)), (np.array(1), ())):
        CASES[f"cross_entropy-{smoothing}-{labels.ndim}"] = Case(
            losses.cross_entropy, (normal(*leading, 3),), (labels,), {"label_smoothing": smoothing}, _cross_entropy,
            lambda x, t, label_smoothing: functional.cross_entropy(_rows_last(x), t, label_smoothing=label_smoothing),
        )  # fmt: skip
for labels, leading in ((LABELS, (6,)), (LABELS.reshape(2, 3), (2, 3)), (np.array(1), ())):
    CASES[f"nll-{labels.ndim}"] = Case(losses.nll, (normal(*leading, 3),), (labels,), {},
        lambda x, t: functional.nll_loss(_rows_last(x), t, reduction="none"),
        lambda x, t: functional.nll_loss(_rows_last(x), t))  # fmt: skip
for shape in ((4, 3), (2, 4, 3), (3,)):
    x, t = np.log(distributions(*shape)), distributions(*shape)
    for log_target in (False, True):
        CASES[f"kl_divergence-{len(shape)}-{log_target}"] = Case(losses.kl_divergence,
            (x, np.log(t) if log_target else t), (), {"log_target": log_target}, _kl,
            (lambda x, t, log_target: functional.kl_div(x, t, reduction="batchmean", log_target=log_target))
            if len(shape) == 2 else None)  # fmt: skip
for gamma, alpha in ((2.0, 0.25), (0.0, None), (0.5, 0.9), (1.0, None), (5.0, 0.0)):
    CASES[f"focal-{gamma}-{alpha}"] = Case(losses.focal, (2.0 * normal(6, 4),), (bits(6, 4),),
        {"gamma": gamma, "alpha": alpha}, _focal)  # fmt: skip
for margin in (0.0, 0.7):
    CASES[f"margin_ranking-{margin}"] = Case(losses.margin_ranking, (normal(6, 4), normal(6, 4)), (signs(6, 4),),
        {"margin": margin}, lambda x, y, t, margin: functional.margin_ranking_loss(x, y, t, margin, reduction="none"),
        functional.margin_ranking_loss)  # fmt: skip
for margin in (0.3, 1.0):
    CASES[f"triplet-{margin}"] = Case(losses.triplet, (normal(6, 4), normal(6, 4), normal(6, 4)), (),
        {"margin": margin},
        lambda a, p, n, margin: functional.triplet_margin_loss(a, p, n, margin, reduction="none"),
        functional.triplet_margin_loss)  # fmt: skip
    CASES[f"cosine_embedding-{margin}"] = Case(losses.cosine_embedding, (normal(6, 4), normal(6, 4)), (signs(6),),
        {"margin": margin - 0.5},
        lambda x, y, t, margin: functional.cosine_embedding_loss(x, y, t, margin, reduction="none"),
        functional.cosine_embedding_loss)  # fmt: skip
for beta in (0.3, 1.0, 2.5):
    CASES[f"smooth_l1-{beta}"] = Case(losses.smooth_l1, (normal(6, 4), normal(6, 4)), (), {"beta": beta},
        lambda x, y, beta: functional.smooth_l1_loss(x, y, reduction="none", beta=beta),
        lambda x, y, beta: functional.smooth_l1_loss(x, y, beta=beta))  # fmt: skip
CASES["log_cosh"] = Case(losses.log_cosh, (3.0 * normal(6, 4), normal(6, 4)), (), {},
    lambda x, y: torch.log(torch.cosh(x - y)))  # fmt: skip
for level in (0.5, 0.1, 0.97):
    CASES[f"quantile-{level}"] = Case(losses.quantile, (normal(6, 4), normal(6, 4)), (), {"level": level},
        lambda x, y, level: torch.maximum(level * (y - x), (level - 1) * (y - x)))  # fmt: skip
for full in (False, True):
    CASES[f"poisson_nll-log-{full}"] = Case(losses.poisson_nll, (normal(6, 4),), (RANDOM.poisson(2.0, (6, 4)) * 1.0,),
        {"full": full}, lambda x, t, full: functional.poisson_nll_loss(x, t, full=full, reduction="none"),
        lambda x, t, full: functional.poisson_nll_loss(x, t, full=full))  # fmt: skip
    CASES[f"poisson_nll-{full}"] = Case(losses.poisson_nll, (between(6, 4),), (RANDOM.poisson(2.0, (6, 4)) * 1.0,),
        {"full": full, "log_input": False},
        lambda x, t, full, log_input: functional.poisson_nll_loss(x, t, log_input, full, reduction="none"))  # fmt: skip
    CASES[f"gaussian_nll-{full}"] = Case(losses.gaussian_nll, (normal(6, 4), normal(6, 4), between(6, 4)), (),
        {"full": full}, lambda x, t, v, full: functional.gaussian_nll_loss(x, t, v, full=full, reduction="none"),
        lambda x, t, v, full: functional.gaussian_nll_loss(x, t, v, full=full))  # fmt: skip
for degrees in (1.0, 4.5):
    CASES[f"student_t_nll-{degrees}"] = Case(losses.student_t_nll, (normal(6, 4), normal(6, 4), between(6, 4)), (),
        {"degrees_of_freedom": degrees, "full": True}, _student_t)  # fmt: skip
for gamma in (0.0, 0.5, 1.0, 2.0, 5.0):
    CASES[f"multiclass_focal-{gamma}"] = Case(losses.multiclass_focal, (2.0 * normal(2, 3, 3),),
        (LABELS.reshape(2, 3),), {"gamma": gamma}, _multiclass_focal)  # fmt: skip
CASES["triplet-vector"] = Case(losses.triplet, (normal(4), normal(4), normal(4)), (), {},
    lambda a, p, n: functional.triplet_margin_loss(a, p, n, reduction="none"))  # fmt: skip
CASES["cosine_embedding-cube"] = Case(losses.cosine_embedding, (normal(2, 3, 4), normal(2, 3, 4)), (signs(2, 3),), {},
    lambda x, y, t: functional.cosine_embedding_loss(x.reshape(6, 4), y.reshape(6, 4), t.reshape(6), reduction="none")
    .reshape(2, 3))  # fmt: skip
# Losses with files of their own.
OWN_FILES = {"ctc", "info_nce", "sampled_softmax", "warp", "implicit_squares"}
CASES |= {
    name: Case(getattr(losses, name), tuple(between(6, 4) for _ in range(count)), (), {}, None)
    for name, count in untried([*CASES, *OWN_FILES]).items()
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def leaves(case: Case) -> list[Any]:
    return [wy.Parameter(np.asarray(array)) for array in case.differentiable]


def constants(case: Case) -> list[Any]:
    return [
        wy.IndexInput(array) if array.dtype.kind == "i" else wy.Input(array) for array in map(np.asarray, case.constant)
    ]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_values_and_gradients_are_pytorchs(case: Case, reduction: str) -> None:
    if case.expected is None:
        pytest.skip("no case has PyTorch's values of this loss")
    parameters = leaves(case)
    result = case.loss(*parameters, *constants(case), **case.options, reduction=reduction)
    tensors = [torch.tensor(array, requires_grad=True) for array in case.differentiable]
    expected = case.expected(*tensors, *map(torch.tensor, case.constant), **case.options)
    weights = RANDOM.uniform(0.5, 1.5, expected.shape if reduction == "none" else ())
    if reduction != "none":
        expected = expected.mean() if reduction == "mean" else expected.sum()
    assert result.shape == tuple(expected.shape)
    np.testing.assert_allclose(result.forward(), expected.detach().numpy(), rtol=1e-9, atol=1e-15)

    (result * weights).sum().backward()
    (expected * torch.tensor(weights)).sum().backward()
    for parameter, tensor in zip(parameters, tensors, strict=True):
        np.testing.assert_allclose(parameter.gradient, tensor.grad.numpy(), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.torch_mean is not None])
def test_the_default_is_pytorchs_mean(name: str) -> None:
    case = CASES[name]
    assert case.torch_mean is not None
    value = case.loss(*leaves(case), *constants(case), **case.options).forward()
    tensors = map(torch.tensor, (*case.differentiable, *case.constant))
    np.testing.assert_allclose(value, case.torch_mean(*tensors, **case.options).numpy(), rtol=1e-9)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_gradients_are_right_to_second_order(case: Case, reduction: str) -> None:
    check_grads(case.loss(*leaves(case), *constants(case), **case.options, reduction=reduction))


def test_arrays_and_constants_give_the_same_as_inputs(case: Case) -> None:
    parameters = leaves(case)
    by_input = case.loss(*parameters, *constants(case), **case.options)
    by_array = case.loss(*parameters, *map(np.asarray, case.constant), **case.options)
    np.testing.assert_array_equal(by_array.forward(), by_input.forward())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept_whatever_the_arrays_hold(case: Case, dtype: Any) -> None:
    parameters = [wy.Parameter(np.asarray(array).astype(dtype)) for array in case.differentiable]
    narrow = [array.astype(np.int8) if np.asarray(array).dtype.kind == "f" else array for array in case.constant]
    result = case.loss(*parameters, *narrow, **case.options)
    assert result.dtype == dtype and result.forward().dtype == dtype
    wide = case.loss(*leaves(case), *constants(case), **case.options)
    np.testing.assert_allclose(result.forward(), wide.forward(), rtol=1e-5, atol=1e-6)


def test_the_graph_takes_batches_of_any_size() -> None:
    class Batch(wy.Dim): ...

    batch = Batch()
    x, y = wy.Input(dims=(batch, 3)), wy.Input(dims=(batch, 3))
    loss = losses.mse(x, y)
    for size in (4, 2):
        values = normal(size, 3), normal(size, 3)
        x.set(values[0])
        y.set(values[1])
        np.testing.assert_allclose(loss.forward(), np.mean((values[0] - values[1]) ** 2), rtol=1e-5)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("ignore_index", [2, -100])
def test_ignored_labels_are_pytorchs(reduction: Any, smoothing: float, ignore_index: int) -> None:
    labels = np.where(LABELS == 2, ignore_index, LABELS).reshape(2, 3)
    options: dict[str, Any] = {"label_smoothing": smoothing, "ignore_index": ignore_index, "reduction": reduction}
    x = wy.Parameter(normal(2, 3, 3))
    result: Any = losses.cross_entropy(x, wy.IndexInput(labels), **options)
    tensor = torch.tensor(x.value, requires_grad=True)
    expected = functional.cross_entropy(_rows_last(tensor), torch.tensor(labels), **options)
    np.testing.assert_allclose(result.forward(), expected.detach().numpy(), rtol=1e-9, atol=1e-15)
    weights = RANDOM.uniform(0.5, 1.5, expected.shape)
    (result * weights).sum().backward()
    (expected * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(x.gradient, tensor.grad.numpy(), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(wy.compile(result)(), result.forward(), rtol=1e-9)
