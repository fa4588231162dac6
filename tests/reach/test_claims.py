"""The claims of `wy.prove`: what is proved of small graphs and of layers, and the messages of what is not."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import NotProved, ShapeError
from wyrm.ops.elementwise.elementwise import Elementwise
from wyrm.reach.facts import Analysis


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


class Width(wy.Dim): ...


class Items(wy.Dim): ...


def data(*dims: Any, name: str = "x") -> Any:
    return wy.Input(dims=dims or (Batch(), Time(), Width(8)), name=name)


def refused(prove: Callable[[], object]) -> str:
    with pytest.raises(NotProved) as caught:
        prove()
    return str(caught.value)


# --- each claim -------------------------------------------------------------------------------------------------------


def test_a_proof_returns_the_node_itself() -> None:
    y: Any = data().cumsum(axis=1)
    assert all(each is y for each in (wy.prove(y).causal(Time), wy.prove(y).independent(Batch)))


def test_local_has_a_window_on_both_sides() -> None:
    x = data(Batch(), Width(8), Time())
    y = wy.nn.Conv1d(8, 4, 3, padding=1)(x)
    assert wy.prove(y).local(Time, before=1, after=1) is y
    assert "(position t on t - 1 to t + 1)" in refused(lambda: wy.prove(y).local(Time, before=1))
    refused(lambda: wy.prove(y).local(Time, before=0, after=1))


def test_windows_add_up() -> None:
    x = data(Batch(), Width(8), Time())
    y = wy.nn.Conv1d(8, 8, 3, padding=1)(wy.nn.Conv1d(8, 8, 5, padding=2)(x).relu())
    assert wy.prove(y).local(Time, before=3, after=3) is y
    refused(lambda: wy.prove(y).local(Time, before=2, after=3))


def test_ignores_a_node_that_has_no_influence() -> None:
    x, labels = data(), wy.IndexInput(dims=(Batch(), Time()), name="labels")
    scores = x.sum(-1)
    assert wy.prove(scores).ignores(labels) is scores
    assert wy.prove(scores * 0.0 + 1.0).ignores(x) is not None
    message = refused(lambda: wy.prove(scores + labels.astype(np.float32)).ignores(x, labels))
    assert message.startswith("not proved: ignores(x) of add")
    assert "it depends on x" in message


def test_ignores_a_node_in_the_middle_of_the_graph() -> None:
    hidden = data().tanh()
    other = data(name="y")
    assert wy.prove(other * 2.0).ignores(hidden) is not None
    refused(lambda: wy.prove(hidden * other).ignores(hidden))


def test_excludes_needs_another_position() -> None:
    x = data(Batch(), Width(8))
    rows = wy.arange(x.dims[0])
    scores = wy.where(rows[:, None] != rows[None, :], x.sum(1)[None, :], -np.inf)
    assert wy.prove(scores.max(1)).excludes(Batch) is not None
    refused(lambda: wy.prove(x.sum(1)).excludes(Batch))


# --- layers and models ------------------------------------------------------------------------------------------------


RECURRENT: dict[str, Callable[[Any], Any]] = {
    "LSTM": lambda x: wy.nn.LSTM(Width(8), Width(4))(x).sequence,
    "GRU": lambda x: wy.nn.GRU(Width(8), Width(4))(x).sequence,
    "StackedLSTM": lambda x: wy.nn.StackedLSTM(8, 4, 2)(x).sequence,
    "StackedGRU": lambda x: wy.nn.StackedGRU(8, 4, 2)(x).sequence,
    "ewma": lambda x: wy.nn.ewma(x, 0.3, axis=1),
    "attention": lambda x: wy.nn.MultiHeadAttention(8, 2, causal=True)(x),
    "block": lambda x: wy.nn.TransformerBlock(8, 16, 2)(x),
}


@pytest.mark.parametrize("layer", RECURRENT)
def test_layers_over_time_are_causal_and_keep_rows_apart(layer: str) -> None:
    y: Any = RECURRENT[layer](data())
    assert all(each is y for each in (wy.prove(y).causal(Time), wy.prove(y).independent(Batch)))
    refused(lambda: wy.prove(y).causal(Time, strict=True))


def test_decoders_are_causal() -> None:
    tokens = wy.IndexInput(dims=(Batch(), Time(16)), name="tokens")
    config = wy.nn.GPT2Config(vocab_size=20, n_positions=16, n_embd=8, n_head=2, n_layer=2)
    sizes: Any = {"vocab_size": 20, "hidden_size": 8, "intermediate_size": 12, "num_attention_heads": 2}
    decoder = wy.nn.Decoder(wy.nn.DecoderConfig(num_hidden_layers=2, **sizes))
    found: list[Any] = [wy.nn.GPT2(config)(tokens), decoder.logits(tokens)]
    for logits in found:
        assert all(each is logits for each in (wy.prove(logits).causal(Time), wy.prove(logits).independent(Batch)))
        refused(partial(wy.prove(logits).causal, Time, strict=True))


def test_the_loss_of_a_language_model_depends_on_everything() -> None:
    tokens = wy.IndexInput(dims=(Batch(), Time(16)), name="tokens")
    config = wy.nn.GPT2Config(vocab_size=20, n_positions=16, n_embd=8, n_head=2, n_layer=1)
    loss = wy.nn.GPT2(config)(tokens).cross_entropy(tokens, reduction="none")
    refused(lambda: wy.prove(loss).ignores(tokens))


def cells(steps: int) -> Any:
    x = data(Batch(), Time(steps), Width(8))
    cell, state, states = wy.nn.GRUCell(8, 8), wy.zeros((x.dims[0], 8)), []
    for t in range(steps):
        state = cell(x[:, t], state)
        states.append(state)
    return wy.stack(states, 1).reshape((x.dims[0], Time(steps), 8))


def test_a_python_loop_of_cells_is_causal() -> None:
    y = cells(20)
    assert all(each is y for each in (wy.prove(y).causal(Time), wy.prove(y).independent(Batch)))
    refused(lambda: wy.prove(y).causal(Time, strict=True))


def test_a_cell_is_looked_into_as_often_in_a_long_loop_as_in_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, of_graph = list[Any](), Analysis.of_graph

    def counted(*arguments: Any) -> Any:
        looked.append(arguments[1])
        return of_graph(*arguments)

    monkeypatch.setattr(Analysis, "of_graph", counted)
    counts = []
    for steps in (5, 20):
        looked.clear()
        wy.prove(cells(steps)).causal(Time)
        counts.append(len(looked))
    assert counts[0] == counts[1] == 3  # with an initial state of zeros, and for each of two operands


def test_gradients_of_a_causal_model_reach_back_only_in_the_other_direction() -> None:
    x = data(Time(), Width(8))
    y = x.cumsum(axis=0)
    weight = data(Time(), Width(8), name="weight")
    gradient = wy.grad((y * weight).sum(), x)
    turned = wy.flip(gradient, 0)
    assert wy.prove(wy.flip(turned, 0)).ignores(x) is not None
    refused(lambda: wy.prove(gradient).causal(Time))


# --- masks ------------------------------------------------------------------------------------------------------------


def seen(x: Any) -> tuple[Any, Any]:
    t = wy.arange(x.dims[1])
    return t[:, None], t[None, :]


MASKS: dict[str, Callable[[Any, Any], Any]] = {
    "where": lambda s, x: wy.where(seen(x)[0] >= seen(x)[1], s, -np.inf),
    "not": lambda s, x: wy.where(~(seen(x)[0] >= seen(x)[1]), -np.inf, s),
    "added": lambda s, x: s + wy.where(seen(x)[0] >= seen(x)[1], 0.0, -np.inf),
    "low": lambda s, x: wy.where(seen(x)[0] >= seen(x)[1], s, -1e9),
    "one minus": lambda s, x: s + (1.0 - (seen(x)[0] >= seen(x)[1]).astype(np.float32)) * -1e9,
    "and": lambda s, x: wy.where((seen(x)[0] >= seen(x)[1]) & (seen(x)[0] - 4 < seen(x)[1]), s, -np.inf),
    "or": lambda s, x: wy.where((seen(x)[0] > seen(x)[1]) | (seen(x)[0] == seen(x)[1]), s, -np.inf),
    "nested": lambda s, x: wy.where(seen(x)[1] == 0, s, wy.where(seen(x)[0] < seen(x)[1], -np.inf, s)),
    "distance": lambda s, x: wy.where(seen(x)[0] - seen(x)[1] >= 0, s, -np.inf),
    "float positions": lambda s, x: wy.where(
        seen(x)[0].astype(np.float64) >= seen(x)[1].astype(np.float64), s, -np.inf
    ),
}


@pytest.mark.parametrize("mask", MASKS)
def test_masks_by_positions(mask: str) -> None:
    x = data()
    y = MASKS[mask](x @ x.swapaxes(1, 2), x).softmax() @ x
    claims = wy.prove(y)
    assert claims.causal(Time) is y
    assert bool(claims.assumed) == (mask in ("low", "one minus"))


@pytest.mark.parametrize("make", [np.tri, lambda n: np.tril(np.ones((n, n)), -1) + np.eye(n)], ids=["tri", "tril"])
def test_masks_of_constants(make: Callable[[int], Any]) -> None:
    x = data(Batch(), Time(6), Width(8))
    mask = wy.Constant(np.asarray(make(6), bool), dims=(Time(6), Time(6)))
    y = wy.where(mask, x @ x.swapaxes(1, 2), -np.inf).softmax() @ x
    assert wy.prove(y).causal(Time) is y


def test_scores_that_are_lowered_count_only_beside_others() -> None:
    x = data()
    query, key = seen(x)
    scores = x @ x.swapaxes(1, 2)
    some = wy.where(key < 0, scores, -1e9).softmax() @ x
    message = refused(lambda: wy.prove(some).causal(Time))
    assert "may have no score but masked ones: mask with -inf" in message
    claims = wy.prove(wy.where(query >= key, scores, -1e9).softmax() @ x)
    claims.causal(Time)
    (assumed,) = claims.assumed
    assert assumed.startswith("scores that a mask lowers to -1e4 or less")


def shifted(scores: Any) -> Any:
    return (scores - scores.max(-1, keepdims=True)).exp()


SOFTMAX: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda z: z.softmax(),
    "by hand": lambda z: shifted(z) / shifted(z).sum(-1, keepdims=True),
    "without the maximum": lambda z: z.exp() / z.exp().sum(-1, keepdims=True),
    "logsumexp": lambda z: (z - z.logsumexp(-1, keepdims=True)).exp(),
    "log_softmax": lambda z: z.log_softmax().exp(),
    "not normalized": shifted,
    "the maximum kept constant": lambda z: (z - z.max(-1)[..., None].stop_gradient()).exp(),
}
LARGE: dict[str, Callable[[Any, Any], Any]] = {
    "where": lambda scores, seen: wy.where(seen, scores, -1e30),
    "added": lambda scores, seen: scores + (1.0 - seen.astype(np.float32)) * -1e9,
    "subtracted": lambda scores, seen: scores - (1.0 - seen.astype(np.float32)) * 1e9,
    "with a mask of data": lambda scores, seen: (
        wy.where(seen, scores, -1e9)
        + (1.0 - wy.Input(dims=scores.dims[:2], dtype=np.bool_).astype(np.float32))[:, None] * -1e9
    ),
}


@pytest.mark.parametrize("large", LARGE)
@pytest.mark.parametrize("softmax", SOFTMAX)
def test_scores_that_are_lowered_have_no_weight_in_a_softmax_by_hand(softmax: str, large: str) -> None:
    x = data()
    query, key = seen(x)

    def attended(mask: Any) -> Any:
        return wy.prove(SOFTMAX[softmax](LARGE[large](x @ x.swapaxes(1, 2), mask)) @ x)

    claims = attended(query >= key)
    claims.causal(Time)
    assert claims.assumed[0].startswith("scores that a mask lowers to -1e4 or less")
    for wrong in (query + 1 >= key, query <= key):
        refused(partial(attended(wrong).causal, Time))
    if softmax not in ("without the maximum", "not normalized"):
        assert "may have no score but masked ones: mask with -inf" in refused(partial(attended(key < 0).causal, Time))


def test_scores_that_are_raised_again_have_weight() -> None:
    x = data()
    query, key = seen(x)
    scores, hidden = x @ x.swapaxes(1, 2), (query < key).astype(np.float32)
    low = scores + hidden * -1e9
    for z in (low + hidden * 1e9, low - hidden * -1e9, low - low.min(-1, keepdims=True), low * 1e-9, low / 1e9):
        refused(partial(wy.prove(z.exp() @ x).causal, Time))
    raised = wy.Input(dims=scores.dims[:2], dtype=np.bool_).astype(np.float32)[:, None] * 1e9
    refused(partial(wy.prove((low + raised).exp() @ x).causal, Time))


def test_a_mask_that_is_data_is_named() -> None:
    x = data()
    given = wy.Input(dims=(x.dims[1], x.dims[1]), dtype=np.bool_, name="seen")
    y = wy.where(given, x @ x.swapaxes(1, 2), -np.inf).softmax() @ x
    with pytest.raises(ShapeError, match=r"seen .* has that axis twice"):
        wy.prove(y).causal(Time)


# --- shorter and permuted inputs --------------------------------------------------------------------------------------


def test_a_prefix_is_more_than_causal() -> None:
    x = data()
    t = wy.arange(x.dims[1]).astype(np.float32)[:, None]
    for y in (x.cumsum(axis=1), wy.nn.GRU(Width(8), Width(4))(x).sequence, wy.nn.TransformerBlock(8, 16, 2)(x), x * t):
        assert wy.prove(y).prefix(Time) is y
    share = x * (t / x.dims[1])
    assert wy.prove(share).causal(Time) is share
    message = refused(lambda: wy.prove(share).prefix(Time))
    assert "elements depend on the number of positions along Time" in message
    assert "lost by count at" in message
    with pytest.raises(ShapeError, match="has 4 positions for all inputs, so there is no shorter one"):
        wy.prove(data(Time(4)) * 2.0).prefix(Time)


def test_positions_along_a_flattened_axis_count_by_the_sizes_of_its_parts() -> None:
    x: Any = wy.Input(dims=(4, Time()), name="x")
    flat = x.reshape(-1)
    assert wy.prove(flat.tanh().reshape(x.dims)).prefix(Time) is not None
    numbered = (flat * wy.arange(flat.dims[0]).astype(np.float32)).reshape(x.dims)
    assert "lost by arange at" in refused(lambda: wy.prove(numbered).prefix(Time))


def test_sequences_of_a_batch_are_aligned_with_their_own_labels() -> None:
    scores, labels = data(Batch(), Time(), Width(8)), wy.IndexInput(dims=(Batch(), 3), name="labels")
    lengths = wy.IndexInput(dims=scores.dims[:1], name="lengths")
    of_rows = wy.losses.ctc(
        scores.log_softmax(), labels, lengths, wy.IndexInput(dims=scores.dims[:1]), reduction="none"
    )
    assert wy.prove(of_rows).independent(Batch) is of_rows
    assert wy.prove(of_rows).equivariant(Batch) is of_rows


def test_masked_elements_are_neutral_in_a_shorter_input_or_not() -> None:
    x = data()
    query, key = seen(x)
    scores = x @ x.swapaxes(1, 2)
    neutral = wy.where(query >= key, scores, -np.inf).max(-1)
    assert wy.prove(neutral).prefix(Time) is neutral
    zeros = wy.where(query >= key, scores, 0.0)
    assert wy.prove(zeros.sum(-1)).prefix(Time) is not None
    assert wy.prove(zeros.max(-1)).causal(Time) is not None  # but the last position has no zero beside it
    refused(lambda: wy.prove(zeros.max(-1)).prefix(Time))


def test_sets_are_permuted() -> None:
    x = data(Batch(), Items(), Width(8))
    attended = wy.nn.MultiHeadAttention(8, 2, causal=False)(wy.nn.LayerNorm(8)(x))
    assert wy.prove(attended).equivariant(Items) is attended
    pooled = attended.max(1)
    assert wy.prove(pooled).invariant(Items) is pooled
    ordered = wy.nn.MultiHeadAttention(8, 2, causal=True)(x)
    assert "not all positions along Items are treated alike" in refused(lambda: wy.prove(ordered).equivariant(Items))
    for y in (x[:, 0], x.cumsum(axis=1).sum(1), (x * wy.arange(x.dims[1]).astype(np.float32)[:, None]).sum(1)):
        refused(partial(wy.prove(y).invariant, Items))
    with pytest.raises(ShapeError, match="has that axis: claim equivariant"):
        wy.prove(x).invariant(Items)


# --- bad claims -------------------------------------------------------------------------------------------------------


def test_bad_claims_are_errors_in_the_words_of_the_field() -> None:
    x: Any = data()
    prove: Any = wy.prove
    with pytest.raises(ShapeError, match=re.escape("causal(Time): sum (Batch(), Width(8)) float32")):
        prove(x.sum(1)).causal(Time)
    with pytest.raises(ShapeError, match="has that axis twice: give one of them a class of its own"):
        prove(x @ x.swapaxes(1, 2)).causal(Time)
    with pytest.raises(ShapeError, match=r"no input of .* has the axis Items; its inputs are x \(Batch"):
        prove(x.sum(1) @ wy.Parameter(np.ones((8, 3), np.float32), dims=(Width(8), Items(3)))).independent(Items)
    for wrong in (1, "Time", wy.Dim, int, None):
        with pytest.raises(TypeError, match=r"takes the name of an axis, a class as in causal\(Time\)"):
            prove(x).causal(wrong)
    with pytest.raises(TypeError, match="prove takes a node, not ndarray"):
        prove(np.ones(3))
    with pytest.raises(TypeError, match="ignores takes nodes"):
        prove(x).ignores("labels")


def test_an_axis_may_be_given_by_the_object() -> None:
    x = data()
    y = x.cumsum(axis=1)
    assert wy.prove(y).causal(x.dims[1]) is y


def test_an_op_without_a_rule_reaches_everything_and_is_named() -> None:
    x = data(Batch(), Time(4))
    y = wy.linalg.expm(wy.stack([x, x, x, x], 1))
    z = Turned(x)
    assert wy.prove(y).independent(Batch) is y
    message = refused(lambda: wy.prove(z).causal(Time))
    assert "lost by turned at" in message
    assert "Turned says nothing of what its elements depend on: register a rule, @wy.REACH.register(Turned)" in message


class Backward(Elementwise):
    """The elements in reverse order, as an op without a formula may do."""

    __slots__ = ()

    def __init__(self, x: wy.Node) -> None:
        self._construct((x,))

    def shape_rule(self) -> Any:
        return self.parents[0].dims

    def dtype_rule(self) -> Any:
        return self.parents[0].dtype

    def evaluate(self, xp: Any, *operands: Any, shape: Any) -> Any:
        return operands[0][::-1].cumsum(0)

    def vjp(self, gradient: Any) -> Any:
        return (gradient,)


def test_an_op_without_a_formula_may_read_any_position() -> None:
    x = data(Items())
    y: Any = Backward(x)
    for claim in (wy.prove(y).equivariant, wy.prove(y).prefix, wy.prove(y).independent):
        assert "lost by backward at" in refused(partial(claim, Items))


class Turned(wy.Node):
    """The rows in reverse order, by an op that says nothing of what it reads."""

    __slots__ = ()

    def __init__(self, x: wy.Node) -> None:
        super().__init__(x)

    def shape_rule(self) -> Any:
        return self.parents[0].dims

    def dtype_rule(self) -> Any:
        return self.parents[0].dtype

    def evaluate(self, xp: Any, *operands: Any, shape: Any) -> Any:
        return operands[0][:, ::-1]

    def vjp(self, gradient: Any) -> Any:
        return (Turned(gradient),)


# --- messages ---------------------------------------------------------------------------------------------------------


def backward(layer: Any, x: Any) -> Any:
    return wy.flip(layer(wy.flip(x, 1)).sequence, 1)


def test_a_layer_is_blamed_on_its_own_line() -> None:
    x, layers = data(), [wy.nn.GRU(Width(8), Width(4)) for _ in range(2)]
    forward = layers[0](x).sequence
    turned = backward(layers[1], x)
    message = refused(lambda: wy.prove(forward + turned).causal(Time))
    (lost,) = (each for each in message.splitlines() if "lost by" in each)
    assert lost.endswith("return wy.flip(layer(wy.flip(x, 1)).sequence, 1)")
    assert "lost by gru at" in lost
    assert "forward =" not in message
    assert "_residuals" not in message


LATER: dict[str, tuple[Callable[[Any], Any], str]] = {
    "cumsum": (lambda x: x[:, ::-1].cumsum(axis=1)[:, ::-1], "cumsum goes from the last position to the first"),
    "scan": (
        lambda x: wy.scan(lambda c, row: (c + row, c), x[:, 0] * 0.0, x.swapaxes(0, 1), reverse=True)[1].swapaxes(0, 1),
        "scan goes from the last position to the first: the axis was reversed before, or reverse=True says so",
    ),
    "last": (
        lambda x: x + wy.scan(lambda c, row: (c + row, c), x[:, 0], x.swapaxes(0, 1))[0][:, None],
        "what a loop ends with depends on all steps",
    ),
    "slice": (
        lambda x: wy.concatenate([x[:, 2:], wy.zeros_like(x[:, :2])], 1),
        "slice moves position t + 2 to t, as x[2:] does",
    ),
    "convolution": (
        lambda x: wy.nn.Conv1d(8, 8, 3, padding=1)(x.swapaxes(1, 2)).swapaxes(1, 2),
        "pad by wy.pad on that side, and say padding=0",
    ),
    "pooling": (
        lambda x: wy.nn.max_pool1d(x.swapaxes(1, 2), 3, 1, 1).swapaxes(1, 2),
        "a window reads later positions unless all zeros stand before the first position",
    ),
    "attention": (wy.nn.MultiHeadAttention(8, 2, causal=False), "causal=True keeps each position from later ones"),
    "mean": (lambda x: x - x.mean(1, keepdims=True), "mask what mean reads, or leave the axis out of what it reduces"),
}


@pytest.mark.parametrize("op", LATER)
def test_help_is_about_the_op(op: str) -> None:
    model, expected = LATER[op]
    message = refused(lambda: wy.prove(model(data())).causal(Time))
    assert f"  help: {expected}" in message or expected in message.splitlines()[-1]
    assert "_part" not in message
    assert "cum_sum" not in message.splitlines()[1]


def test_each_claim_has_help() -> None:
    x = data()
    for prove, expected in (
        (lambda: wy.prove(x.sum(2)).excludes(Batch), "wy.where(i[:, None] != i[None, :], scores, -np.inf)"),
        (lambda: wy.prove(x * 2.0).causal(Time, strict=True), "wy.pad(x, (1, 0))[:-1]"),
        (lambda: wy.prove(x[:, 0]).invariant(Time), "sums, means, maxima and sorted elements along Time"),
        (lambda: wy.prove(x.cumsum(1)).equivariant(Time), "sums, means, maxima and sorted elements along Time"),
        (lambda: wy.prove(x / x.dims[1]).prefix(Time), "count the positions so far, wy.arange(Time()) + 1"),
        (lambda: wy.prove(x.sum(2)).ignores(x), "leave x out of what the ops on the path read"),
    ):
        assert expected in refused(prove).splitlines()[-1]


def test_messages_name_what_users_wrote() -> None:
    x = data(Batch(), Items(6), Width(8))
    places = wy.Parameter(np.ones((6, 8), np.float32), dims=(Items(6), Width(8)), name="places")
    assert "lost by places at" in refused(lambda: wy.prove(x + places).equivariant(Items))
    rows = data(Batch(), 8)
    assert "batch_norm, matmul" in refused(
        lambda: wy.prove(wy.nn.Linear(8, 3)(wy.nn.BatchNorm1d(8)(rows))).independent(Batch)
    )
    assert refused(lambda: wy.prove(data().cumsum(axis=1)).excludes(Time)).startswith(
        "not proved: excludes(Time) of cumsum (Batch(), Time(), Width(8))"
    )
    y = data()
    query, key = seen(y)
    weights = wy.where(query >= key, y @ y.swapaxes(1, 2), 0.0)
    assert "mask: greater_equal at" in refused(lambda: wy.prove(weights @ y).causal(Time, strict=True))


def test_help_of_local_is_the_window_that_holds() -> None:
    x = data(Batch(), Width(8), Time())
    y = wy.nn.Conv1d(8, 4, 5, padding=2)(x)
    assert "help: claim local(Time, before=2, after=2), or" in refused(
        lambda: wy.prove(y).local(Time, before=1, after=1)
    )
    assert "help: claim local(Time, before=0, after=3), or" in refused(
        lambda: wy.prove(x[:, :, 3:]).local(Time, before=3)
    )
    assert "help: only ops with windows are local" in refused(lambda: wy.prove(x.cumsum(axis=2)).local(Time, before=9))


def test_an_axis_that_a_reshape_divided_is_lost_there() -> None:
    x = data(Batch(), Time(6), Width(8))
    with pytest.raises(
        ShapeError, match=r"lacks that axis; reshape at .* lost it: .* \.reshape\(\(batch, Time\(6\), -1\)\)$"
    ):
        wy.prove(x.reshape((x.dims[0], 3, 2, 8)).sum(2)).causal(Time)


def test_an_axis_that_lost_its_name_is_given_it() -> None:
    x = data(Batch(), Time(6), Width(8))
    with pytest.raises(ShapeError, match=r"lacks that axis; .* name it: \.reshape\(\(Batch\(\), Time\(6\), 8\)\)$"):
        wy.prove(x.reshape((x.dims[0], 6, 8)).cumsum(1)).causal(Time)
    with pytest.raises(ShapeError, match=r"lacks that axis$"):
        wy.prove(x.sum(1)).causal(Time)


def test_a_message_names_the_function_that_users_write() -> None:
    x = data()
    for y, name in ((wy.sort(x, 1), "sort"), (x.sort(axis=1), "sort"), (wy.nn.ewma(x[:, ::-1], 0.5, axis=1), "ewma")):
        message = refused(partial(wy.prove(y).causal, Time))
        assert re.search(rf"lost by {name} at test_claims.py:\d+: ", message), message
        assert re.search(rf"causal\(Time\) of {name} ", message), message
        assert "take_along_axis" not in message and "recurrence" not in message


def test_a_message_names_the_op_where_no_function_was_called() -> None:
    x: Any = data()
    layer: Any = wy.nn.GRU(Width(8), Width(4))

    class Model(wy.nn.Module):
        def __init__(self) -> None:
            self.sort = wy.nn.GRU(Width(8), Width(4))

        def __call__(self, x: Any) -> Any:
            return self.sort(x[:, ::-1]).sequence

    for y, name in ((x @ x.swapaxes(1, 2) @ x, "matmul"), (layer(x[:, ::-1]).sequence, "gru"), (Model()(x), "gru")):
        assert f"causal(Time) of {name} (Batch()" in refused(partial(wy.prove(y).causal, Time))
    # `norm` is a function of ours too.
    norm: Any = wy.nn.BatchNorm(Width(8))
    holder: Any = SimpleNamespace(norm=norm)
    for y in (norm(x[:, 0]), holder.norm(x[:, 0])):
        assert "independent(Batch) of batch_norm (Batch()" in refused(partial(wy.prove(y).independent, Batch))
