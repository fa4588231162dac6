"""The command line of the GPT-2 example: its three commands and their options."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from command_line import add_devices, arguments, not_negative, positive
from pictures import add_pictures

# Fields of the configuration that the command line can change.
SIZES = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head")


def parse(description: str, presets: Iterable[str], of_notebook: list[str]) -> argparse.Namespace:
    """Parse the command line, or in a notebook the arguments that it has."""
    parser = argparse.ArgumentParser(
        description=description.removeprefix("# "), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="begin a run", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    train.add_argument("--data", type=Path, help="a text file, UTF-8; without it the stories come from the hub")
    train.add_argument("--preset", choices=presets, default="small", help="the sizes that are not given")
    for name in SIZES:
        train.add_argument(f"--{name.replace('_', '-')}", type=positive, help="instead of the preset's")
    train.add_argument("--dropout", type=float, help="all three rates, instead of the preset's")
    train.add_argument("--vocab-file", type=Path, help="GPT-2's vocab.json, with --merges-file")
    train.add_argument("--merges-file", type=Path, help="GPT-2's merges.txt, with --vocab-file")
    train.add_argument("--batch-size", type=positive, default=64, help="sequences a batch")
    train.add_argument("--accumulate", type=positive, default=1, help="batches a step")
    train.add_argument("--learning-rate", type=float, default=2e-3, help="at its peak")
    train.add_argument("--warmup", type=positive, default=50, help="steps until the peak")
    train.add_argument("--weight-decay", type=float, default=0.1, help="of AdamW")
    train.add_argument("--clip", type=float, default=1.0, help="the largest norm of all gradients")
    train.add_argument("--validation-fraction", type=float, default=0.1, help="of the text")
    train.add_argument("--every", type=positive, default=100, help="steps between validations, samples, checkpoints")
    train.add_argument("--keep", type=positive, default=3, help="how many of the last checkpoints")
    train.add_argument("--steps", type=positive, default=1000, help="of the optimizer")
    train.add_argument("--checkpoint", action="store_true", help="less memory, more time: compute blocks again")
    train.add_argument(
        "--threads", type=positive, default=2, help="that share each batch, or the products of a wide model"
    )
    train.add_argument("--seed", type=not_negative, default=0, help="of weights, dropout and the order of the data")
    train.add_argument("--engine", choices=["native", "jax"], default="native", help="engine that computes the steps")
    train.add_argument("--watch", action="store_true", help="record for: python -m wyrm watch RUN")
    train.add_argument("--fsdp", action="store_true", help="divide the parameters too over the mesh axis data")
    resume = commands.add_parser("resume", help="go on with a run")
    for each in (train, resume):
        add_devices(each)
    tell_parser = commands.add_parser("generate", help="tell a story")
    for each in (train, resume, tell_parser):
        each.add_argument("--run", type=Path, default=Path("gpt2-run"), help="the run's folder")
        add_pictures(each)
    tell_parser.add_argument("--prompt", default="Once upon a time", help="how the story begins")
    tell_parser.add_argument("--max-new-tokens", type=positive, default=200, help="tokens to add")
    tell_parser.add_argument("--temperature", type=float, default=0.8, help="0 takes the likeliest token")
    tell_parser.add_argument("--top-k", type=positive, help="only so many likeliest tokens")
    tell_parser.add_argument("--top-p", type=float, help="only the likeliest tokens of this probability together")
    tell_parser.add_argument("--seed", type=not_negative, default=0, help="of the choices")
    options = parser.parse_args(arguments(of_notebook))
    if options.command == "train" and (options.vocab_file is None) != (options.merges_file is None):
        parser.error("--vocab-file and --merges-file are one tokenizer: give both or neither")
    return options
