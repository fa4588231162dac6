# ruff: noqa
# fmt: off
#@ linear_of_any_leading_axes
layer = wy.nn.Linear(in_, out)
r1: wy.Tensor[Out] = layer(vector)
r2: wy.Tensor[Batch, Out] = layer(x)
r3: wy.Tensor[Batch, Time, Out] = layer(sequence)
reveal_type(layer)  # reveals: Linear[In, Out]
#@ classifier
class Classifier(wy.nn.Module):
    def __init__(self, inputs: In, hidden: Hid, classes: Out) -> None:
        self.hidden = wy.nn.Linear(inputs, hidden)
        self.output = wy.nn.Linear(hidden, classes)
    def __call__(self, x: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, Out]:
        return self.output(self.hidden(x).relu())
model = Classifier(in_, hid, out)
model(x).cross_entropy(labels).backward()
found: list[wy.Parameter[Any]] = model.parameters()
#@ raw_parameters
class Perceptron(wy.nn.Module):
    def __init__(self) -> None:
        self.w1 = wy.Parameter.zeros((in_, hid))
        self.b1 = wy.Parameter.zeros((hid,))
        self.w2 = wy.Parameter.zeros((hid, out))
    def __call__(self, x: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, Out]:
        h = (x @ self.w1 + self.b1).relu()
        return h @ self.w2
r: wy.Tensor[Batch, Out] = Perceptron()(x)
#@ generic_module
class Perceptron(wy.nn.Module, Generic[I, H, D]):
    def __init__(self, inputs: I, hidden: H, outputs: D) -> None:
        self.first = wy.nn.Linear(inputs, hidden)
        self.second = wy.nn.Linear(hidden, outputs)
    def __call__(self, x: wy.Tensor[B, I]) -> wy.Tensor[B, D]:
        return self.second(self.first(x).sigmoid())
r: wy.Tensor[Batch, Out] = Perceptron(in_, hid, out)(x)
#@ embedding_module
embedding = wy.nn.Embedding(words, emb)
r1: wy.Tensor[Batch, Emb] = embedding(labels)
r2: wy.Tensor[Batch, Time, Emb] = embedding(tokens)
r3: wy.Parameter[tuple[Words, Emb]] = embedding.weight
#@ lstm
states = LSTM(in_, hid)([x, x2, x])
r: wy.Tensor[Batch, Out] = states[-1] @ w2 + b
#@ lstm_cell_by_hand
cell = LSTMCell(in_, hid)
state: tuple[wy.Tensor[Batch, Hid], wy.Tensor[Batch, Hid]] = (h0, h0)
for step in [x, x2]:
    state = cell(state, step)
r: wy.Tensor[Batch, Out] = state[1] @ w2
#@ attention
attention = Attention(emb)
q = table.index(tokens)
r1: wy.Tensor[Batch, Time, Emb] = attention(q, q, q)
k = wy.Input(numbers(4, 6, 12), dims=(batch, source, emb))
r2: wy.Tensor[Batch, Time, Emb] = attention(q, k, k)
#@ causal_attention
allowed = wy.Constant(np.tril(np.ones((5, 5), bool)), dims=(time, time), dtype=bool)
def attend(
    q: wy.Tensor[Batch, Heads, Time, Key], k: wy.Tensor[Batch, Heads, Time, Key], v: wy.Tensor[Batch, Heads, Time, Key]
) -> wy.Tensor[Batch, Heads, Time, Key]:
    scores = q @ k.mT * 0.5
    return wy.where(allowed, scores, -1e9).softmax() @ v
q = wy.Input(numbers(4, 3, 5, 4), dims=(batch, heads, time, key))
attend(q, q, q)
#@ composed_layers
network = wy.nn.Linear(in_, hid) >> wy.nn.relu >> wy.nn.Linear(hid, out)
r1: wy.Tensor[Batch, Out] = network(x)
r2: wy.Tensor[Batch, Time, Out] = network(sequence)
#@ untyped_layer
layer = wy.nn.Linear(7, 3)
r: wy.Tensor[Batch, Out] = layer(x)
same: wy.nn.Linear[In, Out] = layer
half = wy.nn.Linear(7, out)
r2: wy.Tensor[Batch, Out] = half(x) + layer(x)
other = wy.nn.Linear(in_, 3)
r3: wy.Tensor[Batch, Out] = other(x)
#@ residual_block_in_a_loop
layers = [wy.nn.Linear(hid, hid) for _ in range(3)]
h: wy.Tensor[Batch, Hid] = h0
for layer in layers:
    h = h + layer(h).tanh() * 0.5
r: wy.Tensor[Batch, Out] = h @ w2
#@ dropout_module
dropout = wy.nn.Dropout(0.5)
r: wy.Tensor[Batch, In] = dropout(x)
#@ optional_bias
def forward(layer: wy.nn.Linear[In, Out]) -> wy.Tensor[Batch, Out]:
    product = x @ layer.weight
    return product if layer.bias is None else product + layer.bias
r = forward(wy.nn.Linear(in_, out, bias=False))
#@ bias_that_may_be_missing
class Projection(wy.nn.Module, Generic[I, H]):
    def __init__(self, inputs: I, outputs: H, bias: bool = True) -> None:
        self.weight = wy.Parameter.zeros((inputs, outputs))
        self.bias = wy.Parameter.zeros((outputs,)) if bias else None

    def __call__(self, v: wy.Tensor[B, I]) -> wy.Tensor[B, H]:
        product = v @ self.weight
        return product if self.bias is None else product + self.bias
r: wy.Tensor[Batch, Out] = Projection(in_, out, bias=False)(x)
