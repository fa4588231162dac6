"""Layers: convolutions, pooling, normalization, attention, recurrent stacks, losses and random nodes."""

from __future__ import annotations

import numpy as np

import wyrm as wy
from tests.fuzz.production import P
from tests.fuzz.productions.needs import KEEP, MATRIX, ROWED, VECTOR, X, choice, drawn, like, shaped

LINE = shaped(lambda c: (2, 2, 5))
IMAGES, OPEN = shaped(lambda c: (2, 2, 4, 5)), shaped(lambda c: ("rows", 2, 4, 4))
SEQUENCE, SEQUENCES = shaped(lambda c: (2, 4, 3)), shaped(lambda c: ("rows", 3, 3))
VOLUMES = shaped(lambda c: (1, 2, 3, 4, 5))
PER_AXIS, PADDING = choice(1, 2, (1, 2), (2, 1)), choice(0, 1, "same", "valid", (1, 0))
# Strides of windows of 2 elements that leave elements out, and sizes of an axis.
APART, SIZE = choice(3, (4, 2), (2, 3)), drawn(lambda random, c: int(random.integers(1, 12)))
S = "slow"

TABLE = [
    P("conv1d", lambda x, w, s, p, d: wy.nn.conv1d(x, w, None, s, p, d), S, x=LINE, w=shaped(lambda c: (3, 2, 2)), s=choice(1, 2, 3, 4), p=choice(0, 1, 2), d=choice(1, 2)),
    P("conv1d in groups", lambda x, w: wy.nn.conv1d(x, w, padding=1, groups=2), S, x=LINE, w=shaped(lambda c: (4, 1, 3))),
    P("conv2d", lambda x, w, b, s: wy.nn.conv2d(x, w, b, s), S, x=IMAGES, w=shaped(lambda c: (3, 2, 2, 2)), b=shaped(lambda c: (3,)), s=PER_AXIS),
    P("conv2d with padding", lambda x, w, p: wy.nn.conv2d(x, w, padding=p), S, x=IMAGES, w=shaped(lambda c: (2, 2, 3, 2)), p=PADDING),
    P("conv2d with dilation", lambda x, w, d: wy.nn.conv2d(x, w, dilation=d), S, x=IMAGES, w=shaped(lambda c: (2, 2, 2, 2)), d=choice(2, (1, 2), (3, 1))),
    P("conv2d with all", lambda x, w: wy.nn.conv2d(x, w, stride=(2, 3), padding=(1, 0), dilation=(1, 2)), S, x=shaped(lambda c: (2, 1, 4, 4)), w=shaped(lambda c: (2, 1, 2, 2))),
    P("conv2d of open rows", lambda x, w: wy.nn.conv2d(x, w, stride=2, padding=1), S, x=OPEN, w=shaped(lambda c: (2, 2, 3, 3))),
    P("conv_transpose1d", lambda x, w, s: wy.nn.conv_transpose1d(x, w, None, s, 1), S, x=LINE, w=shaped(lambda c: (2, 2, 3)), s=choice(1, 2)),
    P("conv_transpose2d", lambda x, w, s, p: wy.nn.conv_transpose2d(x, w, None, s, p), S, x=IMAGES, w=shaped(lambda c: (2, 1, 2, 2)), s=PER_AXIS, p=choice(0, 1)),
    P("max_pool2d", lambda x, s, p: wy.nn.max_pool2d(x, 2, s, p), x=IMAGES, s=choice(None, 1, (1, 2)), p=choice(0, 1)),
    P("max_pool2d of windows apart", lambda x, s: wy.nn.max_pool2d(x, 2, s), x=IMAGES, s=APART),
    P("max_pool2d of open rows", lambda x, s: wy.nn.max_pool2d(x, 2, s), x=OPEN, s=choice(None, (3, 2))),
    P("max_pool3d", lambda x, s: wy.nn.max_pool3d(x, (1, 2, 2), s), x=VOLUMES, s=choice((1, 2, 2), (2, 2, 2), (3, 4, 2))),
    P("max_pool1d", lambda x, c: wy.nn.max_pool1d(x, 2, 3, ceil_mode=c), x=LINE, c=KEEP),
    P("avg_pool2d of windows apart", lambda x, s: wy.nn.avg_pool2d(x, 2, s), x=IMAGES, s=APART),
    P("avg_pool2d", lambda x, p, c: wy.nn.avg_pool2d(x, (2, 3), 2, p, count_include_pad=c), x=IMAGES, p=choice(0, 1), c=KEEP),
    P("adaptive_avg_pool1d", lambda x: wy.nn.adaptive_avg_pool1d(x, 3), x=LINE),
    P("adaptive_max_pool2d", lambda x: wy.nn.adaptive_max_pool2d(x, (2, 3)), x=IMAGES),
    P("interpolate", lambda x, m: wy.nn.interpolate(x, scale_factor=2, mode=m), x=IMAGES, m=choice("nearest", "bilinear")),
    P("interpolate to a size", lambda x, n, m: wy.nn.interpolate(x, n, mode=m), x=LINE, n=SIZE, m=choice("nearest", "linear")),
    P("interpolate between corners", lambda x, n: wy.nn.interpolate(x, n, mode="linear", align_corners=True), x=LINE, n=SIZE),
    P("interpolate by a factor", lambda x, f: wy.nn.interpolate(x, scale_factor=f), x=IMAGES, f=choice(0.3, 0.5, 1.1, 1.7, (0.4, 2.3))),
    P("layer_norm", lambda x: wy.nn.LayerNorm(3, dtype=x.dtype)(x), x=SEQUENCE),
    P("layer_norm of open rows", lambda x: wy.nn.LayerNorm(3, dtype=x.dtype)(x), x=SEQUENCES),
    P("rms_norm", lambda x: wy.nn.RMSNorm(3, dtype=x.dtype)(x), x=SEQUENCES),
    P("group_norm", lambda x: wy.nn.group_norm(x, 2, epsilon=0.1), x=IMAGES),
    P("instance_norm", lambda x: wy.nn.instance_norm(x, epsilon=0.1), x=IMAGES),
    P("linear layer", lambda x: wy.nn.Linear(3, 2, seed=1, dtype=x.dtype)(x), x=SEQUENCES),
    P("attention", lambda q, k, v, c: wy.scaled_dot_product_attention(q, k, v, is_causal=c), q=shaped(lambda c: (2, 2, 3, 4)), k=like("q"), v=like("q"), c=KEEP),
    P("attention with a mask", lambda q, k, v: wy.scaled_dot_product_attention(q, k, v, np.tri(3, dtype=bool)), q=shaped(lambda c: (2, 3, 4)), k=like("q"), v=shaped(lambda c: (2, 3, 2))),
    P("attention of open rows", lambda q, k: wy.scaled_dot_product_attention(q, k, k), q=shaped(lambda c: ("rows", 3, 2)), k=like("q")),
    P("lstm", lambda x: wy.nn.LSTM(3, 2, seed=0, dtype=x.dtype)(x).sequence, S, x=SEQUENCE),
    P("lstm of open rows", lambda x: wy.nn.LSTM(3, 2, seed=1, dtype=x.dtype)(x).state.cell, S, x=SEQUENCES),
    P("gru", lambda x: wy.nn.GRU(3, 2, seed=0, dtype=x.dtype)(x).sequence, S, x=SEQUENCE),
    P("stacked lstm", lambda x, b: wy.nn.StackedLSTM(3, 2, 2, bidirectional=b, seed=2, dtype=x.dtype)(x).sequence, S, x=SEQUENCE, b=KEEP),
    P("stacked gru", lambda x, b: wy.nn.StackedGRU(3, 2, 2, bidirectional=b, seed=2, dtype=x.dtype)(x).sequence, S, x=SEQUENCES, b=KEEP),
    P("ewma", lambda x, a, j: wy.nn.ewma(x, 0.3, axis=a, adjust=j), x=MATRIX, a=choice(0, 1), j=KEEP),
    P("glu", lambda x: wy.nn.glu(x), x=shaped(lambda c: (3, 4))),
    P("mse", lambda x, y, r: wy.losses.mse(x, y, reduction=r), x=ROWED, y=like(), r=choice("none", "sum")),
    P("huber", lambda x, y: wy.losses.huber(x, 2.0 * y, delta=0.7, reduction="sum"), x=ROWED, y=like()),
    P("bce_with_logits", lambda x, y: wy.losses.bce_with_logits(x, y.sigmoid(), reduction="none"), x=ROWED, y=like()),
    P("kl_divergence", lambda x, y: wy.losses.kl_divergence(x.log_softmax(), y.softmax(), reduction="sum"), x=shaped(lambda c: (2, 3)), y=like()),
    P("bpr", lambda x, y: wy.losses.bpr(x, y, reduction="sum"), x=VECTOR, y=like()),
    # Random nodes draw the same in every engine.
    P("dropout", lambda x: x.dropout(0.4, seed=5, stream=6), "draws", x=ROWED),
    P("normal_like", lambda x: x + wy.random.normal_like(x, seed=1, stream=2), "draws", x=X),
    P("uniform_like", lambda x: x * wy.random.uniform_like(x, seed=1, stream=3), "draws", x=X),
    P("bernoulli", lambda x: wy.random.bernoulli(x.dims, x.sigmoid(), seed=2, stream=4).astype(x.dtype) * x, "draws", x=ROWED),
    P("categorical", lambda x: wy.random.categorical(x, seed=2, stream=5), "draws", x=shaped(lambda c: (4, 3))),
]
