# %% [markdown]
"""# Classify images of digits or clothes with a three-layer network, from IDX files such as MNIST or Fashion-MNIST.

Pass the file of images; the file of labels is expected beside it. Four fifths are for training, one fifth is held out.
Without --data, small pictures of bars are generated.
"""

# %%
from __future__ import annotations

import numpy as np
from command_line import Progress, arguments, parser
from images import bars, draw_confusion, draw_mistakes, read
from pictures import Pictures
from threadpoolctl import threadpool_limits

import wyrm as wy

# %% tags=["parameters"]
# In a notebook, the options of the command line go here, as in ["--data", "t10k-images-idx3-ubyte.gz"].
ARGUMENTS: list[str] = []

# %%
options = parser(__doc__ or "", epochs=8, data="an IDX file of images, gzip or plain").parse_args(arguments(ARGUMENTS))
pictures = Pictures(options.pictures)
wy.nn.seed(options.seed)
threadpool_limits(1, "blas")  # a second thread slows such small products down

# %% [markdown]
# ## The images
# A row of `images` holds the pixels of an image, scaled to 0..1.

# %%
everything = bars(options.seed) if options.data is None else read(options.data)
training, held_out = wy.data.train_test_split(everything, test_fraction=0.2, seed=options.seed)

# %% [markdown]
# ## The model
# Two hidden layers with dropout. Each axis has a class of its own, so a type checker finds layers that do not fit.


# %%
class Batch(wy.Dim): ...


class Pixels(wy.Dim): ...


class Wide(wy.Dim): ...


class Narrow(wy.Dim): ...


class Classes(wy.Dim): ...


class Classifier(wy.nn.Module):
    """A network from pixels to class scores, with two hidden layers and dropout."""

    def __init__(self, pixels: Pixels, classes: Classes) -> None:
        wide, narrow = Wide(256), Narrow(128)
        self.first = wy.nn.Linear(pixels, wide)
        self.second = wy.nn.Linear(wide, narrow)
        self.output = wy.nn.Linear(narrow, classes)
        self.dropout = wy.nn.Dropout(0.2)

    def __call__(self, x: wy.Tensor[Batch, Pixels]) -> wy.Tensor[Batch, Classes]:
        wide = self.dropout(self.first(x).relu())
        narrow = self.dropout(self.second(wide).relu())
        return self.output(narrow)


# %% [markdown]
# The model builds two graphs: one with dropout, for training, and one without, for the answers.

# %%
batch, pixels, classes = Batch(), Pixels(training["images"].shape[1]), Classes(int(everything["labels"].max()) + 1)
images = wy.Input(dims=(batch, pixels), name="images")
labels = wy.IndexInput(dims=(batch,), name="labels")
model = Classifier(pixels, classes)
loss = model(images).cross_entropy(labels)
model.eval()  # the model now builds graphs without dropout
scores = model(images)
answers = scores.argmax(axis=-1)

# %% [markdown]
# ## Training
# For the picture, the loss and the accuracy on the held-out images are measured after each epoch.

# %%
columns = {images: training["images"], labels: training["labels"]}
held_out_columns = {images: held_out["images"], labels: held_out["labels"]}
right = (answers == labels).astype(np.float32).mean()
evaluation = wy.compile(scores.cross_entropy(labels), metrics={"accuracy": right})

train = wy.compile(loss, wy.optim.Adam(loss.parameters(), learning_rate=1e-3), engine=options.engine)
progress = Progress(options.epochs)
for _ in progress:
    mean_loss = train.epoch(columns, batch_size=64, shuffle=True, seed=options.seed)
    found = evaluation.evaluate(held_out_columns) if pictures else {}
    progress.show(loss=mean_loss, **{f"validation_{name}": value for name, value in found.items()})

images.set(held_out["images"])
predicted = answers.forward()
accuracy = wy.metrics.accuracy(held_out["labels"], predicted)
print(f"accuracy {accuracy:.1%} on {len(held_out)} held-out images")

# %% [markdown]
# ## What it gets wrong
# Above each image stand its class, the class that the network gave, and the probability that the network gave to it.

# %%
if pictures:
    units = {"loss": "cross-entropy (nats)", "accuracy": "right images (%)"}
    pictures.curves("Image classification by a three-layer network", progress.history, units)
    draw_mistakes(pictures, held_out["images"], held_out["labels"], scores.softmax().forward())
    draw_confusion(pictures, held_out["labels"], predicted, int(classes))
