"""Data sets, batches, splits, and readers of common files.

>>> data = wy.data.Dataset(x=np.arange(10.0), y=np.arange(10) % 2)
>>> train, test = wy.data.train_test_split(data, 0.2, seed=0)
>>> len(train), len(test)
(8, 2)

- `Dataset`: named columns, which can be mapped, filtered, split and joined (`concatenate`); `DataLoader`: its batches.
- Readers: `read_idx` (MNIST), `read_movielens`, `read_text`, `load_text_dataset`.
- Recommenders: `Interactions` of users with items, with `Ids` of any type; `split_by_time`, `leave_one_out`,
  `sequences`; `ItemRows`, the items that each user has seen, and `Recommendations`, what `wy.recommend` returns.
- Images: `as_images` takes those of Pillow; `random_crop`, `random_shift`, `random_flip`, `cutout` and `mixup` change a
  batch in `Dataset.map(function, seed=0)`; `normalize_images` makes the floats that a convolution takes.
- Text: `Tokenizer` learns or loads a byte-pair encoding, `TokenBlocks` cuts a text into rows of one length;
  `skip_grams` pairs words that stand near each other, `ngram_buckets` hashes the n-grams of their characters.
"""

from wyrm.support.imports import lazy_imports

# Imported on first use; `python -m wyrm.declare` writes the same names for type checkers.
__getattr__, __dir__, __all__ = lazy_imports(
    __name__,
    {
        "augment": "as_images cutout mixup normalize_images random_crop random_flip random_shift",
        "dataset": "Dataset",
        "idx": "read_idx",
        "in_time": "histories leave_one_out sequences split_by_time",
        "ids": "Ids",
        "interactions": "Interactions low_rank_preferences",
        "loader": "DataLoader",
        "movielens": "read_movielens",
        "split": "concatenate split_by_group train_test_split",
        "text": "TokenBlocks load_text_dataset read_text",
        "tokenizers": "Tokenizer",
        "words": "ngram_buckets skip_grams",
        "wyrm.support.item_rows": "ItemRows Recommendations",
    },
)
