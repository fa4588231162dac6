"""Batches of a dataset, in an order that depends only on the seed and the epoch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wyrm.data.checks import whole_number
from wyrm.data.dataset import Dataset
from wyrm.errors import DataError, DTypeError, NotFinite, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.support.foreign_names import explains_keywords


def _cumulative(weights: ArrayLike, rows: int) -> NDArray[np.float64]:
    """Return the cumulative weights of the rows, as fractions of the total."""
    given = as_array(weights)
    if given.dtype.kind not in "iufb":
        raise DTypeError(f"weights have dtype {given.dtype}; expected numbers.")
    if given.shape != (rows,):
        raise ShapeError(f"weights have shape {given.shape} for {rows} rows; expected ({rows},), one per row.")
    values = given.astype(np.float64)
    finite = np.isfinite(values)
    if not finite.all():
        row = int(finite.argmin())
        raise NotFinite(f"weights hold {values[row]} for row {row}; expected finite numbers of at least 0.")
    if values.min() < 0:
        row = int((values < 0).argmax())
        raise DataError(
            f"weights hold {values[row]} for row {row}; expected at least 0; a row of weight 0 is never drawn."
        )
    if values.max() == 0:
        raise DataError(f"all {rows} weights are zero, so no row can be drawn; give at least one row a weight above 0.")
    # Only ratios matter; scaling by the maximum keeps the sum from overflowing.
    cumulative = np.cumsum(values / values.max())
    return np.asarray(cumulative / cumulative[-1])


class DataLoader:
    """Batches of a `Dataset`: each is a dict from column name to an array of shape (batch, ...).

    Each iteration is one epoch. The order depends on (`seed`, epoch) alone: loaders with equal arguments yield equal
    batches. `loader.epoch` is the number of the next epoch; set it to resume training.

    With `shuffle`, each epoch visits every row once in a new order, else in the order of the dataset. With `weights`,
    of shape (rows,), an epoch draws as many rows as the dataset has, with replacement, with probabilities proportional
    to the weights. The last batch may be smaller; `drop_last` drops it. Batches are copies, so changing one does not
    change the dataset.

    Raises:
        DTypeError: `batch_size` or `seed` is not an integer, or `weights` are not numbers.
        DataError: `batch_size` is below 1, `seed` is below 0, a weight is negative, all weights are zero, `weights` are
            given with `shuffle=False`, or `drop_last` leaves no batch.
        ShapeError: `weights` do not have shape (rows,).
        NotFinite: a weight is NaN or infinite.

    >>> loader = DataLoader(Dataset(x=[0, 1, 2, 3, 4]), batch_size=2, shuffle=False)
    >>> len(loader)
    3
    >>> [batch["x"].tolist() for batch in loader]
    [[0, 1], [2, 3], [4]]
    """

    @explains_keywords
    def __init__(
        self,
        dataset: Dataset,
        batch_size: int,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        weights: ArrayLike | None = None,
    ) -> None:
        if not isinstance(dataset, Dataset):
            raise TypeError(
                f"DataLoader takes a Dataset, as in Dataset(images=x, labels=y), not {type(dataset).__name__}"
            )
        self.dataset = dataset
        self.batch_size: int = whole_number("batch_size", batch_size, minimum=1)
        self.shuffle = shuffle
        self.seed: int = whole_number("seed", seed, minimum=0)
        self.drop_last = drop_last
        self._epoch = 0
        self._cumulative = None if weights is None else _cumulative(weights, len(dataset))
        if weights is not None and not shuffle:
            raise DataError(
                "weights draw rows at random, which shuffle=False forbids. Pass one of the two: without weights "
                "rows keep their order, with weights shuffle stays True."
            )
        if drop_last and self.batch_size > len(dataset):
            raise DataError(
                f"batch_size={self.batch_size} with drop_last=True leaves no batch of a dataset of {len(dataset)} "
                f"rows. Use a batch_size of at most {len(dataset)}, or drop_last=False."
            )

    @property
    def epoch(self) -> int:
        """The number of the next epoch, from 0."""
        return self._epoch

    @epoch.setter
    def epoch(self, number: int) -> None:
        self._epoch = whole_number("epoch", number, minimum=0)

    def __repr__(self) -> str:
        return f"DataLoader({self.dataset!r}, batch_size={self.batch_size}, shuffle={self.shuffle})"

    def __len__(self) -> int:
        whole, rest = divmod(len(self.dataset), self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)

    @property
    def last_batch_size(self) -> int:
        """The number of rows of the last batch of an epoch, which may be smaller than the others."""
        rest = len(self.dataset) % self.batch_size
        return rest if rest and not self.drop_last else self.batch_size

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        # Not in the generator, which would count an epoch only at its first batch.
        epoch, order = self._epoch, self._order(self._epoch)
        self._epoch += 1
        return self._batches(order, epoch)

    def _order(self, epoch: int) -> NDArray[np.intp]:
        rows = len(self.dataset)
        if not self.shuffle:
            return np.arange(rows)
        generator = np.random.default_rng([self.seed, epoch])
        if self._cumulative is None:
            return generator.permutation(rows)
        # The first row whose cumulative weight is above the draw, which is never a row of weight 0.
        return self._cumulative.searchsorted(generator.random(rows), side="right")

    def _batches(self, order: NDArray[np.intp], epoch: int) -> Iterator[dict[str, np.ndarray]]:
        for batch in range(len(self)):
            rows = order[batch * self.batch_size : (batch + 1) * self.batch_size]
            yield self.dataset.take(rows, epoch=epoch, batch=batch)
