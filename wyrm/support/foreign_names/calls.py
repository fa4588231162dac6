"""Keyword arguments of other libraries, each with what to use instead."""

from __future__ import annotations

from wyrm.support.foreign_names.nodes import CPU, LEAVES, each

ANSWERS = each(
    {
        "dim dims axes": "use axis=",
        "keepdim": "use keepdims=",
        "dim0 dim1": "use x.swapaxes(axis1, axis2)",
        "start_dim": "use start_axis=",
        "end_dim": "the axes from start_axis= to the last become one",
        "unbiased correction": "use ddof=1, or ddof=0",
        "lr": "use learning_rate=",
        "ignore_index": "wy.losses.cross_entropy(logits, labels, ignore_index=...) takes it",
        "lengths": (
            "the state after the last step of each sequence is sequence[wy.arange(batch), lengths - 1]; layers of "
            "wy.nn.Recurrent(cell) take lengths themselves"
        ),
        "eps": "use epsilon=",
        "strides": "use stride=",
        "pool_size": "use kernel_size=",
        "padding_mode": "pad before it, as in wy.pad(x, pad_width, mode='edge')",
        "dropout_p": "use dropout_rate=",
        "depth n_classes": "use num_classes=",
        "heads": "use num_heads=",
        "key_dim embed_size": "use embed_dim=, the sum of all heads",
        "in_features": "use input_size= of a recurrent layer, in_channels= of a convolution",
        "out_features": "use hidden_size= of a recurrent layer, out_channels= of a convolution",
        "verbose": "use progress=True",
        "steps_per_epoch": "leave it out: an epoch goes once through the data",
        "min_delta": "use minimum_change=",
        "restore_best_weights": "use restore_best=",
        "mode": "use higher_is_better=True",
        "save_best_only": "use best_only=True",
        "filepath": "use directory=",
        "descending reverse": "sort the negative: -(-x).sort(axis)",
        "size": "give the shape first, as in wy.random.normal((2, 3))",
        "mean mu": "use loc=",
        "std stddev sigma": "use scale=",
        "lam": "use rate=",
        "minval": "use low=",
        "maxval": "use high=",
        "probs": "use probability=",
        "key rng": "use seed=: random nodes derive their numbers from a seed and the step",
        "p": "use rate=, or probability= for wy.random.bernoulli",
        "rho alpha smoothing_constant": "use decay=",
        "beta1 beta2 b1 b2": "use betas=(0.9, 0.999)",
        "maximize foreach fused capturable differentiable": "leave it out",
        "clipnorm clip_norm global_clipnorm max_grad_norm": "use max_norm=",
        "clipvalue": "use clip_value=",
        "use_ema ema_momentum": "use average=wy.optim.EMA(0.999)",
        "lr_lambda schedule": "use learning_rate=, a number or a function of the number of steps",
        "dampening": "wyrm has no dampening: leave it out",
        "params": "use parameters=",
        "in_channels in_dim": "use in_features=, or in a convolution in_channels=",
        "out_channels out_dim filters": "use out_features=, or in a convolution out_channels=",
        "padding_idx": "use wy.nn.EmbeddingBag(10, 4, padding_idx=0), or wy.where(mask, x, 0.0)",
        "num_features normalized_shape": "use features=",
        "num_layers bidirectional": "use wy.nn.StackedLSTM(4, 8, num_layers=2, bidirectional=True) or wy.nn.StackedGRU",
        "batch_first": "leave it out: the axes are (batch, time, features)",
        "elementwise_affine affine": "leave it out: only norms of channels, as wy.nn.BatchNorm2d, have affine=",
        "sparse": "leave it out: gradients of an Embedding are row-sparse, unless it has dense=True",
        "track_running_stats": "wyrm has no such option: leave it out",
        "d_model": "use embed_dim=",
        "nhead n_heads": "use num_heads=",
        "dim_feedforward": "use hidden_dim=",
        "retain_graph": "leave it out: graphs stay",
        "create_graph": "use wy.grad(loss, x), whose nodes have gradients again",
        "inplace": "leave it out: a node is a new value",
        "requires_grad": LEAVES,
        "device": CPU,
        "class_weight class_weights weights": "use weight=, one number for each class, or sample_weight=",
        "size_average reduce": "use reduction='mean', 'sum' or 'none'",
        "num_workers pin_memory prefetch_factor persistent_workers collate_fn": "leave it out: data is in memory",
        "argnums argnum": "use wrt=",
        "in_dims": "use in_axes=",
        "out_dims": "use out_axes=",
        "static_argnums static_argnames": "leave it out: keyword arguments are static",
        "is_causal": "use causal=True",
        "attn_mask key_padding_mask attention_mask": "use mask=",
        "a_min": "use min=",
        "a_max": "use max=",
        "dtype": "convert with .astype(dtype)",
        "out": "use the returned node: ops do not write into their operands",
        "where": "mask the operand first, with wy.where(mask, x, other)",
        "initial": "combine it with the result, with + or .maximum",
        "order": "elements are in row-major order: transpose first",
        "label_smoothing": "use wy.losses.cross_entropy(logits, labels, label_smoothing=0.1)",
        "shape": (
            "use dims= for an Input; a Parameter takes its values, as in wy.Parameter(np.zeros(shape)); wy.random "
            "takes the shape first, as in wy.random.normal((2, 3))"
        ),
        "activation": "put it after the layer, as in wy.nn.Sequential(layer, wy.nn.relu)",
        "units output_dim": "use out_features=, after in_features=",
        "input_shape input_dim": "use in_features=",
        "kernel_initializer weight_init": "use initializer=, as in initializer=wy.nn.initializers.Zeros()",
        "vocab_size n_positions n_embd n_layer n_head n_inner": "use wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=50))",
        "loss": "the loss is the graph to compile: wy.compile(loss, optimizer)",
        "metrics": "give them to wy.compile(loss, optimizer, metrics={'error': node}) or program.evaluate",
        "epochs nb_epoch num_epochs": "use wy.train.fit(program, columns, epochs=10)",
        "validation_data": "use validation= of wy.train.fit",
        "validation_split": "use wy.data.train_test_split(dataset) and validation= of wy.train.fit",
        "callbacks validation": "use wy.train.fit, which takes validation= and callbacks=",
        "top_k topk": "use k=",
        "seen": "use exclude=",
        "warmup_steps num_warmup_steps": "use warmup=, a number of batches; LinearWarmup has steps=",
        "total_steps num_training_steps T_max max_steps decay_steps": "use steps=, the number of all batches",
        "transform transforms": "use dataset.map(function, seed=0), and give the loader what it returns",
        "blas_threads": "only program.backward and profile have it; threads= of an epoch divides the rows",
        "strict": "leave it out: every name and shape has to match",
        "gradient jac": "leave it out: wyrm derives gradients itself",
    }
)
# Functions called with too many or too few operands, by name.
OPERANDS = {
    "MultiHeadAttention.__call__": (
        "attention to the sequence itself is layer(x), to another one layer(x, key=memory, value=memory); the second "
        "argument is the mask"
    ),
    "fit": "give the data as one mapping, wy.train.fit(program, {x: inputs, y: targets}, epochs=10)",
    "gaussian_nll": (
        "give the variance of each element as the third operand, such as a second output of the network through "
        ".softplus(), or use wy.losses.mse(prediction, target) for a fixed one"
    ),
}
