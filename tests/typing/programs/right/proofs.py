# ruff: noqa
# fmt: off
#@ proofs_have_types
reveal_type(wy.prove(sequence.cumsum(axis=1)).causal(Time))  # reveals: Causal[Time, Batch, Time, In]
reveal_type(wy.prove(x).independent(Batch))  # reveals: Independent[Batch, Batch, In]
#@ a_function_takes_a_proved_node
def trained(logits: wy.Causal[Time, Batch, Time, In]) -> wy.Tensor[Batch, Time, In]:
    return logits.erase()
trained(wy.prove(sequence.cumsum(axis=1)).causal(Time))
trained(wy.prove(sequence).causal(time))
#@ a_proved_node_is_a_node
y2: wy.Tensor[Batch, In] = wy.prove(x.tanh()).independent(Batch)
z2 = wy.prove(x.tanh()).independent(Batch) @ w1
#@ claims_that_keep_the_type
wy.prove(sequence).local(Time, before=1, after=0)
wy.prove(x).ignores(labels)
