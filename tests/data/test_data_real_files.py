"""The readers on published data: MovieLens 100K, the MNIST test set, a part of TinyStories."""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from wyrm.data import (
    DataLoader,
    load_text_dataset,
    read_idx,
    read_movielens,
    read_text,
    split_by_group,
    train_test_split,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def folder() -> Path:
    path = Path(os.environ.get("WYRM_DATA", ROOT.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"no folder of real data at {path}; set WYRM_DATA to its path")
    return path


def test_movielens_agrees_with_the_csv_module(folder: Path) -> None:
    ratings = read_movielens(folder / "ml-100k.csv")
    assert (len(ratings), ratings.user_count, ratings.item_count) == (100_000, 943, 1682)
    with (folder / "ml-100k.csv").open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    assert ratings.user_ids[ratings.users].tolist() == [int(row[0]) for row in rows]
    assert ratings.item_ids[ratings.items].tolist() == [int(row[1]) for row in rows]
    assert ratings.ratings.tolist() == [float(row[2]) for row in rows]
    assert ratings.timestamps.tolist() == [int(row[3]) for row in rows]


def test_movielens_without_a_header_gives_the_same(folder: Path, tmp_path: Path) -> None:
    lines = (folder / "ml-100k.csv").read_text().splitlines(keepends=True)
    path = tmp_path / "u.data"
    path.write_text("".join(lines[1:]).replace(",", "\t"))
    first, second = read_movielens(folder / "ml-100k.csv"), read_movielens(path)
    assert np.array_equal(first.users, second.users) and np.array_equal(first.items, second.items)
    assert np.array_equal(first.ratings, second.ratings) and np.array_equal(first.timestamps, second.timestamps)


def test_movielens_splits_and_loads(folder: Path) -> None:
    ratings = read_movielens(folder / "ml-100k.csv")
    dataset = ratings.dataset()
    dataset.check_finite()
    train, test = train_test_split(dataset)
    assert (len(train), len(test)) == (80_000, 20_000)
    train, test = split_by_group(dataset, test_fraction=0.1)
    assert len(np.unique(test["users"])) == 94
    assert not np.isin(train["users"], test["users"]).any()
    batches = list(DataLoader(train, batch_size=4096))
    assert sum(batch["ratings"].sum(dtype=np.float64) for batch in batches) == train["ratings"].sum(dtype=np.float64)


def test_mnist_from_gzip_and_plain(folder: Path, tmp_path: Path) -> None:
    images = read_idx(folder / "mnist-t10k-images-idx3-ubyte.gz")
    labels = read_idx(folder / "mnist-t10k-labels-idx1-ubyte.gz")
    assert images.shape == (10_000, 28, 28) and images.dtype == np.uint8 and images.max() == 255
    assert labels.shape == (10_000,) and labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert np.unique(labels).tolist() == list(range(10))
    plain = tmp_path / "images"
    plain.write_bytes(gzip.decompress((folder / "mnist-t10k-images-idx3-ubyte.gz").read_bytes()))
    assert np.array_equal(read_idx(plain), images)


def test_tinystories_is_text(folder: Path) -> None:
    path = folder / "tinystories.txt"
    text = read_text(path)
    assert text.startswith("One day, a little girl named Lily")
    assert text.encode() == path.read_bytes()
    assert load_text_dataset("roneneldan/TinyStories", "train", path) == text
