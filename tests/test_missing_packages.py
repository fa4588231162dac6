"""Each use of an optional package that is not installed says how to install it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.subprocesses import error_without

# What a statement needs, and what its error says.
LOSS = "s = wy.Parameter(1.0); x = wy.Input(name='x'); loss = (s * x).square(); optimizer = wy.optim.SGD([s], 0.1); "
COMMAND = "import runpy; sys.argv = ['wyrm', 'watch', '.']; runpy.run_module('wyrm', run_name='__main__')"
USES = {
    "watch: the function": ("starlette uvicorn", "wy.watch.serve(['.'])", 'pip install "wyrm-autodiff[watch]"'),
    "watch: the command": ("starlette uvicorn", COMMAND, 'pip install "wyrm-autodiff[watch]"'),
    "watch: one of two": ("starlette", COMMAND, '(starlette is missing): pip install "wyrm-autodiff[watch]"'),
    "watch: what uvicorn needs": ("h11", COMMAND, '(h11 is missing): pip install "wyrm-autodiff[watch]"'),
    "jax: an engine": ("jax", LOSS + "wy.compile(loss, engine='jax')", 'pip install "wyrm-autodiff[jax]"'),
    "jax: lower": ("jax", LOSS + "wy.jax.lower(loss)", 'pip install "wyrm-autodiff[jax]"'),
    "jax: export": ("jax", LOSS + "wy.jax.export(loss)", 'pip install "wyrm-autodiff[jax]"'),
    "jax: initialize": ("jax", "wy.jax.initialize()", 'pip install "wyrm-autodiff[jax]"'),
    "jax: meshes": ("jax", "wy.jax.make_hybrid_mesh({'a': 1}, {'b': 1})", 'pip install "wyrm-autodiff[jax]"'),
    "jax: checkpoints": ("orbax", "wy.jax.latest_step('.')", 'pip install "wyrm-autodiff[jax]"'),
    "onnx": ("jax2onnx onnx", LOSS + "wy.jax.to_onnx(loss, 'file.onnx')", 'pip install "wyrm-autodiff[onnx]"'),
    "numba": ("numba", "wy.numba.callable(lambda x: 2.0 * x, np.zeros(3))", 'pip install "wyrm-autodiff[numba]"'),
    "tensorboard: a callback": (
        "tensorboard", "wy.train.TensorBoardLogger('run')", 'pip install "wyrm-autodiff[tensorboard]"',
    ),
    "tensorboard: a writer": (
        "tensorboard", "wy.watch.RunWriter('run', tensorboard=True)", 'pip install "wyrm-autodiff[tensorboard]"',
    ),
    "examples: tokenizers": (
        "tokenizers", "wy.data.Tokenizer.train('abc', vocab_size=260)", "pip install 'wyrm-autodiff[examples]'",
    ),
    "scipy: Bessel functions": (
        "scipy", "wy.special.jv(1.5, wy.Parameter([1.0])).forward()", 'pip install "wyrm-autodiff[scipy]"',
    ),
    "scipy: natively": (
        "scipy", "wy.compile(wy.special.betainc(2.0, 3.0, wy.Parameter([0.5])))()",
        'wyrm.special.betainc needs SciPy: pip install "wyrm-autodiff[scipy]"',
    ),
    "sklearn": ("sklearn", "wy.estimators.Classifier()", 'pip install "wyrm-autodiff[sklearn]"'),
    "examples: data sets": ("datasets", "wy.data.load_text_dataset('a/b')", "pip install 'wyrm-autodiff[examples]'"),
}  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_a_use_without_its_package_says_how_to_install_it(
    use: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages, statement, hint = USES[use]
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    monkeypatch.chdir(tmp_path)
    error = error_without(packages, statement)
    assert hint in error.strip().splitlines()[-1]
    if not use.startswith("examples") and statement != COMMAND:
        assert error.strip().splitlines()[-1].startswith("wyrm.errors.MissingPackage: ")
    if use.startswith("watch") and statement == COMMAND:
        assert "Traceback" not in error


def test_a_plain_install_trains_predicts_and_saves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    monkeypatch.chdir(tmp_path)
    packages = (
        "jax jaxlib numba starlette uvicorn tensorboard tokenizers datasets matplotlib pandas polars pyarrow IPython"
    )
    program = f"""
{LOSS}
train = wy.compile(loss, optimizer)
history = wy.train.fit(train, {{"x": np.ones(8)}}, epochs=2, progress=True, watch="run")
assert history.epochs == 2
wy.io.save({{"s": s}}, "model.safetensors")
wy.io.load({{"s": s}}, "model.safetensors")
wy.view.summary(loss)
print(wy.data.Interactions.of([1, 2], ["a", "b"]), file=sys.stderr)
"""
    assert error_without(packages, program).strip().endswith("Interactions(2 rows, 2 users, 2 items)")


def test_a_scipy_that_cannot_be_loaded_is_named() -> None:
    program = """
import wyrm.engines.native.llvm.lapack as lapack
def broken(name):
    raise ImportError("a library is missing", name="scipy.linalg")
