#@ gated_recurrent_unit
states, state = wy.nn.GRU(in_, hid)(sequence)
reveal_type(states)  # reveals: Node[Any, tuple[Batch, Time, Hid]]
r: wy.Tensor[Batch, Hid] = wy.nn.GRUCell(in_, hid)(x, h0)
again: wy.Tensor[Batch, Hid] = wy.nn.GRU(in_, hid)(sequence, state).state
#@ stacked_recurrent_layers
stack = wy.nn.StackedLSTM(in_, hid, num_layers=2, dropout=0.1)
reveal_type(stack(sequence).sequence)  # reveals: Node[Any, tuple[Batch, Time, Hid]]
states = stack(sequence).states
r: wy.Tensor[Batch, Time, Hid] = stack(sequence, states).sequence
both = wy.nn.StackedGRU(in_, hid, bidirectional=True)
reveal_type(both(sequence).sequence)  # reveals: Node[Any, tuple[Batch, Time, Any]]
last: wy.Tensor[Batch, Hid] = both(sequence).states[-1]
wy.nn.StackedGRU(7, 11, 2)(sequence)
wy.nn.StackedLSTM(7, hid, bidirectional=True)(sequence)
#@ embedding_bags
bags = wy.nn.EmbeddingBag(words, emb, mode="mean", padding_idx=0)
r: wy.Tensor[Batch, Emb] = bags(tokens)
r2: wy.Tensor[Emb] = bags(labels)
#@ segments
class Edges(wy.Dim): ...
class Nodes(wy.Dim): ...
nodes = wy.Input(numbers(5, 7), dims=(Nodes(5), in_))
senders = wy.IndexInput(np.array([0, 1, 1]), dims=(Edges(3),))
messages: wy.Tensor[Edges, In] = nodes.take(senders, axis=0)
r1: wy.Tensor[Nodes, In] = wy.segment_sum(messages, senders, Nodes(5))
r2: wy.Tensor[Nodes, In] = nodes + wy.segment_max(messages, senders, Nodes(5))
r3: wy.Tensor[Edges, In] = wy.segment_softmax(messages, senders, 5)
reveal_type(wy.segment_mean(messages, senders, 5))  # reveals: Node[Any, tuple[Any, In]]
#@ attention_to_another_sequence
h: wy.Tensor[Batch, Time, Emb] = table.index(tokens)
memory = wy.Input(numbers(4, 6, 12), dims=(batch, source, emb))
layer = wy.nn.MultiHeadAttention(emb, 3, causal=False, num_key_value_heads=1)
r: wy.Tensor[Batch, Time, Emb] = layer(h, key=memory)
r2: wy.Tensor[Batch, Time, Emb] = layer(h, key=memory, value=memory * 2.0, key_mask=np.ones((4, 6), bool))
r3: wy.Tensor[Batch, Time, Emb] = layer(h, key_mask=tokens != 0)
#@ dot_product_attention
q = wy.Input(numbers(4, 3, 5, 8), dims=(batch, heads, time, Key(8)))
k = wy.Input(numbers(4, 3, 6, 8), dims=(batch, heads, source, Key(8)))
reveal_type(wy.scaled_dot_product_attention(q, k, k))  # reveals: Node[Any, tuple[Batch, Heads, Time, Key]]
#@ activations
r: wy.Tensor[Batch, In] = x.mish() + x.selu() + x.celu(0.5) + x.hardswish() + x.softsign() + x.log_sigmoid() + x.relu6()
r2: wy.Tensor[Batch, In] = (wy.nn.PReLU(in_) >> wy.nn.mish)(x)
r3: wy.Tensor[Batch, Time, In] = wy.nn.GatedFeedForward(in_, hid)(sequence)
half: wy.Tensor[Batch, Any] = (wy.nn.Linear(in_, 8) >> wy.nn.swiglu)(x)
reveal_type(pictures.glu())  # reveals: Node[Any, tuple[Batch, Colours, Height, Any]]
#@ weighted_losses
weights = wy.Input(numbers(4), dims=(batch,))
r1: wy.Tensor[()] = wy.losses.cross_entropy(x @ w, labels, weight=numbers(3), ignore_index=-1, sample_weight=weights)
r2: wy.Tensor[Batch] = wy.losses.multiclass_focal(x @ w, labels, ignore_index=0, reduction="none")
r3: wy.Tensor[()] = wy.losses.bce_with_logits(x @ w, y, pos_weight=3.0)
r4: wy.Tensor[Batch, Out] = wy.losses.gaussian_nll(x @ w, y, y.exp(), full=True, reduction="none")
r6: wy.Tensor[()] = wy.losses.ctc(sequence.log_softmax(), tokens, np.array([5] * 4), np.array([2] * 4), blank=6)
r5: wy.Tensor[()] = wy.losses.quantile(x @ w, y, level=0.9, sample_weight=weights)
