# ruff: noqa
# fmt: off
#@ cross_entropy
logits = x @ w + b
loss = logits.cross_entropy(labels)
reveal_type(loss)  # reveals: CrossEntropy[Add[Any, Any, tuple[Batch, Out]], tuple[()]]
loss.backward()
each = logits.cross_entropy(labels, reduction="none")
reveal_type(each)  # reveals: CrossEntropy[Add[Any, Any, tuple[Batch, Out]], tuple[Batch]]
total: wy.Tensor[()] = logits.cross_entropy(labels, reduction="sum") + loss * 0.1
total.backward()
#@ cross_entropy_of_sequences
classes = wy.IndexInput(np.zeros((4, 5), np.int64), dims=(batch, time))
loss = (sequence @ w + b).cross_entropy(classes)
reveal_type(loss)  # reveals: CrossEntropy[Add[Any, Any, tuple[Batch, Time, Out]], tuple[()]]
loss.backward()
#@ cross_entropy_of_arrays
r1: wy.Tensor[()] = (x @ w).cross_entropy(np.array([0, 1, 2, 0]))
r2: wy.Tensor[Batch] = (x @ w).cross_entropy(np.array([0, 1, 2, 0]), reduction="none")
#@ predictions
probabilities = (x @ w).cross_entropy(labels).predictions()
reveal_type(probabilities)  # reveals: Softmax[Any, tuple[Batch, Out]]
guess: wy.IndexTensor[Batch] = probabilities.argmax(axis=-1)
#@ squared_error_by_hand
loss = (x @ w + b - y).square().mean()
reveal_type(loss)  # reveals: Mean[Square[Any, tuple[Batch, Out]], tuple[()]]
loss.backward(0.5)
#@ losses_as_functions
prediction = x @ w + b
loss = wy.losses.mse(prediction, y)
loss.backward()
each: wy.Tensor[Batch, Out] = wy.losses.huber(prediction, y, reduction="none")
wy.losses.bce_with_logits(prediction, numbers(4, 3)).backward()
#@ gradients_as_graphs
parameter = wy.Parameter(numbers(4, 7), dims=(batch, in_))
loss = parameter.tanh().sum()
gradient = wy.grad(loss, parameter)
wy.grad(gradient.sum(), parameter).forward()
#@ optimizers
loss = (x @ w + b).square().mean()
optimizer = wy.optim.SGD(loss.parameters(), learning_rate=0.1)
loss.backward()
optimizer.step()
loss.zero_gradient()
#@ regularized
terms: list[wy.Tensor[()]] = []
terms.append(x.sum())
terms.append(w.square().mean() * 0.01)
total: wy.Tensor[()] = scale
for term in terms:
    total = total + term
total.backward()
