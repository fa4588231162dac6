# %% [markdown]
"""# Take a training anywhere: FizzBuzz begins in Python, goes on in a C program without Python, and comes home.

The C program, `export_fizzbuzz.c`, has the object file that wyrm writes: it shuffles, trains and predicts as Python
does, in one block of memory. It needs a C compiler; without one, Python does those epochs too.
"""

# %%
from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from command_line import Columns, arguments, parser
from pictures import Pictures

import wyrm as wy

# %% tags=["parameters"]
# In a notebook, the options of the command line go here, as in ["--epochs", "100"].
ARGUMENTS: list[str] = []

# %%
command = parser(__doc__ or "", epochs=300, data=None)
command.add_argument("--page", metavar="FOLDER", help="write a page that trains in a browser, and say how to open it")
options = command.parse_args(arguments(ARGUMENTS))
pictures = Pictures(options.pictures)
wy.nn.seed(options.seed)

# %% [markdown]
# ## The model
# The ten bits of a number choose one of four words: the number, Fizz, Buzz or FizzBuzz.


# %%
class Batch(wy.Dim): ...


BATCH_SIZE = 32
numbers, test = np.arange(101, 1024), np.arange(1, 101)
bits, words = wy.Input(dims=(Batch(), 10), name="bits"), wy.IndexInput(dims=(Batch(),), name="words")
scores = wy.nn.Linear(1024, 4)(wy.nn.Linear(10, 1024)(bits).relu())
loss, answers = scores.cross_entropy(words), scores.argmax(axis=-1)


def encode(numbers: np.ndarray) -> np.ndarray:
    """Return the bits of each number as -1 and 1, shape (n, 10)."""
    return (2.0 * ((numbers[:, None] >> np.arange(10)) & 1) - 1.0).astype(np.float32)


def classify(numbers: np.ndarray) -> np.ndarray:
    """Return the class of each number: 0 for the number itself, 1 for Fizz, 2 for Buzz, 3 for FizzBuzz."""
    return np.where(numbers % 3 == 0, 1, 0) + np.where(numbers % 5 == 0, 2, 0)


columns: Columns = {bits: encode(numbers), words: classify(numbers)}
rate = wy.optim.Cosine(0.003, steps=options.epochs * -(-len(numbers) // BATCH_SIZE))
train = wy.compile(loss, wy.optim.AdamW(loss.parameters(), rate, weight_decay=0.2))
predict = wy.compile(answers)

# %% [markdown]
# ## A third of the epochs in Python, then the export
# The folder has `fizzbuzz.o`, a header, and a file with the parameters, the optimizer's state and the counts of steps.


# %%
def epochs(count: int) -> list[float]:
    """Train in Python; return the losses."""
    return [train.epoch(columns, batch_size=BATCH_SIZE, shuffle=True) for _ in range(count)]


def epochs_in_c(count: int, folder: Path) -> list[float]:
    """Train in C, and bring the parameters home; return the losses."""
    exported = wy.export(folder, train=train, predict=predict, name="fizzbuzz", batch_sizes=BATCH_SIZE)
    # A notebook has no file; it runs in the folder of the examples.
    source = Path(globals().get("__file__", "export_fizzbuzz.py")).resolve().with_name("export_fizzbuzz.c")
    compiler = shutil.which("cc")
    assert compiler is not None
    subprocess.run([compiler, "-o", "train", source, "-I.", "fizzbuzz.o", "-lm"], cwd=folder, check=True)
    printed = subprocess.run(["./train", str(count)], cwd=folder, check=True, capture_output=True, text=True).stdout
    *losses, right = printed.split()
    print(f"C: {right} of 100 right")
    exported.load(folder / "trained.safetensors")
    return [float(each) for each in losses]


third = options.epochs // 3
losses = epochs(options.epochs - 2 * third)
with tempfile.TemporaryDirectory() as directory:
    compiled = shutil.which("cc") is not None and options.engine == "native"
    in_c = epochs_in_c(third, Path(directory)) if compiled else epochs(third)

# %% [markdown]
# ## The rest in Python
# The schedule, the bias corrections and the order of the rows go on where they are.

# %%
at_home = epochs(third)
right = int((predict({bits: encode(test)}) == classify(test)).sum())
print(f"loss {(losses + in_c + at_home)[-1]:.4f}")
print(f"{right} of 100 right")

# %% [markdown]
# ## The same training in a browser
# With `--page FOLDER`, the folder gets the training as WebAssembly, its data, and a page that draws the loss as it
# falls. `fizzbuzz.mjs` is for pages of your own: `(await load()).epoch({ bits, words }, { batch: 32 })`.

# %%
if options.page:
    wy.nn.seed(options.seed)
    first = wy.nn.Linear(1024, 4)(wy.nn.Linear(10, 1024)(bits).relu()).cross_entropy(words)
    anew = wy.compile(first, wy.optim.AdamW(first.parameters(), 0.001, weight_decay=0.2))
    wy.export(options.page, train=anew, target="wasm32", name="fizzbuzz", batch_sizes=BATCH_SIZE, columns=columns)
    print(f"python -m http.server --directory {options.page}  # and open http://localhost:8000")

# %%
if pictures:
    with pictures.draw("losses") as figure:
        axes = figure.subplots()
        ends = np.cumsum([0, len(losses), len(in_c), len(at_home)])
        for name, part, start in zip(("Python", "C", "Python again"), (losses, in_c, at_home), ends[:-1], strict=True):
            axes.plot(np.arange(start, start + len(part)) + 1, part, label=name)
        axes.set(xlabel="epoch", ylabel="cross-entropy (nats)", yscale="log", title="One training, in two languages")
        axes.legend()
