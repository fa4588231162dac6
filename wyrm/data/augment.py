"""Images as arrays, and their random changes: crop, shift, flip, cutout and mixup of whole batches.

Images are arrays of the axes (batch, height, width) or (batch, height, width, channels), as Pillow gives them, or a
list of Pillow images of one size. Change them first and call `normalize_images` last, as below: it returns floats of
the axes (batch, channels, height, width), for which the functions here need `axes=(-2, -1)`. A function draws from the
generator that it is given, for all images at once. The generator of `Dataset.map(function, seed=0)` depends on the
seed, the epoch and the batch alone, so equal seeds give equal batches.

>>> import wyrm as wy
>>> def changed(columns, generator):
...     images = wy.data.random_flip(columns["images"], generator)
...     return {"images": wy.data.normalize_images(images), "labels": columns["labels"]}
>>> data = wy.data.Dataset(images=np.zeros((4, 8, 8, 3), np.uint8), labels=[0, 1, 1, 0]).map(changed, seed=0)
>>> next(iter(wy.data.DataLoader(data, batch_size=2)))["images"].shape
(2, 3, 8, 8)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wyrm.errors import DataError, DTypeError, OptionError, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.support.options import choice, number, whole

Images: TypeAlias = NDArray[Any]
# Modes of Pillow whose arrays hold brightness or colours; images of other modes, such as a palette's, are converted.
_MODES = ("L", "RGB", "RGBA", "I;16", "I", "F")
# The axes of height and width where none are given, and the numbers of channels that colours have.
_HEIGHT_AND_WIDTH = (1, 2)
_CHANNELS = (1, 3, 4)


def as_images(images: ArrayLike | Sequence[Any], mode: str | None = None) -> Images:
    """Return images as one array of the axes (batch, height, width), or (batch, height, width, channels).

    An array is returned as it is. A list holds arrays or Pillow images of one size, such as a column of Hugging Face's
    `datasets`: `wy.data.Dataset(images=wy.data.as_images(rows["image"]), labels=rows["label"])`. `mode` converts Pillow
    images, as in "RGB" or "L" (grey); without it, images with a palette become "RGB".

    Raises:
        ShapeError: the images have different sizes or numbers of channels, or the array has no height and width.
        DTypeError: an element is no image.
        DataError: there are no images.

    >>> as_images([np.zeros((4, 6, 3), np.uint8), np.ones((4, 6, 3), np.uint8)]).shape
    (2, 4, 6, 3)
    """
    if not isinstance(images, np.ndarray):
        given: Any = images
        if not isinstance(given, list | tuple):
            raise DTypeError(
                f"images are an array or a list of images, not {type(given).__name__}; put a single image into a list"
            )
        arrays = [_as_image(image, position, mode) for position, image in enumerate(given)]
        if not arrays:
            raise DataError("there are no images; give one at least")
        for position, array in enumerate(arrays):
            if array.shape != arrays[0].shape:
                raise ShapeError(
                    f"image {position} has shape {array.shape}, image 0 has {arrays[0].shape}: resize them to one "
                    f"size, as in image.resize((32, 32)), and give mode='RGB' for equal channels"
                )
        images = np.stack(arrays)
    if images.dtype.kind not in "iufb":
        raise DTypeError(f"images hold numbers, not {images.dtype}")
    if images.ndim < 3:
        raise ShapeError(f"images have the axes (batch, height, width) at least, not the shape {images.shape}")
    return images


def _as_image(image: Any, position: int, mode: str | None) -> Images:
    """Return an image as an array; one of Pillow in a mode whose numbers are brightness or colours."""
    if hasattr(image, "convert") and hasattr(image, "mode"):
        wanted = mode if mode is not None else image.mode if image.mode in _MODES else "RGB"
        image = image if image.mode == wanted else image.convert(wanted)
    array = as_array(image)
    if array.dtype.kind not in "iufb" or array.ndim < 2:
        raise DTypeError(f"image {position} is {type(image).__name__}, not an array or an image of Pillow")
    return array


def normalize_images(
    images: ArrayLike | Sequence[Any], mean: ArrayLike = 0.0, std: ArrayLike = 1.0
) -> NDArray[np.float32]:
    """Return images as float32 of the axes (batch, channels, height, width), as convolutions take them.

    Images of unsigned integers are divided by their largest number, 255 for uint8, and floats are taken as they are.
    Then `mean` is subtracted, and the result divided by `std`: a number, or one for each channel. Images of the axes
    (batch, height, width) have one channel. A `wy.Input` takes integers from 0 to 255 too, unscaled, from which
    networks learn badly. Call it after `random_shift` and other changes, which take the channels last.

    Raises:
        ShapeError: `mean` or `std` do not have one number for each channel, or the images have other axes.
        DTypeError: the images hold no numbers.
        DataError: a standard deviation is not above 0.

    >>> normalize_images(np.full((5, 32, 32, 3), 255, np.uint8), mean=[0.5, 0.5, 0.5], std=0.5)[0, :, 0, 0].tolist()
    [1.0, 1.0, 1.0]
    """
    array = as_images(images)
    if array.ndim not in (3, 4):
        raise ShapeError(f"images are (batch, height, width) or (batch, height, width, channels), not {array.shape}")
    array = array[..., None] if array.ndim == 3 else array
    channels = array.shape[-1]
    vectors = []
    for name, value in (("mean", mean), ("std", std)):
        vector = as_array(value).astype(np.float64)
        if vector.shape not in ((), (1,), (channels,)):
            raise ShapeError(f"{name} has shape {vector.shape}, but the images have {channels} channels")
        vectors.append(vector)
    if not (vectors[1] > 0.0).all():
        raise DataError(f"std must be above 0, not {std!r}")
    scale = float(np.iinfo(array.dtype).max) if array.dtype.kind == "u" else 1.0
    # (x / scale - mean) / std, in one product and one sum.
    factor = np.broadcast_to(1.0 / (scale * vectors[1]), (channels,)).astype(np.float32)
    shift = np.broadcast_to(-vectors[0] / vectors[1], (channels,)).astype(np.float32)
    result = np.empty((len(array), channels, *array.shape[1:3]), np.float32)
    np.multiply(np.moveaxis(array, -1, 1), factor[:, None, None], out=result)
    result += shift[:, None, None]
    return result


class _ImagesByAxes(NamedTuple):
    """Images, and the axes of their height and width, counted from 0."""

    array: Images
    axes: tuple[int, int]

    @property
    def view(self) -> Images:
        """The images with the axes (batch, height, width, ...)."""
        return np.moveaxis(self.array, self.axes, (1, 2))

    def copied(self) -> _ImagesByAxes:
        """Return a copy of the images, to change through its `view`."""
        return _ImagesByAxes(self.array.copy(), self.axes)

    @property
    def described(self) -> str:
        """Which axes of which images change."""
        return f"the axes {self.axes[0]} and {self.axes[1]} of images of shape {self.array.shape}"


def _check_generator(name: str, generator: object) -> None:
    """Raise `DTypeError` for what is no generator; `name` is that of the function that draws from it."""
    if not isinstance(generator, np.random.Generator):
        raise DTypeError(
            f"{name}: generator is {generator!r}; expected one of NumPy, as np.random.default_rng(0), which "
            f"Dataset.map(function, seed=0) gives to its function"
        )


def _prepared(
    name: str, images: ArrayLike | Sequence[Any], generator: object, axes: tuple[int, int] | None
) -> _ImagesByAxes:
    """Return the images with the axes that a function, of this name, changes; check its generator."""
    array = as_images(images)
    _check_generator(name, generator)
    if axes is None:
        axes, shape = _HEIGHT_AND_WIDTH, array.shape
        if len(shape) == 4 and shape[1] in _CHANNELS and shape[3] not in _CHANNELS and min(shape[2:]) > shape[1]:
            raise ShapeError(
                f"{name} changes the axes 1 and 2, which have the sizes {shape[1]} and {shape[2]}; images of shape "
                f"{shape} look like (batch, channels, height, width): give axes=(-2, -1), or call {name} before "
                f"normalize_images"
            )
    found = [axis % array.ndim if -array.ndim <= axis < array.ndim else 0 for axis in axes]
    if 0 in found or found[0] == found[1]:
        raise ShapeError(f"{name}: axes {axes} are not the height and the width of images of shape {array.shape}")
    return _ImagesByAxes(array, (found[0], found[1]))


def random_crop(
    images: ArrayLike | Sequence[Any],
    generator: np.random.Generator,
    size: int | tuple[int, int],
    padding: int = 0,
    *,
    mode: Literal["constant", "edge", "reflect"] = "constant",
    axes: tuple[int, int] | None = None,
) -> Images:
    """Return a part of each image at a random place, of `size` pixels: one number, or height and width.

    Before that, `padding` pixels are added at each side: 0, or with `mode` the nearest pixels or the image reflected.
    `axes` are the height and the width, by default 1 and 2, so call it before `normalize_images`; after it give
    `axes=(-2, -1)`.

    Raises:
        ShapeError: the padded images are smaller than `size`, `axes` are not two of theirs after the first, or they are
            left out and the channels come before height and width.
        DTypeError: `generator` is no generator of NumPy.
        OptionError: a number of pixels is not an integer of at least 1, or 0 for the padding.

    >>> images = np.arange(2 * 5 * 5).reshape(2, 5, 5)
    >>> random_crop(images, np.random.default_rng(0), 3).shape
    (2, 3, 3)
    """
    given = size if isinstance(size, tuple | list) else (size, size)
    if len(given) != 2:
        raise ShapeError(f"random_crop: size is a number of pixels, or (height, width), not {size!r}")
    height, width = (whole("random_crop: size", each, 1) for each in given)
    border = whole("random_crop: padding", padding, 0)
    choice("random_crop: mode", mode, ("constant", "edge", "reflect"))
    prepared = _prepared("random_crop", images, generator, axes)
    return _cropped("random_crop", prepared, generator, (height, width), border, mode)


def _cropped(
    name: str, images: _ImagesByAxes, generator: np.random.Generator, size: tuple[int, int], border: int, mode: Any
) -> Images:
    """Return a part of each padded image at a random place."""
    view, (height, width) = images.view, size
    if border:
        pads = [(0, 0), (border, border), (border, border), *[(0, 0)] * (view.ndim - 3)]
        view = np.pad(view, pads, mode=mode)
    rows, columns = view.shape[1] - height, view.shape[2] - width
    if rows < 0 or columns < 0:
        there = f"{view.shape[1]} x {view.shape[2]} pixels{' with the padding' if border else ''}"
        raise ShapeError(f"{name}: {images.described} have {there}, so no part of {height} x {width}")
    tops = generator.integers(0, rows + 1, len(view))
    lefts = generator.integers(0, columns + 1, len(view))
    parts = np.lib.stride_tricks.sliding_window_view(view, (height, width), (1, 2))[np.arange(len(view)), tops, lefts]
    return np.ascontiguousarray(np.moveaxis(parts, (-2, -1), images.axes))


def random_shift(
    images: ArrayLike | Sequence[Any],
    generator: np.random.Generator,
    pixels: int,
    *,
    mode: Literal["constant", "edge", "reflect"] = "constant",
    axes: tuple[int, int] | None = None,
) -> Images:
    """Return the images moved by up to `pixels` in each direction; see `random_crop` for `mode`, `axes` and errors.

    Call it before `normalize_images`, or give `axes=(-2, -1)`. Raise `OptionError` unless `pixels` is less than the
    height and the width.

    >>> image = np.zeros((1, 5, 5))
    >>> image[0, 2, 2] = 1.0
    >>> float(random_shift(image, np.random.default_rng(0), 2).sum())
    1.0
    """
    prepared, border = _prepared("random_shift", images, generator, axes), whole("random_shift: pixels", pixels, 0)
    choice("random_shift: mode", mode, ("constant", "edge", "reflect"))
    height, width = prepared.view.shape[1:3]
    if border and border >= min(height, width):
        raise OptionError(
            f"random_shift: pixels must be less than the height and the width, {prepared.described}; it is {border}"
        )
    return _cropped("random_shift", prepared, generator, (height, width), border, mode)


def random_flip(
    images: ArrayLike | Sequence[Any],
    generator: np.random.Generator,
    probability: float = 0.5,
    *,
    vertical: bool = False,
    axes: tuple[int, int] | None = None,
) -> Images:
    """Return the images, each mirrored with a probability: left and right, or with `vertical` above and below.

    Call it before `normalize_images`, or give `axes=(-2, -1)`, see `random_crop`, also for errors. Raise `OptionError`
    for a probability outside [0, 1].

    >>> random_flip(np.array([[[1, 2, 3]]]), np.random.default_rng(0), probability=1.0).tolist()
    [[[3, 2, 1]]]
    """
    prepared = _prepared("random_flip", images, generator, axes)
    if number("random_flip: probability", probability, 0.0) > 1.0:
        raise OptionError(f"random_flip: probability must be in [0, 1], not {probability}")
    chosen = generator.random(len(prepared.array)) < probability
    result = prepared.copied()
    result.view[chosen] = np.flip(prepared.view[chosen], axis=1 if vertical else 2)
    return result.array


def cutout(
    images: ArrayLike | Sequence[Any],
    generator: np.random.Generator,
    size: int,
    fill: float = 0.0,
    *,
    axes: tuple[int, int] | None = None,
) -> Images:
    """Return the images, each with `fill` in a square of `size` pixels around a random pixel.

    A part of the square may be outside. DeVries and Taylor, "Improved regularization of convolutional neural networks
    with cutout" (2017).

    Call it before `normalize_images`, or give `axes=(-2, -1)`, see `random_crop`, also for errors. Raise `OptionError`
    for a size below 1.

    >>> int(cutout(np.ones((1, 8, 8), np.uint8), np.random.default_rng(0), 3).sum())
    55
    """
    prepared = _prepared("cutout", images, generator, axes)
    length = whole("cutout: size", size, 1)
    inside = []
    for pixels in prepared.view.shape[1:3]:
        first = generator.integers(0, pixels, len(prepared.array))[:, None] - length // 2
        places = np.arange(pixels)
        inside.append((places >= first) & (places < first + length))
    result = prepared.copied()
    result.view[inside[0][:, :, None] & inside[1][:, None, :]] = number("cutout: fill", fill)
    return result.array


def mixup(
    images: ArrayLike | Sequence[Any],
    labels: ArrayLike,
    generator: np.random.Generator,
    num_classes: int,
    alpha: float = 0.2,
) -> tuple[Images, NDArray[np.float32]]:
    """Return images blended with others of the batch, and the probabilities of the classes, (batch, num_classes).

    Each image is `share * image + (1 - share) * other` in floats, with a share drawn from Beta(alpha, alpha), and its
    classes have these shares; `labels`, (batch,), are the numbers of classes. The loss of such labels is
    `-(probabilities * logits.log_softmax()).sum(-1).mean()`. Integers become float32. Zhang et al., "mixup: Beyond
    empirical risk minimization" (2018).

    Raises:
        DTypeError: the labels are not integers, or `generator` is no generator of NumPy.
        ShapeError: there is not one label for each image.
        DataError: a label is not one of `num_classes`.
        OptionError: `alpha` is not above 0.

    >>> images, labels = np.zeros((2, 4, 4), np.uint8), np.array([0, 2])
    >>> mixed, shares = mixup(images, labels, np.random.default_rng(0), num_classes=3)
    >>> mixed.dtype, shares.shape, shares.sum(axis=1).round(6).tolist()
    (dtype('float32'), (2, 3), [1.0, 1.0])
    """
    array, classes = as_images(images), as_array(labels)
    _check_generator("mixup", generator)
    count, concentration = whole("mixup: num_classes", num_classes, 1), number("mixup: alpha", alpha, 0.0)
    if concentration == 0.0:
        raise OptionError("mixup: alpha must be above 0, not 0")
    if classes.dtype.kind not in "iu":
        raise DTypeError(f"labels are the numbers of classes, integers, not {classes.dtype}")
    if classes.shape != array.shape[:1]:
        raise ShapeError(f"labels have shape {classes.shape}; expected ({len(array)},), one for each image")
    if len(classes) and not 0 <= classes.min() <= classes.max() < count:
        raise DataError(f"labels are from {classes.min()} to {classes.max()}; expected 0 to {count - 1}")
    dtype = array.dtype if array.dtype.kind == "f" else np.dtype(np.float32)
    shares = generator.beta(concentration, concentration, len(array)).astype(dtype)
    other = generator.permutation(len(array))
    along = shares.reshape(-1, *[1] * (array.ndim - 1))
    mixed = along * array + (1 - along) * array[other]
    probabilities = np.zeros((len(array), count), np.float32)
    rows = np.arange(len(array))
    np.add.at(probabilities, (rows, classes), shares)
    np.add.at(probabilities, (rows, classes[other]), 1 - shares)
    return mixed.astype(dtype, copy=False), probabilities
