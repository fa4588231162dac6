"""Names in the packages of other libraries, each with what to use instead."""

# ruff: noqa: E501  # one line for names and their answer
from __future__ import annotations

from wyrm.foreign_names.phrases import (
    CPU,
    GRADIENT_MODE,
    INTEGERS,
    LEAVES,
    MASKED,
    NO_ALGEBRA,
    NO_CONVOLUTIONS,
    NO_CUMULATION,
    NO_ROUNDING,
    NO_SORTING,
    RANDOM,
    REPEAT,
    each,
)

# Names of packages.
_LOSSES = {
    "CrossEntropyLoss": "use wy.losses.cross_entropy(logits, labels)",
    "MSELoss mse_loss mean_squared_error": "use wy.losses.mse(prediction, target)",
    "L1Loss l1_loss mae_loss": "use wy.losses.l1(prediction, target)",
    "SmoothL1Loss smooth_l1_loss HuberLoss huber_loss": "use wy.losses.huber(prediction, target)",
    "BCELoss binary_cross_entropy": "use wy.losses.bce(probability, target)",
    "BCEWithLogitsLoss binary_cross_entropy_with_logits sigmoid_binary_cross_entropy": (
        "use wy.losses.bce_with_logits(logits, target)"
    ),
    "NLLLoss nll_loss": "use wy.losses.nll(log_probability, labels)",
    "KLDivLoss kl_div": "use wy.losses.kl_divergence(log_prediction, target)",
    "CosineEmbeddingLoss cosine_embedding_loss": "use wy.losses.cosine_embedding(first, second, target)",
    "MarginRankingLoss margin_ranking_loss": "use wy.losses.margin_ranking(first, second, target)",
    "TripletMarginLoss triplet_margin_loss": "use wy.losses.triplet(anchor, positive, negative)",
    "HingeEmbeddingLoss hinge_loss": "use wy.losses.hinge(prediction, target)",
    "softmax_cross_entropy softmax_cross_entropy_with_integer_labels": "use wy.losses.cross_entropy(logits, labels)",
    "CTCLoss PoissonNLLLoss GaussianNLLLoss": "wyrm has no such loss: compose it of operators and methods of nodes",
}
_SEEDS = "use wy.nn.seed(number) for the parameters of layers; random nodes take seed="
ANSWERS: dict[str, dict[str, str]] = {
    "wyrm": each(
        {
            "tensor array asarray as_tensor from_numpy FloatTensor Variable variable": LEAVES,
            "LongTensor IntTensor": INTEGERS,
            "jit pjit script trace": "use wy.function(f, engine='native') for a function, wy.compile(node) for a graph",
            "pmap distributed cuda device devices device_put mps shard_map": CPU,
            "no_grad inference_mode enable_grad set_grad_enabled is_grad_enabled": GRADIENT_MODE,
            "autograd": "use wy.grad(loss, x), or loss.backward() and p.gradient",
            "manual_seed seed": _SEEDS,
            "PRNGKey key": "use seed=: wyrm's random nodes derive their numbers from a seed and the step, without keys",
            "rand randn randint randperm normal uniform empty": RANDOM,
            "save load": "use model.save(path) and model.load(path), or wy.io.save_arrays and wy.io.load_arrays",
            "cat concat hstack vstack": "use wy.concatenate([x, y], axis=0)",
            "matmul mm bmm dot": "use x @ y",
            "add subtract sub multiply mul divide div power pow negative neg": (
                "use the operators: x + y, x - y, x * y, x / y, x ** y and -x"
            ),
            "linspace eye tril triu meshgrid diag logspace identity": (
                "make the array with NumPy, as in wy.Constant(np.eye(3)); " + MASKED
            ),
            "jacfwd jacrev": "use wy.jacobian(f)",
            "lax fori_loop": "use wy.scan, wy.while_loop and wy.cond",
            "switch": "use wy.cond(condition, true, false)",
            "numpy jnp": "NumPy's functions take nodes: use np.exp(x), or wy.exp(x)",
            "tree tree_map tree_util": "functions accept and return nested dicts, lists and tuples; wyrm has no tree functions",
            "utils DataLoader": "use wy.data.Dataset and wy.data.DataLoader",
            "float32 float64 float16 bfloat16 int32 int64 bool_ float double long": "use NumPy's types, as in np.float32",
            "set_default_dtype": "pass dtype= to leaves and layers; Python numbers become float32",
            "inf nan pi e newaxis": "use NumPy's, as in np.pi",
            "is_tensor": "use isinstance(x, wy.Node)",
            "Module": "use wy.nn.Module",
            "Sequential Linear Dropout Embedding LayerNorm Layer": "use wy.nn, as in wy.nn.Sequential",
            "functional": "functions are methods of nodes, as in x.relu(), and wy.losses",
            "SGD Adam AdamW": "use wy.optim, as in wy.optim.Adam",
            "clamp": "use x.clip(min, max)",
            "permute": "use x.transpose(axes)",
            "unsqueeze": "use x.expand_dims(axis)",
            "detach": "use x.stop_gradient()",
            "gather": "use x.take_along_axis(indices, axis)",
            "cumsum cumprod": NO_CUMULATION,
            "sort argsort topk median quantile unique": NO_SORTING,
            "argmin": "use (-x).argmax(axis)",
            "round floor ceil": NO_ROUNDING,
            "isnan": "use x != x",
            "isfinite": "use abs(x) < np.inf",
            "norm": "use np.linalg.norm(x); " + NO_ALGEBRA,
            "outer tensordot inner kron": "use wy.einsum(subscripts, x, y) or np.outer(x, y)",
            "gelu silu elu leaky_relu layer_norm rms_norm cross_entropy dropout": "use the methods of nodes, as in x.gelu()",
            "allclose testing_assert_close": "use np.testing.assert_allclose(x.forward(), expected)",
            "gradcheck check_grads": "use wy.testing.check_grads(loss)",
            "grad_and_value": "use wy.value_and_grad(loss, x)",
            "remat": "use wy.checkpoint(function, x)",
            "Tensor_ ndarray Array": "use wy.Tensor in annotations, and wy.Node for isinstance",
            "repeat tile": REPEAT,
            "flip": "use x[::-1]",
            "fft": "wyrm has no Fourier transforms",
            "conv1d conv2d max_pool2d": NO_CONVOLUTIONS,
            "vectorize": "use wy.vmap(f)",
            "make_jaxpr": "use wy.show(wy.function(f)) or wy.view.to_text(node)",
            "debug set_detect_anomaly": "use wy.watch_nan()",
            "profiler": "use wy.time_ops()",
        }
    ),
    "wyrm.nn": each(
        {
            "ReLU": "use wy.nn.relu between layers, or x.relu()",
            "GELU": "use wy.nn.gelu between layers, or x.gelu()",
            "Tanh": "use wy.nn.tanh between layers, or x.tanh()",
            "Sigmoid": "use wy.nn.sigmoid between layers, or x.sigmoid()",
            "SiLU Swish": "use wy.nn.silu between layers, or x.silu()",
            "Softplus": "use wy.nn.softplus between layers, or x.softplus()",
            "LeakyReLU leaky_relu": "use wy.nn.Activation('leaky_relu') between layers, or x.leaky_relu()",
            "ELU elu": "use wy.nn.Activation('elu') between layers, or x.elu()",
            "Softmax softmax": "use wy.nn.Activation('softmax') between layers, or x.softmax(axis)",
            "LogSoftmax log_softmax": "use wy.nn.Activation('log_softmax') between layers, or x.log_softmax(axis)",
            "PReLU ReLU6 Hardtanh Mish": "wyrm has no such activation: compose it of operators and methods of nodes",
            "Identity": "use wy.nn.Sequential()",
            "Flatten": "use x.flatten(1) before the layers",
            "Unflatten": "use x.reshape(shape)",
            "Parameter": "use wy.Parameter(value)",
            "Buffer": "use wy.Buffer(value)",
            "functional": "functions are methods of nodes, as in x.relu(), and wy.losses",
            "ModuleList ParameterList": "use a list: self.layers = [wy.nn.Linear(4, 4), wy.nn.Linear(4, 2)]",
            "ModuleDict ParameterDict": "use a dict: self.heads = {'left': wy.nn.Linear(4, 2)}",
            "BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm": "use wy.nn.BatchNorm(features)",
            "GroupNorm InstanceNorm1d InstanceNorm2d": "wyrm has wy.nn.LayerNorm, wy.nn.RMSNorm and wy.nn.BatchNorm",
            "Dropout1d Dropout2d AlphaDropout": "use wy.nn.Dropout(rate)",
            "Conv1d Conv2d Conv3d ConvTranspose2d Conv MaxPool2d AvgPool2d AdaptiveAvgPool2d Upsample Fold Unfold": (
                NO_CONVOLUTIONS
            ),
            "RNN GRU RNNCell GRUCell": "wyrm has wy.nn.LSTM and wy.nn.EWMA, and wy.scan for a step of your own",
            "Transformer TransformerEncoder TransformerEncoderLayer TransformerDecoder TransformerDecoderLayer": (
                "use wy.nn.TransformerBlock(embed_dim, hidden_dim, num_heads)"
            ),
            "MultiheadAttention": "use wy.nn.MultiHeadAttention(embed_dim, num_heads)",
            "EmbeddingBag": "use wy.nn.Embedding(num_embeddings, embedding_dim)(indices).mean(axis)",
            "Dense LazyLinear": "use wy.nn.Linear(in_features, out_features)",
            "Bilinear": "use wy.einsum(subscripts, x, y)",
            "init": "use wy.nn.initializers",
            "utils clip_grad_norm_": "use wy.optim.clip_by_global_norm(parameters, max_norm)",
            "DataParallel DistributedDataParallel": "use program.epoch(columns, threads=2)",
            "scaled_dot_product_attention": "use wy.attention(qkv, mask) or wy.nn.MultiHeadAttention(embed_dim, num_heads)",
            "one_hot": "use labels as they are: losses take integers; or wy.Constant(np.eye(classes)).take(labels)",
            "CosineSimilarity": "compose it: (x * y).sum(-1) / (x.square().sum(-1) * y.square().sum(-1)).sqrt()",
            "compact linen": "a module sets its parts in __init__ and builds its graph in __call__; see wy.nn.Module",
            **_LOSSES,
        }
    ),
    "wyrm.optim": each(
        {
            "lr_scheduler": "give learning_rate=wy.optim.Cosine(0.1, steps=1000), or any function of the number of steps",
            "StepLR": "use learning_rate=wy.optim.Step(start, every, factor)",
            "ExponentialLR exponential_decay": "use learning_rate=wy.optim.Exponential(start, factor)",
            "CosineAnnealingLR cosine_decay_schedule": "use learning_rate=wy.optim.Cosine(start, steps)",
            "LinearLR": "use learning_rate=wy.optim.LinearWarmup(peak, steps)",
            "OneCycleLR warmup_cosine_decay_schedule": "use learning_rate=wy.optim.WarmupCosine(peak, warmup, steps)",
            "LambdaLR ReduceLROnPlateau": "set optimizer.learning_rate at any time, or give a function of the number of steps",
            "Adadelta Adamax NAdam RAdam LBFGS Rprop ASGD Lion Lamb": "write it as a subclass of wy.optim.Optimizer",
            "SparseAdam": "use wy.optim.Adam, which leaves rows without a gradient alone",
            "sgd": "use wy.optim.SGD(parameters, learning_rate)",
            "adam": "use wy.optim.Adam(parameters, learning_rate)",
            "adamw": "use wy.optim.AdamW(parameters, learning_rate)",
            "rmsprop": "use wy.optim.RMSprop(parameters, learning_rate)",
            "adagrad AdaGrad": "use wy.optim.Adagrad(parameters, learning_rate)",
            "RMSProp": "use wy.optim.RMSprop(parameters, learning_rate)",
            "apply_updates": "use optimizer.step()",
            "chain": "call wy.optim.clip_by_global_norm(parameters, max_norm) before optimizer.step()",
            "clip_grad_norm_": "use wy.optim.clip_by_global_norm(parameters, max_norm)",
            "clip_grad_value_ clip": "use wy.optim.clip_by_value(parameters, clip_value)",
        }
    ),
    "wyrm.losses": each(_LOSSES),
    "wyrm.data": each(
        {
            "load_mnist MNIST mnist FashionMNIST load_data load_dataset datasets": "use wy.data.read_idx(path) for an IDX file",
            "TensorDataset": "use wy.data.Dataset(images=x, labels=y)",
            "random_split": "use wy.data.train_test_split(dataset)",
            "Subset": "use the rows of the columns, as in wy.data.Dataset(images=x[:100])",
        }
    ),
}
