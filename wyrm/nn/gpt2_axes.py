"""The names of the axes of `GPT2`'s parameters, for `sharding` and for type checkers.

>>> from wyrm.nn.gpt2_axes import Embed, Vocabulary
>>> config = wy.nn.GPT2Config(vocab_size=100, n_positions=16, n_embd=8, n_layer=2, n_head=2)
>>> wy.nn.GPT2(config).tokens.weight.dims
(Vocabulary(100), Embed(8))

`Times((3, Heads, features))` is the axis of queries, keys and values, `Times((Heads, features))` that of the
concatenated results of the heads. FSDP is `{Batch: "data", Embed: "data"}`, tensor parallelism
`{Batch: "data", Heads: "model", Inner: "model", Vocabulary: "model"}`, where `Batch` is the first axis of the tokens.
"""

from wyrm.graph.axes import Dim


class Vocabulary(Dim):
    """The tokens that exist."""

    __slots__ = ()


class Positions(Dim):
    """The positions in the longest sequence."""

    __slots__ = ()


class Embed(Dim):
    """The features of a token."""

    __slots__ = ()


class Inner(Dim):
    """The features inside the feed-forward layers."""

    __slots__ = ()


class Heads(Dim):
    """The attention heads of a block."""

    __slots__ = ()


__all__ = ["Embed", "Heads", "Inner", "Positions", "Vocabulary"]
