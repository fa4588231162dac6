# %% [markdown]
"""# FizzBuzz with a neural network: from the ten bits of a number to "Fizz", "Buzz", "FizzBuzz" or the number itself.

It trains on 101 to 1023 and is tested on 1 to 100.
"""

# %%
from __future__ import annotations

import numpy as np
from command_line import Progress, arguments, parser
from numpy.typing import NDArray
from pictures import Pictures, without_axes
from threadpoolctl import threadpool_limits

import wyrm as wy

# %% tags=["parameters"]
# In a notebook, the options of the command line go here, as in ["--epochs", "100"].
ARGUMENTS: list[str] = []

# %%
options = parser(__doc__ or "", epochs=300, data=None).parse_args(arguments(ARGUMENTS))
pictures = Pictures(options.pictures)
wy.nn.seed(options.seed)
threadpool_limits(1, "blas")  # a second thread slows such small products down

# %% [markdown]
# ## The numbers
# The network sees the bits of a number as -1 and 1, and chooses one of four words.


# %%
def encode(numbers: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the bits of each number as -1 and 1, shape (n, 10)."""
    bits = (numbers[:, None] >> np.arange(10)) & 1
    return (2.0 * bits - 1.0).astype(np.float32)


def classify(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the class of each number: 0 for the number itself, 1 for Fizz, 2 for Buzz, 3 for FizzBuzz."""
    return np.where(numbers % 3 == 0, 1, 0) + np.where(numbers % 5 == 0, 2, 0)


def say(number: int, word: int) -> str:
    """Return the word for a number of this class."""
    return (str(number), "Fizz", "Buzz", "FizzBuzz")[word]


numbers, test = np.arange(101, 1024), np.arange(1, 101)

# %% [markdown]
# ## The model
# Each axis has a class of its own, so a type checker finds layers that do not fit. The batch takes its size from the
# data.


# %%
class Batch(wy.Dim): ...


class Bits(wy.Dim): ...


class Hidden(wy.Dim): ...


class Words(wy.Dim): ...


class FizzBuzz(wy.nn.Module):
    """A network from bits to scores of the four words, with one hidden layer."""

    def __init__(self, bits: Bits, hidden: Hidden, words: Words) -> None:
        self.hidden = wy.nn.Linear(bits, hidden)
        self.output = wy.nn.Linear(hidden, words)

    def __call__(self, bits: wy.Tensor[Batch, Bits]) -> wy.Tensor[Batch, Words]:
        return self.output(self.hidden(bits).relu())


batch = Batch()
bits = wy.Input(dims=(batch, Bits(10)), name="bits")
words = wy.IndexInput(dims=(batch,), name="words")
scores = FizzBuzz(Bits(10), Hidden(1024), Words(4))(bits)
loss = scores.cross_entropy(words)
answers = scores.argmax(axis=-1)

# %% [markdown]
# ## Training
# `compile` makes one program of the loss, its gradient and the optimizer, and `epoch` is one call of it, in batches and
# random order. The weight decay matters most: without it, the network learns the numbers by heart. For the picture, a
# second program measures the loss and the share of right words on 1 to 100.

# %%
BATCH_SIZE = 32

steps = -(-len(numbers) // BATCH_SIZE)
learning_rate = wy.optim.Cosine(0.003, steps=options.epochs * steps)
optimizer = wy.optim.AdamW(loss.parameters(), learning_rate, weight_decay=0.2)
train = wy.compile(loss, optimizer, engine=options.engine)
measure = wy.compile(loss, metrics={"right": (answers == words).astype(np.float32).mean()})
columns, held_out = ({bits: encode(each), words: classify(each)} for each in (numbers, test))
progress = Progress(options.epochs)
for _ in progress:
    mean_loss = train.epoch(columns, batch_size=BATCH_SIZE, shuffle=True, seed=options.seed)
    found = measure.evaluate(held_out) if pictures else {}
    progress.show(loss=mean_loss, **{f"validation_{name}": value for name, value in found.items()})

# %% [markdown]
# ## The words for 1 to 100

# %%
bits.set(encode(test))
said = answers.forward()
print(" ".join(say(int(number), int(word)) for number, word in zip(test, said, strict=True)))
print(f"{int((said == classify(test)).sum())} of 100 right")

# %%
if pictures:
    pictures.curves(
        "FizzBuzz: trained on 101 to 1023, tested on 1 to 100",
        progress.history,
        {"loss": "cross-entropy (nats)", "right": "right words (%)"},
    )
    with pictures.draw("words", height=5.2) as figure:
        axes = figure.subplots()
        for number, word, right in zip(test.tolist(), said.tolist(), (said == classify(test)).tolist(), strict=True):
            axes.text(
                (number - 1) % 10, (number - 1) // 10, say(number, word), ha="center", va="center", fontsize=9,
                color="black" if right else "red", weight="normal" if right else "bold",
            )  # fmt: skip
        colours = np.array([(245, 245, 245), (207, 229, 245), (255, 227, 184), (205, 235, 211)], np.uint8)
        axes.imshow(colours[said].reshape(10, 10, 3), aspect="auto")
        axes.set_title("The network's words for 1 to 100, wrong ones in red")
        without_axes(axes)
