# %% [markdown]
"""# Classify images by a residual network with batch normalization, trained on images that move.

Pass the IDX file of the images, such as that of MNIST or Fashion-MNIST; the file of labels is expected beside it. Four
fifths are for training, one fifth is held out. Without --data, small pictures of bars are generated.
"""

# %%
from __future__ import annotations

import math
from typing import Any

import numpy as np
from command_line import Progress, arguments, parser
from images import bars, draw_mistakes, read
from pictures import Pictures, show, show_images

import wyrm as wy

# %% tags=["parameters"]
# In a notebook, the options of the command line go here, as in ["--data", "t10k-images-idx3-ubyte.gz"].
ARGUMENTS: list[str] = []

# %%
options_parser = parser(__doc__ or "", epochs=5, data="an IDX file of square images, gzip or plain")
options_parser.add_argument("--flip", action="store_true", help="mirror images at random: for clothes, not for digits")
options = options_parser.parse_args(arguments(ARGUMENTS))
pictures = Pictures(options.pictures)
wy.nn.seed(options.seed)

# %% [markdown]
# ## The images
# Each time an image is seen, it is moved by up to two pixels, and a small square of it is cut out. The place of a bar
# is its label, so bars stay. A batch is changed at once, by a generator that depends on the seed, the epoch and the
# batch.

# %%
everything = bars(options.seed) if options.data is None else read(options.data)
side = math.isqrt(everything["images"].shape[1])
everything = wy.data.Dataset(images=everything["images"].reshape(-1, 1, side, side), labels=everything["labels"])
training, held_out = wy.data.train_test_split(everything, test_fraction=0.2, seed=options.seed)


def augmented(columns: Any, generator: np.random.Generator) -> Any:
    """Return a batch with its images changed at random."""
    changed = columns["images"]
    if options.data is not None:
        changed = wy.data.random_shift(changed, generator, 2, axes=(2, 3))
        changed = wy.data.cutout(changed, generator, side // 5, axes=(2, 3))
    if options.flip:
        changed = wy.data.random_flip(changed, generator, axes=(2, 3))
    return {"images": changed, "labels": columns["labels"]}


loader = wy.data.DataLoader(training.map(augmented, seed=options.seed), batch_size=64, seed=options.seed)

# %% [markdown]
# ## The model
# A block adds what two convolutions compute to what it got. Where it halves height and width, a convolution of single
# pixels does so for the sum. Batch normalization follows each convolution, which then needs no bias. He et al., "Deep
# residual learning for image recognition" (2016).


# %%
class Batch(wy.Dim): ...


class Colours(wy.Dim): ...


class Classes(wy.Dim): ...


class Block(wy.nn.Module):
    """Two convolutions and a shortcut around them."""

    def __init__(self, narrow: int, wide: int, stride: int) -> None:
        self.first = wy.nn.Conv2d(narrow, wide, kernel_size=3, stride=stride, padding=1, bias=False)
        self.first_norm = wy.nn.BatchNorm2d(wide)
        self.second = wy.nn.Conv2d(wide, wide, kernel_size=3, padding=1, bias=False)
        self.second_norm = wy.nn.BatchNorm2d(wide)
        self.shortcut = wy.nn.Conv2d(narrow, wide, kernel_size=1, stride=stride, bias=False)

    def __call__(self, x: wy.Tensor[Batch, Any, Any, Any]) -> wy.Tensor[Batch, Any, Any, Any]:
        inside = self.first_norm(self.first(x)).relu()
        return (self.second_norm(self.second(inside)) + self.shortcut(x)).relu()


class ResNet(wy.nn.Module):
    """A convolution, three blocks of 8, 16 and 32 channels, the mean over the image, and a linear layer.

    The name of an axis has one size in a graph, so the channels, which differ from block to block, are numbers.
    """

    def __init__(self, colours: Colours, classes: Classes) -> None:
        self.stem = wy.nn.Conv2d(colours, 8, kernel_size=3, padding=1, bias=False)
        self.norm = wy.nn.BatchNorm2d(8)
        self.blocks = [Block(8, 8, stride=1), Block(8, 16, stride=2), Block(16, 32, stride=2)]
        self.output = wy.nn.Linear(32, classes)

    def __call__(self, x: wy.Tensor[Batch, Colours, Any, Any]) -> wy.Tensor[Batch, Classes]:
        h: wy.Tensor[Batch, Any, Any, Any] = self.norm(self.stem(x)).relu()
        for block in self.blocks:
            h = block(h)
        return self.output(h.mean(axis=(-2, -1)))


batch, classes = Batch(), Classes(int(everything["labels"].max()) + 1)
images = wy.Input(dims=(batch, Colours(1), side, side), name="images")
labels = wy.IndexInput(dims=(batch,), name="labels")
model = ResNet(Colours(1), classes)
loss = model(images).cross_entropy(labels)
show(loss)

# %% [markdown]
# ## Training
# The graph of the loss was built in training mode: it normalizes by each batch, and moves the running statistics. A
# graph that is built after `eval()` normalizes by those, so that no image's class depends on the others of its batch.

# %%
optimizer = wy.optim.Adam(loss.parameters(), wy.optim.Cosine(3e-3, steps=options.epochs * len(loader)))
program = wy.compile(loss, optimizer, engine=options.engine)

scores = model.eval()(images)
model.train()
right = (scores.argmax(axis=-1) == labels).astype(np.float32).mean()
evaluation = wy.compile(scores.cross_entropy(labels), metrics={"accuracy": right})
progress = Progress(options.epochs)
for _ in progress:
    mean_loss = program.epoch(loader)
    found = evaluation.evaluate(held_out, batch_size=500)
    progress.show(loss=mean_loss, **{f"validation_{name}": value for name, value in found.items()})
print(f"accuracy {progress.history['validation_accuracy'][-1]:.1%} on {len(held_out)} held-out images")

# %% [markdown]
# ## What it sees, and what it gets wrong
# Each row of the second picture shows an image as it is, and then as it is seen in seven epochs.

# %%
if pictures:
    units = {"loss": "cross-entropy (nats)", "accuracy": "right images (%)"}
    pictures.curves("Image classification by a residual network", progress.history, units)
    probabilities = wy.compile(scores.softmax())({images: held_out["images"]})
    flat = held_out["images"].reshape(len(held_out), -1)
    draw_mistakes(pictures, flat, held_out["labels"], probabilities)

    first = training[:5]
    seen = [first.map(augmented, seed=seed)["images"] for seed in range(7)]
    each = np.stack([first["images"], *seen], axis=1).reshape(-1, side * side)
    with pictures.draw("augmented", width=8.0, height=5.4) as figure:
        axes = figure.subplots()
        axes.set_title("Five images (left), and how the network sees them in seven epochs")
        show_images(axes, each, 8, limits=(float(each.min()), float(each.max())))
