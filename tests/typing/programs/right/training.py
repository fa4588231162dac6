# ruff: noqa
# fmt: off
#@ columns_of_a_data_set
images = wy.Input(dims=(Batch(), in_), name="images")
classes = wy.IndexInput(dims=(Batch(),), name="classes")
weight, bias = wy.Parameter.zeros((in_, out)), wy.Parameter.zeros((out,))
loss = (images @ weight + bias).cross_entropy(classes)
train = wy.compile(loss, wy.optim.Adam(loss.parameters(), learning_rate=1e-3))
columns = {images: numbers(8, 7), classes: np.arange(8) % 3}
mean: float = train.epoch(columns, batch_size=4, shuffle=True, seed=0)
print(train.source, train.plan, train.inputs)
#@ columns_added_to_a_dict
features = {x: numbers(4, 7)}
weight = wy.Parameter.zeros((in_, out))
loss = (x @ weight).cross_entropy(labels)
train = wy.compile(loss, wy.optim.SGD([weight], learning_rate=0.1))
train.backward({**features, labels: np.zeros(4, np.int64)})
#@ columns_of_lists
slope = wy.Parameter(0.0)
height, age = wy.Input(name="height"), wy.Input(name="age")
loss = (height - slope * age).square()
train = wy.compile(loss, wy.optim.SGD([slope], learning_rate=0.01))
data = {age: [1.0, 2.0], height: [2.0, 4.0]}
for _ in range(2):
    train.epoch(data)
#@ columns_by_declared_nodes
inputs: dict[wy.Node, NDArray[np.float32]] = {x: numbers(4, 7)}
total = wy.compile(x.sum())(inputs)
#@ columns_by_name
rows, targets = wy.Input(dims=(Batch(), in_), name="x"), wy.Input(dims=(Batch(), out), name="y")
loss = (rows @ w - targets).square().mean()
train = wy.compile(loss, wy.optim.SGD([w], learning_rate=0.1))
columns = {"x": numbers(4, 7), "y": numbers(4, 3)}
dataset = wy.data.Dataset(columns)
first: float = train.epoch(columns, batch_size=2)
second: float = train.epoch(dataset, batch_size=2) + train.epoch({"x": numbers(4, 7), "y": numbers(4, 3)})
third: float = train.epoch(wy.data.DataLoader(dataset, batch_size=2))
product = wy.compile(rows @ w)({"x": array})
#@ metrics_of_a_program
loss = (x @ w).cross_entropy(labels)
predicted = (x @ w).argmax(axis=-1)
accuracy = (predicted == labels).astype(np.float32).mean()
train = wy.compile(loss, wy.optim.SGD([w], learning_rate=0.1), metrics={"accuracy": accuracy})
data = {x: numbers(4, 7), labels: np.zeros(4, np.int64)}
means: dict[str, float] = train.epoch(data, batch_size=4)
values: dict[str, NDArray[np.floating[Any]]] = train(data)
also: dict[str, float] = train.evaluate(data, batch_size=4)
alone: float = wy.compile(loss).evaluate(data, batch_size=4)
listed: list[float] = wy.compile([loss, accuracy]).evaluate(data, batch_size=4)
more: dict[str, float] = wy.compile(loss).evaluate(data, batch_size=4, metrics={"f1": (wy.metrics.Accuracy(), labels, predicted)})
#@ values_of_a_program
program = wy.compile(x @ w)
product: NDArray[np.floating[Any]] = program({x: array})
row = product[0].tolist()
both = wy.compile([x @ w, x.sum()])
values: list[NDArray[np.floating[Any]]] = both({x: array})
best: NDArray[np.integer[Any]] = wy.compile(x.argmax(-1))({x: array})
mixed = wy.compile([x.sum(), x.argmax(-1)])()
#@ program_as_an_argument
def evaluate(program: wy.Program, rows: NDArray[np.float32]) -> float:
    return float(program({x: rows}).mean())
evaluate(wy.compile(x.softmax()), array)
#@ two_parameters_in_a_list
weight, bias = wy.Parameter.zeros((in_, out)), wy.Parameter.zeros((out,))
parameters = [weight, bias]
loss = (x @ weight + bias - y).square().mean()
optimizer = wy.optim.AdamW(parameters, learning_rate=1e-2)
loss.backward()
wy.optim.clip_by_global_norm(parameters, 1.0)
optimizer.step()
optimizer.zero_gradient()
#@ named_parameters_in_a_dict
weight, bias = wy.Parameter.zeros((in_, out)), wy.Parameter.zeros((out,))
parameters = {"weight": weight, "bias": bias}
penalty: wy.Tensor[()] = sum((p.square().sum() for p in parameters.values()), wy.Constant(0.0))
optimizer = wy.optim.SGD(parameters.values(), learning_rate=0.1)
#@ mixed_leaves_in_a_list
leaves = [x, w]
for leaf in leaves:
    leaf.sum().forward()
shapes = [leaf.shape for leaf in leaves]
#@ gradients_in_a_list
loss = (x @ w + b - y).square().mean()
gradients = wy.grad(loss, [w, b])
for gradient in gradients:
    gradient.square().sum().forward()
