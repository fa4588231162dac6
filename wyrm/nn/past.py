"""What earlier tokens left to the next pass of a decoder: cached keys and values, and states of recurrent layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.functions.pytree import flatten, unflatten
from wyrm.graph.axes import Axis, axis_size
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Input, as_constant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.parameters import Parameter
from wyrm.graph.shapes import same_sizes
from wyrm.graph.storage import stored
from wyrm.ops.attention.cached_attention import CachedAttention, CachedStep
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.indexing.joining import stack
from wyrm.support.memory import aligned

Tree = TypeVar("Tree")


@dataclass(frozen=True, eq=False)
class Slot:
    """An array that a model keeps between passes.

    With `by_position` it is a cache of keys and values, (batch, 2, positions, heads, features), else a state.
    """

    held: Parameter
    by_position: bool


class Memory:
    """The slots of a model, which its first pass makes, and for how many tokens of how many sequences they have room.

    `longest` is None for sequences of any length.
    """

    def __init__(self, model: str, batch: int, longest: int | None) -> None:
        self.model = model
        self.batch = batch
        self.longest = longest
        self.slots: list[Slot] = []

    @property
    def has_states(self) -> bool:
        """Whether a pass changes what an earlier one kept, so that only all tokens can be forgotten."""
        return any(not slot.by_position for slot in self.slots)


class Past:
    """What a model keeps of earlier tokens, for the graph of its new tokens: see `CachedDecoder`.

    `logits(tokens, past=past)` builds such a graph; a decoder makes the `past`, never a user. `past.positions`, an
    index node of the axes (batch, time), is the position of each new token in its sequence; `past.length`, of the axis
    (batch,), the number of earlier tokens of each sequence. Layers call `attend`, or `carry` and `keep`, once for each
    thing that they keep. Which one that is follows from the order of the calls, so a model makes the same calls in each
    graph.

    >>> class Recurrent(wy.nn.Module):
    ...     vocab_size = 7
    ...     def __init__(self) -> None:
    ...         self.table, self.lstm = wy.nn.Embedding(7, 3), wy.nn.LSTM(3, 7)
    ...     def logits(self, tokens, past=None):
    ...         return self.lstm(self.table(tokens), past=past).sequence
    >>> len(list(wy.nn.generate(Recurrent(), [1, 2], 30)))
    30
    """

    def __init__(self, memory: Memory, time: Axis) -> None:
        self.positions: IndexNode = IndexInput(dims=(memory.batch, time), name="positions")
        self.length: Node = Input(dims=(memory.batch,), name="length", dtype=np.float64)
        # What each slot keeps: the new keys and values, (batch, 2, time, heads, features), or the new state.
        self.kept: dict[Slot, Node] = {}
        self._memory = memory
        self._makes_slots = not memory.slots
        self._used = 0
        self._mask: Node | None = None
        # The states that the pass carries, by the identities of their nodes.
        self._carried: dict[int, tuple[Node, Slot]] = {}

    def attend(
        self, query: Node, key: Node, value: Node, *, scale: float | None = None, window: int | None = None
    ) -> Node:
        """Return the attention of new positions to the earlier ones and, causally, to themselves; keep their keys.

        `query` and the result have the axes (batch, time, heads, features), `key` and `value` (batch, time,
        key_value_heads, features): each of their heads serves as many consecutive heads of the queries. Scores are
        multiplied by `scale`, `1 / sqrt(features)` by default. With a `window`, a position attends to so many, up to
        its own.

        Raise `ShapeError` for other axes, a time that is not that of the tokens, and a model without a longest
        sequence, `OptionError` for a scale that is not above 0 or a window below 1.
        """
        memory, time = self._memory, self.positions.dims[1]
        for name, node in (("query", query), ("key", key), ("value", value)):
            if (
                len(node.dims) != 4
                or axis_size(node.dims[0]) != memory.batch
                or not same_sizes(node.dims[1:2], (time,))
            ):
                raise ShapeError(
                    f"past.attend takes a {name} of the axes (batch, time, heads, features), with batch "
                    f"{memory.batch} and time {time!r}, those of the tokens, not {describe(node)}"
                )
        if memory.longest is None:
            raise ShapeError(
                f"past.attend caches the keys and values of a longest sequence, which {memory.model} does not have: "
                f"set max_position_embeddings of the model or its config"
            )
        heads, features = key.dims[2], key.dims[3]
        if axis_size(heads) is None or axis_size(features) is None:
            raise ShapeError(f"past.attend: the axes of heads and features of {describe(key)} need sizes")
        slot = self._slot(True, (memory.batch, 2, memory.longest, heads, features), key)
        attention = CachedStep if axis_size(time) == 1 else CachedAttention
        self.kept[slot] = stack([key, value], axis=1)
        return attention(query, key, value, slot.held, self._held_positions(memory.longest), scale=scale, window=window)

    def _held_positions(self, longest: int) -> Node:
        """Return which positions of caches have keys and values, (batch, positions): one node for all layers."""
        if self._mask is None:
            places = as_constant(np.arange(longest, dtype=np.float64), np.dtype(np.float64))
            self._mask = places < self.length.expand_dims(1)
        return self._mask

    def carry(self, initial: Tree) -> Tree:
        """Return what the pass before this one kept, and `initial` where there are no earlier tokens.

        `initial` is a node or an array of floats, whose first axis is the batch, or nested tuples, lists and dicts of
        these; the result has its structure, with nodes. Give it to `keep` with what the next pass gets.

        Raise `ShapeError` for an axis without a size and another first axis, `DTypeError` for what is not floats.
        """
        leaves, structure = flatten(initial, "the state of past.carry")
        states = []
        for leaf in leaves:
            node: Any = leaf if isinstance(leaf, BaseNode) else as_constant(leaf, np.asarray(leaf).dtype)
            if node.dtype.kind != "f":
                raise DTypeError(f"past.carry takes states of floats, not {describe(node)}")
            if any(axis_size(axis) is None for axis in node.dims):
                raise ShapeError(f"past.carry: the axes of {describe(node)} need sizes")
            if not node.dims or axis_size(node.dims[0]) != self._memory.batch:
                raise ShapeError(
                    f"past.carry takes states whose first axis is the batch, {self._memory.batch} here, not "
                    f"{describe(node)}"
                )
            slot = self._slot(False, node.dims, node)
            begun: Node = self.length > 0.0
            for axis in range(1, len(node.dims)):
                begun = begun.expand_dims(axis)
            state: Node = where(begun, slot.held, node)
            self._carried[id(state)] = (state, slot)
            states.append(state)
        carried: Tree = unflatten(structure, states)
        return carried

    def keep(self, state: Tree, new: Tree) -> None:
        """Keep `new` in the place of `state`, a result of `carry`, for the next pass.

        Raise `ShapeError` for a `state` that `carry` did not return or that is kept already, and for a `new` of other
        axes or another dtype.
        """
        before, structure = flatten(state, "the state of past.keep")
        after, beside = flatten(new, "the new state of past.keep")
        if structure != beside:
            raise ShapeError(f"past.keep: the state has the structure {structure}, and the new one {beside}")
        pairs: list[tuple[Any, Any]] = list(zip(before, after, strict=True))
        for old, value in pairs:
            _, slot = self._carried.get(id(old), (None, None))
            if slot is None or slot in self.kept:
                what = "is kept already" if slot is not None else "is no result of past.carry"
                raise ShapeError(f"past.keep: the state, {old!r}, {what}")
            if not isinstance(value, Node) or not same_sizes(value.dims, old.dims) or value.dtype != old.dtype:
                found = describe(value) if isinstance(value, Node) else repr(value)
                raise ShapeError(f"past.keep: the new state must be like {describe(old)}, not {found}")
            self.kept[slot] = value

    def finish(self) -> None:
        """Raise `ShapeError` unless the graph uses all slots, and there are any."""
        memory, name = self._memory, self._memory.model
        if not memory.slots:
            raise ShapeError(
                f"{name}.logits keeps nothing of earlier tokens: it must give past to its layers, as in "
                f"attention(x, past=past), or call past.attend, or past.carry and past.keep"
            )
        if self._used != len(memory.slots):
            raise ShapeError(
                f"{name}.logits keeps {len(memory.slots)} things of earlier tokens in one graph and {self._used} in "
                f"another: it must make the same calls in each"
            )
        for slot in memory.slots:
            if slot not in self.kept:
                raise ShapeError(
                    f"{name}.logits carries a state of the axes {slot.held.dims} and does not keep the next one: call "
                    f"past.keep(state, new)"
                )

    def _slot(self, by_position: bool, dims: Any, like: Node) -> Slot:
        """Return the slot of the next call, which the first graph of the model makes."""
        memory, place = self._memory, self._used
        self._used += 1
        if self._makes_slots:
            name = "cache" if by_position else "state"
            held: Parameter = Parameter(
                np.zeros([axis_size(axis) or 0 for axis in dims]), dims, name=name, dtype=like.dtype
            )
            # Instead of a copy of zeros, memory whose pages the system need not provide before they are written.
            stored(held).array = aligned(held.value.shape, held.dtype)
            memory.slots.append(Slot(held, by_position))
        slot = memory.slots[place] if place < len(memory.slots) else None
        same = slot is not None and slot.by_position == by_position and same_sizes(slot.held.dims, dims)
        if slot is None or not same or slot.held.dtype != like.dtype:
            raise ShapeError(
                f"{memory.model}.logits keeps other things of earlier tokens than in its first graph, at "
                f"{describe(like)}: it must make the same calls in each"
            )
        return slot
