"""Names of PyTorch, JAX and NumPy: each works, or its error says what to use instead."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.each import check_each, each
from wyrm.graph.registration import METHODS
from wyrm.support.foreign_names import answers as answers_of
from wyrm.support.foreign_names import sections

NAMES = {
    "node": """
        T abs absolute add add_ all amax amin any argmax argmin argsort astype backward bfloat16 bmm bool cummax eig
        broadcast_to cat ceil chunk clamp clamp_ clip clone contiguous copy copy_ cos cpu cuda cumprod cumsum
        data detach detach_ diagonal dim div div_ dot double dtype elu eq erf exp expand expand_as expm1 fill_
        flatten flip float floor gather ge gelu grad grad_fn gt half index_add_ index_select int is_contiguous
        isfinite isnan item le leaky_relu lerp log log10 log1p log2 log_softmax logical_and logical_not
        logsumexp long lt mT masked_fill masked_select matmul max maximum mean median min minimum mm moveaxis
        movedim mul mul_ mv narrow ndim ndimension ne neg new_zeros nonzero norm numel numpy outer permute pow
        prod ravel reciprocal register_hook relu relu_ repeat requires_grad requires_grad_ reshape reshape_as
        retain_grad roll round rsqrt scatter scatter_add scatter_add_ select shape sigmoid sign sin size softmax
        softplus sort split sqrt square squeeze std stride sub sub_ sum swapaxes t take tan tanh tile to tolist
        topk trace transpose tril triu trunc type type_as unbind unfold unique unsqueeze unsqueeze_ var view
        view_as where zero_ zero_grad at block_until_ready conj device imag real nbytes
    """,
    "module": """
        apply buffers children cpu cuda double eval fit float forward half load_state_dict modules named_buffers
        named_children named_modules named_parameters parameters evaluate get_weights predict register_buffer
        register_forward_hook
        register_parameter requires_grad_ state_dict summary to train training zero_grad init add_module compile
    """,
    "optimizer": """
        add_param_group load_state_dict lr minimize param_groups state state_dict step zero_grad init update
    """,
    "program": """
        epoch fit forward predict run state_dict train lower
    """,
    "wyrm": """
        Tensor abs add allclose arange argmax argmin array as_tensor asarray autograd bfloat16 broadcast_to cat
        checkpoint clamp clip compile concatenate cond cos cuda cumsum custom_jvp custom_vjp data detach device
        div dot dropout einsum exp expand_dims eye flatten flip float32 float64 fori_loop from_numpy full
        full_like gather gelu grad hessian inf int64 is_tensor isnan jacfwd jacobian jacrev jit jvp lax linalg
        linspace load log log1p log_softmax logsumexp manual_seed matmul max maximum mean median meshgrid min
        minimum mm mul nan nn no_grad norm numpy ones ones_like optim outer permute pi pmap pow prod rand
        randint randn random relu repeat reshape round save scan sigmoid sign sin softmax softplus sort split
        sqrt square squeeze stack std stop_gradient sub sum switch take tanh tensor topk transpose tree_map
        tree_util tril triu unique unsqueeze utils value_and_grad var vjp vmap where while_loop zeros zeros_like
        inference_mode set_grad_enabled PRNGKey vectorize make_jaxpr
    """,
    "wyrm.nn": """
        BCELoss BCEWithLogitsLoss Bidirectional BatchNormalization BatchNorm1d BatchNorm2d Buffer
        Conv1d Conv2d CrossEntropyLoss Dense Dropout
        ELU Embedding EmbeddingBag Flatten GELU GRU GroupNorm HuberLoss Identity KLDivLoss L1Loss LSTM LSTMCell
        LayerNorm LeakyReLU Linear LogSoftmax MSELoss MarginRankingLoss MaxPool2d Module ModuleDict ModuleList
        MultiheadAttention NLLLoss PReLU Parameter ParameterList RMSNorm RNN ReLU Sequential SiLU Sigmoid
        SmoothL1Loss Softmax Softplus Tanh Transformer TransformerEncoderLayer TripletMarginLoss functional gelu
        init initializers relu sigmoid silu softmax softplus tanh utils one_hot scaled_dot_product_attention
        DataParallel
    """,
    "wyrm.optim": """
        Adadelta Adagrad Adam AdamW Adamax CosineAnnealingLR ExponentialLR LBFGS LambdaLR NAdam OneCycleLR
        Optimizer RAdam RMSprop ReduceLROnPlateau SGD SparseAdam StepLR adam adamw apply_updates chain
        lr_scheduler sgd clip_grad_norm_
    """,
    "wyrm.losses": """
        BCELoss CrossEntropyLoss MSELoss binary_cross_entropy binary_cross_entropy_with_logits cross_entropy
        huber_loss kl_div l1_loss mse_loss nll_loss smooth_l1_loss softmax_cross_entropy triplet_margin_loss
    """,
    "wyrm.data": """
        ConcatDataset DataLoader Dataset TensorDataset random_split Subset
    """,
    "wyrm.linalg": """
        cholesky cond det eig eigh eigvals eigvalsh inv inverse lstsq lu matrix_norm matrix_power matrix_rank
        norm pinv qr slogdet solve solve_triangular svd svdvals
    """,
    "wyrm.random": """
        bernoulli categorical choice exponential fold_in gumbel integers key normal permutation rand randint
        randn shuffle split standard_normal truncated_normal uniform
    """,
    "wyrm.train": """
        CSVLogger EarlyStopping LearningRateScheduler ModelCheckpoint ReduceLROnPlateau TensorBoard fit
    """,
    "wyrm.metrics": """
        AUC accuracy accuracy_score confusion_matrix f1_score mean_squared_error r2_score roc_auc_score
    """,
    "numpy": """
        abs add all allclose amax amin any append arccos arcsin arctan arctan2 argmax argmin argsort around
        array_split atleast_2d average bincount broadcast_to ceil clip column_stack concatenate convolve copy
        cos cosh count_nonzero cross cumprod cumsum diag diagonal diff divide dot dstack ediff1d equal exp exp2
        expand_dims expm1 fabs flip floor floor_divide fmax fmin full_like gradient greater heaviside hstack
        hypot inner isclose isfinite isnan kron less log log10 log1p log2 logaddexp matmul max maximum mean
        median min minimum mod moveaxis multiply nan_to_num nanmean nansum negative nonzero ones_like outer pad
        percentile power prod ptp quantile ravel reciprocal remainder repeat reshape roll rot90 round
        searchsorted shape sign sin sinh size sort split sqrt square squeeze stack std subtract sum swapaxes
        take tan tanh tensordot tile trace transpose tril triu trunc unique var vdot vstack where zeros_like
        linalg.cholesky linalg.det linalg.eigh linalg.inv linalg.norm linalg.solve linalg.svd linalg.qr
        linalg.pinv linalg.eig linalg.matrix_rank fft.fft nanmedian nanargmax nancumsum isin around
    """,
}
PACKAGES = [name for name in NAMES if name.startswith("wyrm")]
# Untyped: the type checker refuses the same names.
W: Any = wy
X: Any = wy.Parameter(np.full((2, 2), 0.5))
LABELS = np.array([0, 1])
KEYWORDS: list[Callable[[], Any]] = [
    lambda: X.sum(dim=1),
    lambda: X.mean(axis=1, keepdim=True),
    lambda: X.max(dim=1),
    lambda: X.prod(dim=0),
    lambda: X.var(unbiased=False),
    lambda: X.std(correction=0),
    lambda: X.argmax(dim=1),
    lambda: X.softmax(dim=1),
    lambda: X.log_softmax(dim=1),
    lambda: X.squeeze(dim=0),
    lambda: X.expand_dims(dim=0),
    lambda: X.flatten(start_dim=1),
    lambda: X.split(1, dim=0),
    lambda: X.take(LABELS, dim=0),
    lambda: X.clip(a_min=0.0),
    lambda: X.dropout(p=0.5),
    lambda: X.cross_entropy(LABELS, label_smoothing=0.1),
    lambda: X.sum(dtype=np.float32),
    lambda: X.sum().backward(retain_graph=True),
    lambda: W.sum(X, dim=1),
    lambda: W.softmax(X, dim=1),
    lambda: W.concatenate([X, X], dim=0),
    lambda: W.stack([X, X], dim=0),
    lambda: W.vmap(abs, in_dims=0),
    lambda: W.hessian(abs, argnums=0),
    lambda: W.Parameter(1.0, requires_grad=True),
    lambda: W.Constant(1.0, device="cpu"),
    lambda: W.Input(dims=(), requires_grad=False),
    lambda: W.nn.Linear(in_channels=2, out_channels=3),
    lambda: W.nn.Dropout(p=0.5),
    lambda: W.nn.LayerNorm(2, eps=1e-5),
    lambda: W.nn.LayerNorm(normalized_shape=2),
    lambda: W.nn.BatchNorm(num_features=2),
    lambda: W.nn.LSTM(2, 3, batch_first=True),
    lambda: W.nn.MultiHeadAttention(d_model=2, nhead=1),
    lambda: W.optim.SGD([X], lr=0.1),
    lambda: W.optim.Adam([X], lr=0.1),
    lambda: W.optim.Adam([X], eps=1e-8),
    lambda: W.optim.AdamW([X], foreach=True),
    lambda: W.optim.RMSprop([X], rho=0.9),
    lambda: W.losses.cross_entropy(X, LABELS, class_weight=None),
    lambda: W.nn.LSTM(2, 3, num_layers=2),
    lambda: W.nn.GRU(2, 3, bidirectional=True),
    lambda: W.optim.Adam([X], clipnorm=1.0),
    lambda: W.losses.mse(X, X, size_average=True),
    lambda: W.data.DataLoader(W.data.Dataset(x=LABELS), 1, num_workers=2),
    lambda: np.nansum(X, dtype=np.float64),
    lambda: np.nansum(X, where=X > 0.0),
]  # fmt: skip


@pytest.mark.parametrize("axes", [(), (0,)])
def test_the_number_of_elements_answers_for_a_function(axes: tuple[int, ...]) -> None:
    assert X.size == 4 and repr(X.size) == "4" and type(X.size * 2) is int
    with pytest.raises(TypeError, match=r"x\.size is the number of elements, as in NumPy: use x\.shape"):
        X.size(*axes)


def test_integers_have_an_answer_of_their_own() -> None:
    indices: Any = wy.IndexConstant([1])
    with pytest.raises(AttributeError, match="IndexNode has no attribute 'float': index nodes have operators"):
        _ = indices.float


def test_there_are_enough() -> None:
    assert sum(len(names.split()) for names in NAMES.values()) + len(KEYWORDS) >= 374


def brought(place: str) -> Callable[[Callable[[str], None]], Callable[[list[str]], None]]:
    """Run a test for every foreign name of an object."""
    return each(NAMES[place].split(), size=256)


def answers(owner: Any, name: str, error: pytest.ExceptionInfo[AttributeError]) -> bool:
    """Return whether an error names a replacement, or says that there is none."""
    text = str(error.value)
    return not hasattr(owner, name) and re.search(rf"has no attribute '{name}': \w.{{4,}}", text) is not None


def check(owner: Any, name: str) -> None:
    if not hasattr(owner, name):
        with pytest.raises(AttributeError) as error:
            getattr(owner, name)
        assert answers(owner, name, error), error.value


@brought("node")
def test_attributes_of_nodes(name: str) -> None:
    check(X, name)


@each(filter(answers_of("nodes").__contains__, NAMES["node"].split()), size=256)
def test_attributes_of_index_nodes(name: str) -> None:
    check(wy.IndexConstant([1]), name)


@brought("module")
def test_attributes_of_modules(name: str) -> None:
    check(wy.nn.Linear(2, 3), name)


@brought("optimizer")
def test_attributes_of_optimizers(name: str) -> None:
    check(wy.optim.Adam([X]), name)


@brought("program")
def test_attributes_of_programs(name: str) -> None:
    check(wy.compile(X.sum()), name)


@pytest.mark.parametrize("package", PACKAGES)
def test_names_of_packages(package: str) -> None:
    owner = sys.modules.get(package) or getattr(wy, package.partition(".")[2])
    check_each(NAMES[package].split(), lambda name: check(owner, name))


@brought("numpy")
def test_functions_of_numpy(name: str) -> None:
    function: Any = np
    for part in name.split("."):
        function = getattr(function, part)
    # One node, two nodes, a list of nodes, a node and an axis, a node and its axes, a mask and two nodes, vectors.
    vector, indices = X.ravel()[:3], wy.IndexConstant(LABELS)
    matrices: list[Any] = [(X,), (X, X), ([X, X],), (X, 0), (X, 0, 1), (X > 0.0, X, X), (X, (2, 2)), (X, LABELS)]
    for arguments in [*matrices, (vector, vector), (indices, None, 2)]:
        try:
            function(*arguments)
        except TypeError as error:
            if " takes no nodes: " in str(error):
                assert re.search(
                    r"^numpy\.([\w.]+\.)?\w+ takes no nodes: (use|wyrm|compare|multiply|nodes) ", str(error)
                )
                return
        except ValueError:  # the arguments fit another function
            continue
        else:
            return
    raise AssertionError(f"{name} neither takes nodes nor says what to use")


@pytest.mark.parametrize("call", KEYWORDS, ids=lambda call: inspect.getsource(call).split("  #")[0].strip())
def test_keywords(call: Callable[[], Any]) -> None:
    with pytest.raises(TypeError) as error:
        call()
    assert any(answer in str(error.value) for answer in answers_of("keywords").values())
    assert "unexpected keyword" not in str(error.value)


PLACES = sorted({place for places, _ in sections() for place in places})


def test_a_name_has_one_answer_in_a_place() -> None:
    listed = Counter(
        (place, name.partition("=")[0])
        for places, lines in sections()
        for place in places
        for line in lines.splitlines()
        for name in line.partition(": ")[0].split()
    )
    assert [each for each, count in listed.items() if count > 1] == []
    assert all(" " in answer for place in PLACES for answer in answers_of(place).values())  # no name of a shared one


@pytest.mark.parametrize("place", PLACES)
def test_every_name_in_an_answer_is_there(place: str) -> None:
    there = {
        "wy": wy, "np": np, "x": X, "p": X, "loss": X.sum(), "mask": X > 0.0, "model": wy.nn.Linear(2, 3) >> wy.nn.relu,
        "optimizer": wy.optim.Adam([X]), "program": wy.compile(X.sum()),
    }  # fmt: skip
    for answer in answers_of(place).values():
        for owner, path in re.findall(r"\b(wy|np|x|p|loss|mask|model|optimizer|program)((?:\.[A-Za-z_]\w*)+)", answer):
            value = there[owner]
            for name in path[1:].split("."):
                assert name in dir(value), f"{answer}: {owner}{path}"
                value = getattr(value, name)


COMPUTED = [
    ("isin", "(x[..., None] == y).any(-1)"),
    ("nancumsum", "np.cumsum(wy.where(np.isnan(x), 0.0, x), axis)"),
    ("nancumprod", "np.cumprod(wy.where(np.isnan(x), 1.0, x), axis)"),
    ("nanargmax", "np.argmax(wy.where(np.isnan(x), -np.inf, x), axis)"),
    ("nanargmin", "np.argmin(wy.where(np.isnan(x), np.inf, x), axis)"),
]


@pytest.mark.parametrize(("name", "instead"), COMPUTED)
def test_what_an_answer_computes_is_what_numpy_computes(name: str, instead: str) -> None:
    assert instead in answers_of("numpy")[name]
    x, y = np.array([[0.5, -2.0, 3.0], [-0.25, np.nan, 1.0], [8.0, -7.0, 6.0]]), np.array([3.0, -7.0])
    node = wy.Input(x, finite=False)
    found = eval(instead, {"np": np, "wy": wy, "x": node, "y": wy.Constant(y), "axis": 0}).forward()
    np.testing.assert_allclose(found, np.isin(x, y) if name == "isin" else getattr(np, name)(x, axis=0))


def test_masks_that_differ_are_exclusive_or() -> None:
    left, right = np.array([True, True, False]), np.array([True, False, False])
    mask: Any = wy.Constant(left)
    assert (mask != wy.Constant(right)).forward().tolist() == np.logical_xor(left, right).tolist()


def parameters() -> set[str]:
    """Return the names of the parameters of everything public."""
    owners = [wy, wy.nn, wy.optim, wy.losses, wy.data, wy.train, wy.random, wy.Node, wy.Program]
    found = {value for owner in owners for name in dir(owner) if callable(value := getattr(owner, name, None))}
    return {name for value in found if value not in (type,) for name in signature(value)}


def signature(function: Any) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def test_every_keyword_in_an_answer_is_there() -> None:
    known = parameters() | {"keepdims", "ddof"}
    for answer in answers_of("keywords").values():
        assert set(re.findall(r"\b(\w+)=", answer)) <= known, answer


@pytest.mark.parametrize("place", PLACES)
def test_no_name_that_is_there_has_an_answer(place: str) -> None:
    owners = {
        "nodes": X.tanh(), "modules": wy.nn.Module(), "optimizers": wy.optim.Adam([X]), "programs": wy.compile(X.sum()),
        "parameters": X, "wyrm": wy, "narrow": wy.NarrowWeight(np.ones((2, 2), np.float32)),
    }  # fmt: skip
    owner = owners[place] if place in owners else getattr(wy, place.removeprefix("wyrm."), None)
    assert [name for name in answers_of(place) if hasattr(owner, name)] == []


INTERNAL = [
    "part_of_residuals",
    "dtype_rule",
    "evaluate",
    "construct",
    "rebuild",
    "shape_rule",
    "vjp",
    "batched",
    "op_name",
]


def test_a_node_tells_what_is_for_users() -> None:
    told = dir(X.sum(axis=0))
    assert not set(INTERNAL) & set(told) and not set(answers_of("nodes")) & set(told)
    assert {"T", "axis", "backward", "dims", "exp", "forward", "keepdims", "shape", "sum", "value"} <= set(told)
    assert {"gradient", "set"} <= set(dir(X))


@pytest.mark.parametrize(
    ("program", "guess"),
    [
        ("wy.Constant(1.0).transpos", "Did you mean: 'transpose'?"),
        ("wy.Constant(1.0).permute", "use x.transpose(axes)\n"),
        ("wy.nn.Linaer", "Did you mean: 'Linear'?"),
        ("wy.nn.Linear(2, 3).wieght", "Did you mean: 'weight'?"),
        ("wy.concatenat", "Did you mean: 'concatenate'?"),
    ],
)
def test_python_guesses_at_public_names_alone(program: str, guess: str) -> None:
    done = subprocess.run([sys.executable, "-c", f"import wyrm as wy; {program}"], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.endswith((guess, f"{guess}\n"))


@pytest.mark.parametrize(
    "name", ["_repr_html_", "__array_interface__", "_ipython_display_", "__torch_function__", "_x"]
)
def test_private_names_are_missing_in_python_s_words(name: str) -> None:
    for owner in (X, wy.nn.Linear(2, 3), wy.optim.Adam([X]), wy, wy.nn):
        assert not hasattr(owner, name)
        with pytest.raises(AttributeError, match=rf"has no attribute '{name}'$"):
            getattr(owner, name)


def test_copies_and_pickles_go_on_working() -> None:
    for value in (X, wy.nn.Linear(2, 3), wy.optim.Adam([X])):
        assert type(pickle.loads(pickle.dumps(value))) is type(copy.deepcopy(value)) is type(copy.copy(value))


def test_a_property_that_fails_says_why() -> None:
    class Model(wy.nn.Module):
        @property
        def data(self) -> Any:
            return self.table.shape  # type: ignore[attr-defined]  # the mistake

    with pytest.raises(AttributeError, match="'Model' object has no attribute 'table'"):
        _ = Model().data


def test_names_of_ones_own_come_first() -> None:
    class Mixin:
        def cuda(self) -> str:
            return "mine"

    class Model(wy.nn.Module, Mixin):
        def __init__(self) -> None:
            self.device = "mine too"

    assert Model().cuda() == Model().device[:4] == "mine"


def test_an_op_may_be_a_method_of_a_foreign_name(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is bound ends with the test.
    monkeypatch.setattr("wyrm.graph.registration.METHODS", METHODS.copy())
    for owner in (wy.Node, wy.IndexNode):
        if "lgamma" in owner.__dict__:
            monkeypatch.setattr(owner, "lgamma", owner.__dict__["lgamma"], raising=False)

    class Cube(wy.Unary):
        __slots__ = ()
        formula = "x * x * x"
        method = "lgamma"

        def vjp(self, gradient: Any) -> tuple[Any, ...]:
            return (gradient * 3.0 * self.parents[0].square(),)

    two: Any = wy.Constant(2.0)
    assert two.lgamma().forward() == 8.0
