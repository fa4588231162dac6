"""The examples run as scripts, and reach the documented figures on real data."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import wyrm as wy

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("WYRM_DATA", ROOT / ".." / "shared" / "data"))
EXAMPLES = sorted(
    path.name
    for path in (ROOT / "examples").glob("*.py")
    if path.name not in ("gpt2_tinystories.py", "minimize.py") and "# %%" in path.read_text(encoding="utf-8")
)

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"no folder of real data at {DATA}; set WYRM_DATA")


def run(name: str, *arguments: object) -> str:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / name), *map(str, arguments)]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def figure(text: str, pattern: str) -> float:
    found = re.search(pattern, text)
    assert found, text
    return float(found[1])


def together(calls: list[list[str]]) -> list[str]:
    """Return what examples print that run one after the other in one process."""
    command = [sys.executable, "-W", "error", "-m", "tests.examples.together", json.dumps(calls)]
    finished = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert finished.returncode == 0, finished.stderr
    found: list[str] = json.loads(finished.stdout)
    return found


def test_help() -> None:
    for name, text in zip(EXAMPLES, together([[name, "--help"] for name in EXAMPLES]), strict=True):
        assert text.startswith(f"usage: {name}")
        for option in ("--data", "--epochs", "--seed", "--pictures"):
            assert option in text


def test_linear_regression_finds_the_line() -> None:
    text = run("linear_regression.py")
    assert abs(figure(text, r"y = (\S+) x") - 3.0) < 0.05
    assert abs(figure(text, r"x \+ (\S+),") - 5.0) < 0.05


def test_bpr_learns_generated_preferences_and_can_be_watched(tmp_path: Path) -> None:
    assert figure(run("bpr_movielens.py", "--epochs", 10, "--watch", tmp_path), r"AUC (\S+)") > 0.85
    for name in ("films", "users"):
        last = (tmp_path / name / "events.jsonl").read_text().splitlines()[-1]
        assert json.loads(last)["stopped"] == "completed"


@needs_data
@pytest.mark.parametrize(("model", "loss"), [("ewma", "hinge"), ("ewma", "bpr"), ("ewma", "warp"), ("lstm", "warp")])
def test_the_next_film_is_told_better_than_by_popularity(model: str, loss: str) -> None:
    text = run("sequence_movielens.py", "--data", DATA / "ml-100k.csv", "--model", model, "--loss", loss)
    assert "180 users, after training on 763" in text
    assert figure(text, r"MRR (\S+) by (?:ewma|lstm) ") > 1.5 * figure(text, r"MRR (\S+) by popularity")
    assert figure(text, r"MRR (\S+) by cosine") == pytest.approx(0.104, abs=0.001)


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_two_towers_recommend_and_are_asked_by_a_second_process(engine: str, tmp_path: Path) -> None:
    file = tmp_path / "towers.safetensors"
    text = run("two_towers.py", "--epochs", 5, "--engine", engine, "--save", file)
    assert figure(text, r"recall (\S+) at 10.*by two towers") > 1.5 * figure(text, r"recall (\S+) at 10.*by popularity")
    answer = run("two_towers.py", "--save", file, "--ask", 7).splitlines()
    scores = [float(line.split()[0]) for line in answer]
    assert len(answer) == 5 and scores == sorted(scores, reverse=True)
    command = [sys.executable, str(ROOT / "examples" / "two_towers.py"), "--save", str(file), "--ask", "1000"]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode != 0 and "there is no user 1000" in finished.stderr


@needs_data
def test_two_towers_find_more_films_than_popularity() -> None:
    text = run("two_towers.py", "--data", DATA / "ml-100k.csv", "--epochs", 3)
    assert figure(text, r"at 10, (\S+) at 50.*by two towers") > 1.4 * figure(text, r"at 10, (\S+) at 50.*by popularity")


def test_a_small_llama_tells_stories_is_fine_tuned_and_leaves(tmp_path: Path) -> None:
    for package in ("tokenizers", "jinja2"):
        pytest.importorskip(package)
    text = run("llama_tinystories.py", "--save", tmp_path, "--about", "Lily")
    assert figure(text, r"of held-out text (\S+),") < 0.25
    assert text.count("Once upon a time, ") >= 6 and "was happy." in text
    # Stories of the base are about one of four names, some with another one in the middle.
    assert figure(text, r"Lily is in (\d+) of 20") < 17 <= figure(text, r"in (\d+) of the fine-tuned model")
    narrow, wide = re.search(r"int8: (\S+) MB of (\S+),", text).groups()  # type: ignore[union-attr]  # else it raises
    assert float(narrow) < 0.3 * float(wide)

    base, tuned = (wy.nn.Decoder.from_pretrained(folder) for folder in (tmp_path, tmp_path / "tuned"))
    assert (base.config.num_key_value_heads, base.config.tie_word_embeddings) == (2, True)
    assert {name for name, _ in tuned.named_parameters()} == {name for name, _ in base.named_parameters()}
    adapter = wy.nn.LoRA.from_pretrained(base, tmp_path / "adapter")
    adapter.merge()
    assert all((array == tuned.state_dict()[name]).all() for name, array in base.state_dict().items())

    command = [sys.executable, "-m", "wyrm", "chat", str(tmp_path / "tuned"), "--temperature", "0", "--tokens", "40"]
    lines = "Once upon a time, Lily had a ball. Lily\nOnce upon a time, Tom had a kite. Tom\n"
    finished = subprocess.run(command, input=lines, capture_output=True, text=True, cwd=ROOT, check=True)
    assert finished.stdout.count("was happy.\n") == 2

    again = run("llama_tinystories.py", "--base", tmp_path, "--about", "Tom", "--tune-epochs", 1)
    assert again.count("parameters to train") == 1
    command = [sys.executable, str(ROOT / "examples" / "llama_tinystories.py"), "--base", str(tmp_path)]
    finished = subprocess.run([*command, "--about", "dragon"], capture_output=True, text=True)
    assert finished.returncode == 1 and "no story has the word dragon" in finished.stderr


@needs_data
def test_a_small_llama_reads_tokens_of_gpt2() -> None:
    pytest.importorskip("tokenizers")
    files = ["--vocab-file", DATA / "gpt2-vocab.json", "--merges-file", DATA / "gpt2-merges.txt"]
    small = ["--epochs", 2, "--characters", 20_000, "--width", 32, "--layers", 1, "--length", 32]
    text = run("llama_tinystories.py", "--data", DATA / "tinystories.txt", *files, *small)
    assert figure(text, r"of held-out text (\S+),") < 9.0 and text.count("Once upon a time") >= 3


@needs_data
def test_images_are_classified() -> None:
    text = run("classify_images.py", "--data", DATA / "mnist-t10k-images-idx3-ubyte.gz", "--epochs", 3)
    assert figure(text, r"accuracy (\S+)%") >= 92.0


def test_pictures_are_encoded_with_random_draws() -> None:
    # A picture of two bars takes 4.2 nats, and 34.8 if its pixels are coded one by one.
    assert figure(run("variational_autoencoder.py"), r"at most (\S+) nats") < 16.0


@needs_data
def test_images_are_encoded_with_random_draws() -> None:
    text = run("variational_autoencoder.py", "--data", DATA / "mnist-t10k-images-idx3-ubyte.gz", "--epochs", 3)
    assert figure(text, r"at most (\S+) nats") < 145.0


@needs_data
def test_images_are_convolved() -> None:
    text = run("convolve_images.py", "--data", DATA / "mnist-t10k-images-idx3-ubyte.gz", "--epochs", 3)
    assert figure(text, r"accuracy (\S+)%") >= 94.0


def test_a_residual_network_tells_bars() -> None:
    assert figure(run("resnet.py", "--epochs", 2), r"accuracy (\S+)%") >= 95.0


@needs_data
def test_a_residual_network_tells_images_that_move() -> None:
    # The networks of bench/pairs, on these images, have 96.5 % after three epochs, here as in PyTorch.
    text = run("resnet.py", "--data", DATA / "mnist-t10k-images-idx3-ubyte.gz", "--epochs", 3)
    assert figure(text, r"accuracy (\S+)%") >= 96.0


@needs_data
def test_films_are_recommended() -> None:
    text = run("bpr_movielens.py", "--data", DATA / "ml-100k.csv", "--epochs", 2)
    assert figure(text, r"AUC (\S+)") > 0.85
    assert figure(text, r"MRR (\S+),") > 0.04


@pytest.mark.parametrize("name", ["classify_images.py", "bpr_movielens.py"])
def test_a_missing_file_is_an_error_that_names_it(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / name), "--data", str(tmp_path / "nothing.csv")]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode != 0
    assert "nothing.csv" in finished.stderr.splitlines()[-1]


def test_dates_are_read_when_the_model_runs_freely() -> None:
    assert figure(run("translate_dates.py", "--epochs", 3), r"(\S+)% of 1000 new dates") > 97.0


def test_a_neural_equation_follows_new_paths_as_scipy_does() -> None:
    text = run("neural_ode.py")
    assert figure(text, r"error on new paths (\S+),") < 0.1
    assert figure(text, r"difference to SciPy (\S+)") < 1e-3
