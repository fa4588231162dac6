# %% [markdown]
"""# Read dates as people write them: a recurrence of one's own, with attention, that runs freely after training.

"Saturday, 14 march 1998" becomes 19980314. A bidirectional GRU reads the characters. A cell of our own writes the
digits: it looks at the characters by attention (Bahdanau et al., 2015), and gets the digit before. `wy.nn.Recurrent`
makes a layer of the cell. In training the layer gets the right digits (teacher forcing); afterwards it runs freely and
gets its own.

With seeds 0, 1 and 2, more than 99 % of 1,000 dates that were not trained on are right after 5 epochs.
"""

# %%
from __future__ import annotations

import datetime
from typing import Any

import numpy as np
from command_line import Progress, arguments, parser, positive
from numpy.typing import NDArray
from pictures import Pictures

import wyrm as wy

# %% tags=["parameters"]
# In a notebook, the options of the command line go here, as in ["--epochs", "3"].
ARGUMENTS: list[str] = []

# %%
options_parser = parser(__doc__ or "", epochs=5, data=None)
options_parser.add_argument("--dates", type=positive, default=8192, help="dates to train on")
options_parser.add_argument("--width", type=positive, default=64, help="length of the state")
options = options_parser.parse_args(arguments(ARGUMENTS))
pictures = Pictures(options.pictures)
wy.nn.seed(options.seed)

# %% [markdown]
# ## The data
# Days from 1900 to 2099, each in one of six formats, and the eight digits of year, month and day.

# %%
FORMATS = ["%d %B %Y", "%B %d, %Y", "%d %b %Y", "%A, %d %B %Y", "%Y/%m/%d", "%d.%m.%Y"]
CHARACTERS = " abcdefghijklmnopqrstuvwxyz0123456789,./"
LENGTH, DIGITS, START = 28, 8, 10  # the most characters, the digits, and what stands before the first digit

Numbers = NDArray[np.int64]


def draw(count: int, seed: int) -> tuple[list[str], Numbers, Numbers]:
    """Return dates as texts, their characters as numbers, and their digits."""
    random = np.random.default_rng(seed)
    first, last = datetime.date(1900, 1, 1).toordinal(), datetime.date(2099, 12, 31).toordinal()
    days = [datetime.date.fromordinal(int(day)) for day in random.integers(first, last + 1, count)]
    kinds = random.integers(0, len(FORMATS), count)
    texts = [day.strftime(FORMATS[kind]).lower() for day, kind in zip(days, kinds, strict=True)]
    characters = [[CHARACTERS.index(letter) for letter in text.ljust(LENGTH)] for text in texts]
    return texts, np.array(characters), np.array([[int(digit) for digit in day.strftime("%Y%m%d")] for day in days])


characters, digits = draw(options.dates, options.seed + 1)[1:]
test_texts, test_characters, test_digits = draw(1000, 0)

# %% [markdown]
# ## The model
# A cell maps a state and the digit before to the next state and the logits of the next digit. What it reads, the
# characters' vectors, is the same in all steps: the `context`. It returns its attention too, for the picture.


# %%
class Batch(wy.Dim): ...


class Characters(wy.Dim): ...


class Digits(wy.Dim): ...


class Width(wy.Dim): ...


State = wy.Tensor[Batch, Width]


class Writer(wy.nn.Module):
    def __init__(self, width: Width) -> None:
        self.digits = wy.nn.Embedding(START + 1, 16)
        self.cell = wy.nn.GRUCell(16 + int(width), width)
        self.output = wy.nn.Linear(2 * int(width), 10)

    def __call__(
        self, state: State, digit: wy.IndexTensor[Batch], text: wy.Tensor[Batch, Characters, Width]
    ) -> tuple[State, dict[str, Any]]:
        attention = (text @ state.expand_dims(2)).squeeze(2).softmax(axis=1)
        seen = (attention.expand_dims(2) * text).sum(axis=1)
        state = self.cell(wy.concatenate([self.digits(digit), seen], axis=1), state)
        logits = self.output(wy.concatenate([state, seen], axis=1))
        return state, {"logits": logits, "attention": attention}


class Translator(wy.nn.Module):
    def __init__(self, width: Width) -> None:
        self.characters = wy.nn.Embedding(len(CHARACTERS), 16)
        self.reader = wy.nn.StackedGRU(16, int(width) // 2, bidirectional=True)
        self.start = wy.nn.Linear(width, width)
        self.writer = wy.nn.Recurrent(Writer(width), feedback=lambda made: made["logits"].argmax(axis=1))

    def _read(self, text: wy.IndexTensor[Batch, Characters]) -> tuple[Any, State]:
        vectors = self.reader(self.characters(text)).sequence
        return vectors, self.start(vectors.mean(axis=1)).tanh()

    def forced(self, text: wy.IndexTensor[Batch, Characters], before: wy.IndexTensor[Batch, Digits]) -> Any:
        """Return the logits of each digit from the right digit before it."""
        vectors, state = self._read(text)
        return self.writer(before, state, context=vectors).sequence["logits"]

    def free(self, text: wy.IndexTensor[Batch, Characters]) -> Any:
        """Return the logits of each digit from the model's own digit before it, and where it looked."""
        vectors, state = self._read(text)
        first = wy.arange(vectors.shape[0]) * 0 + START
        return self.writer.run(first, DIGITS, state, context=vectors).sequence


model = Translator(Width(options.width))
text = wy.IndexInput(dims=(Batch(), Characters(LENGTH)), name="text")
before = wy.IndexInput(dims=(Batch(), Digits(DIGITS)), name="before")
wanted = wy.IndexInput(dims=(Batch(), Digits(DIGITS)), name="wanted")
loss = model.forced(text, before).cross_entropy(wanted)

# %% [markdown]
# ## Training
# The digits before are the wanted ones, shifted by one step.

# %%
right_before = np.insert(digits[:, :-1], 0, START, axis=1)
columns = {text: characters, before: right_before, wanted: digits}
train = wy.compile(loss, wy.optim.Adam(loss.parameters(), learning_rate=3e-3), engine=options.engine)
progress = Progress(options.epochs)
for _ in progress:
    progress.show(loss=train.epoch(columns, batch_size=64, shuffle=True, seed=options.seed))

# %% [markdown]
# ## Running freely
# The graph of the free run shares the parameters, and takes any number of dates.

# %%
made = model.free(text)
run = wy.compile([made["logits"].argmax(axis=2), made["attention"]])
found, attention = run({text: test_characters})
share = float((found == test_digits).all(axis=1).mean())
for example, written in zip(test_texts[:4], found, strict=False):
    print(f"{example:28} {''.join(map(str, written))}")
print(f"{100.0 * share:.1f}% of {len(test_texts)} new dates are right")

# %% [markdown]
# ## Where it looks
# For each digit that it writes, the attention to the characters of the first date.

# %%
if pictures:
    pictures.curves("Dates", progress.history, {"loss": "cross-entropy"})
    with pictures.draw("attention") as figure:
        axes = figure.subplots()
        shown = len(test_texts[0])
        axes.imshow(attention[0][:, :shown], cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
        axes.set_xticks(range(shown), list(test_texts[0]))
        axes.set_yticks(range(DIGITS), [str(digit) for digit in found[0]])
        axes.set(xlabel="characters that it reads", ylabel="digits that it writes", title="Attention")
        axes.grid(False)
