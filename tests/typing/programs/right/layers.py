# ruff: noqa
# fmt: off
#@ layers_in_a_list
layers = [wy.nn.Linear(in_, hid), wy.nn.Linear(hid, out)]
h: wy.Node = x
for layer in layers:
    h = layer(h).tanh()
count = sum(layer.weight.size for layer in layers)
#@ layers_and_activations_in_a_list
layers = [wy.nn.Linear(in_, hid), wy.nn.relu, wy.nn.Dropout(0.1), wy.nn.Linear(hid, out)]
h: wy.Node = x
for layer in layers:
    h = layer(h)
#@ layers_as_attributes
class Network(wy.nn.Module):
    def __init__(self) -> None:
        self.layers = [wy.nn.Linear(in_, hid), wy.nn.Linear(hid, hid)]
        self.head = wy.nn.Linear(hid, out)
    def __call__(self, x: wy.Tensor[Batch, In]) -> wy.Tensor[Batch, Out]:
        h: wy.Node = x
        for layer in self.layers:
            h = layer(h).relu()
        return self.head(h)
r: wy.Tensor[Batch, Out] = Network()(x)
#@ chain_of_layers
network = wy.nn.Linear(in_, hid) >> wy.nn.relu >> wy.nn.LayerNorm(hid) >> wy.nn.Linear(hid, out)
reveal_type(network(x))  # reveals: Node[Any, tuple[Batch, Out]]
r: wy.Tensor[Batch, Time, Out] = network(sequence)
#@ layers_of_plain_sizes
first, second = wy.nn.Linear(7, 11), wy.nn.Linear(11, out)
r: wy.Tensor[Batch, Out] = second(first(x).gelu())
wy.nn.Embedding(20, 12)(labels)
wy.nn.LayerNorm(7)(x)
#@ sizes_of_layers
reveal_type(wy.nn.Linear(in_, 3))  # reveals: Linear[In, Any]
reveal_type(wy.nn.Linear(7, hid))  # reveals: Linear[Any, Hid]
reveal_type(wy.nn.Conv2d(3, 16, 3, padding=1))  # reveals: Conv2d[Any, Any]
reveal_type(wy.nn.StackedLSTM(in_, hid))  # reveals: StackedLSTM[In, Hid, Hid]
reveal_type(wy.nn.StackedGRU(in_, hid, bidirectional=True))  # reveals: StackedGRU[In, Hid, Any]
#@ layers_of_a_generic_module
class Block(wy.nn.Module, Generic[D]):
    def __init__(self, width: D, inner: D | int) -> None:
        self.first = wy.nn.Linear(width, inner)
        self.second = wy.nn.Linear(inner, width)
        self.norm = wy.nn.LayerNorm(width)
    def __call__(self, x: wy.Tensor[B, D]) -> wy.Tensor[B, D]:
        return self.norm(self.second(self.first(x).relu()))
r: wy.Tensor[Batch, In] = Block(in_, 12)(x)
#@ bare_layer_in_a_signature
def size(layer: wy.nn.Linear, norm: wy.nn.LayerNorm) -> int:
    return layer.weight.size + norm.weight.size
size(wy.nn.Linear(in_, out), wy.nn.LayerNorm(out))
#@ normalization
r1: wy.Tensor[Batch, In] = wy.nn.LayerNorm(in_)(x)
r2: wy.Tensor[Batch, Time, In] = wy.nn.RMSNorm(in_)(sequence)
several: wy.Tensor[Batch, Time, In] = wy.nn.LayerNorm((5, in_))(sequence)
r3: wy.Tensor[Batch, In] = wy.nn.BatchNorm(in_)(x)
gain: wy.Parameter[tuple[In]] = wy.nn.LayerNorm(in_).weight
mean: wy.Buffer[tuple[In]] = wy.nn.BatchNorm(in_).running_mean
#@ long_short_term_memory
states, (hidden, cell) = wy.nn.LSTM(in_, hid)(sequence)
reveal_type(states)  # reveals: Node[Any, tuple[Batch, Time, Hid]]
r: wy.Tensor[Batch, Hid] = hidden
following = wy.nn.LSTMCell(in_, hid)(x)
again: wy.Tensor[Batch, Hid] = following.hidden
#@ transformer_block
block = wy.nn.TransformerBlock(emb, hid, 3)
h: wy.Tensor[Batch, Time, Emb] = table.index(tokens)
for _ in range(2):
    h = block(h)
attended: wy.Tensor[Batch, Time, Emb] = wy.nn.MultiHeadAttention(emb, 3)(h)
#@ attention_of_packed_heads
packed = wy.Input(numbers(4, 5, 3, 3, 4), dims=(batch, time, wy.any_dim(3), heads, key))
r: wy.Tensor[Batch, Time, Heads, Key] = wy.attention(packed, causal=True)
#@ language_model
model = wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=20, n_positions=8, n_layer=1, n_head=2, n_embd=8))
states = model(tokens)
reveal_type(states)  # reveals: Node[Any, tuple[Batch, Time, Any]]
last: wy.Tensor[Batch, Any] = states[:, -1]
following = wy.IndexInput(dims=(batch, time))
loss: wy.Tensor[()] = model.loss(tokens, following)
#@ loss_of_a_vocabulary
states = table.index(tokens)
following = wy.IndexInput(dims=(batch, time))
loss: wy.Tensor[()] = wy.linear_cross_entropy(states, table, following)
#@ positional_encodings
r1: wy.Tensor[Batch, Time, Emb] = wy.nn.LearnedPositionalEncoding(8, emb)(table.index(tokens))
r2: wy.Tensor[Batch, Time, Emb] = wy.nn.SinusoidalPositionalEncoding()(table.index(tokens))
#@ losses_of_pairs
p, q = wy.Input(numbers(4, 12), dims=(batch, emb)), wy.Input(numbers(4, 12), dims=(batch, emb))
r1: wy.Tensor[()] = wy.losses.triplet(p, q, p * 2.0)
r2: wy.Tensor[Batch] = wy.losses.cosine_embedding(p, q, np.array([1, -1, 1, 1]), reduction="none")
r3: wy.Tensor[()] = wy.losses.bpr(p.vector_dot(q), q.vector_dot(q))
#@ losses_of_classes
logits = x @ w
r1: wy.Tensor[()] = wy.losses.cross_entropy(logits, labels, label_smoothing=0.1)
r2: wy.Tensor[Batch] = wy.losses.nll(logits.log_softmax(), labels, reduction="none")
r3: wy.Tensor[()] = wy.losses.kl_divergence(logits.log_softmax(), logits.softmax())
r4: wy.Tensor[Batch, Out] = wy.losses.bce_with_logits(logits, y > 0.5, reduction="none") if False else logits
#@ layouts_of_rotations
halves = wy.nn.RotaryEmbedding()
reveal_type(halves)  # reveals: RotaryEmbedding[Half]
pairs = wy.nn.RotaryEmbedding(500_000.0, layout=wy.nn.Pair)
reveal_type(pairs)  # reveals: RotaryEmbedding[Pair]
theirs = wy.nn.RotaryWeights(np.ones((8, 4)), 2, wy.nn.Pair)
reveal_type(theirs.to(wy.nn.Half))  # reveals: RotaryWeights[Half]
both = [pairs.array_of(theirs), halves.array_of(theirs.to(wy.nn.Half))]
attends = wy.nn.MultiHeadAttention(emb, 2, rotary=pairs)
