"""Augmentation of images: what each function does to which pixels, and that a seed gives a batch again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.data import augment
from wyrm.errors import DataError, DTypeError, OptionError, ShapeError

RANDOM = np.random.default_rng(0)
COLOURS = RANDOM.integers(1, 256, (50, 9, 7, 3)).astype(np.uint8)
GREY = COLOURS[..., 0]

CHANGES: dict[str, Any] = {
    "crop": lambda x, g, **o: wy.data.random_crop(x, g, 5, **o),
    "crop, padded": lambda x, g, **o: wy.data.random_crop(x, g, (9, 7), 2, mode="reflect", **o),
    "shift": lambda x, g, **o: wy.data.random_shift(x, g, 3, **o),
    "flip": lambda x, g, **o: wy.data.random_flip(x, g, **o),
    "vertical flip": lambda x, g, **o: wy.data.random_flip(x, g, vertical=True, **o),
    "cutout": lambda x, g, **o: wy.data.cutout(x, g, 4, **o),
}


def drawn(seed: int = 3) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("name", CHANGES)
def test_any_order_of_axes_gives_the_same_pixels(name: str) -> None:
    change = CHANGES[name]
    last = change(COLOURS, drawn())
    first = change(np.moveaxis(COLOURS, -1, 1), drawn(), axes=(-2, -1))
    assert last.dtype == np.uint8 and last.flags.c_contiguous
    np.testing.assert_array_equal(np.moveaxis(first, 1, -1), last)
    np.testing.assert_array_equal(change(GREY, drawn()), last[..., 0])
    np.testing.assert_array_equal(change(list(COLOURS), drawn()), last)
    assert (change(COLOURS, drawn(4)) != last).any()


def test_crops_are_parts_of_their_image() -> None:
    places = set()
    for image, part in zip(GREY, wy.data.random_crop(GREY, drawn(), (4, 6)), strict=True):
        found = [
            (i, j) for i in range(6) for j in range(2) if (image[i : i + 4, j : j + 6] == part).all()
        ]  # fmt: skip
        assert len(found) == 1
        places.update(found)
    assert places == {(i, j) for i in range(6) for j in range(2)}


def test_shifts_move_by_at_most_the_pixels_and_fill_with_zeros() -> None:
    image = np.zeros((400, 9, 9), np.float32)
    image[:, 4, 4] = 1.0
    moved = wy.data.random_shift(image, drawn(), 2)
    rows, columns = moved.reshape(400, -1).argmax(1) // 9, moved.reshape(400, -1).argmax(1) % 9
    assert (moved.sum((1, 2)) == 1.0).all()
    assert set(rows) == set(columns) == {2, 3, 4, 5, 6}


def test_flips_mirror_as_many_images_as_the_probability_says() -> None:
    many = np.repeat(GREY, 40, axis=0)
    flipped = wy.data.random_flip(many, drawn(), 0.25)
    same = (flipped == many).all((1, 2))
    mirrored = (flipped == many[:, :, ::-1]).all((1, 2))
    assert (same ^ mirrored).all() and 0.2 < mirrored.mean() < 0.3
    np.testing.assert_array_equal(wy.data.random_flip(COLOURS, drawn(), 1.0, vertical=True), COLOURS[:, ::-1])
    np.testing.assert_array_equal(wy.data.random_flip(COLOURS, drawn(), 0.0), COLOURS)


def test_cutout_fills_one_square_of_each_image() -> None:
    for image in wy.data.cutout(np.ones((200, 9, 7, 3)), drawn(), 3, fill=-1.0):
        rows, columns, _ = np.nonzero(image == -1.0)
        height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
        assert 2 <= height <= 3 and 2 <= width <= 3 and len(rows) == 3 * height * width


def test_mixup_blends_images_and_labels_alike() -> None:
    labels = RANDOM.integers(0, 4, 50)
    # Each image is its class, so that a blend shows the shares.
    images = np.broadcast_to(np.eye(4)[labels][:, None, None], (50, 2, 2, 4))
    mixed, shares = wy.data.mixup(images, labels, drawn(), num_classes=4, alpha=0.5)
    np.testing.assert_allclose(mixed[:, 0, 0], shares, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(shares.sum(1), 1.0, rtol=1e-6)
    assert ((shares > 0.05).sum(1) > 1).any() and mixed.dtype == np.float64
    logits = wy.Parameter(RANDOM.standard_normal((50, 4)))
    loss = -(np.asarray(shares, np.float64) * logits.log_softmax()).sum(-1).mean()
    assert np.isfinite(loss.forward())


def test_normalized_images_are_those_of_torchvision_by_hand() -> None:
    mean, std = [0.4, 0.5, 0.6], [0.2, 0.3, 0.4]
    found = wy.data.normalize_images(COLOURS, mean, std)
    expected = np.moveaxis((COLOURS / 255.0 - mean) / std, -1, 1)
    assert found.dtype == np.float32 and found.flags.c_contiguous
    np.testing.assert_allclose(found, expected, atol=2e-6)
    assert wy.data.normalize_images(GREY).shape == (50, 1, 9, 7)
    np.testing.assert_array_equal(wy.data.normalize_images(GREY.astype(np.float32))[:, 0], GREY)


def test_images_of_pillow() -> None:
    image = pytest.importorskip("PIL.Image")
    pictures = [image.fromarray(each) for each in COLOURS]
    np.testing.assert_array_equal(wy.data.as_images(pictures), COLOURS)
    np.testing.assert_array_equal(wy.data.random_flip(pictures, drawn()), wy.data.random_flip(COLOURS, drawn()))
    of_palette = [each.convert("P") for each in pictures]
    assert wy.data.as_images(of_palette).shape == COLOURS.shape
    assert wy.data.as_images([each.convert("1") for each in pictures], mode="L").shape == GREY.shape
    with pytest.raises(ShapeError, match=r"image 1 has shape \(9, 7\), image 0 has \(9, 7, 3\): resize"):
        wy.data.as_images([pictures[0], pictures[1].convert("L")])
    assert wy.data.as_images([pictures[0], pictures[1].convert("L")], mode="RGB").shape == (2, 9, 7, 3)


def changed(columns: Any, generator: np.random.Generator) -> dict[str, Any]:
    images = columns["images"]
    for change in (
        wy.data.random_flip,
        lambda x, g: wy.data.random_shift(x, g, 2),
        lambda x, g: wy.data.cutout(x, g, 2),
    ):
        images = change(images, generator)
    return {"images": wy.data.normalize_images(images), "labels": columns["labels"]}


def test_a_seed_gives_the_same_batches_and_epochs_differ() -> None:
    data = wy.data.Dataset(images=COLOURS, labels=np.arange(50))
    loaders = [wy.data.DataLoader(data.map(changed, seed=seed), 16, seed=1) for seed in (0, 0, 5)]
    epochs = [[[batch["images"] for batch in loader] for _ in range(2)] for loader in loaders]
    for first, second in zip(epochs[0][1], epochs[1][1], strict=True):
        np.testing.assert_array_equal(first, second)
    assert (epochs[0][0][0] != epochs[0][1][0]).any() and (epochs[0][0][0] != epochs[2][0][0]).any()
    # A loader that goes on at an epoch gives that epoch, whatever was drawn before.
    resumed = wy.data.DataLoader(data.map(changed, seed=0), 16, seed=1)
    resumed.epoch = 1
    np.testing.assert_array_equal(next(iter(resumed))["images"], epochs[0][1][0])


def test_training_on_changed_images() -> None:
    data = wy.data.Dataset(images=COLOURS, labels=np.arange(50) % 3).map(changed, seed=0)

    def losses() -> list[float]:
        wy.nn.seed(0)
        images = wy.Input(dims=(wy.Dim(), 3, 9, 7), name="images")
        labels = wy.IndexInput(dims=images.dims[:1], name="labels")
        loss = wy.nn.Linear(189, 3)(images.flatten(1)).cross_entropy(labels)
        program = wy.compile(loss, wy.optim.SGD(loss.parameters(), learning_rate=0.01))
        return list(wy.train.fit(program, wy.data.DataLoader(data, 16), epochs=2)["loss"])

    assert losses() == losses()


BAD: dict[str, Any] = {
    "images hold numbers, not": lambda: wy.data.as_images(np.array([[["a"]]])),
    r"images have the axes \(batch, height, width\) at least, not the shape \(3, 4\)": (
        lambda: wy.data.as_images(np.zeros((3, 4)))
    ),
    "image 1 is str, not an array or an image of Pillow": lambda: wy.data.as_images([GREY[0], "cat.png"]),
    "there are no images": lambda: wy.data.as_images([]),
    "put a single image into a list": lambda: wy.data.as_images("cat.png"),
    r"axes 1 and 2 of images of shape \(50, 9, 7\) have 9 x 7 pixels, so no part of 8 x 8": (
        lambda: wy.data.random_crop(GREY, drawn(), 8)
    ),
    "random_crop: size must be an integer of at least 1, not 0": lambda: wy.data.random_crop(GREY, drawn(), 0),
    "random_crop: mode must be 'constant', 'edge' or 'reflect', not 'zeros'": (
        lambda: wy.data.random_crop(GREY, drawn(), 2, mode="zeros")  # type: ignore[arg-type]  # the mistake
    ),
    r"axes \(2, 3\) are not the height and the width of images of shape \(50, 9, 7\)": (
        lambda: wy.data.random_flip(GREY, drawn(), axes=(2, 3))
    ),
    r"random_flip: probability must be in \[0, 1\], not 1.5": lambda: wy.data.random_flip(GREY, drawn(), 1.5),
    "cutout: size must be an integer of at least 1": lambda: wy.data.cutout(GREY, drawn(), 0),
    r"mean has shape \(2,\), but the images have 3 channels": lambda: wy.data.normalize_images(COLOURS, [0.1, 0.2]),
    "std must be above 0": lambda: wy.data.normalize_images(COLOURS, std=0.0),
    "labels are the numbers of classes, integers, not float64": (
        lambda: wy.data.mixup(GREY, np.ones(50), drawn(), num_classes=2)
    ),
    r"labels have shape \(3,\); expected \(50,\)": lambda: wy.data.mixup(GREY, [0, 1, 0], drawn(), num_classes=2),
    "labels are from 0 to 49; expected 0 to 9": lambda: wy.data.mixup(GREY, np.arange(50), drawn(), num_classes=10),
    "mixup: alpha must be above 0": lambda: wy.data.mixup(GREY, np.arange(50), drawn(), num_classes=50, alpha=0.0),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input(message: str) -> None:
    with pytest.raises((DataError, DTypeError, OptionError, ShapeError), match=message):
        BAD[message]()


def test_every_function_is_public() -> None:
    public = {name for name, value in vars(augment).items() if getattr(value, "__module__", "") == augment.__name__}
    assert {name for name in public if not name.startswith("_")} <= set(wy.data.__all__)


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("channels", [1, 3])
def test_channels_before_height_and_width_need_axes(name: str, channels: int) -> None:
    images = wy.data.normalize_images(COLOURS[..., :channels])
    with pytest.raises(
        ShapeError, match=r"look like \(batch, channels, height, width\): give axes=\(-2, -1\), or call"
    ):
        CHANGES[name](images, drawn())
    CHANGES[name](images, drawn(), axes=(-2, -1))
    CHANGES[name](images, drawn(), axes=(2, 3))


@pytest.mark.parametrize("shape", [(2, 28, 28), (2, 28, 28, 1), (2, 3, 9, 3), (2, 9, 9, 12), (2, 16, 30, 30)])
def test_other_images_are_taken_as_height_and_width(shape: tuple[int, ...]) -> None:
    assert wy.data.random_flip(np.ones(shape), drawn()).shape == shape


def test_a_shift_keeps_a_part_of_the_image() -> None:
    with pytest.raises(OptionError, match=r"pixels must be less than the height and the width, the axes 1 and 2 of"):
        wy.data.random_shift(GREY, drawn(), 7)
    assert wy.data.random_shift(GREY, drawn(), 6).shape == GREY.shape


@pytest.mark.parametrize("function", [wy.data.random_crop, wy.data.random_shift, wy.data.random_flip, wy.data.cutout])
@pytest.mark.parametrize("generator", [0, np.random.RandomState(0), np.random])
def test_what_is_no_generator_is_refused(function: Any, generator: Any) -> None:
    with pytest.raises(DTypeError, match=rf"{function.__name__}: generator is .*; expected one of NumPy, as np.random"):
        function(np.zeros((2, 5, 5)), generator, 1)
    with pytest.raises(DTypeError, match="mixup: generator is"):
        wy.data.mixup(np.zeros((2, 5, 5)), np.array([0, 1]), generator, 2)
