# %% [markdown]
"""# GPT-2 on TinyStories: train, resume after an interruption, and generate a story.

    python examples/gpt2_tinystories.py train --data tinystories.txt --run stories
    python examples/gpt2_tinystories.py resume --run stories
    python examples/gpt2_tinystories.py generate --run stories --prompt "Once upon a time"

`train` learns a byte-pair encoding from the text, or reads GPT-2's own with --vocab-file and --merges-file. It writes
the tokenizer, the checkpoints and a plot of the losses to one folder. Without --data it loads the stories from the
Hugging Face hub, which needs the package `datasets`. --preset gpt2 is the model with 124 million parameters. With
--watch, `python -m wyrm watch stories` shows the training in a browser: losses, norms by module, stories. Each command
draws the attention of the heads with --pictures FOLDER.

With --engine jax, JAX trains on its devices, and several processes train together, each started with its own --process:

    python examples/gpt2_tinystories.py train --data tinystories.txt --engine jax --mesh data=2 \
        --coordinator localhost:8476 --processes 2 --process 0

A mesh axis `data` divides each batch, with --fsdp the parameters too, and an axis `model` the heads and the hidden
layers. When a process is lost, all end; `resume` with the same options goes on from the last checkpoint, also with
another mesh or number of processes.
"""

# %%
from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from command_line import connect, engine_options
from gpt2_command_line import SIZES, parse
from gpt2_pictures import draw_attention, draw_losses
from numpy.typing import NDArray
from pictures import Pictures
from tqdm.auto import tqdm

import wyrm as wy
from wyrm.nn.gpt2_axes import Embed, Heads, Inner

# %% tags=["parameters"]
# In a notebook, a command and its options go here; --data FILE trains on a text of your own.
ARGUMENTS = ["train", "--run", "gpt2-run", "--n-layer", "2", "--steps", "200"]

# %% [markdown]
# ## The sizes
# The small model fits a text of a megabyte, and learns whole words in minutes.

# %%
PRESETS = {
    "small": wy.nn.GPT2Config(
        vocab_size=8000,
        n_positions=128,
        n_embd=64,
        n_layer=8,
        n_head=16,
        resid_pdrop=0.2,
        embd_pdrop=0.2,
        attn_pdrop=0.2,
    ),
    "gpt2": wy.nn.GPT2Config(),
}

# %% [markdown]
# ## The stories


# %%
def read_stories(data: Path | None) -> str:
    """Return the text of a file, or of the validation split of TinyStories on the hub."""
    if data is not None:
        return wy.data.read_text(data)
    try:
        import datasets  # type: ignore[import-not-found, unused-ignore]  # an optional package
    except ImportError:
        sys.exit("without --data the stories come from the Hugging Face hub: pip install datasets, or give --data FILE")
    stories = datasets.load_dataset("roneneldan/TinyStories", split="validation")
    return "<|endoftext|>".join(stories["text"])


# %% [markdown]
# ## The model and its training
# The model is `wy.nn.GPT2`. A native step computes the gradients of a batch, or of several, clips them, and updates the
# parameters by AdamW, whose learning rate first rises and then falls along a cosine. Everything that a run needs to go
# on after an interruption is in its checkpoint: weights, optimizer, random numbers and the position in the data.


# %%
class Batch(wy.Dim): ...


