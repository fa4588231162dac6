# ruff: noqa
# fmt: off
#@ draws_of_named_axes
reveal_type(wy.random.normal((Batch, In(4))))  # reveals: Node[Any, tuple[Batch, In]]
reveal_type(wy.random.uniform((batch, in_), -1.0, high=1.0))  # reveals: Node[Any, tuple[Batch, In]]
reveal_type(wy.random.bernoulli((batch,), 0.5, seed=3))  # reveals: Node[Any, tuple[Batch]]
reveal_type(wy.random.randint((batch,), 0, 10))  # reveals: IndexNode[tuple[Batch]]
reveal_type(wy.random.permutation((batch,)))  # reveals: IndexNode[tuple[Batch]]
#@ draws_like_a_node
reveal_type(wy.random.normal_like(x))  # reveals: Node[Any, tuple[Batch, In]]
reveal_type(wy.random.gumbel(x.dims))  # reveals: Node[Any, tuple[Batch, In]]
reveal_type(wy.random.categorical(x))  # reveals: IndexNode[tuple[Batch]]
#@ reparameterization
mean, log_variance = x @ w, x @ w
code: wy.Tensor[Batch, Out] = mean + (log_variance * 0.5).exp() * wy.random.normal_like(mean)
code = wy.random.normal((batch, out), mean, (log_variance * 0.5).exp())
#@ shuffled_rows
rows: wy.Tensor[Batch, In] = x.take(wy.random.permutation(x.dims[:1]), axis=0)
#@ draws_along_one_axis
reveal_type(wy.random.normal(batch))  # reveals: Node[Any, tuple[Batch]]
reveal_type(wy.random.uniform(Batch(), low=-1.0))  # reveals: Node[Any, tuple[Batch]]
reveal_type(wy.random.randint(batch, 0, 3))  # reveals: IndexNode[tuple[Batch]]
r: wy.Tensor[Batch, Out] = wy.random.normal((batch, in_)) @ w
#@ size_of_an_axis
size: int = batch.size
half = batch.size // 2
open_ = Batch().size is None
