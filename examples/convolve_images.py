# %% [markdown]
"""# Classify images of digits or clothes with a convolutional network, from IDX files such as MNIST or Fashion-MNIST.

Pass the file of images; the file of labels is expected beside it. Four fifths are for training, one fifth is held out.
Without --data, small pictures of bars are generated.
"""

# %%
from __future__ import annotations

import math

import numpy as np
from command_line import Progress, arguments, parser
from images import bars, draw_mistakes, read
from pictures import Pictures, show, show_images

import wyrm as wy

# %% tags=["parameters"]
# In a notebook, the options of the command line go here, as in ["--data", "t10k-images-idx3-ubyte.gz"].
ARGUMENTS: list[str] = []

# %%
options_parser = parser(__doc__ or "", epochs=3, data="an IDX file of square images, gzip or plain")
options = options_parser.parse_args(arguments(ARGUMENTS))
pictures = Pictures(options.pictures)
wy.nn.seed(options.seed)

# %% [markdown]
# ## The images
# A convolution takes images with the axes (batch, colours, height, width). These have one colour.

# %%
everything = bars(options.seed) if options.data is None else read(options.data)
training, held_out = wy.data.train_test_split(everything, test_fraction=0.2, seed=options.seed)
side = math.isqrt(training["images"].shape[1])
shape = (-1, 1, side, side)

# %% [markdown]
# ## The model
# Two convolutions find edges and shapes. After each of them, pooling halves height and width. In a notebook, the graph
# displays itself: a click opens a layer.


# %%
class Batch(wy.Dim): ...


class Colours(wy.Dim): ...


class Height(wy.Dim): ...


class Width(wy.Dim): ...


class Narrow(wy.Dim): ...


class Wide(wy.Dim): ...


class Classes(wy.Dim): ...


class Network(wy.nn.Module):
    """Two convolutions, each followed by pooling, and a linear layer."""

    def __init__(self, colours: Colours, height: Height, width: Width, classes: Classes) -> None:
        narrow, wide = Narrow(16), Wide(32)
        self.first = wy.nn.Conv2d(colours, narrow, kernel_size=3, padding="same")
        self.second = wy.nn.Conv2d(narrow, wide, kernel_size=3, padding="same")
        self.pool = wy.nn.MaxPool2d(2)
        self.flatten = wy.nn.Flatten()
        self.output = wy.nn.Linear(int(wide) * (int(height) // 4) * (int(width) // 4), classes)

    def __call__(self, x: wy.Tensor[Batch, Colours, Height, Width]) -> wy.Tensor[Batch, Classes]:
        half = self.pool(self.first(x).relu())
        quarter = self.pool(self.second(half).relu())
        return self.output(self.flatten(quarter))


batch, classes = Batch(), Classes(int(everything["labels"].max()) + 1)
colours, height, width = Colours(1), Height(side), Width(side)
images = wy.Input(dims=(batch, colours, height, width), name="images")
labels = wy.IndexInput(dims=(batch,), name="labels")
model = Network(colours, height, width, classes)
scores = model(images)
loss = scores.cross_entropy(labels)
show(loss)

# %% [markdown]
# ## Training
# For the picture, the loss and the accuracy on the held-out images are measured after each epoch.

# %%
columns = {images: training["images"].reshape(shape), labels: training["labels"]}
held_out_columns = {images: held_out["images"].reshape(shape), labels: held_out["labels"]}
right = (scores.argmax(axis=-1) == labels).astype(np.float32).mean()
evaluation = wy.compile(loss, metrics={"accuracy": right})

train = wy.compile(loss, wy.optim.Adam(loss.parameters(), learning_rate=1e-3), engine=options.engine)
progress = Progress(options.epochs)
for _ in progress:
    mean_loss = train.epoch(columns, batch_size=64, shuffle=True, seed=options.seed)
    found = evaluation.evaluate(held_out_columns) if pictures else {}
    progress.show(loss=mean_loss, **{f"validation_{name}": value for name, value in found.items()})

answers = wy.compile(scores.argmax(axis=-1))({images: held_out_columns[images]})
accuracy = wy.metrics.accuracy(held_out["labels"], answers)
print(f"accuracy {accuracy:.1%} on {len(held_out)} held-out images")

# %% [markdown]
# ## What the first layer sees
# Each of its 16 filters of 3 x 3 pixels answers to another direction or edge. Each column shows a filter, and where it
# answers in three images.

# %%
if pictures:
    units = {"loss": "cross-entropy (nats)", "accuracy": "right images (%)"}
    pictures.curves("Image classification by two convolutions", progress.history, units)
    probabilities = wy.compile(scores.softmax())({images: held_out_columns[images]})
    draw_mistakes(pictures, held_out["images"], held_out["labels"], probabilities)

    filters = model.first.weight.value[:, 0]
    pixels = np.arange(side) * 3 // side
    enlarged = filters[:, pixels][:, :, pixels]
    largest = float(np.abs(filters).max())
    firsts = np.unique(held_out["labels"], return_index=True)[1]
    examples = held_out_columns[images][firsts[-3:]]
    responses = wy.compile(model.first(images).relu())({images: examples})
    responses = np.concatenate([examples, responses / responses.max()], axis=1).reshape(-1, side * side)
    with pictures.draw("filters", width=12.0, height=3.6) as figure:
        above, below = figure.subplots(2, 1, height_ratios=[1, len(examples)])
        above.set_title("The 16 filters of the first layer (red +, blue -), and where they answer in three images")
        show_images(
            above,
            np.concatenate([np.full((1, side, side), np.nan), enlarged]),
            17,
            colours="RdBu_r",
            limits=(-largest, largest),
        )
        show_images(below, responses, 17)
