# ruff: noqa
# fmt: off
#@ sequential_of_images
images = wy.Input(numbers(4, 1, 8, 8), dims=(batch, 1, 8, 8))
model = wy.nn.Sequential(wy.nn.Conv2d(1, 4, 3), wy.nn.relu, wy.nn.Flatten(), wy.nn.Linear(144, 3))
reveal_type(model)  # reveals: Sequential[Any, Any]
reveal_type(model(images))  # reveals: Node[Any, Any]
loss: wy.Tensor[()] = wy.losses.cross_entropy(model(images), labels)
#@ sequential_of_words
model = wy.nn.Sequential(wy.nn.Embedding(20, 12), wy.nn.Linear(12, 3))
reveal_type(model(tokens))  # reveals: Node[Any, Any]
#@ sequential_of_layers_knows_its_ends
model = wy.nn.Sequential(wy.nn.Linear(in_, hid), wy.nn.relu, wy.nn.Dropout(0.1), wy.nn.Linear(hid, out))
reveal_type(model)  # reveals: Sequential[In, Out]
reveal_type(model(x))  # reveals: Node[Any, tuple[Batch, Out]]
reveal_type(model(sequence))  # reveals: Node[Any, tuple[Batch, Time, Out]]
#@ sequential_that_begins_with_an_activation
model = wy.nn.Sequential(wy.nn.tanh, wy.nn.Linear(in_, out))
r: wy.Tensor[Batch, Out] = model(x)
#@ sequential_of_a_list_of_layers
layers = [wy.nn.Linear(7, 7) for _ in range(3)]
model = wy.nn.Sequential(*layers)
reveal_type(model(x))  # reveals: Node[Any, Any]
#@ sequential_of_one_layer
model = wy.nn.Sequential(wy.nn.Linear(in_, out))
r: wy.Tensor[Batch, Out] = model(x)
#@ convolutions_composed_with_a_layer
images = wy.Input(numbers(4, 1, 8, 8), dims=(batch, 1, 8, 8))
model = wy.nn.Conv2d(1, 4, 3) >> wy.nn.AdaptiveAvgPool2d(1) >> wy.nn.Flatten() >> wy.nn.Linear(4, 3)
reveal_type(model)  # reveals: Sequential[Any, Any]
r: wy.Tensor[Batch, Any] = model(images)
#@ embedding_composed_with_layers
model = wy.nn.Embedding(words, emb) >> wy.nn.LayerNorm(emb) >> wy.nn.Linear(emb, out)
r: wy.Tensor[Batch, Time, Out] = model(tokens)
#@ layer_composed_with_a_module_of_ones_own
class Halved(wy.nn.Module):
    def __call__(self, x: wy.Node) -> wy.Node:
        return x * 0.5
model = wy.nn.Linear(in_, out) >> Halved() >> wy.nn.relu
reveal_type(model(x))  # reveals: Node[Any, Any]
#@ sequential_as_an_attribute
class Network(wy.nn.Module):
    body: wy.nn.Sequential
    def __init__(self) -> None:
        self.body = wy.nn.Sequential(wy.nn.Conv2d(colours, hid, 3, padding="same"), wy.nn.BatchNorm2d(hid), wy.nn.relu)
    def __call__(self, x: wy.Tensor[Batch, Colours, Height, Width]) -> wy.Tensor[Batch, Hid, Height, Width]:
        return self.body(x)
r: wy.Tensor[Batch, Hid, Height, Width] = Network()(pictures)
#@ sequential_inside_another
inner = wy.nn.Sequential(wy.nn.Linear(hid, hid), wy.nn.relu)
model = wy.nn.Sequential(wy.nn.Linear(in_, hid), inner, wy.nn.Linear(hid, out))
r: wy.Tensor[Batch, Out] = model(x)
first: Any = model[0]
#@ chain_built_in_a_loop
network: wy.nn.Layer[In, Hid] = wy.nn.Linear(in_, hid) >> wy.nn.relu
for _ in range(2):
    network = network >> wy.nn.Linear(hid, hid) >> wy.nn.relu
r: wy.Tensor[Batch, Hid] = network(x)
#@ sequential_followed_by_a_layer
model = wy.nn.Sequential(wy.nn.Linear(in_, hid), wy.nn.tanh, wy.nn.Linear(hid, emb)) >> wy.nn.Linear(emb, out)
reveal_type(model)  # reveals: Sequential[In, Out]
r: wy.Tensor[Batch, Out] = model(x)
#@ sequential_trains
model = wy.nn.Sequential(wy.nn.Linear(in_, hid), wy.nn.gelu, wy.nn.Linear(hid, out))
loss = model(x).cross_entropy(labels)
program = wy.compile(loss, wy.optim.AdamW(model.parameters(), 1e-3))
found: dict[str, np.ndarray] = model.state_dict()
#@ embedding_then_a_layer_of_sizes
scores_of_words = wy.nn.Sequential(wy.nn.Embedding(100, 12), wy.nn.Linear(12, 3))(tokens)
r: wy.Tensor[Batch, Time, Out] = scores_of_words
#@ pooled_network_by_arrows
model = wy.nn.Conv2d(colours, hid, 3) >> wy.nn.AdaptiveAvgPool2d(2) >> wy.nn.Flatten() >> wy.nn.Linear(44, 3)
r: wy.Node = model(pictures)
