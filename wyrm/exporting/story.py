"""What a page needs to continue texts with a language model, and to train it on a text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wyrm.errors import OptionError
from wyrm.exporting.tokenizer import ExportedTokenizer, table_of
from wyrm.graph.axes import axis_size
from wyrm.graph.base import BaseNode, label
from wyrm.graph.node import IndexNode
from wyrm.graph.traversal import topological_order
from wyrm.nn.cached_decoder import Limits
from wyrm.ops.cross_entropy.linear_cross_entropy import LinearCrossEntropy
from wyrm.ops.cross_entropy.softmax import CrossEntropy


@dataclass(frozen=True)
class Story:
    """The table of a tokenizer, and where a model is trained the columns of its tokens.

    A row has `length` tokens, and in `targets` those behind them.
    """

    tokenizer: Mapping[str, Any]
    tokens: str | None = None
    targets: str | None = None
    length: int | None = None


def story_of(tokenizer: ExportedTokenizer, model: object, training: Any) -> Story:
    """Return what a page needs; `training` is planned, or None.

    Raise `OptionError` for a training of anything but tokens and those behind them, and what `table_of` raises.
    """
    table = table_of(tokenizer, Limits.of("generate", model).vocab_size)
    if training is None:
        return Story(table)
    targets = _labels(training.graph.outputs)
    columns = [(each.name, each.leaf in targets, each.leaf.dims[1:]) for each in training.given]
    both = {is_target: name for name, is_target, _ in columns}
    axes = {dims for *_, dims in columns}
    length = axis_size(next(iter(axes))[0]) if len(axes) == 1 and all(axes) else None
    if len(columns) != 2 or len(both) != 2 or length is None:
        names = ", ".join(label(each.leaf) for each in training.given)
        raise OptionError(
            f"with a tokenizer, a page trains model.loss(tokens, targets), of rows of one length, not a loss of {names}"
        )
    return Story(table, both[False], both[True], length)


def _labels(outputs: Any) -> frozenset[BaseNode]:
    """Return the leaves that are the labels of a cross-entropy."""
    nodes = topological_order(outputs)
    losses = [each for each in nodes if isinstance(each, LinearCrossEntropy | CrossEntropy)]
    found = [part for each in losses for part in each.parents if isinstance(part, IndexNode)]
    return frozenset(leaf for leaf in topological_order(found) if leaf.is_leaf)
