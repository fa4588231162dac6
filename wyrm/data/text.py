"""Text for language models, from a file or the Hugging Face hub, and blocks of its tokens."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from wyrm.data.checks import FilePath, open_data_file, part_size, whole_number
from wyrm.errors import DataError, DTypeError, IndexOutOfRange, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.support.foreign_names import explains_keywords


def read_text(path: FilePath) -> str:
    """Return the content of a UTF-8 text file, without a byte order mark at its start.

    Raises:
        DataError: the file is missing, empty, or not UTF-8; with the file and the offset of the first wrong byte.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "stories.txt"
    ...     _ = path.write_text("Once upon a time", encoding="utf-8")
    ...     read_text(path)
    'Once upon a time'
    """
    with open_data_file(path) as file:
        content = file.read()
    try:
        text = content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{os.fspath(path)} is not UTF-8 text: byte {error.start} (0x{content[error.start]:02x}) is wrong "
            f"({error.reason}). Use a UTF-8 file, or convert this one, for example with iconv."
        ) from error
    if not text:
        raise DataError(f"{os.fspath(path)} is empty; expected text. Pass another file (examples take it as --data).")
    return text


def load_text_dataset(
    name: str,
    split: str = "train",
    data: FilePath | None = None,
    *,
    column: str = "text",
    separator: str = "\n",
) -> str:
    """Return the text of a dataset of the Hugging Face hub, or of the local file `data` if given.

    `name` is the name of the dataset, such as `"roneneldan/TinyStories"`, and `split` an argument of
    `datasets.load_dataset`: `"train"`, or a part such as `"train[:1%]"`. The entries of `column` are joined by
    `separator`. A local file is read whole and needs neither the hub nor the package `datasets`.

    Raises:
        DataError: the package `datasets` is missing, the hub is unreachable or has no such dataset, split or column, an
            entry is not text, or there is no text; for a local file see `read_text`.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "stories.txt"
    ...     _ = path.write_text("Once upon a time", encoding="utf-8")
    ...     load_text_dataset("roneneldan/TinyStories", data=path)
    'Once upon a time'
    """
    if data is not None:
        return read_text(data)
    try:
        # Imported here, since the import takes seconds and only the hub needs it.
        import datasets  # pyright: ignore[reportMissingImports]  # an extra, which need not be installed
    except ImportError as error:
        raise DataError(
            f"loading {name!r} needs the package 'datasets', which cannot be imported ({error}). Install it with "
            f"pip install 'wyrm-autodiff[examples]', or pass a local text file (examples take it as --data)."
        ) from error
    try:
        table = datasets.load_dataset(name, split=split)
    except Exception as error:
        # Any exception: the hub's client passes on the errors of its HTTP library.
        raise DataError(
            f"cannot load {name!r}, split {split!r}, from the hub ({type(error).__name__}: {error}). Check the name, "
            f"the split and the connection, or pass a local text file (examples take it as --data)."
        ) from error
    if column not in table.column_names:
        raise DataError(f"{name!r} has no column {column!r}; its columns are {table.column_names}. Pass column=...")
    entries = list(table[column])
    for row, entry in enumerate(entries):
        if not isinstance(entry, str):
            raise DataError(
                f"{name!r}, split {split!r}: column {column!r} holds a {type(entry).__name__} in row {row}; "
                f"expected text. Pass another column=..."
            )
    if not any(entries):
        raise DataError(f"{name!r}, split {split!r}: column {column!r} holds no text. Pass another split or column.")
    return separator.join(entries)


class TokenBlocks:
    """Consecutive blocks of `block_size` tokens, and for every token the one that follows it.

    `tokens` are integers of shape (tokens,), of any integer dtype. They are not copied and may be memory-mapped. Block
    `i` has the inputs `tokens[i * block_size : (i + 1) * block_size]` and as targets the same slice shifted by one, so
    there are `(len(tokens) - 1) // block_size` blocks; the remaining tokens are unused. With a `vocab_size`, ids are
    checked to be from 0 to `vocab_size - 1`.

    Raises:
        DTypeError: the tokens are not integers, or an option is not a whole number.
        ShapeError: the tokens do not have exactly one axis.
        DataError: there are fewer than `block_size + 1` tokens, an option is below 1, or `seed` is below 0.
        IndexOutOfRange: an id is negative or beyond the vocabulary; with the first such position and the id.

    >>> blocks = TokenBlocks(np.arange(10), block_size=4)
    >>> len(blocks)
    2
    >>> blocks.inputs.tolist(), blocks.targets.tolist()
    ([[0, 1, 2, 3], [4, 5, 6, 7]], [[1, 2, 3, 4], [5, 6, 7, 8]])
    """

    __slots__ = ("_inputs", "_targets", "_tokens", "block_size", "seed", "vocab_size")

    @explains_keywords
    def __init__(
        self, tokens: NDArray[np.integer], block_size: int, *, vocab_size: int | None = None, seed: int = 0
    ) -> None:
        self.block_size: int = whole_number("block_size", block_size, minimum=1)
        self.seed: int = whole_number("seed", seed, minimum=0)
        self.vocab_size: int | None = None if vocab_size is None else whole_number("vocab_size", vocab_size, minimum=1)
        self._tokens = checked_tokens(tokens, self.vocab_size)
        if len(self._tokens) <= self.block_size:
            raise DataError(
                f"{len(self._tokens)} tokens are too few for one block of block_size {self.block_size}, which needs "
                f"{self.block_size + 1} for inputs and targets. Use more text or a smaller block_size."
            )
        count = (len(self._tokens) - 1) // self.block_size
        whole = count * self.block_size
        self._inputs = self._tokens[:whole].reshape(count, self.block_size)
        self._targets = self._tokens[1 : whole + 1].reshape(count, self.block_size)

    @property
    def inputs(self) -> NDArray[np.integer]:
        """The tokens of all blocks, of shape (blocks, block_size): a view."""
        return self._inputs

    @property
    def targets(self) -> NDArray[np.integer]:
        """The tokens that follow `inputs`, of shape (blocks, block_size): a view."""
        return self._targets

    def __len__(self) -> int:
        return len(self._inputs)

    def __repr__(self) -> str:
        count = len(self)
        return f"TokenBlocks({count} {'block' if count == 1 else 'blocks'} of {self.block_size} tokens)"

    def order(self, epoch: int) -> NDArray[np.int64]:
        """Return the block indices in the order of an epoch, a permutation that depends on `seed` and `epoch` alone.

        >>> sorted(TokenBlocks(np.arange(10), block_size=2).order(epoch=3).tolist())
        [0, 1, 2, 3]
        """
        generator = np.random.default_rng([self.seed, whole_number("epoch", epoch, minimum=0)])
        return generator.permutation(len(self))

    def batches(
        self, batch_size: int, epoch: int = 0, *, start: int = 0, shuffle: bool = True, drop_last: bool = True
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Return an iterator over the inputs and targets of an epoch, in batches of shape (batch_size, block_size).

        Blocks are permuted by `order(epoch)`, or with `shuffle=False` in the order of the tokens. A last batch with
        fewer blocks is dropped unless `drop_last` is False. `start` skips that many batches, to resume an epoch.

        Raises:
            DTypeError: `batch_size`, `epoch` or `start` is not a whole number.
            DataError: `batch_size` is below 1, another option is below 0, or an epoch has no batch or fewer than
                `start`.

        >>> blocks = TokenBlocks(np.arange(10), block_size=2)
        >>> [inputs.tolist() for inputs, targets in blocks.batches(2, start=1, shuffle=False)]
        [[[4, 5], [6, 7]]]
        """
        size = whole_number("batch_size", batch_size, minimum=1)
        first = whole_number("start", start, minimum=0)
        whole, rest = divmod(len(self), size)
        count = whole + (1 if rest and not drop_last else 0)
        if count == 0:
            raise DataError(
                f"batch_size={size} with drop_last=True leaves no batch of {len(self)} blocks. "
                f"Use a batch_size of at most {len(self)}, or drop_last=False."
            )
        if first > count:
            raise DataError(f"start must be in [0, {count}], the batches of an epoch, not {first}")
        order = self.order(epoch) if shuffle else np.arange(len(self))
        # The generator is a separate method, so that errors are raised here, before the first batch.
        return self._batches(order, size, range(first, count))

    def _batches(
        self, order: NDArray[np.int64], size: int, numbers: range
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        for number in numbers:
            rows = order[number * size : (number + 1) * size]
            yield self._inputs[rows].astype(np.int64), self._targets[rows].astype(np.int64)

    def split(self, validation_fraction: float = 0.1) -> tuple[TokenBlocks, TokenBlocks]:
        """Return the first blocks, for training, and the last, for validation; no target is in both.

        The validation part is `validation_fraction` of all blocks, above 0 and below 1, rounded to whole blocks. It is
        the end of the text, not a random choice, since neighbouring blocks belong to one story.

        Raises:
            DTypeError: `validation_fraction` is not a number.
            DataError: it is out of range, or leaves a part without a block.

        >>> training, validation = TokenBlocks(np.arange(101), block_size=10).split(0.2)
        >>> len(training), len(validation), validation.inputs[0, 0]
        (8, 2, np.int64(80))
        """
        count = len(self)
        validation = part_size(
            "validation_fraction", validation_fraction, count, "blocks",
            "use a fraction nearer to 0.5, more tokens, or a smaller block_size",
        )  # fmt: skip
        boundary = (count - validation) * self.block_size
        first, second = self._tokens[: boundary + 1], self._tokens[boundary : count * self.block_size + 1]
        return self._like(first), self._like(second)

    def _like(self, tokens: NDArray[np.integer]) -> TokenBlocks:
        return TokenBlocks(tokens, self.block_size, vocab_size=self.vocab_size, seed=self.seed)


def checked_tokens(tokens: object, vocab_size: int | None = None) -> NDArray[np.integer]:
    """Return ids of tokens as an array of integers with one axis, each at least 0 and below `vocab_size`."""
    given = as_array(tokens)
    if given.dtype.kind not in "iu" and given.size:
        raise DTypeError(f"tokens have dtype {given.dtype}; expected integers, the ids from a tokenizer.")
    if given.ndim != 1:
        raise ShapeError(
            f"tokens have shape {given.shape}; expected one axis; join several arrays with np.concatenate."
        )
    if not len(given):
        return given.astype(np.int64) if given.dtype.kind not in "iu" else given
    low, high = int(given.min()), int(given.max())
    if low < 0 or (vocab_size is not None and high >= vocab_size):
        # Python's integers are compared first: `vocab_size` may be beyond the range of the tokens' dtype.
        outside = given < 0
        if vocab_size is not None and high >= vocab_size:
            outside |= given >= vocab_size
        position = int(outside.argmax())
        allowed = "at least 0" if vocab_size is None else f"0 to {vocab_size - 1}"
        raise IndexOutOfRange(
            f"the token at position {position:,} has the id {int(given[position])}; expected {allowed}. "
            f"Do the tokens come from a tokenizer with another vocabulary?"
        )
    return given
