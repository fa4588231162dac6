# ruff: noqa
# fmt: off
#@ option_that_there_is_not
wy.estimators.Classifier((64,), epochs=5)  # error: [call-arg] Unexpected keyword argument "epochs" for "Classifier"
#@ option_of_another_type
wy.estimators.Regressor(max_iter="many")  # error: [arg-type] Argument "max_iter" to "Regressor" has incompatible type "str"; expected "int"
#@ loss_by_its_name
wy.estimators.ModuleEstimator(wy.nn.Linear(4, 3), "mse")  # error: [arg-type] Argument 2 to "ModuleEstimator" has incompatible type "str"; expected "Callable[..., Node[Any,
