"""A picture of results: `python -m bench.picture results.json picture.svg`; one row a case, one dot a peer."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

# The cases of the picture: benchmark, beginning of the case's name, label.
CASES = (
    ("lstm", "a window of digits", "LSTM, one character at a time"),
    ("fizzbuzz", "epoch", "FizzBuzz, an epoch"),
    ("bpr", "epoch of MovieLens 100K, 16", "BPR on MovieLens, an epoch"),
    ("functions", "scan of a recurrent cell", "recurrent cell, 1,000 steps"),
    ("functions", "logistic regression", "logistic regression, gradient"),
    ("gpt2", "step, default, dropout 0.2", "small GPT-2 with dropout, a step"),
    ("gpt2", "step, default, dropout 0.0", "small GPT-2, a step"),
    ("gpt2", "128 tokens", "small GPT-2, 128 tokens"),
    ("sequences", "transformer", "transformer encoder, a step"),
    ("gpt2", "step, 124M", "GPT-2 124M, a step"),
    ("sequences", "LSTM", "LSTM of 128, a step"),
    ("chain", "build", "new graph, built and run once"),
)
COLORS = {
    "torch eager": "#d9480f",
    "torch.compile": "#f08c00",
    "jax": "#1971c2",
    "implicit": "#2f9e44",
    "autograd": "#9c36b5",
    "mygrad": "#868e96",
}


class Line(NamedTuple):
    """One case: how many times as long as wyrm each peer takes."""

    label: str
    ratios: Mapping[str, float]


def lines_of(records: Sequence[Mapping[str, Any]]) -> list[Line]:
    """Return a line for each case of the picture that the results hold."""
    found = []
    for bench, beginning, label in CASES:
        ratios = {
            record["contender"]: record["ratio_to_wyrm"]
            for record in records
            if record["bench"] == bench and record["case"].startswith(beginning) and record["contender"] in COLORS
        }
        if ratios:
            found.append(Line(label, ratios))
    return found


def draw(lines: Sequence[Line], path: Path) -> None:
    """Draw the lines, on a logarithmic axis, to an image whose suffix names the format."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "wyrm"  # the same results give the same file
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8.0, 0.36 * len(lines) + 1.1), layout="constrained")
    for height, line in enumerate(reversed(lines)):
        for peer, ratio in line.ratios.items():
            axes.plot(ratio, height, "o", color=COLORS[peer], markersize=7, label=peer)
    axes.axvline(1.0, color="#212529", linewidth=1.5)
    axes.set_xscale("log")
    axes.set_yticks(range(len(lines)), [line.label for line in reversed(lines)])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    axes.set_xlabel("time relative to wyrm (the line at 1x): right of it, wyrm is faster")
    axes.grid(axis="x", color="#dee2e6")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False)
    labels = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.legend(
        [labels[peer] for peer in COLORS if peer in labels],
        [peer for peer in COLORS if peer in labels],
        loc="outside upper center",
        ncols=len(labels),
        frameon=False,
    )
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=150)


def main() -> None:
    """Read the results that `python -m bench all --json` wrote, and draw them."""
    parser = argparse.ArgumentParser(prog="python -m bench.picture", description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("picture", type=Path)
    arguments = parser.parse_args()
    draw(lines_of(json.loads(arguments.results.read_text(encoding="utf-8"))), arguments.picture)


if __name__ == "__main__":
    main()
