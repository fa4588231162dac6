"""Calls of public functions and classes, in which `i` makes each integer option, for tests of what it may be."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

import wyrm as wy

# Makes an integer option of a number.
Make = Callable[[int], Any]
Call = Callable[[Make], Any]


class Batch(wy.Dim): ...


def _a(*shape: int) -> Any:
    return wy.Constant(np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 7.0)


A, V, SQUARE, IMAGE, SIGNAL = _a(2, 3), _a(4), _a(3, 3), _a(1, 4, 6, 6), _a(1, 4, 8)
LABELS = np.array([0, 1])
MODEL = wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=7, n_positions=5, n_embd=4, n_layer=1, n_head=2)).eval()
BYTES = wy.data.Tokenizer.train("text", vocab_size=257)
PEAKS = wy.profile.Peaks((1e9, 1e9), (1e9, 1e9), (1e9, 1e9))


def _preferences() -> Any:
    return wy.data.low_rank_preferences(3, 6, rank=2, interactions_per_user=5)


def _doubled_until(v: Any) -> Any:
    while v < 9.0:
        v = v * v
    return v


def _tokens() -> Any:
    return np.arange(40) % 9


def _compiled(**options: Any) -> Any:
    x = wy.Input(dims=(2,), name="x")
    return wy.compile(x + 1.0, **options)({"x": np.zeros(2)})


def _program() -> tuple[Any, Any, dict[str, Any]]:
    x, slope = wy.Input(dims=(Batch(),), name="x"), wy.Parameter(0.5)
    program = wy.compile((slope * x - 1.0).square().mean(), wy.optim.SGD([slope], 0.1))
    return program, slope, {"x": np.linspace(-1.0, 1.0, 7)}


def _epoch(**options: Any) -> Any:
    program, slope, data = _program()
    return program.epoch(data, **options), float(slope), program.epoch(data, batch_size=3), float(slope)


def _fit(**options: Any) -> Any:
    program, slope, data = _program()
    history = wy.train.fit(program, data, **({"epochs": 1} | options))
    return history["loss"], history.get("validation_loss"), float(slope)


def _saved(step: int) -> Any:
    x = wy.Parameter(1.0)
    with tempfile.TemporaryDirectory() as folder:
        return wy.io.Checkpoints(folder).save(step, {"x": x}, wy.optim.SGD([x], 0.1), {}).name


def _drawn(step: int) -> Any:
    wy.random.set_step(step=step)
    with wy.random.at_step(step=step):
        return wy.random.normal((3,), seed=1, stream=2).forward()


def _seeded(number: int) -> Any:
    wy.nn.seed(number=number)
    return wy.nn.Linear(2, 2).state_dict()


# Options of training, data, layers and optimizers: a bool is none.
def _exported(**options: Any) -> Any:
    x = wy.Input(dims=(Batch(), 2), name="x")
    with tempfile.TemporaryDirectory() as folder:
        try:
            exported = wy.compile(x * 2.0).export(folder, **options)
        except wy.errors.OptionError as error:  # a number of bytes that is too small is a number of bytes
            if "needs" not in str(error):
                raise
            return str(error)
        return exported.memory_bytes, exported.interface.most, exported.interface.listed


OPTIONS: dict[str, Call] = {
    "compile": lambda i: _compiled(local_steps=i(1)),
    "kernel": lambda i: wy.kernel(_doubled_until, room=i(100), tape_limit=i(100))(wy.Constant(1.5)),
    "export": lambda i: _exported(batch_sizes=i(4)),
    "export to little RAM": lambda i: _exported(ram=i(100)),
    "export to little flash": lambda i: _exported(flash=i(100)),
    "export of listed sizes": lambda i: _exported(batch_sizes=[i(1), i(3)]),
    "epoch": lambda i: _epoch(batch_size=i(3), seed=i(5), threads=i(1), accumulate=i(2), shuffle=True),
    "epoch of threads": lambda i: _epoch(batch_size=i(3), threads=i(2), mode="synchronized"),
    "evaluate": lambda i: _program()[0].evaluate(_program()[2] and {"x": np.arange(7.0)}, batch_size=i(3)),
    "backward": lambda i: _program()[0].backward({"x": np.arange(7.0)}, threads=i(2), blas_threads=i(1)),
    "fit": lambda i: _fit(
        epochs=i(2),
        batch_size=i(3),
        seed=i(5),
        threads=i(1),
        accumulate=i(2),
        validation={"x": [1.0, 2.0]},
        validation_batch_size=i(1),
    ),
    "profile": lambda i: (
        _program()[0]
        .profile({"x": np.ones(8)}, steps=i(2), batch_size=i(2), threads=i(1), accumulate=i(1), peaks=PEAKS)
        .steps
    ),
    "EarlyStopping": lambda i: wy.train.EarlyStopping(patience=i(2)),
    "ReduceOnPlateau": lambda i: wy.train.ReduceOnPlateau(patience=i(2)),
    "Checkpoint": lambda i: wy.train.Checkpoint("somewhere", every=i(2), keep_last=i(3)),
    "Checkpoints": lambda i: wy.io.Checkpoints("somewhere", keep_last=i(2)),
    "DataLoader": lambda i: [
        batch["x"].tolist() for batch in wy.data.DataLoader(wy.data.Dataset(x=np.arange(7)), batch_size=i(3), seed=i(2))
    ],
    "TokenBlocks": lambda i: [
        wy.data.TokenBlocks(_tokens(), block_size=i(4), vocab_size=i(9), seed=i(1)).order(i(2)),
        list(wy.data.TokenBlocks(_tokens(), 4).batches(i(2), epoch=i(1), start=i(1))),
    ],
    "low_rank_preferences": lambda i: wy.data.low_rank_preferences(
        user_count=i(5), item_count=i(7), rank=i(2), interactions_per_user=i(2), seed=i(1)
    ),
    "recommend": lambda i: wy.recommend(
        np.eye(4), np.eye(4), i(2), rows=i(3), biases=np.arange(4.0), batch_size=i(3)
    ).items.tolist(),
    "sequences": lambda i: wy.data.sequences(_preferences(), length=i(3), overlap=i(1), shortest=i(2), padding=i(4))[
        "items"
    ].tolist(),
    "skip_grams": lambda i: wy.data.skip_grams(_tokens(), window=i(2), seed=i(1)),
    "ngram_buckets": lambda i: wy.data.ngram_buckets(["abc", "wyrm"], buckets=i(11), minn=i(2), maxn=i(3)).tolist(),
    "leave_one_out": lambda i: wy.data.leave_one_out(_preferences(), count=i(2))[1].items.tolist(),
    "recommendations": lambda i: [
        metric(np.eye(3), [0, 1, 0], k=i(2))
        for metric in (
            wy.metrics.recall_at_k,
            wy.metrics.precision_at_k,
            wy.metrics.hit_rate,
            wy.metrics.mrr,
            wy.metrics.ndcg,
            wy.metrics.average_precision,
        )
    ],
    "coverage": lambda i: [
        wy.metrics.coverage([[0, 1]], k=i(2), item_count=i(4), ranked=True),
        wy.metrics.novelty(np.eye(3), [1, 1, 1], k=i(2), user_count=i(3)),
    ],
    "train_test_split": lambda i: wy.data.train_test_split(wy.data.Dataset(x=np.arange(9)), 0.3, seed=i(3)),
    "split_by_group": lambda i: wy.data.split_by_group(wy.data.Dataset(x=np.arange(9) % 3), "x", 0.4, seed=i(3)),
    "Dataset.map": lambda i: (
        wy.data.Dataset(x=np.arange(9))
        .map(lambda columns, rng: {"x": columns["x"] + rng.integers(9)}, seed=i(3))
        .take(np.arange(2))
    ),
    "Tokenizer": lambda i: (
        len(wy.data.BytePairTokenizer.train(["a b a b"], vocab_size=i(258)).encode("a b"))
        if hasattr(wy.data, "BytePairTokenizer")
        else None
    ),
    "ConfusionMatrix": lambda i: wy.metrics.ConfusionMatrix(i(3)),
    "confusion_matrix": lambda i: wy.metrics.confusion_matrix(LABELS, LABELS, classes=i(3)),
    "top_k_accuracy": lambda i: wy.metrics.top_k_accuracy(LABELS, np.eye(2), k=i(1)),
    "SAGA": lambda i: wy.optim.SAGA([wy.Parameter(1.0)], 0.1, steps_per_epoch=i(3)).options(),
    "EMA": lambda i: wy.optim.EMA(0.9, start=i(2), every=i(3)),
    "Cosine": lambda i: wy.optim.Cosine(1.0, steps=i(100))(77),
    "CosineRestarts": lambda i: [wy.optim.CosineRestarts(1.0, steps=i(10), growth=i(2))(n) for n in (9, 50, 500)],
    "LinearWarmup": lambda i: wy.optim.LinearWarmup(1.0, steps=i(100))(77),
    "MultiStep": lambda i: [wy.optim.MultiStep(1.0, milestones=[i(10), i(20)])(n) for n in (9, 10, 300)],
    "Piecewise": lambda i: [wy.optim.Piecewise([1.0, 2.0], boundaries=[i(10)])(n) for n in (9, 10, 300)],
    "Joined": lambda i: [wy.optim.Joined([1.0, wy.optim.Cosine(1.0, 9)], boundaries=[i(10)])(n) for n in (9, 12, 300)],
    "OneCycle": lambda i: [wy.optim.OneCycle(1.0, steps=i(100))(n) for n in (9, 80, 300)],
    "Polynomial": lambda i: [wy.optim.Polynomial(1.0, steps=i(100))(n) for n in (9, 80, 300)],
    "Step": lambda i: [wy.optim.Step(1.0, every=i(100))(n) for n in (9, 500)],
    "WarmupCosine": lambda i: [wy.optim.WarmupCosine(1.0, warmup=i(50), steps=i(100))(n) for n in (9, 80, 300)],
    "Muon": lambda i: wy.optim.Muon([wy.Parameter(np.ones((2, 2)))], 0.1, iterations=i(3)),
    "Linear": lambda i: wy.nn.Linear(in_features=i(3), out_features=i(2), seed=i(1)),
    "RotaryWeights": lambda i: wy.nn.RotaryWeights(np.arange(8.0), heads=i(2), layout=wy.nn.Pair).to(wy.nn.Half).array,
    "Embedding": lambda i: wy.nn.Embedding(num_embeddings=i(5), embedding_dim=i(2), seed=i(1)),
    "EmbeddingBag": lambda i: wy.nn.EmbeddingBag(i(5), i(2), padding_idx=i(1), seed=i(1)),
    "GroupNorm": lambda i: wy.nn.GroupNorm(num_groups=i(2), num_channels=i(4)),
    "StackedLSTM": lambda i: wy.nn.StackedLSTM(input_size=i(2), hidden_size=i(3), num_layers=i(2)),
    "MultiHeadAttention": lambda i: wy.nn.MultiHeadAttention(
        embed_dim=i(4), num_heads=i(2), num_key_value_heads=i(1), head_dim=i(3), window=i(2), dropout_seed=i(1)
    ),
    "Conv2d": lambda i: wy.nn.Conv2d(
        in_channels=i(4),
        out_channels=i(2),
        kernel_size=i(3),
        stride=i(2),
        padding=i(1),
        dilation=i(1),
        groups=i(2),
        seed=i(1),
    )(IMAGE),
    "max_pool2d": lambda i: wy.nn.max_pool2d(IMAGE, i(2), stride=i(2), padding=i(1)),
    "adaptive_avg_pool2d": lambda i: wy.nn.adaptive_avg_pool2d(IMAGE, output_size=i(3)),
    "Dropout": lambda i: wy.nn.Dropout(0.5, seed=i(3)),
    "while_loop": lambda i: wy.while_loop(lambda s: s < 3.0, lambda s: s + 1.0, wy.Constant(0.0), max_steps=i(5)),
    "BatchNorm": lambda i: wy.nn.BatchNorm(features=i(3)),
    "InstanceNorm": lambda i: wy.nn.InstanceNorm(num_features=i(3)),
    "LearnedPositionalEncoding": lambda i: wy.nn.LearnedPositionalEncoding(num_positions=i(3), embed_dim=i(2)),
    "GPT2": lambda i: wy.nn.GPT2(
        wy.nn.GPT2Config(vocab_size=i(7), n_positions=i(5), n_embd=i(4), n_layer=i(1), n_head=i(2), n_inner=i(8)),
        seed=i(1),
    ),
    "Decoder": lambda i: wy.nn.Decoder(
        wy.nn.DecoderConfig(
            vocab_size=i(7),
            hidden_size=i(4),
            intermediate_size=i(6),
            num_hidden_layers=i(1),
            num_attention_heads=i(2),
            num_key_value_heads=i(1),
            head_dim=i(4),
            max_position_embeddings=i(5),
            sliding_window=i(3),
        ),
        seed=i(1),
    ),
    "CachedDecoder": lambda i: wy.nn.CachedDecoder(MODEL, i(2), max_length=i(3)).step(np.array([1, 2])),
    "generate": lambda i: list(wy.nn.generate(MODEL, [1, 2], max_new_tokens=i(4), top_k=i(3), stop=i(2), seed=i(1))),
    "generate_text": lambda i: list(wy.nn.generate_text(MODEL, BYTES, [1, 2], i(4), top_k=i(3), seed=i(1))),
    "sampled_tokens": lambda i: wy.nn.sampled_tokens(wy.Constant(np.eye(3)), wy.Constant(np.zeros(3)), top_k=i(2)),
    "sample_tokens": lambda i: wy.nn.sample_tokens(np.eye(3), np.random.default_rng(0), top_k=i(2)),
    "seed": lambda i: _seeded(number=i(3)),
    "Checkpoints.save": lambda i: _saved(step=i(3)),
    "segment_sum": lambda i: wy.segment_sum(A, LABELS, num_segments=i(3)),
}

# Functions with NumPy's names, or like them.
FUNCTIONS: dict[str, Call] = {
    "precision": lambda i: wy.metrics.precision(LABELS, LABELS, positive_label=i(1)),
    "random.normal": lambda i: wy.random.normal((i(2), i(3)), seed=i(1), stream=i(5)),
    "sum": lambda i: A.sum(axis=i(1)),
    "max": lambda i: A.max(axis=(i(0), i(1))),
    "argmax": lambda i: A.argmax(axis=i(1)),
    "argsort": lambda i: A.argsort(axis=i(1)),
    "cumsum": lambda i: A.cumsum(axis=i(1)),
    "softmax": lambda i: A.softmax(axis=i(1)),
    "var": lambda i: wy.var(A, axis=i(1), ddof=i(1)),
    "nanstd": lambda i: wy.nanstd(A, axis=i(1), ddof=i(1)),
    "swapaxes": lambda i: A.swapaxes(i(0), i(1)),
    "transpose": lambda i: A.transpose(i(1), i(0)),
    "reshape": lambda i: A.reshape((i(3), i(2))),
    "broadcast_to": lambda i: V.broadcast_to((i(2), i(4))),
    "expand_dims": lambda i: A.expand_dims(i(1)),
    "squeeze": lambda i: _a(2, 1).squeeze(i(1)),
    "flatten": lambda i: _a(2, 3, 2).flatten(start_axis=i(1)),
    "repeat": lambda i: A.repeat(repeats=i(2), axis=i(1)),
    "tile": lambda i: wy.tile(A, reps=(i(2), i(1))),
    "roll": lambda i: wy.roll(A, shift=i(2), axis=i(1)),
    "rot90": lambda i: wy.rot90(A, k=i(3)),
    "moveaxis": lambda i: wy.moveaxis(A, source=i(0), destination=i(1)),
    "rollaxis": lambda i: wy.rollaxis(A, i(1), i(0)),
    "take": lambda i: wy.take(A, [1], axis=i(1)),
    "take_along_axis": lambda i: A.take_along_axis(np.array([[1], [0]]), axis=i(1)),
    "split": lambda i: V.split(sections=i(2), axis=i(0)),
    "array_split": lambda i: wy.array_split(V, indices_or_sections=i(3), axis=i(0)),
    "split at": lambda i: V.split([i(1), i(3)]),
    "concatenate": lambda i: wy.concatenate([A, A], axis=i(1)),
    "stack": lambda i: wy.stack([A, A], axis=i(2)),
    "unstack": lambda i: wy.unstack(A, axis=i(1)),
    "append": lambda i: wy.append(A, A, axis=i(1)),
    "pad": lambda i: wy.pad(A, i(2)),
    "pad of axes": lambda i: wy.pad(A, ((i(1), i(0)), (i(2), i(3)))),
    "diff": lambda i: wy.diff(A, n=i(2), axis=i(1)),
    "trapezoid": lambda i: wy.trapezoid(A, axis=i(1)),
    "round": lambda i: A.round(decimals=i(2)),
    "diagonal": lambda i: SQUARE.diagonal(offset=i(1), axis1=i(0), axis2=i(1)),
    "trace": lambda i: SQUARE.trace(offset=i(1)),
    "diag": lambda i: wy.diag(V, k=i(1)),
    "diagflat": lambda i: wy.diagflat(V, k=i(1)),
    "tril": lambda i: wy.tril(SQUARE, k=i(1)),
    "eye": lambda i: wy.eye(N=i(3), M=i(4), k=i(1)),
    "identity": lambda i: wy.identity(i(3)),
    "tri": lambda i: wy.tri(i(3), i(4), k=i(1)),
    "vander": lambda i: wy.vander(V, N=i(3)),
    "zeros": lambda i: wy.zeros((i(2), i(3))),
    "ones": lambda i: wy.ones(i(2)),
    "full": lambda i: wy.full((i(2),), 3.0),
    "arange": lambda i: wy.arange(i(5)),
    "linspace": lambda i: wy.linspace(0.0, 1.0, num=i(5)),
    "logspace": lambda i: wy.logspace(0.0, 1.0, num=i(5)),
    "geomspace": lambda i: wy.geomspace(1.0, 8.0, num=i(4)),
    "indices": lambda i: wy.indices((i(2), i(3))),
    "one_hot": lambda i: wy.one_hot(LABELS, num_classes=i(3)),
    "partition": lambda i: wy.partition(V, kth=i(2), axis=i(0)).sum(),
    "cov": lambda i: wy.cov(A, ddof=i(1)),
    "bincount": lambda i: wy.bincount(LABELS, minlength=i(5)),
    "histogram": lambda i: wy.histogram(V, bins=i(3), range=(0.0, 7.0)),
    "tensordot": lambda i: wy.tensordot(SQUARE, SQUARE, axes=i(1)),
    "cross": lambda i: wy.cross(SQUARE, SQUARE, axis=i(1)),
    "cross, axes": lambda i: wy.cross(SQUARE, SQUARE, axisa=i(1), axisb=i(0), axisc=i(1)),
    "matrix_power": lambda i: wy.linalg.matrix_power(SQUARE, i(3)),
    "norm": lambda i: wy.linalg.norm(A, axis=i(1)),
    "polygamma": lambda i: wy.special.polygamma(i(1), V + 1.0),
    "multigammaln": lambda i: wy.special.multigammaln(V + 9.0, d=i(2)),
    "scan": lambda i: wy.scan(lambda s, _: (s + 1.0, s), wy.Constant(0.0), length=i(3))[1],
    "index": lambda i: A[i(1)],
    "slice": lambda i: A[:, i(0) : i(3) : i(2)],
    "quantile": lambda i: wy.quantile(A, 0.5, axis=i(1)),
    "randint": lambda i: wy.random.randint((2,), low=i(2), high=i(9), seed=i(1), stream=i(2)),
    "categorical": lambda i: wy.random.categorical(A, seed=i(1), stream=i(2)),
    "interpolate": lambda i: wy.nn.interpolate(IMAGE, size=i(3)),
    "conv_transpose1d": lambda i: wy.nn.conv_transpose1d(
        SIGNAL, _a(4, 1, 3), stride=i(2), padding=i(1), output_padding=i(1), groups=i(2)
    ),
    "glu": lambda i: _a(2, 4).glu(axis=i(1)),
    "cross_entropy": lambda i: wy.losses.cross_entropy(A, np.array([2, 1]), ignore_index=i(1)),
    "ctc": lambda i: wy.losses.ctc(
        _a(1, 4, 3).log_softmax(), np.array([[1, 2]]), np.array([4]), np.array([2]), blank=i(0)
    ),
    "warp": lambda i: wy.losses.warp(V, wy.stack([V - 1.0, V + 1.0], axis=1), num_items=i(9)),
    "random_shift": lambda i: wy.data.random_shift(np.ones((2, 6, 6, 1)), np.random.default_rng(0), pixels=i(2)),
    "random_crop": lambda i: wy.data.random_crop(np.ones((2, 6, 6, 1)), np.random.default_rng(0), i(3), padding=i(1)),
    "steps of random numbers": lambda i: _drawn(i(4)),
    "Dim": lambda i: wy.nn.Linear(Batch(i(3)), i(2), seed=1)(wy.Constant(np.ones((2, 3), np.float32)).relu()),
    "einsum": lambda i: wy.einsum(SQUARE, [i(0), i(1)], SQUARE, [i(1), i(2)], [i(2), i(0)]),
    "vmap": lambda i: wy.vmap(lambda row: row * row.sum(), in_axes=i(1))(A),
}