parameters = [w, b]
first, second = wy.grad(loss, parameters)
more: list[wy.Node] = wy.grad(loss, loss.parameters())
#@ gradients_in_a_tuple
loss = (x @ w + b - y).square().mean()
by_weight, by_bias = wy.grad(loss, (w, b))
reveal_type(by_weight)  # reveals: Node[Any, tuple[In, Out]]
reveal_type(by_bias)  # reveals: Node[Any, tuple[Out]]
step: wy.Tensor[In, Out] = w - 0.1 * by_weight
#@ value_and_gradient
loss = (x @ w - y).square().mean()
value, gradient = wy.value_and_grad(loss, w)
r1: wy.Tensor[()] = value
r2: wy.Tensor[In, Out] = gradient
results = wy.run([value, gradient])
#@ gradient_of_a_gradient
loss = (x @ w - y).square().mean()
gradient = wy.grad(loss, w)
reveal_type(wy.grad(gradient.square().sum(), w))  # reveals: Node[Any, tuple[In, Out]]
#@ products_with_jacobians_of_nodes
product = x @ w
r1: wy.Tensor[In, Out] = wy.vjp(product, w, numbers(4, 3))
r2: wy.Tensor[Batch, Out] = wy.jvp(product, w, numbers(7, 3))
several = wy.vjp(product, [x, w], y)
#@ schedules
wy.optim.Adam([wy.Parameter(1.0)], learning_rate=wy.optim.Cosine(0.1, steps=100))
optimizer = wy.optim.Adam([wy.Parameter(1.0)], learning_rate=lambda step: 0.1 / (1 + step))
optimizer.learning_rate = 0.5
rate: float = optimizer.learning_rate
#@ saved_state
model = wy.nn.Linear(in_, out)
optimizer = wy.optim.Adam(model.parameters(), learning_rate=0.1)
state: dict[str, NDArray[Any]] = optimizer.state_dict()
optimizer.load_state_dict(state)
#@ metrics_of_predictions
predicted = (x @ w).argmax(axis=-1).forward()
share: float = wy.metrics.accuracy([0, 1, 2, 0], predicted)
error: float = wy.metrics.mean_squared_error(array, x.forward())
top: float = wy.metrics.top_k_accuracy([0, 1, 2, 0], (x @ w).softmax().forward(), k=2)
#@ data_sets
data = wy.data.Dataset({"x": numbers(10, 7), "label": np.arange(10) % 3})
training, test = wy.data.train_test_split(data, test_fraction=0.2)
for part in wy.data.DataLoader(training, batch_size=4, shuffle=True):
    x.set(part["x"][:4] if len(part["x"]) == 4 else numbers(4, 7))
#@ modes_of_a_module
network = wy.nn.Dropout(0.5)
r: wy.Tensor[Batch, In] = network.eval()(x)
network.train()
names = list(wy.nn.Linear(in_, out).named_parameters())
#@ training_for_several_epochs
loss = (x @ w).cross_entropy(labels)
train = wy.compile(loss, wy.optim.Adam([w], learning_rate=0.1))
data = {x: numbers(4, 7), labels: np.zeros(4, np.int64)}
callbacks: list[wy.train.Callback] = [wy.train.EarlyStopping(patience=2), wy.train.ReduceOnPlateau()]
history = wy.train.fit(train, data, epochs=2, batch_size=4, validation=data, callbacks=callbacks)
losses: list[float] = history["loss"]
best: int = history.best.epoch
rows = wy.Input(dims=(Batch(), in_), name="x")
means = wy.compile((rows @ w).square().mean(), wy.optim.Adam([w], learning_rate=0.1), metrics={"size": w.square().sum()})
again: wy.train.History = wy.train.fit(means, wy.data.DataLoader(wy.data.Dataset(x=numbers(4, 7)), 4), epochs=1)
#@ callbacks_of_a_user
from collections.abc import Mapping
class Printer(wy.train.Callback):
    def on_epoch_end(self, run: wy.train.Run, values: Mapping[str, float]) -> None:
        print(run.epoch, values["loss"])
        if values["loss"] < 0.1:
            run.stop()
#@ computed_data_sets
dataset = wy.data.Dataset(x=numbers(10, 7), label=np.arange(10) % 3)
doubled = dataset.map(lambda columns: {"x": 2.0 * columns["x"]}).filter(lambda columns: columns["x"][:, 0] > 0.0)
noisy = dataset.map(lambda columns, random: {"x": columns["x"] + random.normal(size=columns["x"].shape)}, seed=0)
joined: wy.data.Dataset = wy.data.concatenate([dataset.select_columns("x"), doubled, noisy])
#@ summaries
layers = wy.summary(wy.nn.Linear(in_, out), x)
count: int = layers.parameters
print(layers, layers.flops, [row.name for row in layers.rows])
#@ profiles
loss = (x @ w).square().mean()
train = wy.compile(loss, wy.optim.SGD([w], learning_rate=0.1))
profile = train.profile({x: numbers(8, 7)}, batch_size=4, steps=2, threads=2, mode="synchronized", memory=True)
slowest: wy.profile.Stage = max(profile.stages, key=lambda stage: stage.seconds)
print(profile, slowest.seconds + 1.0, slowest.location, profile.groups[0].calls, profile.table(3))
