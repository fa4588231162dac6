"""Data sets, batches, splits, and readers of common files.

>>> data = wy.data.Dataset(x=np.arange(10.0), y=np.arange(10) % 2)
>>> train, test = wy.data.train_test_split(data, 0.2, seed=0)
>>> len(train), len(test)
(8, 2)

- `Dataset`: named columns, which can be mapped, filtered, split and joined (`concatenate`); `DataLoader`: its batches.
- Readers: `read_idx` (MNIST), `read_movielens` (`Interactions`), `read_text`, `load_text_dataset`.
- Text: `Tokenizer` learns or loads a byte-pair encoding, `TokenBlocks` cuts a text into rows of one length.
"""

from typing import TYPE_CHECKING

from wyrm.data.dataset import Dataset
from wyrm.data.idx import read_idx
from wyrm.data.interactions import Interactions, low_rank_preferences, read_movielens
from wyrm.data.loader import DataLoader
from wyrm.data.split import concatenate, split_by_group, train_test_split
from wyrm.data.text import TokenBlocks, load_text_dataset, read_text
from wyrm.data.tokenizers import Tokenizer
from wyrm.support import late_imports as _lazy_imports

if not TYPE_CHECKING:  # a module with `__getattr__` has every name, as far as the type checker can tell
    __getattr__, __dir__ = _lazy_imports.lazy_imports(__name__, {})

__all__ = [
    "DataLoader",
    "Dataset",
    "Interactions",
    "TokenBlocks",
    "Tokenizer",
    "concatenate",
    "load_text_dataset",
    "low_rank_preferences",
    "read_idx",
    "read_movielens",
    "read_text",
    "split_by_group",
    "train_test_split",
]
