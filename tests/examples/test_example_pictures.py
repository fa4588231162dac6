"""The pictures of the examples: their folder, the labels of a map, titles of films, and the weights of attention."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.examples.test_examples import ROOT

EXAMPLES = ROOT / "examples"


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(EXAMPLES)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(EXAMPLES) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_a_folder_that_cannot_be_written_is_refused_before_the_training(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "file").touch()
    command = [sys.executable, str(EXAMPLES / "linear_regression.py"), "--pictures", str(tmp_path / "file" / "folder")]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 2 and finished.stdout == ""
    assert f"argument --pictures: cannot write to {tmp_path}/file/folder: Not a directory" in finished.stderr


@pytest.mark.usefixtures("examples")
def test_without_matplotlib_the_option_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pictures: Any = import_module("pictures")
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    with pytest.raises(argparse.ArgumentTypeError, match="pictures need matplotlib: pip install matplotlib"):
        pictures.picture_folder(str(tmp_path / "folder"))
    assert not (tmp_path / "folder").exists()


@pytest.mark.usefixtures("examples")
def test_labels_of_a_map_do_not_overlap(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    films, pictures = import_module("film_pictures"), import_module("pictures")
    points = np.random.default_rng(0).normal(size=(150, 2))
    with pictures.Pictures(tmp_path).draw("map") as figure:
        axes = figure.subplots()
        axes.scatter(points[:, 0], points[:, 1])
        films.label_apart(figure, axes, points, [f"film {number}" for number in range(150)])
        figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in axes.texts]
    assert axes.texts[0].get_text() == "film 0" and 20 < len(boxes) < 150
    assert not any(box.overlaps(other) for i, box in enumerate(boxes) for other in boxes[:i])


@pytest.mark.usefixtures("examples")
def test_titles_come_from_a_file_of_movielens(tmp_path: Path) -> None:
    films: Any = import_module("film_pictures")
    file = tmp_path / "u.item"
    file.write_bytes("1|Usual Suspects, The (1995)|14-Aug-1995\n3|Enfants, Misérables, Les (1995)|\n".encode("latin-1"))
    titles = ["The Usual Suspects (1995)", "film 2", "Enfants, Misérables, Les (1995)"]
    assert films.title_list(file, np.arange(1, 4)) == titles
    file.write_text("1|Toy Story (1995)|\n\n")
    with pytest.raises(SystemExit, match=r"u.item, line 2: a film is a line of id\|title"):
        films.title_list(file, np.arange(1, 3))


@pytest.mark.usefixtures("examples")
def test_images_that_are_no_squares_end_the_pictures_in_a_line() -> None:
    pictures: Any = import_module("pictures")
    assert pictures.square(np.arange(9.0)).tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    with pytest.raises(SystemExit, match="6 pixels are none"):
        pictures.square(np.zeros((2, 3)))


@pytest.mark.usefixtures("examples")
def test_the_drawn_weights_are_those_of_the_model() -> None:
    module: Any = import_module("gpt2_pictures")
    model = wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=11, n_positions=6, n_embd=8, n_layer=1, n_head=2), dtype=np.float64)
    model.eval()
    ids = [3, 1, 4, 1, 5]
    weights = module.attention_weights(model, ids)
    assert weights.shape == (1, 2, 5, 5)
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0)
    assert not np.triu(weights, 1).any()
    block = model.blocks[0]
    x = model.tokens.weight.embed(wy.IndexConstant([ids]), model.positions.weight)
    normed: Any = block.attention_norm(x)
    values = block.attention.qkv(normed).forward().reshape(5, 3, 2, 4)[:, 2]
    mixed: Any = wy.Constant(np.einsum("hqk,khf->qhf", weights[0], values).reshape(1, 5, 8))
    np.testing.assert_allclose(block.attention.out_proj(mixed).forward(), block.attention(normed).forward())


@pytest.mark.usefixtures("examples")
def test_the_picture_of_mistakes_where_there_is_none(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    images, pictures = import_module("images"), import_module("pictures")
    images.draw_mistakes(pictures.Pictures(tmp_path), np.zeros((2, 16)), np.array([0, 1]), np.eye(2))
    assert (tmp_path / "mistakes.png").exists()
