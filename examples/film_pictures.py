"""Shared by the examples that recommend films: titles, and pictures of films that lie near each other."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pictures import BLUE, GREY, ORANGE, Pictures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Vectors = NDArray[np.float32]
Numbers = NDArray[np.int64]

# Where a label stands beside its point, in points: right, left, above, below.
PLACES = [
    ((5, 0), "left", "center"),
    ((-5, 0), "right", "center"),
    ((0, 5), "center", "bottom"),
    ((0, -5), "center", "top"),
]


def read_titles(path: Path) -> dict[int, str]:
    """Return the titles of `u.item` of MovieLens 100K by film id: lines of `id|title|...`, in Latin-1.

    "Usual Suspects, The (1995)" becomes "The Usual Suspects (1995)".
    """
    titles = {}
    for number, line in enumerate(path.read_text(encoding="latin-1").splitlines(), start=1):
        film, _, rest = line.partition("|")
        title = rest.partition("|")[0].strip()
        if not film.isdecimal() or not title:
            sys.exit(f"{path}, line {number}: a film is a line of id|title|..., not {line[:60]!r}")
        name, _, year = title.rpartition(" (")
        start, _, article = name.rpartition(", ")
        titles[int(film)] = f"{article} {start} ({year}" if article in ("The", "A", "An") else title
    return titles


def title_list(path: Path | None, ids: Numbers) -> list[str]:
    """Return the title of each film, in the order of their ids, for matplotlib; where none is known, "film ID"."""
    titles = {} if path is None else read_titles(path)
    return [titles.get(film, f"film {film}").replace("$", r"\$") for film in ids.tolist()]  # no formulas


def shortened(title: str, length: int) -> str:
    """Return a title of at most so many letters."""
    return title if len(title) <= length else f"{title[: length - 1].rstrip()}…"


def neighbours(vectors: Vectors, films: Numbers, among: Numbers, count: int) -> tuple[Numbers, Vectors]:
    """Return the films of `among` with the greatest cosine to each film, and the cosines, (films, count)."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    cosines = unit[films] @ unit[among].T
    cosines[films[:, None] == among] = -np.inf
    order = np.argsort(-cosines, axis=1, kind="stable")[:, : min(count, len(among) - 1)]
    return among[order], np.take_along_axis(cosines, order, axis=1)


def draw_neighbours(pictures: Pictures, vectors: Vectors, ratings: Numbers, titles: list[str], films: Numbers) -> None:
    """Draw a table of films and, for each, the five nearest among those with at least as many ratings as the median."""
    often = np.flatnonzero(ratings >= max(np.median(ratings), 1))
    near, cosines = neighbours(vectors, films, often, 5)
    with pictures.draw("neighbours", width=9.0, height=0.8 + 1.3 * len(films)) as figure:
        places = figure.subplots(len(films), 1, sharex=True, squeeze=False)[:, 0]
        for axes, film, others, values in zip(places, films.tolist(), near.tolist(), cosines, strict=True):
            rows = range(len(others))
            axes.barh(rows, values, color=BLUE, height=0.7)
            axes.set_yticks(rows, [shortened(titles[other], 48) for other in others], fontsize=9)
            axes.tick_params(length=0)
            axes.grid(visible=False, axis="y")
            axes.set(xlim=(0.0, 1.0), ylim=(len(others) - 0.5, -0.5))
            axes.set_title(f"Near {titles[film]}", fontsize=11, pad=6)
        places[-1].set_xlabel("cosine of the two films' vectors")


def draw_map(pictures: Pictures, vectors: Vectors, ratings: Numbers, titles: list[str], films: int = 300) -> None:
    """Draw a map of the films with the most ratings, along the two directions in which their vectors differ most.

    Vectors of one number have no second direction, and no map.
    """
    if vectors.shape[1] < 2:
        return
    shown = np.argsort(-ratings, kind="stable")[:films]
    unit = vectors[shown] / np.maximum(np.linalg.norm(vectors[shown], axis=1, keepdims=True), 1e-12)
    centred = unit - unit.mean(axis=0)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    points = centred @ directions[:2].T
    first, second = sizes[:2] ** 2 / np.sum(sizes**2)
    with pictures.draw("map", width=13.0, height=9.5) as figure:
        axes = figure.subplots()
        axes.scatter(points[:, 0], points[:, 1], s=4.0 * np.sqrt(ratings[shown]), color=BLUE, alpha=0.35, linewidths=0)
        axes.set(xlabel=f"first principal component of the films' vectors ({first:.0%} of their variance)")
        axes.set(ylabel=f"second principal component ({second:.0%})")
        axes.set_title(
            f"The {len(shown)} films with the most ratings: films that the same users like lie close together"
        )
        axes.margins(0.1, 0.04)
        label_apart(figure, axes, points, [shortened(titles[film].partition(" (")[0], 26) for film in shown.tolist()])


def label_apart(figure: Figure, axes: Axes, points: Vectors, labels: list[str]) -> None:
    """Label points in order, each beside its point, but those whose label would overlap an earlier one."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.patheffects import withStroke

    FigureCanvasAgg(figure)  # keeps one renderer, where each measurement of a label would make its own
    figure.draw_without_rendering()  # so that positions in pixels are known
    taken = np.empty((0, 4))
    for (x, y), label in zip(points.tolist(), labels, strict=True):
        text = axes.annotate(label, (x, y), (0, 0), textcoords="offset points", fontsize=9)
        for offset, horizontal, vertical in PLACES:
            text.set(position=offset, ha=horizontal, va=vertical)
            left, low, right, high = text.get_window_extent().padded(3.0).extents
            apart = (taken[:, 0] > right) | (taken[:, 2] < left) | (taken[:, 1] > high) | (taken[:, 3] < low)
            if apart.all():
                text.set_path_effects([withStroke(linewidth=2.0, foreground="white")])
                taken = np.vstack([taken, (left, low, right, high)])
                break
        else:
            text.remove()


def draw_hits(
    pictures: Pictures, rankings: Mapping[str, NDArray[Any]], last: Numbers, exclude: NDArray[np.bool_]
) -> None:
    """Draw the share of users whose last film is among the first 1, 2, 3, ... of each ranking."""
    users = np.arange(len(last))
    with pictures.draw("ranks", width=8.0, height=5.0) as figure:
        axes = figure.subplots()
        for (name, scores), colour in zip(rankings.items(), (BLUE, GREY, ORANGE), strict=True):
            left = np.where(exclude, -np.inf, scores)
            ranks = np.sum(left >= left[users, last][:, None], axis=1)  # ties count against the ranking
            counts = np.arange(1, left.shape[1] + 1)
            axes.plot(counts, 100.0 * np.mean(ranks[:, None] <= counts, axis=0), color=colour, label=name)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.set(xlabel="length of the list of recommendations (films)", ylabel="users whose next film is in it (%)")
        axes.set_title(f"How soon the next film of {len(last)} users is recommended")
        axes.legend(loc="upper left")
