# ruff: noqa
# fmt: off
#@ groups_of_parameters_in_a_list
groups: list[wy.optim.ParameterGroup] = [{"parameters": [w1], "weight_decay": 0.1}, {"parameters": [w2], "learning_rate_factor": 0.5}]
optimizer = wy.optim.AdamW(groups, learning_rate=1e-3)
rates: list[float] = [group.learning_rate for group in optimizer.groups]
#@ optimizers_that_step_together
model = wy.nn.Linear(in_, out)
assert model.bias is not None
optimizer = wy.optim.Combined([wy.optim.Muon([model.weight], 0.02), wy.optim.AdamW([model.bias], 1e-3)], max_norm=1.0)
names: list[str] = [type(group).__name__ for group in optimizer.groups]
#@ optimizers_by_name
makers = {"sgd": wy.optim.SGD, "lion": wy.optim.Lion}
optimizers = [wy.optim.SGD([w], 0.1), wy.optim.Adam([w1], 0.1)]
for optimizer in optimizers:
    optimizer.zero_gradient()
#@ optimizer_in_a_signature
def train(parameters: list[wy.Parameter], optimizer: wy.optim.Optimizer) -> int:
    for parameter in parameters:
        parameter.square().sum().backward()
    optimizer.step()
    return optimizer.steps
done = train([w, b], wy.optim.RMSprop([w, b], learning_rate=0.1))
#@ schedules_in_a_row
warm = wy.optim.Joined([wy.optim.LinearWarmup(0.1, steps=4), 0.1, wy.optim.Exponential(0.1, factor=0.5)], boundaries=[4, 10])
rate: float = warm(3)
wy.optim.SGD([w], learning_rate=warm)
#@ schedule_of_ones_own
def falling(step: int) -> float:
    return 0.1 / (1.0 + step)
wy.optim.Adam([w], learning_rate=falling)
wy.optim.Adam([w], learning_rate=wy.optim.OneCycle(0.1, steps=20))
#@ limits_of_gradients_and_parameters
optimizer = wy.optim.SGD([w], 0.1, max_norm=1.0, clip_value=0.5, lower=-1.0, upper=1.0)
(x @ w - y).square().mean().backward()
before: float = wy.optim.clip_by_global_norm([w], 1.0)
wy.optim.clip_by_value([w], 0.1)
optimizer.step()
#@ averages_of_parameters
optimizer = wy.optim.Adam([w], 0.1, average=wy.optim.EMA(0.99))
(x @ w - y).square().mean().backward()
optimizer.step()
with optimizer.average_parameters():
    values = (x @ w).forward()
#@ callbacks_of_functions
printed = wy.train.LambdaCallback(on_epoch_end=lambda run, values: print(run.epoch, values["loss"]), on_end=lambda run: None)
stopping = wy.train.LambdaCallback(on_epoch_start=lambda run: run.stop() if run.epoch > 3 else None)
both: list[wy.train.Callback] = [printed, stopping]
#@ callback_that_keeps_a_state
from collections.abc import Mapping, MutableMapping
class Counter(wy.train.Callback):
    def __init__(self) -> None:
        self.count = 0
    def on_start(self, run: wy.train.Run) -> None:
        self.count = 0
    def on_epoch_end(self, run: wy.train.Run, values: MutableMapping[str, float]) -> None:
        values["count"] = self.count = self.count + 1
    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.count = state["count"]
train = wy.compile((x @ w - y).square().mean(), wy.optim.SGD([w], 0.1))
history = wy.train.fit(train, {x: array, y: y.value}, epochs=2, batch_size=4, callbacks=[Counter()])
counts: list[float] = history["count"]
#@ history_of_a_training
train = wy.compile((x @ w - y).square().mean(), wy.optim.SGD([w], 0.1))
history = wy.train.fit(train, {x: array, y: y.value}, epochs=3, batch_size=4, validation={x: array, y: y.value})
record: wy.train.EpochRecord = history.best_by("validation_loss")
number: int = record.epoch
count, how = history.epochs, history.stopped
for name, values in history.items():
    print(name.upper(), sum(values) / len(values))