lapack._exported_by_scipy = broken
wy.compile(wy.linalg.cholesky(wy.Parameter(np.eye(3))))()
"""
    (line,) = error_without("", program).strip().splitlines()[-1:]
    assert "cannot be compiled: SciPy, whose BLAS and LAPACK the code calls, cannot be loaded" in line


FACTORIZATIONS = """
a = np.random.default_rng(0).normal(size=(2, 6, 6))
b, system = wy.Parameter(a[:, :, :2]), a @ a.swapaxes(-1, -2) + np.eye(6)
A, S, la = wy.Parameter(a), wy.Parameter(system), wy.linalg
cases = [
    (la.solve(A, b), np.linalg.solve(a, b.value)),
    (la.inv(A), np.linalg.inv(a)),
    (la.det(A), np.linalg.det(a)),
    (la.cholesky(S), np.linalg.cholesky(system)),
    (la.solve_triangular(A, b, lower=True), np.linalg.solve(np.tril(a), b.value)),
    (la.solve_triangular(A, b, lower=False), np.linalg.solve(np.triu(a), b.value)),
    (la.det(la.expm(A)), np.exp(np.trace(a, axis1=1, axis2=2))),
    (la.eigh(S)[0], np.linalg.eigvalsh(system)),
    (la.svd(A)[1], np.linalg.svd(a)[1]),
    (abs(la.qr(A)[1]), abs(np.linalg.qr(a)[1])),
]
for node, wanted in cases:
    gradients = [wy.grad(node.sum(), parameter) for parameter in node.parameters()]
    values, natively = [each.forward() for each in (node, *gradients)], wy.compile([node, *gradients])()
    np.testing.assert_allclose(values[0], wanted, rtol=1e-9, atol=1e-12)
    for value, native in zip(values, natively, strict=True):
        np.testing.assert_allclose(native, value, rtol=1e-9, atol=1e-9)
"""
SPECIAL = """
import math
x = wy.Parameter([-2.5, -1.0, 0.0, 0.3, 5.0, 40.0], dtype=np.float64)
at_poles = [math.lgamma(-2.5), math.inf, math.inf, math.lgamma(0.3), math.lgamma(5.0), math.lgamma(40.0)]
np.testing.assert_allclose(wy.special.gammaln(x).forward(), at_poles, rtol=1e-14)
for name in "erf erfc gamma gammaln digamma erfinv i0 i0e i1 i1e ndtri".split():
    node = getattr(wy.special, name)(x)
    np.testing.assert_allclose(wy.compile(node)(), node.forward(), rtol=1e-12, err_msg=name)
for name in "beta betaln gammainc gammaincc".split():
    node = getattr(wy.special, name)(x.abs() + 1.5, x.square() + 0.5)
    np.testing.assert_allclose(wy.compile(node)(), node.forward(), rtol=1e-11, err_msg=name)
draws = wy.random.gamma((6,), x.abs() + 0.5, seed=1)
gradient = wy.grad(draws.log().sum(), x)
np.testing.assert_allclose(wy.compile(gradient)(), gradient.forward(), rtol=1e-9)
"""
MODELS = """
class Batch(wy.Dim): ...
class Time(wy.Dim): ...

def train(loss, columns):
    optimizer = wy.optim.Adam(loss.parameters(), 0.01)
    program = wy.compile(loss, optimizer)
    first = program.epoch(columns, batch_size=8)
    for _ in range(10):
        last = program.epoch(columns, batch_size=8)
    assert program.engine == "native" and last < first, (first, last)

random, batch = np.random.default_rng(0), Batch()
numbers = np.arange(64)
bits = ((numbers[:, None] >> np.arange(6)) & 1).astype(np.float32)
x, y = wy.Input(dims=(batch, 6)), wy.IndexInput(dims=(batch,))
hidden = wy.nn.Linear(6, 16)(x).relu()
train(wy.nn.Linear(16, 4)(hidden).cross_entropy(y), {x: bits, y: (numbers % 3 == 0) + 2 * (numbers % 5 == 0)})

users, items = wy.nn.Embedding(20, 8), wy.nn.Embedding(30, 8)
user, item = wy.IndexInput(dims=(batch,)), wy.IndexInput(dims=(batch,))
score = lambda rows: (users(user) * items(rows)).sum(axis=-1)
bpr = wy.losses.bpr(score(item), score(wy.random.index(30, (batch,), seed=0)))
train(bpr, {user: random.integers(20, size=200), item: random.integers(3, size=200)})

model = wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=11, n_positions=8, n_embd=16, n_layer=2, n_head=2))
tokens = wy.IndexInput(dims=(batch, 8))
logits = model(tokens)
train(logits[:, :-1].cross_entropy(tokens[:, 1:]), {tokens: random.integers(3, size=(32, 8))})
assert not any(name.partition(".")[0] == "scipy" for name in sys.modules)
"""


@pytest.mark.parametrize("program", [FACTORIZATIONS, SPECIAL, MODELS], ids=["linalg", "special", "models"])
def test_without_scipy_other_kernels_compute(program: str) -> None:
    error = error_without(
        "scipy", f"import warnings\nwarnings.simplefilter('ignore')\n{program}\nprint('done', file=sys.stderr)"
    )
    assert error.strip().endswith("done"), error
