"""Shared by the examples: pictures, as PNG files in the folder of --pictures and below the cells of a notebook."""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#8a8a8a"  # distinct for colour-blind readers (Okabe and Ito, 2008)
STYLE: dict[str, Any] = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "legend.frameon": False,
    "lines.linewidth": 2.0,
}


def in_notebook() -> bool:
    """Return whether the code runs in the kernel of a notebook."""
    return "ipykernel" in sys.modules


def show(value: object) -> None:
    """Display a value below a notebook's cell, such as a graph, which displays itself; do nothing in a script."""
    if in_notebook():
        from IPython.display import display

        display(value)  # type: ignore[no-untyped-call]


def add_pictures(parser: argparse.ArgumentParser) -> None:
    """Add the option --pictures."""
    parser.add_argument("--pictures", type=picture_folder, help="folder to write pictures to, as PNG; needs matplotlib")


def picture_folder(text: str) -> Path:
    """Create a folder for pictures, for argparse; refuse one that cannot be written, before the training starts."""
    if find_spec("matplotlib") is None:
        raise argparse.ArgumentTypeError("pictures need matplotlib: pip install matplotlib")
    folder = Path(text)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot write to {text}: {error.strerror}") from error
    return folder


class Pictures:
    """The pictures of an example: true where there is a place for them, a folder or a notebook.

    with pictures.draw("line") as figure: figure.subplots().plot([1, 2, 3])

    With `quiet`, they are written without a line of output, and not shown.
    """

    def __init__(self, folder: Path | None, quiet: bool = False) -> None:
        self.folder, self.quiet = folder, quiet

    def __bool__(self) -> bool:
        return self.folder is not None or (in_notebook() and find_spec("matplotlib") is not None)

    @contextmanager
    def draw(self, name: str, width: float = 7.0, height: float = 4.0) -> Iterator[Figure]:
        """Yield an empty figure, its size in inches; then write it to `name`.png, and show it in a notebook."""
        import matplotlib.style
        from matplotlib.figure import Figure

        with matplotlib.style.context(["default", STYLE]):
            figure = Figure(figsize=(width, height), layout="constrained")
            yield figure
            image = BytesIO()
            figure.savefig(image, dpi=150)
        if self.folder is not None:
            path = self.folder / f"{name}.png"
            path.write_bytes(image.getvalue())
            if not self.quiet:
                print(f"picture: {path}")
        if in_notebook() and not self.quiet:
            from IPython.display import Image

            show(Image(image.getvalue(), width=int(width * 96)))  # type: ignore[no-untyped-call]

    def curves(self, title: str, history: Mapping[str, Sequence[float]], units: Mapping[str, str]) -> None:
        """Draw the figures of each epoch; a figure `validation_NAME` shares the axes of NAME, a key of `units`.

        A unit that ends in (%) is that of shares. Positive figures that fall to less than a tenth have a log scale.
        Figures of no epoch, as after a training that was complete already, are not drawn.
        """
        if not history:
            return
        from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

        with self.draw("losses", width=max(7.0, 5.0 * len(units))) as figure:
            figure.suptitle(title, x=0.01, ha="left", weight="bold")
            for axes, (name, unit) in zip(np.ravel(figure.subplots(1, len(units))), units.items(), strict=True):
                drawn = np.empty(0)
                for key, label, colour in ((name, "training", GREY), (f"validation_{name}", "held out", BLUE)):
                    values = np.array(history.get(key, ())) * (100.0 if unit.endswith("(%)") else 1.0)
                    if len(values):
                        marker = "o" if len(values) <= 20 else ""
                        axes.plot(range(1, len(values) + 1), values, marker=marker, color=colour, ms=5, label=label)
                        drawn = np.append(drawn, values)
                if 0.0 < 10.0 * np.nanmin(drawn) < np.nanmax(drawn):
                    axes.set_yscale("log")
                    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
                    axes.yaxis.set_major_formatter("{x:g}")
                    axes.yaxis.set_minor_formatter(NullFormatter())
                axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
                axes.set(xlabel="epoch", ylabel=unit)
                axes.legend()


def without_axes(axes: Axes) -> None:
    """Remove ticks, frame and grid."""
    axes.set(xticks=[], yticks=[], frame_on=False)
    axes.grid(visible=False)


def square(image: NDArray[Any]) -> NDArray[Any]:
    """Return an image of two axes from its pixels in one or two; end the program unless it is a square."""
    side = math.isqrt(image.size)
    if side * side != image.size:
        sys.exit(f"pictures of images are drawn for squares; {image.size} pixels are none")
    return image.reshape(side, side)


def show_images(
    axes: Axes,
    images: NDArray[Any],
    columns: int,
    titles: Sequence[str] = (),
    colours: str = "gray_r",
    limits: tuple[float, float] = (0.0, 1.0),
) -> None:
    """Draw square images, (count, pixels), in rows of `columns`, with titles above them; by default 1 is black."""
    side = square(images[0]).shape[0]
    gap = side // 3 + 1 if titles else side // 8 + 1
    cell = side + gap
    wall = np.full((-(-len(images) // columns) * cell, columns * cell), np.nan)
    for index, image in enumerate(images):
        top, left = index // columns * cell + gap, index % columns * cell
        wall[top : top + side, left : left + side] = square(image)
        if titles:
            axes.text(left + side / 2, top - 0.8, titles[index], ha="center", va="bottom", fontsize=10)
    axes.imshow(wall, cmap=colours, vmin=limits[0], vmax=limits[1], interpolation="nearest")
    without_axes(axes)
