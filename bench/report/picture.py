"""The picture of results, as SVG for light and for dark pages: the worst third of all cases, then programs by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.etree import ElementTree

from bench.report.growth import is_growth
from bench.report.results import Machine, caveats, rows

# The programs of the second part: the beginning of the case, and its label.
PROGRAMS = (
    ("lstm: per window of digits", "LSTM, one character at a time"),
    ("fizzbuzz: epoch", "FizzBuzz, an epoch"),
    ("bpr: epoch of MovieLens 100K, 16", "BPR on MovieLens, an epoch"),
    ("functions: logistic regression", "logistic regression, gradient"),
    ("gpt2: step, default, dropout 0.2", "small GPT-2 with dropout, a step"),
    ("gpt2: step, default, dropout 0.0", "small GPT-2, a step"),
    ("gpt2: 128 tokens", "small GPT-2, 128 tokens"),
    ("sequences: transformer encoder, width 128, 2 layers, 2 threads", "transformer encoder, a step"),
    ("sequences: LSTM, hidden 128, 2 threads", "LSTM of 128, a step"),
    ("gpt2: step, 124M, dropout", "GPT-2 124M, a step"),
    ("convolutions: network", "small convolutional network, a step"),
    ("chain: build + forward + backward, per node of 50", "new graph, built and run once"),
    ("regression: per sample", "a line, one sample at a time"),
    ("programs_beside: convolutions", "convolutions, a whole program with compiling"),
    ("programs_beside: pendulum", "pendulum, a whole program with compiling"),
    ("programs_beside: resnet", "ResNet, a whole program with compiling"),
)
# Peers by the beginnings of contenders' names, with a color on light and on dark pages and a mark.
PEERS = {
    "torch.compile": ("#e67700", "#ffc078", "diamond"),
    "torch": ("#d9480f", "#ff8a5c", "circle"),
    "jax": ("#1864ab", "#74c0fc", "square"),
    "implicit": ("#2b8a3e", "#69db7c", "triangle"),
    "numba": ("#087f5b", "#38d9a9", "down"),
    "numpy": ("#495057", "#ced4da", "cross"),
    "autograd": ("#862e9c", "#da77f2", "plus"),
    "mygrad": ("#a61e4d", "#faa2c1", "star"),
}
# The corners of the marks around their places.
_POINTS: dict[str, list[tuple[float, float]]] = {
    "square": [(-4, -4), (4, -4), (4, 4), (-4, 4)],
    "diamond": [(0, -5.5), (5.5, 0), (0, 5.5), (-5.5, 0)],
    "triangle": [(0, -5.2), (5, 4.2), (-5, 4.2)],
    "down": [(0, 5.2), (5, -4.2), (-5, -4.2)],
    "plus": [(-1.6, -5), (1.6, -5), (1.6, -1.6), (5, -1.6), (5, 1.6), (1.6, 1.6), (1.6, 5), (-1.6, 5),
             (-1.6, 1.6), (-5, 1.6), (-5, -1.6), (-1.6, -1.6)],
    "cross": [(0, -2.2), (3, -5), (5, -3), (2.2, 0), (5, 3), (3, 5), (0, 2.2), (-3, 5), (-5, 3), (-2.2, 0),
              (-5, -3), (-3, -5)],
    "star": [(0, -6), (1.7, -1.9), (5.7, -1.9), (2.5, 0.8), (3.6, 5), (0, 2.5), (-3.6, 5), (-2.5, 0.8),
             (-5.7, -1.9), (-1.7, -1.9)],
}  # fmt: skip
_NAMES = {"torch": "PyTorch", "jax": "JAX", "numba": "Numba", "numpy": "NumPy (OpenBLAS)", "mygrad": "MyGrad"}
_INK, _FAINT, _GRID = ("#212529", "#e6edf3"), ("#57606a", "#9198a1"), ("#dee2e6", "#30363d")
_FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
_WIDTH, _LEFT, _RIGHT, _LINE, _TOP = 880, 390, 850, 19, 58
_TICKS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16, 32, 64)


class Line(NamedTuple):
    """One case: for each peer the ratio on every machine, the smallest first."""

    label: str
    ratios: Mapping[str, Sequence[float]]

    @property
    def worst(self) -> float:
        """The smallest ratio."""
        return min(ratio for ratios in self.ratios.values() for ratio in ratios)

    @property
    def best(self) -> float:
        """The largest ratio."""
        return max(ratio for ratios in self.ratios.values() for ratio in ratios)


def peer_of(contender: str) -> str:
    """Return the library of a contender; "" if the picture has none of this name.

    >>> peer_of("torch, channels last"), peer_of("wyrm, 1 thread")
    ('torch', '')
    """
    return next((peer for peer in PEERS if contender.lower().startswith(peer)), "")


def lines_of(machines: Mapping[str, Machine]) -> tuple[list[Line], list[Line]]:
    """Return the third of the cases with the smallest ratios, and the programs by name; the smallest ratio first.

    Of several contenders of a library, a case has the fastest.
    """
    cases: dict[str, dict[str, list[list[float]]]] = {}
    for row in rows(machines):
        peer = peer_of(row.contender)
        if peer and row.ratios and not row.other_work and not is_growth(row.case):
            cases.setdefault(row.case, {}).setdefault(peer, []).append(row.ratios)
    every = [
        Line(case, {peer: min(found, key=lambda ratios: ratios[0]) for peer, found in peers.items()})
        for case, peers in cases.items()
    ]
    every.sort(key=lambda line: line.worst)
    programs = [Line(label, line.ratios) for line in every for start, label in PROGRAMS if line.label.startswith(start)]
    return every[: math.ceil(len(every) / 3)], programs


def draw(machines: Mapping[str, Machine], digest: str, dark: bool) -> str:
    """Return the picture as the text of an SVG file."""
    worst, programs = lines_of(machines)
    total = len({row.case for row in rows(machines) if row.ratios and not row.other_work and not is_growth(row.case)})
    names = "; ".join(machine.name for machine in machines.values())
    drawing = _Drawing(dark, [*worst, *programs])
    drawing.legend([peer for peer in PEERS if any(peer in line.ratios for line in [*worst, *programs])])
    top = drawing.panel(_TOP, f"The slowest third of all {total} cases beside a peer", worst)
    top = drawing.panel(top + 14, "Programs", programs)
    drawing.axis(top)
    where = f"{names}. All rows: docs/benchmarks.md"
    drawing.text(_WIDTH / 2, top + 58, where, size=11, anchor="middle", color=_FAINT)
    below = caveats(machines)
    for position, caveat in enumerate(below):
        drawing.text(_WIDTH / 2, top + 75 + 17 * position, caveat, size=11, anchor="middle", color=_FAINT)
    return drawing.finish(top + 70 + 17 * len(below), digest)


class _Drawing:
    def __init__(self, dark: bool, lines: Sequence[Line]) -> None:
        self.dark = dark
        ratios = [ratio for line in lines for found in line.ratios.values() for ratio in found] or [1.0]
        self.low = max((tick for tick in _TICKS if tick <= min(ratios)), default=_TICKS[0])
        self.high = min((tick for tick in _TICKS if tick >= max(ratios)), default=_TICKS[-1])
        self.low, self.high = min(self.low, 0.5), max(self.high, 2.0)
        self.root = ElementTree.Element("svg", xmlns="http://www.w3.org/2000/svg")
        self.behind = ElementTree.SubElement(self.root, "g")

    def add(self, kind: str, parent: ElementTree.Element | None = None, **attributes: object) -> ElementTree.Element:
        given = {key.replace("_", "-"): f"{value:.1f}" if isinstance(value, float) else str(value)
                 for key, value in attributes.items()}  # fmt: skip
        return ElementTree.SubElement(self.root if parent is None else parent, kind, given)

    def text(
        self, x: float, y: float, text: str, *, size: int = 12, anchor: str = "start",
        color: tuple[str, str] = _INK, weight: str = "normal",
    ) -> None:  # fmt: skip
        self.add("text", x=float(x), y=float(y), fill=color[self.dark], font_family=_FONT, font_size=size,
                 text_anchor=anchor, font_weight=weight).text = text  # fmt: skip

    def place(self, ratio: float) -> float:
        """Return where a ratio is, from left to right, on a logarithmic axis; those beyond its ends at the ends."""
        share = math.log(ratio / self.low) / math.log(self.high / self.low)
        return _LEFT + (_RIGHT - _LEFT) * min(1.0, max(0.0, share))

    def legend(self, peers: Sequence[str]) -> None:
        names = [_NAMES.get(peer, peer) for peer in peers]
        left = (_WIDTH - sum(7.0 * len(name) + 34.0 for name in names)) / 2
        for peer, name in zip(peers, names, strict=True):
            self.mark(peer, left, 18)
            self.text(left + 10, 22, name)
            left += 7.0 * len(name) + 34.0
        self.text(_LEFT, 44, "\N{LEFTWARDS ARROW} wyrm is slower", size=11, color=_FAINT)
        self.text(_RIGHT, 44, "wyrm is faster \N{RIGHTWARDS ARROW}", size=11, color=_FAINT, anchor="end")

    def panel(self, top: float, title: str, lines: Sequence[Line]) -> float:
        """Draw a title and lines; return where they end."""
        if not lines:
            return top
        self.text(12, top + 13, title, weight="bold")
        for number, line in enumerate(lines):
            y = top + _LINE * (number + 1.5)
            self.text(_LEFT - 12, y + 4, _shortened(line.label), anchor="end")
            self.add("line", self.behind, x1=_LEFT, x2=_RIGHT, y1=y, y2=y, stroke=_GRID[self.dark], stroke_width=0.5)
            for peer, ratios in line.ratios.items():
                if len(ratios) > 1:
                    x1, x2 = self.place(ratios[0]), self.place(ratios[-1])
                    self.add("line", x1=x1, x2=x2, y1=y, y2=y, stroke=PEERS[peer][self.dark], stroke_width=2)
                for ratio in ratios:
                    self.mark(peer, self.place(ratio), y)
            if line.best > self.high:
                near = [
                    self.place(ratios[0]) for ratios in line.ratios.values() if self.place(ratios[-1]) > _RIGHT - 80
                ]
                text = f"up to {line.best:.0f}\N{MULTIPLICATION SIGN}"
                self.text(min(near) - 8, y + 4, text, size=10, anchor="end", color=_FAINT)
        return top + _LINE * (len(lines) + 1) + 4

    def axis(self, bottom: float) -> None:
        for tick in _TICKS:
            if self.low <= tick <= self.high:
                x, one = self.place(tick), tick == 1
                color = (_INK if one else _GRID)[self.dark]
                self.add("line", self.behind, x1=x, x2=x, y1=_TOP - 6, y2=float(bottom), stroke=color,
                         stroke_width=1.5 if one else 1)  # fmt: skip
                self.text(x, bottom + 16, f"{tick:g}\N{MULTIPLICATION SIGN}", size=11, anchor="middle", color=_FAINT)
        about = "the peer's time relative to wyrm's"
        self.text((_LEFT + _RIGHT) / 2, bottom + 34, about, size=11, anchor="middle", color=_FAINT)

    def mark(self, peer: str, x: float, y: float) -> None:
        color, form = PEERS[peer][self.dark], PEERS[peer][2]
        if form == "circle":
            self.add("circle", cx=float(x), cy=float(y), r=4.5, fill=color)
            return
        self.add("polygon", points=" ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in _POINTS[form]), fill=color)

    def finish(self, height: float, digest: str) -> str:
        for name, value in (("viewBox", f"0 0 {_WIDTH} {height:.0f}"), ("width", _WIDTH), ("height", f"{height:.0f}")):
            self.root.set(name, str(value))
        description = ElementTree.Element("desc")
        description.text = f"digest of bench/results: {digest}"
        self.root.insert(0, description)
        ElementTree.indent(self.root)
        return ElementTree.tostring(self.root, encoding="unicode") + "\n"


def _shortened(label: str) -> str:
    """Return a label that fits left of the axis."""
    return label if len(label) <= 58 else f"{label[:56]}\N{HORIZONTAL ELLIPSIS}"
