"""A decoder that keeps what a language model knows of earlier tokens, so that each token is computed once."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.dtypes import ComputeDType, check_dtype
from wyrm.errors import DTypeError, IndexOutOfRange, OptionError, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.graph.axes import Axis, Dim, One, axis_size
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.node import Node
from wyrm.graph.parameters import Buffer, NarrowWeight, Parameter
from wyrm.graph.shapes import same_sizes
from wyrm.graph.storage import bound_array, stored
from wyrm.graph.traversal import topological_order
from wyrm.module import Module
from wyrm.nn.past import Memory, Past
from wyrm.ops.elementwise.elementwise import Elementwise
from wyrm.ops.normalization.normalization import LayerNorm, RMSNorm
from wyrm.ops.products.linear_gelu import LinearGelu
from wyrm.ops.products.product import MatMul
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


# The most tokens of all sequences that a pass takes. A pass reads all weights from memory and lays them out for its
# products, which takes as long for few tokens as for many.
PASS = 512
# Ops whose rows are functions of the rows of their first operand, and of others that are matrices and vectors.
_OF_ROWS = (MatMul, LinearGelu, LayerNorm, RMSNorm)
# Fewer tokens are read one by one unless there is a program for more already, which takes as long to make.
_FEW = 12


def _at_last(logits: Node, kept: Sequence[Node]) -> Node | None:
    """Return the logits of the last position, (batch, 1, vocab_size), computed for it alone where `kept` needs no more.

    None if that is not known of the product with the vocabulary, whose logits of all positions would take long.
    """
    time, needed, found, products = logits.dims[1], set(topological_order(kept)), dict[Node, Node](), list[Node]()

    def has_time(node: BaseNode, rank: int) -> bool:
        return node.ndim == rank and [axis for axis, dim in enumerate(node.dims) if dim is time] == [1]

    def is_repeated(node: BaseNode, rank: int) -> bool:
        """Return whether a node of this rank repeats an operand of an elementwise op along the second axis."""
        axis = node.ndim - rank + 1
        return axis < 0 or axis_size(node.dims[axis]) == 1

    def by_positions(node: BaseNode) -> bool:
        rank, (first, *others) = node.ndim, node.parents or (node,)
        if node in needed or rank < 3:
            return False
        if isinstance(node, Elementwise):
            return all(has_time(each, rank) or is_repeated(each, rank) for each in node.parents)
        return isinstance(node, _OF_ROWS) and has_time(first, rank) and all(each.ndim <= 2 for each in others)

    def at_last(node: Any) -> Node:
        if node not in found:
            if by_positions(node):
                products.extend([node] if isinstance(node, MatMul) else [])
                found[node] = node.rebuild(
                    [at_last(each) if has_time(each, node.ndim) else each for each in node.parents]
                )
            else:
                found[node] = node[:, -1:]
        return found[node]

    last = at_last(logits)
    return last if products else None


class DecoderPass:
    """The graph of new tokens of each sequence behind earlier ones, and its program.

    The outputs of the program are the logits of the last of them, `with_logits`, and what each slot keeps. There are no
    logits where a model's would be computed for all of several tokens.
    """

    def __init__(
        self, model: LanguageModel, limits: Limits, memory: Memory, time: Axis, *, with_logits: bool,
        compute_dtype: ComputeDType | None = None,
    ) -> None:  # fmt: skip
        self.tokens: IndexInput = IndexInput(dims=(memory.batch, time), name="tokens")
        self.past: Past = Past(memory, time)
        with _evaluating(model):
            logits: Any = model.logits(self.tokens, past=self.past)
        wanted = (memory.batch, time, limits.vocab_size)
        if not isinstance(logits, Node) or not same_sizes(logits.dims, wanted):
            found = describe(logits) if isinstance(logits, Node) else repr(logits)
            raise ShapeError(
                f"{memory.model}.logits must return the axes (batch, time, vocab_size), {wanted} here, not {found}"
            )
        self.past.finish()
        kept = [self.past.kept[slot] for slot in memory.slots]
        last = logits if axis_size(time) == 1 else _at_last(logits, kept) if with_logits else None
        self.with_logits: bool = last is not None
        self.outputs: list[Node] = [*([] if last is None else [last]), *kept]
        self._compute_dtype: ComputeDType | None = compute_dtype
        self._slots = memory.slots
        self._program: Program[Any, Any] | None = None
        # What the program reads.
        self._leaves: set[BaseNode] = set()

    def without_logits(self) -> DecoderPass:
        """Return the pass that keeps the same and computes no logits."""
        result = copy(self)
        result.outputs, result.with_logits, result._program = self.outputs[self.with_logits :], False, None
        return result

    @property
    def program(self) -> Program[Any, Any]:
        """The compiled program, made at its first use."""
        if self._program is None:
            self._program = compile(self.outputs, compute_dtype=self._compute_dtype)
            self._leaves = {node for node in topological_order(self.outputs) if node.is_leaf}
        return self._program

    @property
    def is_compiled(self) -> bool:
        """Whether there is a program."""
        return self._program is not None

    @property
    def inputs(self) -> tuple[BaseNode, BaseNode, BaseNode]:
        """The tokens, their positions, and the number of earlier tokens."""
        return self.tokens, self.past.positions, self.past.length

    def run(
        self, tokens: NDArray[np.int64], lengths: NDArray[np.int64], rows: NDArray[np.intp] | None = None
    ) -> np.ndarray | None:
        """Take tokens, (batch, time), behind earlier ones of these `lengths`; return the logits after the last of each.

        What later tokens need is kept of the sequences `rows`, or of all. A graph that does not read the positions or
        the numbers of earlier tokens is not given them.
        """
        places = lengths[:, None] + np.arange(tokens.shape[1])
        given, program = (tokens, places, lengths.astype(np.float64)), self.program
        found = iter(
            program({node: each for node, each in zip(self.inputs, given, strict=True) if node in self._leaves})
        )
        logits = next(found) if self.with_logits else None
        same = rows is None and bool((lengths == lengths[0]).all())
        chosen = np.arange(len(tokens)) if rows is None else rows
        for slot, new in zip(self._slots, found, strict=True):
            held = bound_array(slot.held)
            if not slot.by_position:
                held[chosen] = new[chosen]
            elif same:  # faster than the choice of rows
                held[:, :, lengths[0] : lengths[0] + new.shape[2]] = new
            else:
                held[chosen[:, None], :, places[chosen]] = new[chosen].swapaxes(1, 2)
        return logits


class CachedDecoder:
    """A language model that takes the tokens of sequences one after the other and keeps what it needs of earlier ones.

    `decoder.step(tokens)` takes the next token of each of `batch_size` sequences, (batch_size,), and returns the logits
    of the token after it, (batch_size, vocab_size). They are those of `model.logits` without dropout, for the current
    values of the parameters. `decoder.read(tokens)` takes several tokens of each, (batch_size, time), at once, such as
    a prompt without its last token, and returns nothing. `decoder.logits_after(tokens)` takes whole sequences, of which
    it reads what differs from the tokens that it has. `reset()` starts new sequences. `max_length` is for how many
    tokens of a sequence there is room, by default the longest sequence of the model. `compute_dtype="bfloat16"` rounds
    the operands of products as in `wy.compile`: prompts, and steps of many sequences, are faster where the processor
    multiplies such numbers faster, most of all for narrow weights.

    The sequences may have different lengths: `step` and `logits_after` take the numbers of those that go on, `rows`.
    `lengths`, (batch_size,), has the number of tokens of each since it began, `length` is that of the longest one, and
    `tokens` has them, (batch_size, length), with zeros behind a shorter sequence.

    A model has a method `logits(tokens, past=None)`: with a `wy.nn.Past`, tokens follow those of earlier passes. It
    also has `vocab_size`, the number of tokens, and, if it attends, the longest sequence, as `max_position_embeddings`
    or `n_positions`, both as attributes of its own or of its `config`. `GPT2` is one; others are made of layers that
    take `past`, such as `MultiHeadAttention`, `TransformerBlock`, `LSTM` and `GRU`.

    Raise `DTypeError` for what is no such model, `ShapeError` for a model that keeps nothing of earlier tokens or whose
    logits have other axes, `OptionError` for another `compute_dtype`, and what `batch_size` and `max_length` raise that
    are no integers of at least 1.

    >>> config = wy.nn.GPT2Config(vocab_size=7, n_positions=5, n_embd=4, n_layer=1, n_head=2)
    >>> decoder = CachedDecoder(wy.nn.GPT2(config), batch_size=2)
    >>> decoder.logits_after([[3, 1, 4], [1, 5]]).shape
    (2, 7)
    >>> decoder.step(np.array([2]), rows=[1]).shape, decoder.lengths.tolist()
    ((1, 7), [3, 3])
    """

    def __init__(
        self, model: LanguageModel, batch_size: int = 1, *, max_length: int | None = None,
        compute_dtype: ComputeDType | None = None,
    ) -> None:  # fmt: skip
        check_dtype({"compute_dtype": compute_dtype})
        self.limits: Limits = Limits.of("CachedDecoder", model).within(max_length)
        self.batch_size: int = whole("batch_size", batch_size, 1)
        self._memory = Memory(type(model).__name__, self.batch_size, self.limits.longest)
        # The graph for prompts comes first: its time axis, of a name, shows what a model confuses with another one.
        self._ask, self._step = (
            DecoderPass(model, self.limits, self._memory, time, with_logits=True, compute_dtype=compute_dtype)
            for time in (New(), One())
        )
        self._read: DecoderPass = self._ask.without_logits()
        held = {slot.held for slot in self._memory.slots}
        leaves = [leaf for leaf in topological_order(self._step.outputs) if leaf not in held]
        self._leaves = [stored(leaf) for leaf in leaves if isinstance(leaf, Parameter | Buffer)]
        narrow = [leaf for leaf in leaves if isinstance(leaf, NarrowWeight)]
        self._leaves += [stored(part) for weight in narrow for _, part in weight.parts("")]
        self._parameters = _identities(model)
        self._text = np.zeros((self.batch_size, 0), np.int64)
        self._lengths = np.zeros(self.batch_size, np.int64)
        # For each sequence, the tick of the values of the parameters that it began with.
        self._versions = np.zeros(self.batch_size, np.int64)
        # Prompts are read one after the other, so that none waits for a longer one.
        alone = None
        if self.batch_size > 1:
            alone = CachedDecoder(model, max_length=max_length, compute_dtype=compute_dtype)
        self._reader: CachedDecoder | None = alone

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens that each sequence has, (batch_size,)."""
        return self._lengths.copy()

    @property
    def length(self) -> int:
        """The number of tokens of the longest sequence."""
        return int(self._lengths.max())

    @property
    def tokens(self) -> NDArray[np.int64]:
        """The tokens that each sequence has, (batch_size, length), with zeros behind a shorter one."""
        length = self.length
        return np.where(np.arange(length) < self._lengths[:, None], self._text[:, :length], 0)

    def step(self, tokens: NDArray[np.int64], rows: Sequence[int] | None = None) -> np.ndarray:
        """Return the logits after these tokens of each sequence, or of the sequences `rows`, of which each has one.

        Raise `ShapeError` after the longest sequence, `OptionError` for rows that are no different sequences.
        """
        chosen = self._sequence_numbers("step", rows)
        given = self._tokens_of("step", tokens, ("batch_size",), chosen)[:, None]
        if np.array_equal(chosen, np.arange(self.batch_size)):
            taken, lengths, kept = given, self._lengths, None
        else:
            # What the other sequences compute is not kept.
            taken, lengths, kept = np.zeros((self.batch_size, 1), np.int64), np.zeros_like(self._lengths), chosen
            taken[chosen], lengths[chosen] = given, self._lengths[chosen]
        logits = self._step.run(taken, lengths, kept)
        assert logits is not None
        self._note(given, chosen)
        result: np.ndarray = logits[:, 0] if kept is None else logits[chosen, 0]
        return result

    def read(self, tokens: NDArray[np.int64]) -> None:
        """Take tokens of each sequence, (batch_size, time), in passes of many at once.

        Raise `ShapeError` for more tokens than are left of the longest sequence, `IndexOutOfRange` for one outside the
        vocabulary; the sequences are then as before.
        """
        given = self._tokens_of("read", tokens, ("batch_size", "time"), np.arange(self.batch_size))
        compiled = [each for each in (self._read, self._ask) if each.is_compiled]
        self._take(given, compiled[0] if compiled else self._step if given.shape[1] < _FEW else self._read)

    def _take(self, tokens: NDArray[np.int64], passes: DecoderPass) -> np.ndarray | None:
        """Take tokens of each sequence in several passes; return the logits of the last one."""
        size, logits = 1 if passes is self._step else max(_FEW, PASS // self.batch_size), None
        for start in range(0, tokens.shape[1], size):
            part = tokens[:, start : start + size]
            logits = passes.run(part, self._lengths)
            self._note(part, np.arange(self.batch_size))
        return logits

    def logits_after(
        self,
        tokens: NDArray[np.int64] | Sequence[Sequence[int] | NDArray[np.int64]],
        rows: Sequence[int] | None = None,
    ) -> np.ndarray:
        """Return the logits after the last token of each of these texts, (batch_size, vocab_size).

        `tokens` has the whole text of each sequence, or of the sequences `rows`; texts may have different lengths. The
        tokens that one begins with are not read again where any sequence of the decoder has them, with these values of
        the parameters. A recurrent model knows a sequence only as a whole: it reads all of one that does not go on from
        the tokens so far. The last tokens of several texts take a step together.

        Raise the errors of `step` and `read`, and `ShapeError` for a text without a token.
        """
        chosen = self._sequence_numbers("logits_after", rows)
        if not isinstance(tokens, Sequence | np.ndarray) or len(tokens) != len(chosen):
            count = len(tokens) if isinstance(tokens, Sequence | np.ndarray) else repr(tokens)
            raise ShapeError(
                f"CachedDecoder.logits_after takes tokens of the shape (batch_size, time), or a list of texts, one for "
                f"each of {len(chosen)} sequences, not {count}"
            )
        texts = [self._whole_text(each) for each in tokens]
        latest = self._latest()
        if self._reader is None:
            return self._logits_of(self._known(0, texts[0], latest), texts[0])
        for row, text in zip(chosen.tolist(), texts, strict=True):
            if not self._lengths[row] == self._known(row, text, latest) == len(text) - 1:
                self._read_alone(row, text, latest)
        return self.step(np.array([text[-1] for text in texts]), chosen.tolist())

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
        self._lengths[:] = np.minimum(self._lengths, length)

    def reset(self) -> None:
        """Start new sequences."""
        self._lengths[:] = 0
        if self._reader is not None:
            self._reader.reset()

    def uses_parameters_of(self, model: LanguageModel) -> bool:
        """Return whether the model still has the parameters that this decoder was made with."""
        return self._parameters is not None and self._parameters == _identities(model)

    def _latest(self) -> int:
        """Return the tick of the latest change of a parameter."""
        return max((storage.version for storage in self._leaves), default=0)

    def _known(self, row: int, text: NDArray[np.int64], latest: int) -> int:
        """Return how many tokens of a text, not counting its last one, a sequence has with these parameters."""
        length = int(self._lengths[row])
        if length and self._versions[row] != latest:
            return 0
        most = min(length, len(text) - 1)
        differ = np.flatnonzero(self._text[row, :most] != text[:most])
        same = int(differ[0]) if differ.size else most
        return 0 if same < length and self._memory.has_states else same

    def _logits_of(self, same: int, text: NDArray[np.int64]) -> np.ndarray:
        """Return the logits after a text, of which the only sequence has the `same` tokens."""
        self._lengths[0] = same
        rest = text[None, same:]
        many = self._ask.is_compiled or (not self._read.is_compiled and rest.shape[1] > _FEW)
        logits = self._take(rest, self._ask) if self._ask.with_logits and many and rest.shape[1] > 1 else None
        if logits is None:
            self.read(rest[:, :-1])
            return self.step(rest[0, -1:])
        result: np.ndarray = logits[:, -1]
        return result

    def _read_alone(self, row: int, text: NDArray[np.int64], latest: int) -> None:
        """Begin a sequence with all of a text but its last token.

        The reader reads it from where any sequence of the decoder has it.
        """
        reader = self._reader
        assert reader is not None
        known = [self._known(each, text, latest) for each in range(self.batch_size)]
        best = int(np.argmax(known))
        if known[best] > reader._known(0, text, latest):
            reader._copy_tokens(0, self, best, known[best])
        reader._lengths[0] = reader._known(0, text, latest)
        reader.read(text[None, reader.length : -1])
        self._copy_tokens(row, reader, 0, len(text) - 1)

    def _copy_tokens(self, row: int, source: CachedDecoder, source_row: int, length: int) -> None:
        """Make a sequence equal to the first `length` tokens of one of another decoder of the same model."""
        for slot, other in zip(self._memory.slots, source._memory.slots, strict=True):
            target, held = bound_array(slot.held)[row], bound_array(other.held)[source_row]
            if slot.by_position:
                target[:, :length] = held[:, :length]
            else:
                target[...] = held
        self._lengths[row] = 0
        self._note(source._text[source_row : source_row + 1, :length], np.array([row]))
        self._versions[row] = source._versions[source_row]

    def _note(self, tokens: NDArray[np.int64], rows: NDArray[np.intp]) -> None:
        """Note tokens of these sequences, (rows, time), that are taken."""
        lengths = self._lengths[rows]
        if not lengths.all():
            self._versions[rows[lengths == 0]] = self._latest()
        after = int(lengths.max()) + tokens.shape[1]
        if after > self._text.shape[1]:
            longer = np.zeros((self.batch_size, 2 * after), np.int64)
            longer[:, : self._text.shape[1]] = self._text
            self._text = longer
        self._text[rows[:, None], lengths[:, None] + np.arange(tokens.shape[1])] = tokens
        self._lengths[rows] += tokens.shape[1]

    def _sequence_numbers(self, caller: str, rows: Sequence[int] | None) -> NDArray[np.intp]:
        """Return the numbers of sequences, by default of all, or raise an error that says what they must be."""
        if rows is None:
            return np.arange(self.batch_size)
        found = as_array(rows)
        valid = found.ndim == 1 and found.size and found.dtype.kind in "iu" and len(np.unique(found)) == found.size
        if not valid or found.min() < 0 or found.max() >= self.batch_size:
            raise OptionError(
                f"CachedDecoder.{caller} takes the rows of different sequences, of 0..{self.batch_size - 1}, not {rows}"
            )
        return found.astype(np.intp)

    def _whole_text(self, tokens: object) -> NDArray[np.int64]:
        """Return a text as an array, or raise an error that says what it must be."""
        text = as_array(tokens)
        if text.ndim != 1 or not text.size:
            raise ShapeError(
                f"CachedDecoder.logits_after takes tokens of the shape (batch_size, time), or texts of different "
                f"lengths, each of at least one token, not one of the shape {text.shape}"
            )
        self._check_tokens("logits_after", text)
        longest, name = self.limits.longest, self.limits.name
        if longest is not None and len(text) > longest:
            raise ShapeError(f"CachedDecoder.logits_after: a text has {len(text)} tokens, more than {name}, {longest}")
        return text.astype(np.int64)

    def _tokens_of(
        self, caller: str, tokens: object, shape: tuple[str, ...], rows: NDArray[np.intp]
    ) -> NDArray[np.int64]:
        """Return tokens of these sequences as an array, or raise an error that says what they must be."""
        given = as_array(tokens)
        if given.ndim != len(shape) or len(given) != len(rows):
            raise ShapeError(
                f"CachedDecoder.{caller} takes tokens of the shape ({', '.join(shape)}), with batch_size "
                f"{len(rows)}, not {given.shape}"
            )
        self._check_tokens(caller, given)
        longest, name = self.limits.longest, self.limits.name
        length, time = int(self._lengths[rows].max()), given.shape[1] if given.ndim == 2 else 1
        if longest is not None and time > longest - length:
            raise ShapeError(
                f"the cache holds {length} tokens of {name}, {longest}, and has no room for {time} more; start "
                f"new sequences with .reset()"
            )
        return given

    def _check_tokens(self, caller: str, tokens: np.ndarray) -> None:
        """Raise `DTypeError` unless these are integers, and `IndexOutOfRange` unless the model has the tokens."""
        if tokens.dtype.kind not in "iu":
            raise DTypeError(f"CachedDecoder.{caller} takes the numbers of tokens, not {tokens.dtype}")
        outside = tokens[(tokens < 0) | (tokens >= self.limits.vocab_size)]
        if outside.size:
            raise IndexOutOfRange(f"a token is {outside[0]}; it must be in 0..{self.limits.vocab_size - 1}")


def _identities(model: object) -> list[int] | None:
    """Return which parameters and narrow weights a model has; None for an object that does not list them."""
    if not isinstance(model, Module):
        return None
    return [id(weight) for weight in (*model.parameters(), *(narrow for _, narrow in model.named_narrow_weights()))]