#@ early_stopping_by_a_score
callbacks = [wy.train.EarlyStopping(3, "validation_loss"), wy.train.ReduceOnPlateau(0.5, patience=2), wy.train.ProgressBar()]
patience: int = callbacks[0].patience if isinstance(callbacks[0], wy.train.EarlyStopping) else 0
#@ fit_with_running_metrics
outputs = x @ w
train = wy.compile((outputs - y).square().mean(), wy.optim.SGD([w], 0.1))
error = wy.metrics.Mean()
history = wy.train.fit(
    train, {x: array, y: y.value}, epochs=1, batch_size=4, shuffle=True, seed=1,
    validation={x: array, y: y.value}, metrics={"mean": (error, outputs.mean())}, validation_batch_size=4,
)
means: list[float] = history["validation_mean"]
#@ fit_by_names_of_inputs
rows, targets = wy.Input(dims=(Batch(), in_), name="x"), wy.Input(dims=(Batch(), out), name="y")
train = wy.compile((rows @ w - targets).square().mean(), wy.optim.Adam([w], 0.1))
columns = {"x": numbers(8, 7), "y": numbers(8, 3)}
first = wy.train.fit(train, columns, epochs=1, batch_size=4)
second = wy.train.fit(train, wy.data.Dataset(columns), epochs=1, batch_size=4)
third = wy.train.fit(train, wy.data.DataLoader(wy.data.Dataset(columns), batch_size=4), epochs=1)
#@ columns_of_a_table
class Frame:
    def __init__(self, columns: dict[str, NDArray[np.float32]]) -> None:
        self.columns = list(columns)
        self._columns = columns
    def __getitem__(self, name: str) -> NDArray[np.float32]:
        return self._columns[name]
    def __len__(self) -> int:
        return len(self._columns[self.columns[0]])
table_of_rows = Frame({"height": numbers(6), "age": numbers(6)})
height, age = wy.Input(name="height"), wy.Input(name="age")
slope = wy.Parameter(0.0)
def prepare(data: Frame) -> dict[str, NDArray[np.float32]]:
    return {name: data[name] for name in data.columns}
train = wy.compile((height - slope * age).square(), wy.optim.SGD([slope], 0.01))
mean: float = train.epoch(prepare(table_of_rows)) + train.epoch(table_of_rows)
#@ batches_of_a_generator
from collections.abc import Iterator
rows = wy.Input(dims=(Batch(), in_), name="x")
train = wy.compile((rows @ w).square().mean(), wy.optim.SGD([w], 0.1))
def batches() -> Iterator[dict[str, NDArray[np.float32]]]:
    for _ in range(3):
        yield {"x": numbers(4, 7)}
mean: float = train.epoch(batches())
#@ loop_of_batches
dataset = wy.data.Dataset(x=numbers(10, 7), label=np.arange(10) % 3)
loader = wy.data.DataLoader(dataset, batch_size=4, shuffle=True, seed=3, drop_last=True)
sizes: list[int] = [len(part["x"]) for part in loader]
steps: int = len(loader) * 2
loader.epoch = 5
#@ rows_and_columns_of_a_data_set
dataset = wy.data.Dataset({"x": numbers(10, 7)}, label=np.arange(10) % 3)
column: NDArray[Any] = dataset["x"]
part: wy.data.Dataset = dataset[2:8]
some: wy.data.Dataset = dataset[[0, 3]]
names: list[str] = dataset.column_names
count: int = len(dataset) + len(part)
#@ program_in_a_class
class Trainer:
    def __init__(self, model: wy.nn.Linear[In, Out]) -> None:
        self.rows = wy.Input(dims=(Batch(), in_), name="rows")
        self.predicted = model(self.rows)
        loss = self.predicted.square().mean()
        self.program: wy.Program[Any, float] = wy.compile(loss, wy.optim.Adam(model.parameters(), 1e-3))
        self.predict = wy.compile(self.predicted)
    def run(self, rows: NDArray[np.float32], epochs: int) -> list[float]:
        return [self.program.epoch({self.rows: rows}, batch_size=4) for _ in range(epochs)]
