"""What the language models of transformer blocks have in common: `GPT2` and `Decoder` say only what differs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

from typing_extensions import TypeVar

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size
from wyrm.graph.node import IndexNode, Node, Tensor
from wyrm.graph.parameters import Parameter
from wyrm.module import Module
from wyrm.nn.embedding import Embedding
from wyrm.nn.gpt2_axes import Embed, Vocabulary
from wyrm.nn.past import Past
from wyrm.ops.control.checkpoint import checkpoint as recomputed
from wyrm.ops.cross_entropy.linear_cross_entropy import linear_cross_entropy
from wyrm.ops.indexing.index import as_indices

B = TypeVar("B", bound=Axis)
T = TypeVar("T", bound=Axis)
Block = TypeVar("Block", bound="Callable[..., Node]")
Norm = TypeVar("Norm", bound="Callable[..., Node]")


class BaseDecoder(Module, Generic[Block, Norm]):
    """The base class of language models: tokens, (batch, time), to the states that predict the next token of each.

    A subclass has the attributes below and says how tokens are embedded. `head` is None where the output layer shares
    its weight with the embedding of tokens. With `checkpoint`, the backward pass recomputes each block.
    """

    tokens: Embedding[Vocabulary, Embed]
    blocks: list[Block]
    norm: Norm
    head: Parameter | None
    checkpoint: bool

    @property
    def _limit(self) -> tuple[str, int]:
        """The longest sequence, and the field of the configuration that says it."""
        raise NotImplementedError

    def _embedded(self, tokens: IndexNode, past: Past | None) -> Any:
        """Return the embeddings of tokens, (batch, time, features of a token)."""
        raise NotImplementedError

    @property
    def head_weight(self) -> Parameter:
        """The weight of the output layer, (number of tokens, features of a token)."""
        return self.tokens.weight if self.head is None else self.head

    def __call__(self, tokens: IndexNode[tuple[B, T]], past: Past | None = None) -> Tensor[B, T, Any]:
        """Return the states, (batch, time, features of a token); with a `past`, of tokens that follow earlier ones.

        Raise `ShapeError` unless the tokens have the axes (batch, time), or where time has no size or is above the
        longest sequence of the configuration.
        """
        tokens = as_indices(tokens)
        dims: Dims = tokens.dims
        name = next(kind.__name__ for kind in type(self).__mro__ if "_limit" in vars(kind))
        if len(dims) != 2:
            raise ShapeError(f"{name} takes tokens of the axes (batch, time), not {dims}")
        if past is None:
            time, (field, longest) = axis_size(dims[1]), self._limit
            if time is None:
                raise ShapeError(f"{name}: the time axis, {dims[1]!r}, needs a size; give it one, as in Time(128)")
            if time > longest:
                raise ShapeError(f"{name}: a sequence of {time} tokens is longer than {field}, {longest}")
        x: Any = self._embedded(tokens, past)
        recomputes = self.checkpoint and self.training and past is None
        for block in self.blocks:
            x = recomputed(block, x) if recomputes else block(x, past=past)
        states: Any = self.norm(x)
        result: Tensor[B, T, Any] = states
        return result

    def logits(self, tokens: IndexNode[tuple[B, T]], past: Past | None = None) -> Tensor[B, T, Any]:
        """Return the logits of the next token, (batch, time, vocab_size); a `CachedDecoder` gives the `past`."""
        logits: Tensor[B, T, Any] = self(tokens, past) @ self.head_weight.matrix_transpose()
        return logits

    def loss(
        self,
        tokens: IndexNode[tuple[B, T]],
        targets: IndexNode[tuple[B, T]],
        *,
        label_smoothing: float = 0.0,
        ignore_index: int | None = None,
    ) -> Tensor[()]:
        """Return the mean cross-entropy of `targets`, (batch, time): at each position, the token after it.

        Targets of `ignore_index` do not count; see `wyrm.linear_cross_entropy` for the options and the errors.
        """
        return linear_cross_entropy(
            self(tokens), self.head_weight, targets, label_smoothing=label_smoothing, ignore_index=ignore_index
        )


__all__ = ["BaseDecoder"]
