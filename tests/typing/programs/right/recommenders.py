# ruff: noqa
# fmt: off
#@ recommender_of_a_table
recommenders = wy.estimators.recommenders
model: wy.estimators.recommenders.ALS = recommenders.ALS(2).fit({"user_id": [1, 1, 2], "item_id": ["a", "b", "a"]})
best: wy.data.Recommendations = model.recommend(2, k=1, exclude=["b"])
several = model.recommend([1, 2], seen=True)
ids: np.ndarray = several.items
folded: wy.estimators.recommenders.ALS = model.fold_in({"user_id": [3], "item_id": ["b"]})
#@ recommenders_that_are_compared
data = wy.data.low_rank_preferences(30, 20, rank=2, interactions_per_user=8)
recommenders = wy.estimators.recommenders
for model, recall, gain, covered, seconds in recommenders.compare(data, [recommenders.Popular()], held_out=2):
    name: str = type(model).__name__
    total: float = recall + gain + covered + seconds
