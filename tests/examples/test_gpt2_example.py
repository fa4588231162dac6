"""The GPT-2 example on TinyStories: train, resume bit for bit, generate, and its errors for bad input."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.engines.jax.processes import free_port
from tests.examples.test_examples import DATA, ROOT, figure, needs_data

pytest.importorskip("tokenizers")

TINY = [
    "--n-layer", 1, "--n-head", 2, "--n-embd", 16, "--n-positions", 8, "--vocab-size", 300, "--batch-size", 8,
    "--every", 5, "--warmup", 2, "--threads", 1,
]  # fmt: skip


def call(*arguments: object) -> tuple[int, str]:
    command = [sys.executable, str(ROOT / "examples" / "gpt2_tinystories.py"), *map(str, arguments)]
    finished = subprocess.run(command, capture_output=True, text=True)
    return finished.returncode, finished.stdout + finished.stderr


class Here:
    """Calls of the example in this process, for what ends at once: an import in a new one takes more than the rest."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(ROOT / "examples")
        self._main = importlib.import_module("gpt2_tinystories").main
        self._capsys, self._monkeypatch = capsys, monkeypatch

    def __call__(self, *arguments: object) -> tuple[int, str]:
        self._monkeypatch.delitem(sys.modules, "ipykernel", raising=False)  # by which the example knows a notebook
        self._monkeypatch.setattr(sys, "argv", ["gpt2_tinystories.py", *map(str, arguments)])
        status, said = 0, ""
        try:
            self._main()
        except SystemExit as end:
            status, said = 1, str(end.code)
        written = self._capsys.readouterr()
        return status, written.out + written.err + said


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Here:
    return Here(capsys, monkeypatch)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "story.txt"
    file.write_text("Tom had a red ball. He ran to the park with his dog. " * 400, encoding="utf-8")
    return file


def equal(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_a_run_learns_resumes_bit_for_bit_and_tells(here: Here, story: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    status, text = call("train", "--data", story, "--run", run, "--steps", 10, "--watch", *TINY)
    assert status == 0, text
    assert figure(text, r"step 10: validation loss (\S+)") < figure(text, r"step 5: validation loss (\S+)")
    assert (run / "losses.png").stat().st_size > 10_000
    last = run / "checkpoints" / "step-00000010.safetensors"
    whole = wy.io.load_arrays(last).arrays
    for file in run.glob("checkpoints/step-00000010.*"):
        file.unlink()
    status, text = call("resume", "--run", run)
    assert status == 0, text
    equal(wy.io.load_arrays(last).arrays, whole)
    recorded = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert [record["step"] for record in recorded if record["kind"] == "start"] == [0, 5]
    assert [record["step"] for record in recorded if record["kind"] == "text"] == [5, 10, 10]
    tell = ["generate", "--run", run, "--prompt", "Tom had", "--max-new-tokens", 20]
    status, text = call(*tell)
    assert status == 0 and text.startswith("Tom had")
    assert here(*tell)[1] == text != here(*tell, "--seed", 1)[1]
    status, text = here("train", "--data", story, "--run", run, *TINY)
    assert status == 1 and "holds a run already: go on with resume" in text
    # A run that ended before its first checkpoint starts from the beginning.
    shutil.rmtree(run / "checkpoints")
    status, text = here("generate", "--run", run)
    assert status == 1 and "there is no checkpoint in" in text
    status, text = call("resume", "--run", run)
    assert status == 0 and "starting from the beginning" in text, text
    equal(wy.io.load_arrays(last).arrays, whole)


def test_a_run_that_was_ended_before_it_was_whole_is_begun_anew(here: Here, story: Path, tmp_path: Path) -> None:
    (tmp_path / "options.json").write_text('{"steps": 10, "conf')
    status, text = here("resume", "--run", tmp_path)
    assert status == 1 and "holds no run: begin one with train" in text
    for options, reason in ((["--batch-size", 10**6], "leaves no batch"), (["--clip", 0], "max_norm must be above 0")):
        status, text = here("train", "--data", story, "--run", tmp_path, *TINY, "--steps", 10, *options)
        assert status == 1 and reason in text, text


def test_bad_input_is_told_in_a_line(here: Here, story: Path, tmp_path: Path) -> None:
    empty, binary, short = (tmp_path / name for name in ("empty.txt", "binary.txt", "short.txt"))
    empty.write_text("")
    binary.write_bytes(b"Once upon\xff\xfe a time " * 100)
    short.write_text("Once")
    cases = [
        (empty, [], "empty"),
        (binary, [], "UTF-8"),
        (short, [], "too few"),
        (tmp_path / "missing.txt", [], "missing.txt"),
        (story, ["--dropout", 1.0], "resid_pdrop must be a number in [0, 1)"),
        (story, ["--n-head", 3], "n_embd 16 is not divisible by n_head 3"),
    ]
    for file, options, reason in cases:
        status, text = here("train", "--data", file, "--run", tmp_path / "run", *TINY, *options)
        assert status == 1 and "Traceback" not in text, text
        assert reason in text, text
    for command in ("resume", "generate"):
        status, text = here(command, "--run", tmp_path / "nothing")
        assert status == 1 and "holds no run: begin one with train" in text


@needs_data
def test_the_losses_on_real_stories_fall(tmp_path: Path) -> None:
    options = ["--n-layer", 2, "--n-head", 4, "--n-embd", 32, "--n-positions", 64, "--vocab-size", 1000]
    options += ["--batch-size", 16, "--steps", 60, "--every", 30, "--warmup", 10]
    status, text = call("train", "--data", DATA / "tinystories.txt", "--run", tmp_path / "run", *options)
    assert status == 0, text
    assert figure(text, r"step 60: validation loss (\S+)") < 6.0 < np.log(1000.0)


def test_two_processes_of_jax_resume_bit_for_bit(story: Path, tmp_path: Path) -> None:
    pytest.importorskip("jax")
    pytest.importorskip("orbax.checkpoint")
    run = tmp_path / "run"

    def both(*arguments: object) -> None:
        port = free_port()
        devices = ["--coordinator", f"localhost:{port}", "--processes", 2]
        with ThreadPoolExecutor() as pool:
            for status, text in pool.map(lambda i: call(*arguments, "--run", run, *devices, "--process", i), (0, 1)):
                assert status == 0, text

    both("train", "--data", story, "--engine", "jax", "--mesh", "data=2", "--fsdp", "--steps", 10, *TINY)
    last = run / "checkpoints" / "step-00000010.safetensors"
    whole = wy.io.load_arrays(last).arrays
    for file in run.glob("checkpoints/step-00000010.*"):
        file.unlink()
    shutil.rmtree(run / "sharded" / "10")
    both("resume")
    equal(wy.io.load_arrays(last).arrays, whole)
