# ruff: noqa
# fmt: off
#@ an_unproved_node
def trained(logits: wy.Causal[Time, Batch, Time, In]) -> wy.Tensor[Batch, Time, In]:
    return logits.erase()
trained(sequence)  # error: [arg-type] Argument 1 to "trained" has incompatible type "Input[tuple[Batch, Time, In]]"
#@ proved_along_another_axis
def trained(logits: wy.Causal[Time, Batch, Time, In]) -> None: ...
trained(wy.prove(sequence).causal(Batch))  # error: [arg-type] Argument 1 to "causal" of "Claims" has incompatible type "type[Batch]"
#@ another_claim
def evaluated(rows: wy.Independent[Batch, Batch, In]) -> None: ...
evaluated(wy.prove(x).causal(Batch))  # error: [arg-type] Argument 1 to "evaluated" has incompatible type "Causal[Batch, Batch, In]"
#@ a_claim_of_a_number
wy.prove(x).causal(0)  # error: [arg-type] Argument 1 to "causal" of "Claims" has incompatible type "int"
#@ ignores_a_name
wy.prove(x).ignores("labels")  # error: [arg-type] Argument 1 to "ignores" of "Claims" has incompatible type "str"
