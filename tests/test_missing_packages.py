"""Each use of an optional package that is not installed says how to install it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.subprocesses import error_without

# What a statement needs, and what its error says.
LOSS = "s = wy.Parameter(1.0); x = wy.Input(name='x'); loss = (s * x).square(); optimizer = wy.optim.SGD([s], 0.1); "
COMMAND = "import runpy; sys.argv = ['wyrm', 'watch', '.']; runpy.run_module('wyrm', run_name='__main__')"
USES = {
    "watch: the function": ("starlette uvicorn", "wy.watch.serve(['.'])", "pip install 'wyrm-autodiff[watch]'"),
    "watch: the command": ("starlette uvicorn", COMMAND, "pip install 'wyrm-autodiff[watch]'"),
    "watch: one of two": ("starlette", COMMAND, "(starlette is missing): pip install 'wyrm-autodiff[watch]'"),
    "watch: what uvicorn needs": ("h11", COMMAND, "(h11 is missing): pip install 'wyrm-autodiff[watch]'"),
    "jax: an engine": ("jax", LOSS + "wy.compile(loss, engine='jax')", "pip install 'wyrm-autodiff[jax]'"),
    "jax: lower": ("jax", LOSS + "wy.jax.lower(loss)", 'pip install "wyrm-autodiff[jax]"'),
    "jax: export": ("jax", LOSS + "wy.jax.export(loss)", 'pip install "wyrm-autodiff[jax]"'),
    "jax: initialize": ("jax", "wy.jax.initialize()", 'pip install "wyrm-autodiff[jax]"'),
    "jax: meshes": ("jax", "wy.jax.make_hybrid_mesh({'a': 1}, {'b': 1})", 'pip install "wyrm-autodiff[jax]"'),
    "jax: checkpoints": ("orbax", "wy.jax.latest_step('.')", "pip install 'wyrm-autodiff[jax]'"),
    "onnx": ("jax2onnx onnx", LOSS + "wy.jax.to_onnx(loss, 'file.onnx')", 'pip install "wyrm-autodiff[onnx]"'),
    "numba": ("numba", "wy.numba.callable(lambda x: 2.0 * x, np.zeros(3))", 'pip install "wyrm-autodiff[numba]"'),
    "tensorboard: a callback": (
        "tensorboard", "wy.train.TensorBoardLogger('run')", "pip install 'wyrm-autodiff[tensorboard]'",
    ),
    "tensorboard: a writer": (
        "tensorboard", "wy.watch.RunWriter('run', tensorboard=True)", "pip install 'wyrm-autodiff[tensorboard]'",
    ),
    "examples: tokenizers": (
        "tokenizers", "wy.data.Tokenizer.train('abc', vocab_size=260)", "pip install 'wyrm-autodiff[examples]'",
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


def test_compiled_lapack_without_scipy_names_scipy() -> None:
    factor = "wy.compile(wy.linalg.cholesky(wy.Parameter(np.eye(3))))()"
    (line,) = error_without("scipy", factor).strip().splitlines()[-1:]
    assert "cannot be compiled: SciPy, whose BLAS and LAPACK the code calls, cannot be loaded" in line