class Trainer:
    """A model, its data and its optimizer; the folder of the run holds all that `resume` needs.

    With several processes, each has the same data and trains on its part of every batch; the first one writes files.
    """

    def __init__(
        self, folder: Path, options: dict[str, Any], text: str, tokenizer: wy.data.Tokenizer, first: bool = True
    ) -> None:
        self.folder, self.options, self.tokenizer, self.first = folder, options, tokenizer, first
        self.with_jax = options["engine"] == "jax"
        self.config = wy.nn.GPT2Config(**options["config"])
        wy.nn.seed(options["seed"])
        self.model = wy.nn.GPT2(self.config, seed=options["seed"], checkpoint=options["checkpoint"])
        blocks = wy.data.TokenBlocks(
            tokenizer.encode(text), self.config.n_positions, vocab_size=self.config.vocab_size, seed=options["seed"]
        )
        self.training, self.validation = blocks.split(options["validation_fraction"])
        batch = Batch()
        self.tokens, self.targets = (
            wy.IndexInput(dims=(batch, self.config.n_positions), name=name) for name in ("tokens", "targets")
        )
        rate = wy.optim.schedules.WarmupCosine(
            options["learning_rate"], options["warmup"], options["steps"], options["learning_rate"] / 10
        )
        loss = self.model.loss(self.tokens, self.targets)
        self.parameters = self.model.parameters()
        clip = {"max_norm": options["clip"]} if self.with_jax else {}
        self.optimizer = wy.optim.AdamW(
            self.parameters, rate, betas=(0.9, 0.95), epsilon=1e-8, weight_decay=options["weight_decay"], **clip
        )
        axes: dict[type[wy.Dim], str] = {Batch: "data", Heads: "model", Inner: "model"}
        axes |= {Embed: "data"} if options["fsdp"] else {}
        engine = engine_options(options["engine"], options["mesh"], axes)
        self.program = wy.compile(loss, self.optimizer, **engine)
        self.part = wy.jax.part_of_process(self.program) if self.with_jax else None
        self.model.eval()
        self.validate_program = wy.compile(self.model.loss(self.tokens, self.targets), **engine)
        self.checkpoints = wy.io.Checkpoints(self.folder / "checkpoints", keep_last=options["keep"])
        self.step, self.losses = 0, dict[str, list[list[float]]](training=[], validation=[])
        self.run: wy.watch.RunWriter | None = None

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint stores beside the weights and the optimizer."""
        return {"program": self.program.state_dict(), "losses": self.losses}

    def resume(self) -> None:
        """Load the latest checkpoint; without one, start from the beginning."""
        path = self.checkpoints.latest()
        if self.with_jax and wy.jax.latest_step(self.sharded) is not None:
            self.losses = wy.jax.restore(self.program, self.sharded)["losses"]
        elif path is not None and not self.with_jax:
            state = self.checkpoints.load(path, self.model, self.optimizer)
            self.program.load_state_dict(state["program"])
            self.losses = state["losses"]
        elif self.first:
            print(f"there is no checkpoint in {self.folder} yet: starting from the beginning")
        self.step = self.optimizer.steps

    @property
    def sharded(self) -> Path:
        """The folder of the checkpoints that all processes of `--engine jax` write."""
        return self.folder / "sharded"

    def batches(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield batches from the current step on, epoch after epoch."""
        size = self.options["batch_size"]
        done = self.step * self.options["accumulate"]
        in_epoch = len(self.training) // size
        epoch, start = divmod(done, max(in_epoch, 1))
        while True:
            yield from self.training.batches(size, epoch, start=start)
            epoch, start = epoch + 1, 0

    def validate(self) -> float:
        """Return the mean loss of at most 50 validation batches."""
        size = min(self.options["batch_size"], len(self.validation))
        batches = islice(self.validation.batches(size, shuffle=False), 50)
        losses = [self.validate_program({self.tokens: inputs, self.targets: targets}) for inputs, targets in batches]
        return float(np.mean(losses))

    def train(self) -> None:
        """Train up to the number of steps; every so often, report the validation loss and save a checkpoint."""
        options, batches = self.options, self.batches()
        every = options["every"]
        tokens = options["batch_size"] * self.config.n_positions * options["accumulate"]
        unit = {"unit": "token", "unit_scale": tokens, "initial": self.step, "total": options["steps"]}
        with tqdm(**unit, disable=not self.first) as bar, self.recording():
            while self.step < options["steps"]:
                rate = self.optimizer.learning_rate
                loss = self.step_with_jax(batches) if self.with_jax else self.native_step(batches)
                self.step += 1
                self.losses["training"].append([self.step, loss])
                if self.run is not None:
                    rows = options["batch_size"] * options["accumulate"]
                    self.run.values(self.step, {"loss": loss, "learning_rate": rate}, rows=rows)
                bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
                bar.update()
                if self.step % every == 0 or self.step == options["steps"]:
                    self.report(bar)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Return a context in which the training is recorded in its folder, with --watch."""
        if not self.options.get("watch") or not self.first:
            yield
            return
        steps, name = self.options["steps"], self.folder.resolve().name
        with wy.watch.RunWriter(
            self.folder, self.model, name=name, step=self.step, steps=steps, config=self.options
        ) as self.run:
            yield
        self.run = None

    def native_step(self, batches: Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> float:
        """Do one step with the mean gradient of as many batches as --accumulate says; return their mean loss."""
        # Measured on two cores: a wide model gains more from threads within each matrix product than from half batches.
        wide = self.config.n_embd > 256
        threads = {"blas_threads" if wide else "threads": self.options["threads"]}
        losses = []
        for inputs, targets in islice(batches, self.options["accumulate"]):
            columns = {self.tokens: inputs, self.targets: targets}
            losses.append(self.program.backward(columns, weight=1.0 / self.options["accumulate"], **threads))
        wy.optim.clip_by_global_norm(self.parameters, self.options["clip"])
        with nullcontext() if self.run is None else self.run.update():
            self.optimizer.step()
        self.optimizer.zero_gradient()
        return float(np.mean(losses))

    def step_with_jax(self, batches: Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> float:
        """Do the same on JAX's devices, with this process's part of each batch; the optimizer clips the gradients."""
        assert self.part is not None
        rows, accumulate = self.part.rows(self.options["batch_size"]), self.options["accumulate"]
        own = [
            {self.tokens: inputs[rows], self.targets: targets[rows]} for inputs, targets in islice(batches, accumulate)
        ]
        return float(self.program.epoch(iter(own), accumulate=accumulate))

    def report(self, bar: Any) -> None:
        """Validate, print a generated sample, save a checkpoint."""
        loss = self.validate()
        self.losses["validation"].append([self.step, loss])
        if self.with_jax:
            wy.jax.save(self.program, self.sharded, keep=self.options["keep"], state={"losses": self.losses})
            wy.jax.gather(self.program)
        if not self.first:
            return
        bar.write(f"step {self.step}: validation loss {loss:.4f}")
        prompt = "Once upon a time"
        story = tell(self.model, self.tokenizer, prompt, 40, top_p=0.9)
        bar.write(f"  {story}")
        if self.run is not None:
            self.run.values(self.step, {"validation_loss": loss})
            self.run.text(story, prompt=prompt)
        self.checkpoints.save(self.step, self.model, self.optimizer, self.state(), score=loss)
        draw_losses(Pictures(self.folder, quiet=True), self.losses)


# %% [markdown]
# ## Telling stories
# The model predicts one token after the other, and keeps the keys and values of those before.


# %%
def tell(model: wy.nn.GPT2, tokenizer: wy.data.Tokenizer, prompt: str, max_new_tokens: int, **options: Any) -> str:
    """Return the prompt and its continuation in one line; the model reads the end of a long prompt."""
    ids = tokenizer.encode(prompt).tolist()
    return tokenizer.decode(
        [*ids, *wy.nn.generate(model, ids[-model.config.n_positions :], max_new_tokens, **options)]
    ).replace("\n", " ")


# %% [markdown]
# ## Runs
# The folder of a run holds its tokenizer, its options and its checkpoints.


# %%
def begin(options: argparse.Namespace) -> Trainer:
    """Start a run: write its tokenizer and options to its folder."""
    folder, first = options.run, connect(options) == 0
    # A run without a checkpoint, such as a first try with wrong options, may be overwritten.
    if saved_options(folder) is not None and wy.io.Checkpoints(folder / "checkpoints").latest() is not None:
        sys.exit(f"{folder} holds a run already: go on with resume, or give another --run")
    text = read_stories(options.data)
    config = asdict(PRESETS[options.preset])
    given = {name: getattr(options, name) for name in SIZES}
    given |= dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), options.dropout)
    config |= {name: value for name, value in given.items() if value is not None}
    if options.merges_file is not None:
        tokenizer = wy.data.Tokenizer.gpt2(options.vocab_file, options.merges_file)
    else:
        tokenizer = wy.data.Tokenizer.train(text, config["vocab_size"])
    config["vocab_size"] = tokenizer.vocab_size
    saved: dict[str, Any] = {name: value for name, value in vars(options).items() if isinstance(value, int | float)}
    saved |= {"config": config, "data": None if options.data is None else str(options.data.resolve())}
    saved |= {"engine": options.engine, "mesh": options.mesh}
    trainer = Trainer(folder, saved, text, tokenizer, first)
    if not first:
        return trainer
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(folder / "tokenizer.json")
    # The options come last: they mark a complete run.
    (folder / "options.json").write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")
    return trainer


def saved_options(folder: Path) -> dict[str, Any] | None:
    """Return the options of a run; None where the folder holds none, or only part of a run."""
    try:
        options: dict[str, Any] = json.loads((folder / "options.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return options


# %% [markdown]
# ## All together
# After the training, and beside a story, the pictures show what the heads attend to: each token reads from itself and
# from earlier ones.


# %%
def main() -> None:
    """Train, resume or generate; report an error of files or options in one line."""
    options = parse(__doc__ or "", PRESETS, ARGUMENTS)
    pictures = Pictures(options.pictures)
    try:
        if options.command == "train":
            finish(begin(options), pictures)
            return
        saved = saved_options(options.run)
        if saved is None:
            sys.exit(f"{options.run} holds no run: begin one with train --run {options.run}")
        tokenizer = wy.data.Tokenizer.load(options.run / "tokenizer.json")
        if options.command == "resume":
            text = read_stories(None if saved["data"] is None else Path(saved["data"]))
            options.engine = saved["engine"]
            first = connect(options) == 0
            trainer = Trainer(options.run, saved | {"mesh": options.mesh or saved["mesh"]}, text, tokenizer, first)
            trainer.resume()
            finish(trainer, pictures)
            return
        model = wy.nn.GPT2(wy.nn.GPT2Config(**saved["config"]))
        optimizer = wy.optim.AdamW(model.parameters(), saved["learning_rate"])
        checkpoints = wy.io.Checkpoints(options.run / "checkpoints")
        best = checkpoints.best() or checkpoints.latest()
        if best is None:
            sys.exit(f"there is no checkpoint in {checkpoints.directory} yet")
        checkpoints.load(best, model, optimizer)
        story = tell(
            model, tokenizer, options.prompt, options.max_new_tokens, temperature=options.temperature,
            top_k=options.top_k, top_p=options.top_p, seed=options.seed,
        )  # fmt: skip
        print(story)
        if pictures:
            draw_attention(pictures, model, tokenizer, story)
    except (wy.WyrmError, ValueError, OSError) as error:
        sys.exit(f"{type(error).__name__}: {error}")


def finish(trainer: Trainer, pictures: Pictures) -> None:
    """Train to the end; then draw the losses and the attention."""
    trainer.train()
    if pictures and trainer.first:
        draw_losses(pictures, trainer.losses)
        draw_attention(pictures, trainer.model, trainer.tokenizer)


if __name__ == "__main__":
    main()
