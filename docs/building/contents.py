"""The pages of the reference: which names each takes, by their public module and the modules that define them.

A name goes to the first page that takes it, and there to the first group. Names for contributors come last.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import NamedTuple

from building.docstrings import markdown_of


class Group(NamedTuple):
    """A heading, and what stands below it: names, or the modules that define them, as prefixes."""

    heading: str
    names: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()

    def takes(self, name: str, origin: str) -> bool:
        """Return whether a name stands below this heading."""
        return name in self.names or any(origin.startswith(each) for each in self.origins)


class Page(NamedTuple):
    """A page: its file, its title, the public module of its names, and their groups."""

    file: str
    title: str
    module: str
    groups: tuple[Group, ...]
    about: str = ""

    def _group(self, name: str, origin: str) -> int:
        for place, group in enumerate(self.groups):
            if name in group.names:
                return place
        found = (place for place, group in enumerate(self.groups) if group.takes(name, origin))
        return next(found, len(self.groups))

    def takes(self, module: str, name: str, origin: str) -> bool:
        """Return whether a name is of this page."""
        return module == self.module and self._group(name, origin) < len(self.groups)

    def place(self, module: str, name: str, origin: str) -> tuple[int, int, str]:
        """Return the key by which names are sorted: groups in order, named ones as written, others by name."""
        group = self._group(name, origin)
        names = self.groups[group].names if group < len(self.groups) else ()
        return group, names.index(name) if name in names else len(names), name.lower()

    def heading(self, module: str, name: str, origin: str) -> str:
        """Return the heading above a name."""
        group = self._group(name, origin)
        return self.groups[group].heading if group < len(self.groups) else "More"

    def lead(self, link: Callable[[str], str | None]) -> str:
        """Return what stands above the names: `about`, else the docstring of the module, without its glossary."""
        if self.about:
            return self.about
        doc = importlib.import_module(self.module).__doc__ or ""
        return markdown_of(doc.partition("## Glossary")[0], link)


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _all(module: str, title: str, file: str, *groups: Group, heading: str = "Names") -> Page:
    """Return a page of all names of a module, with groups for some."""
    return Page(file, title, module, (*groups, Group(heading, (), ("",))))


_TOP = "wyrm"
_FUNCTIONS = "wyrm.functions."
_NN = "wyrm.nn."

CONTENTS = (
    Page(
        "nodes",
        "Nodes and axes",
        _TOP,
        (
            Group("Leaves", _names("Parameter Input IndexInput Constant IndexConstant Buffer NarrowWeight")),
            Group("Axes", _names("Dim Ragged Joined Pairs One Plus Times any_dim")),
            Group(
                "Rows of different lengths",
                _names(
                    "RaggedArray row_lengths entry_positions entry_rows entry_at first_entry last_entry "
                    "row_segment_sum row_scan row_pairs"
                ),
            ),
            Group("Nodes", _names("Node IndexNode Tensor IndexTensor Shaped")),
            Group("Gradients", _names("grad value_and_grad")),
            Group("Proofs", _names("prove Causal Independent")),
            Group("Run and observe", _names("run updating watch_nan time_ops Timing")),
        ),
        "Leaves hold data; operators and methods of nodes build graphs. [Methods of nodes](node-methods.md) lists the "
        "methods that ops add.",
    ),
    Page(
        "node-methods",
        "Methods of nodes",
        _TOP,
        (),
        "`x` is a node. Methods have NumPy's names and arguments; most are functions too, `wy.sum(x)`. The operators "
        "are `+ - * / // % ** @`, the comparisons `== != < <= > >=`, `& | ^ ~` for masks, and `x[...]` with NumPy's "
        "rules.",
    ),
    Page(
        "programs",
        "Programs and compile",
        _TOP,
        (Group("Compile", _names("compile Program export summary show recommend")),),
        "`wy.compile` makes native code, or a JAX program, of outputs or of a whole training loop.",
    ),
    _all(
        "wyrm.train",
        "wyrm.train",
        "train",
        Group("Train", _names("fit History EpochRecord")),
        Group("Callbacks", (), ("wyrm.train",)),
    ),
    Page(
        "layers",
        "wyrm.nn: layers",
        "wyrm.nn",
        (
            Group("Modules", _names("Module Sequential Layer Pointwise Flatten seed")),
            Group("Linear layers and embeddings", (), (f"{_NN}linear", f"{_NN}embedding", f"{_NN}lora")),
            Group("Dropout", (), (f"{_NN}dropout",)),
            Group("Moving averages", (), (f"{_NN}moving_average",)),
            Group("Upsampling", (), (f"{_NN}upsampling",)),
        ),
    ),
    Page(
        "convolution",
        "wyrm.nn: convolutions",
        "wyrm.nn",
        (
            Group("Layers of convolution", (), (f"{_NN}convolution_layers",)),
            Group("Functions of convolution", (), (f"{_NN}convolution",)),
        ),
        "Arrays have the axes (batch, channels, *sizes), as in PyTorch.",
    ),
    Page(
        "pooling",
        "wyrm.nn: pooling",
        "wyrm.nn",
        (
            Group("Maxima", _names("MaxPool1d MaxPool2d MaxPool3d")),
            Group("Means", _names("AvgPool1d AvgPool2d AvgPool3d")),
        ),
        "Arrays have the axes (batch, channels, *sizes), as in PyTorch. Layers of a wanted size are on the next page.",
    ),
    Page(
        "pooling-adaptive",
        "wyrm.nn: pooling to a size",
        "wyrm.nn",
        (Group("Layers of adaptive pooling", (), (f"{_NN}pooling_layers",)),),
        "Arrays have the axes (batch, channels, *sizes), as in PyTorch; the layer has the sizes of the result.",
    ),
    Page(
        "pooling-functions",
        "wyrm.nn: functions of pooling",
        "wyrm.nn",
        (Group("Functions of pooling", (), (f"{_NN}pooling",)),),
        "Arrays have the axes (batch, channels, *sizes), as in PyTorch.",
    ),
    Page(
        "normalization",
        "wyrm.nn: normalization",
        "wyrm.nn",
        (
            Group("By features", (), (f"{_NN}normalization",)),
            Group("By batch", (), (f"{_NN}batch_norms",)),
            Group("By channels", (), (f"{_NN}channel_norms",)),
        ),
        "Layers that normalize their input. `model.eval()` and `model.train()` decide what the next graph contains.",
    ),
    Page(
        "recurrent",
        "wyrm.nn: recurrent layers",
        "wyrm.nn",
        (Group("Layers", _names("LSTM GRU StackedLSTM StackedGRU Recurrent"), (f"{_NN}recurrent",)),),
        "Sequences have the axes (batch, time, features).",
    ),
    Page(
        "transformers",
        "wyrm.nn: attention and GPT-2",
        "wyrm.nn",
        (
            Group(
                "Attention",
                _names("Half Pair RotaryWeights"),
                (f"{_NN}attention", f"{_NN}rotary"),
            ),
            Group("Transformers", (), (f"{_NN}transformer",)),
            Group("GPT-2", (), (f"{_NN}gpt2",)),
            Group("Decoders", (), (f"{_NN}decoder", f"{_NN}decoder_config")),
        ),
        "Layers of attention, GPT-2 and decoders with the files of Hugging Face.",
    ),
    Page(
        "generation",
        "wyrm.nn: generation of text",
        "wyrm.nn",
        (
            Group("Texts", (), (f"{_NN}texts.generation", f"{_NN}texts.text_generation")),
            Group("Samplers", (), (f"{_NN}texts.sampling", f"{_NN}texts.sampling_nodes")),
            Group("What is kept between tokens", (), (f"{_NN}cached_decoder", f"{_NN}past")),
        ),
        "Tokens and texts that follow prompts, by any model that says what it keeps between tokens.",
    ),
    Page(
        "activations",
        "wyrm.nn: activations",
        "wyrm.nn",
        (Group("Activations", (), (f"{_NN}activation",)),),
        "Activations as modules, for composition with `>>`; nodes have most as methods.",
    ),
    _all("wyrm.nn.initializers", "wyrm.nn.initializers", "initializers", heading="Initializers"),
    _all("wyrm.nn.gpt2_axes", "wyrm.nn.gpt2_axes", "gpt2-axes", heading="Axes"),
    _all("wyrm.losses", "wyrm.losses", "losses", heading="Losses"),
    _all(
        "wyrm.optim",
        "wyrm.optim",
        "optimizers",
        Group(
            "Optimizers",
            _names("SGD Adam AdamW"),
            ("wyrm.optim.adaptive", "wyrm.optim.moments", "wyrm.optim.descent", "wyrm.optim.saga"),
        ),
        Group("Several optimizers, averages and clipping", (), ("wyrm.optim.combined", "wyrm.optim.clipping")),
        Group("Schedules of the learning rate", (), ("wyrm.optim.schedules",)),
        Group("An optimizer of your own", (), ("wyrm.optim.",)),
        heading="Types",
    ),
    _all("wyrm.metrics", "wyrm.metrics", "metrics", heading="Metrics"),
    _all("wyrm.estimators", "wyrm.estimators", "estimators", heading="Estimators"),
    _all(
        "wyrm.estimators.recommenders",
        "wyrm.estimators.recommenders",
        "recommenders",
        heading="Recommenders",
    ),
    _all(
        "wyrm.data",
        "wyrm.data",
        "data",
        Group(
            "Data sets and batches",
            _names("Dataset DataLoader concatenate train_test_split split_by_group split_by_time"),
        ),
        Group("Images", (), ("wyrm.data.augment", "wyrm.data.idx")),
        Group(
            "Recommenders",
            (),
            (
                "wyrm.data.interactions",
                "wyrm.data.movielens",
                "wyrm.data.in_time",
                "wyrm.data.recommending",
                "wyrm.data.ids",
                "wyrm.support.item_rows",
            ),
        ),
        Group("Text", (), ("wyrm.data.text", "wyrm.data.tokenizers", "wyrm.data.words")),
        heading="Others",
    ),
    _all("wyrm.io", "wyrm.io", "io"),
    Page(
        "transforms",
        "Functions and transforms",
        _TOP,
        (
            Group("Functions", _names("function Function")),
            Group("Transforms", _names("vjp jvp jacobian hessian hvp linearize vmap")),
            Group("Rules of your own", _names("custom_vjp custom_jvp checkpoint stop_gradient")),
            Group("Kernels: loops over elements", _names("kernel Kernel Written")),
            Group("Loops and branches", _names("scan while_loop cond switch")),
        ),
        "`wy.function` traces a Python function over arrays; transforms differentiate and vectorize it. Names and "
        "`in_axes` are JAX's, `wrt=` says what to differentiate by.",
    ),
    Page(
        "creation",
        "Array functions: creation, shapes, selection",
        _TOP,
        (
            Group("Creation", (), (f"{_FUNCTIONS}creation",)),
            Group(
                "Joining and splitting",
                _names("concatenate concat stack"),
                (f"{_FUNCTIONS}joining", "wyrm.ops.indexing.joining"),
            ),
            Group(
                "Shapes",
                _names(
                    "reshape ravel flatten transpose swapaxes expand_dims squeeze broadcast_to repeat astype "
                    "matrix_transpose diagonal"
                ),
                (f"{_FUNCTIONS}rearranging",),
            ),
            Group(
                "Selection",
                _names("where select take take_along_axis searchsorted"),
                ("wyrm.ops.elementwise.comparison",),
            ),
        ),
        "NumPy's functions over nodes. They take arrays and numbers too, which become constants; "
        "`np.median(node)` calls `wy.median`.",
    ),
    Page(
        "order",
        "Array functions: order and statistics",
        _TOP,
        (
            Group(
                "Order and statistics",
                _names("sort argsort argmax argmin cummax cummin"),
                (f"{_FUNCTIONS}order_statistics", f"{_FUNCTIONS}nan_quantiles"),
            ),
        ),
        "NumPy's functions over nodes.",
    ),
    Page(
        "reductions",
        "Array functions: sums, differences, products",
        _TOP,
        (
            Group(
                "Sums and other reductions",
                _names("sum mean var std prod max min all any logsumexp softmax log_softmax cumsum cumprod trace"),
                (f"{_FUNCTIONS}reductions",),
            ),
            Group("Differences and integrals", (), (f"{_FUNCTIONS}differences",)),
            Group(
                "Products and matrices",
                _names("einsum matmul dot"),
                (f"{_FUNCTIONS}contraction", f"{_FUNCTIONS}matrices"),
            ),
            Group("Fused functions", (), ("wyrm.ops.attention", "wyrm.ops.cross_entropy")),
        ),
        "NumPy's functions over nodes; see also [linear algebra](linalg.md).",
    ),
    Page(
        "elementwise",
        "Array functions: elementwise",
        _TOP,
        (Group("Elementwise functions", (), (f"{_FUNCTIONS}elementwise", f"{_FUNCTIONS}methods")),),
        "NumPy's elementwise functions over nodes.",
    ),
    _all("wyrm.linalg", "wyrm.linalg", "linalg", heading="Linear algebra"),
    _all("wyrm.special", "wyrm.special", "special", heading="Special functions"),
    _all("wyrm.random", "wyrm.random", "random", heading="Random nodes"),
    _all("wyrm.jax", "wyrm.jax", "jax", heading="JAX"),
    _all("wyrm.numba", "wyrm.numba", "numba", heading="numba"),
    _all("wyrm.view", "wyrm.view", "view", heading="Views"),
    _all("wyrm.watch", "wyrm.watch", "watch", heading="Runs"),
    _all("wyrm.profile", "wyrm.profile", "profile", heading="Profiles"),
    _all("wyrm.errors", "wyrm.errors", "errors", heading="Errors"),
    Page(
        "op-classes",
        "For contributors: ops and their rules",
        _TOP,
        (
            Group("Classes of ops", _names("Unary Binary Elementwise")),
            Group("Rules of engines", _names("LoopForm LOOPS JaxForm JAX")),
            Group("Rules of proofs", _names("Reach REACH")),
            Group("Values of rules", _names("ZERO Undefined")),
        ),
        "What an op of your own is made of. [How to write an op](../../how-to/op.md) shows each.",
    ),
    _all("wyrm.reach", "For contributors: wyrm.reach", "reach", heading="Rules of proofs"),
    _all("wyrm.testing", "For contributors: wyrm.testing", "testing", heading="Checks"),
    _all("wyrm.engines", "For contributors: wyrm.engines", "engines", heading="Engines"),
)
