# ruff: noqa
# fmt: off
#@ stacked_layers_and_their_states
lstm = wy.nn.StackedLSTM(in_, hid, num_layers=2, dropout=0.1)
states, last = lstm(sequence)
reveal_type(states)  # reveals: Node[Any, tuple[Batch, Time, Hid]]
reveal_type(last[0].hidden)  # reveals: Node[Any, tuple[Batch, Hid]]
r: wy.Tensor[Batch, Out] = last[-1].hidden @ w2
#@ stack_in_both_directions
states, last = wy.nn.StackedGRU(in_, hid, bidirectional=True)(sequence)
reveal_type(states)  # reveals: Node[Any, tuple[Batch, Time, Any]]
r: wy.Tensor[Batch, Hid] = last[1]
#@ gated_unit_and_its_state
states, state = wy.nn.GRU(in_, hid)(sequence)
again: wy.Tensor[Batch, Time, Hid] = wy.nn.GRU(in_, hid)(sequence, state).sequence
r: wy.Tensor[Batch, Out] = state @ w2
#@ long_memory_from_a_state
lstm = wy.nn.LSTM(in_, hid)
start = wy.nn.LSTMState(h0, h0)
states, state = lstm(sequence, start)
r: wy.Tensor[Batch, Hid] = lstm(sequence, state).state.cell
#@ cells_in_a_loop
cell = wy.nn.GRUCell(in_, hid)
h: wy.Tensor[Batch, Hid] = h0
for _ in range(3):
    h = cell(x, h)
r: wy.Tensor[Batch, Out] = h @ w2
#@ encoder_and_decoder
class Translator(wy.nn.Module, Generic[I, H, D]):
    def __init__(self, inputs: I, hidden: H, classes: D) -> None:
        self.encoder = wy.nn.GRU(inputs, hidden)
        self.decoder = wy.nn.GRU(inputs, hidden)
        self.output = wy.nn.Linear(hidden, classes)
    def __call__(self, x: wy.Tensor[B, M, I], y: wy.Tensor[B, N, I]) -> wy.Tensor[B, N, D]:
        state = self.encoder(x).state
        return self.output(self.decoder(y, state).sequence)
later = wy.Input(numbers(4, 6, 7), dims=(batch, source, in_))
r: wy.Tensor[Batch, Source, Out] = Translator(in_, hid, out)(sequence, later)
#@ stack_with_resets
begins: wy.Tensor[Batch, Time] = wy.Input(np.zeros((4, 5), np.bool_), dims=(batch, time), dtype=np.bool_)
r: wy.Tensor[Batch, Time, Hid] = wy.nn.LSTM(in_, hid)(sequence, reset=begins).sequence
