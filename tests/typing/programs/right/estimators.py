# ruff: noqa
# fmt: off
#@ estimators_return_themselves_and_arrays
model: wy.estimators.Classifier = wy.estimators.Classifier((4,), max_iter=2).fit(numbers(7, 2), [0, 1] * 3 + [0])
classes: NDArray[Any] = model.predict(numbers(3, 2))
score: float = model.score(numbers(7, 2), [0] * 7)
