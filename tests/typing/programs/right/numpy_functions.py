# ruff: noqa
# fmt: off
#@ products_as_functions
reveal_type(wy.matmul(x, w))  # reveals: MatMul[Input[tuple[Batch, In]], Parameter[tuple[In, Out]], tuple[Batch, Out]]
reveal_type(wy.matmul(sequence, w))  # reveals: MatMul[Input[tuple[Batch, Time, In]], Parameter[tuple[In, Out]], tuple[Batch, Time, Out]]
r1: wy.Tensor[Batch] = wy.matmul(x, vector)
r2: wy.Tensor[Batch, Time, Time] = wy.matmul(sequence, sequence.mT)
r3: wy.Tensor[Batch, Out] = wy.matmul(x, numbers(7, 3))
r4: wy.Tensor[Batch, Out] = wy.dot(x, w)
r5: wy.Tensor[Batch, In] = wy.dot(x, scale)
r6: wy.Tensor[In, Out] = wy.outer(vector, b)
r7: wy.Tensor[()] = wy.vdot(x, x2)
reveal_type(wy.matmul(unknown, w))  # reveals: MatMul[Any, Any, Any]
#@ reductions_without_nan
reveal_type(wy.nanmean(x))  # reveals: Node[Any, tuple[()]]
reveal_type(wy.nansum(x, axis=-1))  # reveals: Node[Any, tuple[Batch]]
reveal_type(wy.nanmax(sequence, axis=0))  # reveals: Node[Any, tuple[Time, In]]
reveal_type(wy.median(x, -1))  # reveals: Node[Any, tuple[Batch]]
reveal_type(wy.median(unknown, -1))  # reveals: Node[Any, Any]
kept: wy.Tensor[Batch, wy.One] = wy.nanmin(x, axis=-1, keepdims=True)
middle: wy.Tensor[()] = wy.median([3.0, 1.0, 2.0])
quartiles: wy.Tensor[Any, In] = wy.quantile(x, [0.25, 0.75], axis=0)
#@ sorted_values
reveal_type(wy.searchsorted(vector, x))  # reveals: IndexNode[tuple[Batch, In]]
reveal_type(wy.digitize(x, [0.0, 0.5, 1.0]))  # reveals: IndexNode[tuple[Batch, In]]
reveal_type(wy.interp(x, [0.0, 1.0], [1.0, 3.0]))  # reveals: Node[Any, tuple[Batch, In]]
slope = wy.gradient(vector) + vector
#@ arrays_made_of_sizes
r1: wy.Tensor[Any] = wy.linspace(0.0, 1.0, 5)
r2: wy.Tensor[Any, Any] = wy.eye(3)
r3: wy.Tensor[Batch, In] = x @ wy.eye(7)
more, less = wy.atleast_2d(vector, x)
rows: wy.Tensor[Any, In] = wy.atleast_2d(vector)
#@ special_functions
reveal_type(wy.special.gammaln(x))  # reveals: GammaLn[Input[tuple[Batch, In]], tuple[Batch, In]]
reveal_type(wy.special.jv(2, x))  # reveals: Node[Any, tuple[Batch, In]]
reveal_type(wy.special.j0(vector))  # reveals: Node[Any, tuple[In]]
reveal_type(wy.special.logsumexp(x, axis=-1))  # reveals: Node[Any, Any]  # with the plugin: Node[Any, tuple[Batch]]
r1: wy.Tensor[Batch, In] = wy.special.expit(x) + wy.special.softmax(x, axis=-1)
r2: wy.Tensor[Batch, In] = wy.special.beta(x, x2) + wy.special.xlogy(x, vector)
#@ counts_of_masks_are_integers
positive = x > 0.5
reveal_type(positive.sum())  # reveals: CountTrue[tuple[()]]
reveal_type(positive.mean())  # reveals: Mean[Greater[Any, Any, tuple[Batch, In]], tuple[()]]  # with the plugin: Mean[Cast[Any, tuple[Batch, In]], tuple[()]]
share: wy.Tensor[Batch] = positive.sum(axis=-1).astype(np.float32) / 7.0
#@ chosen_function
index = wy.IndexInput(2)
r1: wy.Tensor[Batch, In] = wy.switch(index, [lambda: x, lambda: x2])
r2: wy.Tensor[Batch, Out] = wy.switch(index, [lambda v: v @ w, lambda v: v @ w * 2.0], x)
r3: wy.Tensor[Batch, Out] = wy.switch(1, [lambda v, u: v @ u, lambda v, u: v @ u * 2.0], x, w)
#@ chosen_function_of_several_results
index = wy.IndexInput(1)
def both(v: wy.Tensor[Batch, In]) -> tuple[wy.Tensor[Batch, In], wy.Tensor[()]]:
    return v * 2.0, v.sum()
doubled, total = wy.switch(index, [both, both], x)
r1: wy.Tensor[()] = total
first, second = wy.switch(index, [lambda v, u: (v, u), lambda v, u: (v + 1.0, u)], x, w)
r2 = wy.switch(index, [lambda v, u, t: v @ u + t, lambda v, u, t: v @ u], x, w, b)
r3 = wy.switch(index, [lambda v: v["x"], lambda v: v["x"] * 2.0], {"x": x})
#@ elements_at_lists_and_masks
r1: wy.Tensor[Any, In] = x[[0, 2]]
r2: wy.Tensor[Any] = x[[0, 2], [1, 3]]
r3: wy.Tensor[Batch, Any] = x[:, labels]
r4: wy.Tensor[Batch, In] = x.at[[0, 1], :].add(1.0)
r5: wy.Tensor[Any, In] = x[np.array([True, False, True, False])]
#@ least_squares
found = wy.linalg.lstsq(x, y)
reveal_type(found.x)  # reveals: Node[Any, tuple[In, Out]]
reveal_type(wy.linalg.lstsq(x.T, vector).x)  # reveals: Node[Any, tuple[Batch]]
reveal_type(wy.linalg.cond(x))  # reveals: Node[Any, tuple[()]]
reveal_type(wy.linalg.matrix_norm(sequence))  # reveals: Node[Any, tuple[Batch]]
#@ resampled_images
reveal_type(wy.nn.interpolate(pictures, scale_factor=2))  # reveals: Node[Any, tuple[Batch, Colours, Any, Any]]
r: wy.Tensor[Batch, Hid, Any, Any] = wy.nn.Conv2d(colours, hid, 3)(wy.nn.Upsample(scale_factor=2)(pictures))
#@ groups_of_parameters
groups: list[wy.optim.ParameterGroup] = [{"parameters": [w, w1], "weight_decay": 0.1}, {"parameters": [b], "learning_rate": 0.5}]
optimizer = wy.optim.AdamW(groups, learning_rate=1e-3, max_norm=1.0, lower=-1.0)
for group in optimizer.groups:
    group.learning_rate = 0.5
