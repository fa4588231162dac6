"""Data of another shape than its input: the error says both shapes, and what to write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DataError, DTypeError, ShapeError


class Batch(wy.Dim): ...


BATCH = Batch()
IMAGES: Any = wy.Input(dims=(BATCH, 1, 8, 6), name="images")
COLOURS: Any = wy.Input(dims=(BATCH, 3, 8, 6), name="colours")
LABELS: Any = wy.IndexInput(dims=(BATCH,), name="labels")
WEIGHT = wy.Parameter(np.zeros((8 * 6, 10), np.float32))
PIXELS, CLASSES = np.ones((16, 1, 8, 6), np.float32), np.arange(16) % 10


def program(images: Any = IMAGES) -> Any:
    loss = (images.mean(axis=1).flatten(1) @ WEIGHT).cross_entropy(LABELS)
    return wy.compile(loss, wy.optim.SGD([WEIGHT], 0.1))


CASES: list[tuple[Any, Any, str]] = [
    ({"images": PIXELS[:, 0]}, ShapeError, r"4 axes, the data has shape \(16, 8, 6\); add .* as in x\[:, None\]$"),
    ({"images": PIXELS.reshape(16, 48)}, ShapeError, r"shape \(16, 48\); give the rows .* x\.reshape\(-1, 1, 8, 6\)$"),
    ({"images": PIXELS.transpose(0, 2, 3, 1)}, ShapeError, r"; channels come second: x\.transpose\(0, 3, 1, 2\)$"),
    ({"labels": CLASSES[:, None]}, ShapeError, r"has 1 axis, the data .* drop the last axis, as in x\[\.\.\., 0\]$"),
    ({"labels": np.eye(10)[CLASSES]}, DTypeError, r"of shape \(16, 10\); for one-hot rows use x\.argmax\(axis=-1\)$"),
    ({"labels": np.eye(10, dtype=int)[CLASSES]}, ShapeError, r"\(16, 10\); for one-hot rows use x\.argmax\(axis=-1\)$"),
    ({"labels": CLASSES.astype(float)}, DTypeError, r"the data is float64; convert with array\.astype\(np\.int64\)$"),
    ({"images": np.ones((16, 1, 8, 5))}, ShapeError, r"has an axis 6, the data has 5 there: \(16, 1, 8, 5\)$"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "error", "message"), CASES, ids=[message for *_, message in CASES])
def test_a_column_says_what_it_takes(wrong: Any, error: type[Exception], message: str) -> None:
    columns = {"images": PIXELS, "labels": CLASSES} | wrong
    for train in (program().epoch, program().evaluate):
        with pytest.raises(error, match=message):
            train(columns, batch_size=4)


def test_colours_that_come_last() -> None:
    data = {"colours": np.ones((16, 8, 6, 3)), "labels": CLASSES}
    with pytest.raises(ShapeError, match=r"channels come second: x\.transpose\(0, 3, 1, 2\)$"):
        program(COLOURS).epoch(data, batch_size=4)
    program(COLOURS).epoch(data | {"colours": data["colours"].transpose(0, 3, 1, 2)}, batch_size=4)
    last: Any = wy.Input(dims=(BATCH, 8, 6, 3), name="last")
    with pytest.raises(ShapeError, match=r"channels come last: x\.transpose\(0, 2, 3, 1\)$"):
        last.set(np.ones((16, 3, 8, 6)))


def test_one_row_of_a_batch() -> None:
    predict = wy.compile(IMAGES.mean(axis=(-2, -1)))
    message = r"has 4 axes, the data has shape \(1, 8, 6\); one row is x\[None\]$"
    with pytest.raises(ShapeError, match=message):
        predict({IMAGES: PIXELS[0]})
    with pytest.raises(ShapeError, match=message):
        IMAGES.set(PIXELS[0])
    assert predict({IMAGES: PIXELS[0][None]}).shape == (1, 1)


def test_keys_that_are_almost_right() -> None:
    columns = {"image": PIXELS, "labels": CLASSES}
    with pytest.raises(DataError, match=r"no column 'images' for the input images; .*; did you mean 'image'\?$"):
        program().epoch(columns, batch_size=4)
    twin: Any = wy.IndexInput(dims=(BATCH,), name="labels")
    with pytest.raises(ShapeError, match=r"not an input of this program, .* another node has the same name: use that"):
        program().epoch({IMAGES: PIXELS, twin: CLASSES}, batch_size=4)


def test_interactions_are_made_a_dataset() -> None:
    data = wy.data.low_rank_preferences(5, 6, 2, 3)
    with pytest.raises(TypeError, match=r"not Interactions; give its \.dataset\(\); the inputs are: images, labels$"):
        program().epoch(data, batch_size=4)
