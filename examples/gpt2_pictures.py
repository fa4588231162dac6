"""Pictures of a GPT-2: its losses, and what its heads attend to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pictures import BLUE, GREY, Pictures, without_axes

import wyrm as wy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

SENTENCE = "Once upon a time, there was a little girl named Lily. She had a red ball."
LONGEST = 24  # tokens whose names can still be read beside a map


def draw_losses(pictures: Pictures, losses: Mapping[str, Sequence[Sequence[float]]]) -> None:
    """Draw the losses, lists of a step and a loss."""
    with pictures.draw("losses") as figure:
        axes = figure.subplots()
        for name, points in losses.items():
            steps, values = np.array(points).T
            training = name == "training"
            axes.plot(steps, values, color=GREY if training else BLUE, label=name, linewidth=0.8 if training else 2.0)
        axes.set(xlabel="step", ylabel="cross-entropy (nats a token)", title="GPT-2 on TinyStories")
        axes.legend()


def attention_weights(model: wy.nn.GPT2, ids: Sequence[int]) -> NDArray[np.float32]:
    """Return the weight with which each head of each layer sums the values of each token.

    The shape is (layers, heads, tokens that attend, tokens attended to). The model's own graph computes attention in
    one operation that never holds these weights.
    """
    x: Any = model.tokens.weight.embed(wy.IndexConstant(np.array([ids])), model.positions.weight)
    later = np.triu(np.full((len(ids), len(ids)), -np.inf), 1)  # hides the tokens after each one
    layers = []
    for block in model.blocks:
        attention = block.attention
        features = model.config.n_embd // attention.num_heads
        projected: Any = attention.qkv(block.attention_norm(x))
        queries, keys, _ = projected.reshape((len(ids), 3, attention.num_heads, features)).transpose(1, 2, 0, 3)
        layers.append((queries @ keys.transpose(0, 2, 1) / features**0.5 + later).softmax())
        x = block(x)
    return np.stack([layer.forward() for layer in layers])


def draw_attention(pictures: Pictures, model: wy.nn.GPT2, tokenizer: wy.data.Tokenizer, text: str = SENTENCE) -> None:
    """Draw the attention of all heads in small maps, and that of the last layer with the tokens of the text."""
    ids = tokenizer.encode(text)[: min(LONGEST, model.config.n_positions)].tolist()
    if not ids:
        return
    names = [tokenizer.decode([token]).strip().replace("$", r"\$") or "␣" for token in ids]  # no formulas
    model.eval()  # without dropout
    weights = attention_weights(model, ids)
    layers, heads = weights.shape[:2]
    hidden = np.triu(np.ones((len(ids), len(ids)), np.bool_), 1)
    with pictures.draw("attention", width=max(6.0, 1.2 + 0.8 * heads), height=1.1 + 0.85 * layers) as figure:
        figure.suptitle("Attention of each head (columns) of each layer (rows)", x=0.01, ha="left", weight="bold")
        for layer, row in enumerate(figure.subplots(layers, heads, squeeze=False)):
            for head, axes in enumerate(row):
                show_weights(axes, weights[layer, head], hidden)
                without_axes(axes)
                if layer == 0:
                    axes.set_title(str(head + 1), fontsize=10, weight="normal", loc="center", pad=4)
            row[0].set_ylabel(f"layer {layer + 1}", rotation=0, ha="right", va="center", fontsize=10)

    columns = min(4, heads)
    rows = -(-heads // columns)
    side = 0.8 + 0.14 * len(ids)
    with pictures.draw(
        "attention_last_layer", width=max(10.0, columns * side + 2.0), height=rows * side + 1.5
    ) as figure:
        figure.suptitle(
            "Attention of the last layer: a row shows how much its token reads of itself and of each earlier token",
            x=0.01, ha="left", weight="bold",
        )  # fmt: skip
        places = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for head, axes in enumerate(places.flat):
            if head >= heads:
                axes.set_visible(False)
                continue
            drawn = show_weights(axes, weights[-1, head], hidden)
            axes.set_title(f"head {head + 1}", fontsize=10, pad=4)
            axes.set_xticks(range(len(ids)), names, rotation=90, fontsize=8)
            axes.set_yticks(range(len(ids)), names, fontsize=8)
            axes.tick_params(length=0)
        figure.colorbar(
            drawn,
            ax=places,
            shrink=0.6,
            aspect=30,
            pad=0.02,
            label="weight (grey: hidden later tokens)",
        )


def show_weights(axes: Axes, weights: NDArray[np.float32], hidden: NDArray[np.bool_]) -> AxesImage:
    """Draw the weights of a head, with the tokens that it cannot see in grey."""
    from matplotlib import colormaps
    from matplotlib.colors import PowerNorm

    colours = colormaps["Blues"].with_extremes(bad="#dddddd")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    return axes.imshow(np.ma.array(weights, mask=hidden), cmap=colours, norm=PowerNorm(0.6, 0.0, 1.0))
