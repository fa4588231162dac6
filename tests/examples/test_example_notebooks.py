"""The examples open as notebooks, run cell by cell, print what scripts print, and show and write their pictures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.examples.test_examples import ROOT, together
from tests.once import computed_once

jupytext = pytest.importorskip("jupytext", reason="jupytext, which opens examples as notebooks, is not installed")
nbclient = pytest.importorskip("nbclient", reason="nbclient, which runs notebooks, is not installed")
pytest.importorskip("ipykernel", reason="ipykernel, in which notebooks run, is not installed")
jupyter_client = pytest.importorskip("jupyter_client")
pytest.importorskip("matplotlib", reason="matplotlib, which draws the pictures, is not installed")

SEED = ["--seed", "3"]
FEW_EPOCHS = ["--epochs", "2"]
# The sizes of the other tests of this example, whose compiled programs serve here too.
TINY_GPT2 = "--n-layer 1 --n-head 2 --n-embd 16 --n-positions 8 --vocab-size 300 --threads 1"
# The arguments of each notebook, its pictures, and words that it prints.
NOTEBOOKS: dict[str, tuple[list[str], set[str], str]] = {
    "bpr_movielens": ([*FEW_EPOCHS, "--dimensions", "4"], {"losses", "map", "neighbours"}, "AUC"),
    "classify_images": (FEW_EPOCHS, {"losses", "mistakes", "confusion"}, "accuracy"),
    "convolve_images": (FEW_EPOCHS, {"losses", "mistakes", "filters"}, "accuracy"),
    "export_fizzbuzz": (["--epochs", "3"], {"losses"}, "of 100 right"),
    "fizzbuzz": (FEW_EPOCHS, {"losses", "words"}, "of 100 right"),
    "gpt2_tinystories": (
        ["train", *TINY_GPT2.split(), "--batch-size", "8", "--warmup", "2", "--every", "2", "--steps", "4"],
        {"losses", "attention", "attention_last_layer"},
        "validation loss",
    ),
    "linear_regression": (FEW_EPOCHS, {"losses", "line"}, "the data follow"),
    "llama_tinystories": (
        ["--epochs", "1", "--width", "16", "--layers", "1", "--length", "16", "--about", "Lily"], {"losses"},
        "of the fine-tuned model",
    ),
    "minimize": (["--dimensions", "5"], {"values", "descent"}, "5 dimensions"),
    "neural_ode": (FEW_EPOCHS, {"losses", "paths"}, "difference to SciPy"),
    "resnet": (FEW_EPOCHS, {"losses", "mistakes", "augmented"}, "accuracy"),
    "sequence_movielens": ([*FEW_EPOCHS, "--dimensions", "4"], {"losses", "ranks"}, "MRR"),
    "spaced_repetition": ([*FEW_EPOCHS, "--cards", "100"], {"losses", "forgetting"}, "loss of held-out"),
    "translate_dates": ([*FEW_EPOCHS, "--dates", "256", "--width", "8"], {"losses", "attention"}, "new dates"),
    "two_towers": ([*FEW_EPOCHS, "--dimensions", "4"], {"losses", "map", "neighbours"}, "recall"),
    "variational_autoencoder": (FEW_EPOCHS, {"losses", "reconstructions", "samples", "codes"}, "nats"),
}  # fmt: skip


# Forgets the names of the notebook before. Trainings this small take less time than LLVM's optimizations of them.
BEFORE = "%reset -f\nfrom wyrm.engines.native.llvm import cache\ncache.LEVEL = 0\ndel cache"
WITHOUT_SEED = {"gpt2_tinystories", "minimize"}
SHOWS_ITS_GRAPH = {"convolve_images", "linear_regression", "resnet"}


@pytest.fixture(scope="module")
def kernel() -> Iterator[Any]:
    """One kernel for all notebooks, since starting one and importing matplotlib takes longer than a tiny training."""
    manager = jupyter_client.KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(ROOT / "examples"))
    yield manager
    manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What examples print as scripts, with a seed that makes their notebooks print the same in another order.

    The notebooks find the compiled programs in the cache.
    """
    names = [name for name in reversed(NOTEBOOKS) if name not in WITHOUT_SEED]

    def run() -> list[str]:
        return together([[f"{name}.py", *NOTEBOOKS[name][0], *SEED] for name in names])

    return dict(zip(names, computed_once(tmp_path_factory, "examples", run), strict=True))


def test_every_example_is_a_notebook() -> None:
    scripts = {path.stem for path in (ROOT / "examples").glob("*.py") if "# %%" in path.read_text(encoding="utf-8")}
    assert scripts == set(NOTEBOOKS)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_an_example_runs_as_a_notebook(name: str, kernel: Any, scripts: dict[str, str], tmp_path: Path) -> None:
    arguments, pictures, words = NOTEBOOKS[name]
    if name in scripts:
        arguments = [*arguments, *SEED]
    if name in ("gpt2_tinystories", "llama_tinystories"):
        pytest.importorskip("tokenizers")
    if name == "gpt2_tinystories":
        (tmp_path / "story.txt").write_text("Tom had a red ball. He ran to the park with his dog. " * 100)
        arguments = [*arguments, "--data", str(tmp_path / "story.txt"), "--run", str(tmp_path / "run")]
    notebook = jupytext.read(ROOT / "examples" / f"{name}.py")
    first, *cells = notebook.cells
    assert first.cell_type == "markdown" and first.source.startswith("# ")
    (parameters,) = (cell for cell in cells if "parameters" in cell.metadata.get("tags", ()))
    parameters.source = f"ARGUMENTS = {[*arguments, '--pictures', str(tmp_path / 'pictures')]!r}"
    assert sum(cell.cell_type == "markdown" for cell in cells) >= 3

    first.cell_type, first.source = "code", BEFORE
    client = nbclient.NotebookClient(notebook, timeout=300, km=kernel)
    client.execute()
    client.kc.stop_channels()

    outputs: list[Any] = [output for cell in cells for output in cell.get("outputs", ())]
    text = "".join(output["text"] for output in outputs if output.output_type == "stream" and output.name == "stdout")
    assert words in text
    if name in scripts:
        shown, printed = (
            [line for line in lines.splitlines() if not line.startswith(("picture: ", "seconds: "))]
            for lines in (text, scripts[name])
        )
        assert shown == printed
    displayed = [output.data for output in outputs if output.output_type == "display_data"]
    assert sum("image/png" in data for data in displayed) == len(pictures)
    assert any("text/html" in data for data in displayed) == (name in SHOWS_ITS_GRAPH)
    assert {path.stem for path in (tmp_path / "pictures").iterdir()} == pictures
    assert all(path.stat().st_size > 5_000 for path in (tmp_path / "pictures").iterdir())
