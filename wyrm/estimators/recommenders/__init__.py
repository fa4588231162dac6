"""Recommenders: learn who had what, and recommend items to users by their own ids.

>>> clicks = wy.data.Interactions.of(["ann", "ann", "bob", "bob", "eve"], ["tea", "milk", "tea", "milk", "tea"])
>>> model = wy.estimators.recommenders.ALS(factors=2, regularization=0.1).fit(clicks)
>>> model.recommend("eve", k=1).items.tolist()
['milk']
>>> model.fold_in({"user_id": ["dan"], "item_id": ["milk"]}).recommend("dan", k=1).items.tolist()
['tea']

- `Popular`: the items that most users had. `EASE`: weights of items by items, solved at once.
- `ALS`: vectors of users and items by alternating least squares.
- `Hybrid`: sums of the vectors of features, by WARP, BPR or the logistic loss. `SASRec`: attention over what a user had
  last.
- `compare` fits several to the same interactions and measures what each recommends.

All have `fit`, `partial_fit`, `fold_in`, `recommend`, `similar_items`, `save` and `load`. `Recommender` is their base.
"""

from wyrm.support.imports import lazy_imports

# Imported on first use; `python -m wyrm.declare` writes the same names for type checkers.
__getattr__, __dir__, __all__ = lazy_imports(
    __name__,
    {
        "als": "ALS",
        "base": "Recommender",
        "comparing": "Measured compare evaluate",
        "ease": "EASE",
        "hybrid": "Hybrid",
        "popular": "Popular",
        "sasrec": "SASRec",
    },
)