trainer = Trainer(wy.nn.Linear(in_, out))
losses = trainer.run(numbers(8, 7), 2)
answers: NDArray[np.floating[Any]] = trainer.predict({trainer.rows: numbers(2, 7)})
#@ programs_by_name
programs: dict[str, wy.Program[Any, float]] = {"one": wy.compile((x @ w).mean(), wy.optim.SGD([w], 0.1))}
for name, program in programs.items():
    total: float = program.epoch({x: array}, batch_size=4)
#@ modules_in_a_dict
heads_by_name = {"first": wy.nn.Linear(in_, out), "second": wy.nn.Linear(in_, out)}
answers: dict[str, wy.Tensor[Batch, Out]] = {name: head(x) for name, head in heads_by_name.items()}
#@ module_of_optional_parts
class Network(wy.nn.Module):
    def __init__(self, dropout: float | None = None) -> None:
        self.layer = wy.nn.Linear(in_, out)
        self.dropout = None if dropout is None else wy.nn.Dropout(dropout)
    def __call__(self, x: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, Out]:
        h = self.layer(x)
        return h if self.dropout is None else self.dropout(h)
r: wy.Tensor[Batch, Out] = Network(0.1).eval()(x)
#@ module_of_modules
class Encoder(wy.nn.Module):
    def __init__(self, inputs: In, hidden: Hid) -> None:
        self.layer = wy.nn.Linear(inputs, hidden)
    def __call__(self, x: wy.Tensor[B, In]) -> wy.Tensor[B, Hid]:
        return self.layer(x).tanh()
class Model(wy.nn.Module):
    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.output = wy.nn.Linear(hid, out)
    def __call__(self, x: wy.Tensor[B, In]) -> wy.Tensor[B, Out]:
        return self.output(self.encoder(x))
model = Model(Encoder(in_, hid))
loss: wy.Tensor[()] = model(x).cross_entropy(labels)
frozen: list[wy.Parameter] = model.encoder.parameters()
#@ state_of_a_module
model = wy.nn.Linear(in_, out)
state: dict[str, NDArray[Any]] = model.state_dict()
other = wy.nn.Linear(in_, out)
other.load_state_dict(state)
total: int = sum(parameter.size for _, parameter in other.named_parameters())
#@ generic_head_of_a_module
class Head(wy.nn.Module, Generic[I, D]):
    def __init__(self, inputs: I, outputs: D) -> None:
        self.weight = wy.Parameter.zeros((inputs, outputs))
    def __call__(self, x: wy.Tensor[B, I]) -> wy.Tensor[B, D]:
        return x @ self.weight
r: wy.Tensor[Batch, Out] = Head(in_, out)(x)
s: wy.Tensor[Batch, Hid] = Head(in_, hid)(x)
#@ gradient_accumulation
rows = wy.Input(dims=(Batch(), in_), name="x")
train = wy.compile((rows @ w).square().mean(), wy.optim.SGD([w], 0.1))
mean: float = train.epoch({"x": numbers(8, 7)}, batch_size=2, accumulate=2, threads=1)
state: dict[str, int] = train.state_dict()
train.load_state_dict(state)
#@ steps_by_hand
parameters = [w, b]
optimizer = wy.optim.AdamW(parameters, learning_rate=1e-2)
for _ in range(2):
    loss = (x @ w + b - y).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_gradient()
    value: float = loss.value.item()
#@ outputs_by_position
program = wy.compile([x @ w, (x @ w).argmax(-1)])
logits, places = program({x: array})
best: int = int(places[0])
#@ splits_of_a_data_set
data = wy.data.Dataset({"x": numbers(12, 7), "user": np.arange(12) % 4})
training, test = wy.data.split_by_group(data, "user", test_fraction=0.25)
joined: wy.data.Dataset = wy.data.concatenate([training, test])
