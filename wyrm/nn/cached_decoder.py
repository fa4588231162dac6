"""A decoder that keeps what a language model knows of earlier tokens, so that each token is computed once."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import DTypeError, IndexOutOfRange, OptionError, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.graph.axes import Axis, Dim, One
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.node import Node
from wyrm.graph.parameters import Buffer, NarrowWeight, Parameter
from wyrm.graph.shapes import same_sizes
from wyrm.graph.storage import bound_array, stored
from wyrm.graph.traversal import topological_order
from wyrm.module import Module
from wyrm.nn.past import Memory, Past
from wyrm.support.options import whole
from wyrm.train.compiling import compile

if TYPE_CHECKING:
    from wyrm.train.program import Program


class New(Dim):
    """The new positions of each sequence in a pass of a decoder."""


class LanguageModel(Protocol):
    """A model that `generate`, `CachedDecoder` and `wy.export(generate=)` take.

    It also has `vocab_size`, the number of tokens, and, where it attends, the longest sequence: as
    `max_position_embeddings` or `n_positions`. Both are attributes of the model or of its `config`.
    """

    def logits(self, tokens: Any, past: Past | None = None) -> Any:
        """Return the logits of the token after each, (batch, time, vocab_size), for tokens of (batch, time)."""
        ...


# The names of the longest sequence.
_LONGEST = ("max_position_embeddings", "n_positions")


@dataclass(frozen=True)
class Limits:
    """The number of tokens of a model, and the longest sequence, None if there is none, with its name."""

    vocab_size: int
    longest: int | None
    name: str

    @classmethod
    def of(cls, caller: str, model: object) -> Limits:
        """Return the limits of a model, or raise an error that says what a model needs."""
        kind = type(model).__name__
        method = None if isinstance(model, type) else getattr(model, "logits", None)
        if method is None or not _takes_past(method):
            made = f"the class {model.__name__}; make one of it first" if isinstance(model, type) else kind
            raise DTypeError(
                f"{caller} takes a model with a method logits(tokens, past=None), such as wy.nn.GPT2, not {made}"
            )
        _, size = _found(model, ("vocab_size",))
        name, longest = _found(model, _LONGEST)
        if size is None:
            raise DTypeError(f"{caller}: {kind} needs vocab_size, the number of its tokens, in itself or its config")
        longest = None if longest is None else whole(f"{kind}: {name}", longest, 1)
        return cls(whole(f"{kind}: vocab_size", size, 1), longest, name)

    def within(self, max_length: int | None) -> Limits:
        """Return the limits of sequences of at most so many tokens, and of no longer ones than the model takes."""
        if max_length is None:
            return self
        length = whole("CachedDecoder: max_length", max_length, 1)
        is_shorter = self.longest is None or length < self.longest
        return replace(self, longest=length, name="max_length") if is_shorter else self


def _takes_past(method: Any) -> bool:
    try:
        return "past" in inspect.signature(method).parameters
    except (TypeError, ValueError):  # what is no function
        return False


def _found(model: object, names: Sequence[str]) -> tuple[str, Any]:
    """Return the first of these attributes that a model or its configuration has, with its name."""
    for holder in (model, getattr(model, "config", None)):
        for name in names:
            value = getattr(holder, name, None)
            if value is not None:
                return name, value
    return names[0], None


@contextmanager
def _evaluating(model: object) -> Iterator[None]:
    """Return a context in which a model is in evaluation, so that graphs of it have no dropout."""
    modules = Module.modules(model) if isinstance(model, Module) else []
    modes = [module.training for module in modules]
    try:
        for module in modules:
            module.training = False
        yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


# The most tokens of each sequence that a pass takes: what a layer computes of them stays in the processor's cache.
PASS = 128
# Fewer tokens are read one by one unless there is a program for more already, which takes as long to make.
_FEW = 12


class DecoderPass:
    """The graph of new tokens of each sequence behind earlier ones, and its program.

    The outputs of the program are the logits, if `with_logits`, and what each slot keeps.
    """

    def __init__(self, model: LanguageModel, limits: Limits, memory: Memory, time: Axis, *, with_logits: bool) -> None:
        self.tokens: IndexInput = IndexInput(dims=(memory.batch, time), name="tokens")
        self.past = Past(memory, time)
        with _evaluating(model):
            logits: Any = model.logits(self.tokens, past=self.past)
        wanted = (memory.batch, time, limits.vocab_size)
        if not isinstance(logits, Node) or not same_sizes(logits.dims, wanted):
            found = describe(logits) if isinstance(logits, Node) else repr(logits)
            raise ShapeError(
                f"{memory.model}.logits must return the axes (batch, time, vocab_size), {wanted} here, not {found}"
            )
        self.past.finish()
        self.with_logits: bool = with_logits
        self.outputs: list[Node] = [logits] if with_logits else []
        self.outputs += [node for slot in memory.slots for node in self.past.kept[slot]]
        self._slots = memory.slots
        self._leaves = {node for node in topological_order(self.outputs) if node.is_leaf}
        self._program: Program[Any, Any] | None = None

    @property
    def program(self) -> Program[Any, Any]:
        """The compiled program, made at its first use."""
        if self._program is None:
            self._program = compile(self.outputs)
        return self._program

    @property
    def is_compiled(self) -> bool:
        """Whether there is a program."""
        return self._program is not None

    @property
    def inputs(self) -> tuple[BaseNode, BaseNode, BaseNode]:
        """The tokens, their positions, and the number of earlier tokens."""
        return self.tokens, self.past.positions, self.past.length

    def run(self, tokens: NDArray[np.int64], length: int) -> np.ndarray | None:
        """Take tokens, (batch, time), behind `length` earlier ones, and keep what later ones need; return the logits.

        A graph that does not read the positions or the number of earlier tokens is not given them.
        """
        given = (tokens, np.arange(length, length + tokens.shape[1]), float(length))
        found = iter(
            self.program({node: value for node, value in zip(self.inputs, given, strict=True) if node in self._leaves})
        )
        logits = next(found) if self.with_logits else None
        for slot in self._slots:
            held = bound_array(slot.held)
            if slot.by_position:
                for part in range(2):
                    new = next(found)
                    held[:, part, :, :, length : length + new.shape[1]] = new.transpose(0, 2, 3, 1)
            else:
                held[...] = next(found)
        return logits


class CachedDecoder:
    """A language model that takes the tokens of sequences one after the other and keeps what it needs of earlier ones.

    `decoder.step(tokens)` takes the next token of each of `batch_size` sequences, (batch_size,), and returns the logits
    of the token after it, (batch_size, vocab_size). They are those of `model.logits` without dropout, for the current
    values of the parameters. `decoder.read(tokens)` takes several tokens of each, (batch_size, time), at once, such as
    a prompt without its last token, and returns nothing. `decoder.logits_after(tokens)` takes whole sequences, of which
    it reads what differs from the tokens that it has. `reset()` starts new sequences. `length` is the number of tokens
    of each sequence since then, and `tokens` has them. `max_length` is for how many tokens of a sequence there is room,
    by default the longest sequence of the model: the caches of models with long ones take much memory.

    A model has a method `logits(tokens, past=None)`: with a `wy.nn.Past`, tokens follow those of earlier passes. It
    also has `vocab_size`, the number of tokens, and, if it attends, the longest sequence, as `max_position_embeddings`
    or `n_positions`, both as attributes of its own or of its `config`. `GPT2` is one; others are made of layers that
    take `past`, such as `MultiHeadAttention`, `TransformerBlock`, `LSTM` and `GRU`.

    Raise `DTypeError` for what is no such model, `ShapeError` for a model that keeps nothing of earlier tokens or whose
    logits have other axes, and what `batch_size` and `max_length` raise that are no integers of at least 1.

    >>> config = wy.nn.GPT2Config(vocab_size=7, n_positions=5, n_embd=4, n_layer=1, n_head=2)
    >>> decoder = CachedDecoder(wy.nn.GPT2(config))
    >>> decoder.read(np.array([[3, 1, 4]]))
    >>> decoder.step(np.array([1])).shape, decoder.length
    ((1, 7), 4)
    """

    def __init__(self, model: LanguageModel, batch_size: int = 1, *, max_length: int | None = None) -> None:
        self.limits: Limits = Limits.of("CachedDecoder", model).within(max_length)
        self.batch_size: int = whole("batch_size", batch_size, 1)
        self._memory = Memory(type(model).__name__, self.batch_size, self.limits.longest)
        # The graph for prompts comes first: its time axis, of a name, shows what a model confuses with another one.
        self._read = DecoderPass(model, self.limits, self._memory, New(), with_logits=False)
        self._step = DecoderPass(model, self.limits, self._memory, One(), with_logits=True)
        held = {slot.held for slot in self._memory.slots}
        leaves = [leaf for leaf in topological_order(self._step.outputs) if leaf not in held]
        self._leaves = [stored(leaf) for leaf in leaves if isinstance(leaf, Parameter | Buffer)]
        narrow = [leaf for leaf in leaves if isinstance(leaf, NarrowWeight)]
        self._leaves += [stored(part) for weight in narrow for _, part in weight.parts("")]
        self._parameters = _identities(model)
        self._text = np.zeros((self.batch_size, 0), np.int64)
        self._version = 0
        self.length: int = 0

    @property
    def tokens(self) -> NDArray[np.int64]:
        """The tokens of each sequence that the decoder has taken, (batch_size, length)."""
        return self._text[:, : self.length].copy()

    def step(self, tokens: NDArray[np.int64]) -> np.ndarray:
        """Return the logits after these tokens; raise `ShapeError` after the longest sequence."""
        given = self._given("step", tokens, 1)[:, None]
        logits = self._step.run(given, self.length)
        assert logits is not None
        self._note(given)
        result: np.ndarray = logits[:, 0]
        return result

    def read(self, tokens: NDArray[np.int64]) -> None:
        """Take tokens of each sequence, (batch_size, time), in passes of many at once.

        Raise `ShapeError` for more tokens than are left of the longest sequence, `IndexOutOfRange` for one outside the
        vocabulary; the sequences are then as before.
        """
        given = self._given("read", tokens, 2)
        one_by_one = not self._read.is_compiled and given.shape[1] < _FEW
        passes, size = (self._step, 1) if one_by_one else (self._read, PASS)
        for start in range(0, given.shape[1], size):
            part = given[:, start : start + size]
            passes.run(part, self.length)
            self._note(part)

    def logits_after(self, tokens: NDArray[np.int64]) -> np.ndarray:
        """Return the logits after the last of these tokens, (batch_size, time), which are whole sequences.

        The tokens that `tokens` begins with are not read again where the decoder has taken them, with these values of
        the parameters. A recurrent model knows a sequence only as a whole: it reads all of one that does not go on from
        the tokens so far. Raise the errors of `read`, and `ShapeError` without a token.
        """
        given = as_array(tokens)
        if given.ndim != 2 or len(given) != self.batch_size or not given.shape[1]:
            raise ShapeError(
                f"CachedDecoder.logits_after takes tokens of the shape (batch_size, time), with batch_size "
                f"{self.batch_size} and at least one token, not {given.shape}"
            )
        most = min(self.length, given.shape[1] - 1)
        differ = np.flatnonzero((self._text[:, :most] != given[:, :most]).any(axis=0))
        same = int(differ[0]) if differ.size else most
        stale = self._version != self._latest()
        self.truncate(0 if stale or (same < self.length and self._memory.has_states) else same)
        self.read(given[:, self.length : -1])
        return self.step(given[:, -1])

    def truncate(self, length: int) -> None:
        """Forget the tokens of each sequence after the first `length`.

        Raise `OptionError` for more tokens than there are, and for some of the tokens of a recurrent model, whose
        states are those after all of them.
        """
        length = whole("CachedDecoder.truncate: length", length, 0)
        if length > self.length:
            raise OptionError(f"CachedDecoder.truncate: the sequences have {self.length} tokens, not {length}")
        if 0 < length < self.length and self._memory.has_states:
            raise OptionError(
                f"CachedDecoder.truncate: {self._memory.model} keeps states, which are those after all {self.length} "
                f"tokens; start new sequences with .reset()"
            )
        self.length = length

    def reset(self) -> None:
        """Start new sequences."""
        self.length = 0

    def uses_parameters_of(self, model: LanguageModel) -> bool:
        """Return whether the model still has the parameters that this decoder was made with."""
        return self._parameters is not None and self._parameters == _identities(model)

    def _latest(self) -> int:
        """Return the tick of the latest change of a parameter."""
        return max((storage.version for storage in self._leaves), default=0)

    def _note(self, tokens: NDArray[np.int64]) -> None:
        """Note tokens that are taken."""
        if self.length == 0:
            self._version = self._latest()
        after = self.length + tokens.shape[1]
        if after > self._text.shape[1]:
            longer = np.zeros((self.batch_size, 2 * after), np.int64)
            longer[:, : self.length] = self._text[:, : self.length]
            self._text = longer
        self._text[:, self.length : after] = tokens
        self.length = after

    def _given(self, caller: str, tokens: object, axes: int) -> NDArray[np.int64]:
        """Return tokens as an array, or raise an error that says what they must be."""
        given, shape = as_array(tokens), ("batch_size", "time")[:axes]
        if given.dtype.kind not in "iu":
            raise DTypeError(f"CachedDecoder.{caller} takes the numbers of tokens, not {given.dtype}")
        if given.ndim != axes or len(given) != self.batch_size:
            raise ShapeError(
                f"CachedDecoder.{caller} takes tokens of the shape ({', '.join(shape)}), with batch_size "
                f"{self.batch_size}, not {given.shape}"
            )
        longest, name = self.limits.longest, self.limits.name
        time = given.shape[1] if axes == 2 else 1
        if longest is not None and time > longest - self.length:
            raise ShapeError(
                f"the cache holds {self.length} tokens of {name}, {longest}, and has no room for {time} more; start "
                f"new sequences with .reset()"
            )
        outside = given[(given < 0) | (given >= self.limits.vocab_size)]
        if outside.size:
            raise IndexOutOfRange(f"a token is {outside[0]}; it must be in 0..{self.limits.vocab_size - 1}")
        return given


def _identities(model: object) -> list[int] | None:
    """Return which parameters and narrow weights a model has; None for an object that does not list them."""
    if not isinstance(model, Module):
        return None
    return [id(weight) for weight in (*model.parameters(), *(narrow for _, narrow in model.named_narrow_weights()))]
