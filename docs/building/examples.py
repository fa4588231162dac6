"""The examples as pages: their text and code as they are today, with the output and the pictures of a recorded run.

`python -m building.examples [NAME ...]`, in the folder `docs`, runs examples and records them in `recorded/examples`;
`--data FOLDER` has MovieLens 100K, the test images of MNIST and TinyStories.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parents[1]
EXAMPLES = DOCS.parent / "examples"
RECORDED = DOCS / "recorded" / "examples"
with (DOCS.parent / "pyproject.toml").open("rb") as _file:
    _REPOSITORY: str = tomllib.load(_file)["project"]["urls"]["Repository"]
_MNIST, _MOVIELENS = "--data {data}/mnist-t10k-images-idx3-ubyte.gz", "--data {data}/ml-100k.csv"


class Example(NamedTuple):
    """An example of the gallery: what it shows, and the options of the recorded run."""

    title: str
    about: str
    options: str = ""
    # The picture that the gallery shows.
    picture: str = "losses"


GALLERY = {
    "fizzbuzz": Example("FizzBuzz", "a first network: 100 of 100 unseen numbers right", "", "words"),
    "linear_regression": Example("A line", "one sample at a time, gradients by hand", "", "line"),
    "export_fizzbuzz": Example("FizzBuzz in C", "one training: in Python, in a C program, and in Python again"),
    "minimize": Example("Minimize a function", "Rosenbrock's valley by L-BFGS", "", "descent"),
    "classify_images": Example("Classify images", "MNIST by a dense network", _MNIST, "confusion"),
    "convolve_images": Example("Convolutions", "MNIST by two convolutions", f"{_MNIST} --epochs 3", "filters"),
    "resnet": Example("ResNet", "batch norm, residual blocks, images that move", f"{_MNIST} --epochs 5", "augmented"),
    "variational_autoencoder": Example("Variational autoencoder", "random nodes: new digits", _MNIST, "samples"),
    "bpr_movielens": Example(
        "Recommend films", "BPR with row-sparse steps", f"{_MOVIELENS} --dimensions 32 --epochs 50", "map"
    ),
    "two_towers": Example("Two towers", "in-batch negatives, recall, a request in microseconds", _MOVIELENS, "map"),
    "sequence_movielens": Example("The next film", "a recurrent network over what users watched", _MOVIELENS, "ranks"),
    "translate_dates": Example("Translate dates", "a cell of one's own with attention", "--epochs 5", "attention"),
    "neural_ode": Example(
        "A learnt differential equation", "loops in the graph; the same solved by SciPy", "", "paths"
    ),
    "spaced_repetition": Example(
        "When to ask again", "FSRS, the schedule behind Anki, beside the gradients of fsrs-rs", "", "forgetting"
    ),
    "gpt2_tinystories": Example(
        "GPT-2",
        "training, resuming and generating text",
        "train --data {data}/tinystories.txt --run stories --steps 200 --n-layer 2 --n-head 4 --n-embd 128 "
        "--n-positions 64 --vocab-size 2000 --batch-size 16 --warmup 20 --every 50",
        "attention_last_layer",
    ),
    "llama_tinystories": Example(
        "A small Llama",
        "from nothing to a chat, fine-tuned beside int8 weights",
        "--data {data}/tinystories.txt --preset stories15M --vocab-size 4096 --epochs 4 --bfloat16 --save stories "
        "--about Max",
    ),
}


def record(name: str, data: Path) -> None:
    """Run an example and keep what it prints and draws."""
    from PIL import Image

    options = GALLERY[name].options
    with tempfile.TemporaryDirectory() as folder:
        arguments = shlex.split(options.format(data=data.resolve())) + ["--pictures", "pictures"]
        command = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
        lines = [line for line in done.stdout.splitlines() if not line.startswith("picture: ")]
        RECORDED.mkdir(parents=True, exist_ok=True)
        (RECORDED / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        for path in sorted((Path(folder) / "pictures").glob("*.png")):
            image = Image.open(path).convert("RGB")
            image.thumbnail((1000, 1400))
            image.save(RECORDED / f"{name}-{path.stem}.webp", quality=70, method=6)


def cells(source: str) -> Iterator[tuple[str, str]]:
    """Yield the cells of a script, each "markdown" or "code" with its text."""
    for kind, text in re.findall(r"^# %%( \[markdown\])?[^\n]*\n(.*?)(?=^# %%|\Z)", source, re.DOTALL | re.MULTILINE):
        text = text.strip("\n")
        if kind and text.startswith('"""'):
            yield "markdown", text.strip('"').strip("\n")
        elif kind:
            yield "markdown", "\n".join(line.removeprefix("#").removeprefix(" ") for line in text.splitlines())
        elif text:
            yield "code", text


def files_of(name: str) -> list[str]:
    """Return the files of an example: its own, and those beside it that it imports.

    >>> files_of("minimize")
    ['minimize.py', 'command_line.py', 'pictures.py']
    """
    found = [f"{name}.py"]
    for file in found:
        imported = re.findall(r"^(?:from|import) (\w+)", (EXAMPLES / file).read_text(encoding="utf-8"), re.MULTILINE)
        found += [each for each in sorted({f"{module}.py" for module in imported}) if (EXAMPLES / each).exists()
                  and each not in found]  # fmt: skip
    return found


def source_of(name: str, repository: str) -> str:
    """Return what a page says of the files of its example: where they are, and how they come along."""
    own, *others = (f"[{file}]({repository}/blob/main/examples/{file})" for file in files_of(name))
    beside = f", with {', '.join(others)} beside it" if others else ""
    lines = [f"The whole is {own}{beside}:", "", "```sh", f"git clone {repository}", "cd wyrm/examples"]
    return "\n".join([*lines, f"python {name}.py --help", "```"])


def page(name: str) -> str:
    """Return the page of an example."""
    parts: list[str] = []
    for kind, text in cells((EXAMPLES / f"{name}.py").read_text(encoding="utf-8")):
        if kind == "code":
            parts.append(f"```python\n{text}\n```")
        elif parts:
            parts.append(text)
        else:
            # The first line is a sentence, too long for a heading and the list of pages.
            parts.append(text.replace("# ", f"# {GALLERY[name].title}\n\n", 1))
            parts.append(source_of(name, _REPOSITORY))
    options = GALLERY[name].options.replace("{data}/", "")
    command = f"python examples/{name}.py {options}".strip()
    recorded = RECORDED / f"{name}.txt"
    if recorded.exists():
        parts += ["## Output", f"Of `{command}`:", f"```text\n{recorded.read_text(encoding='utf-8').rstrip()}\n```"]
        pictures = sorted(RECORDED.glob(f"{name}-*.webp"))
        if pictures:
            parts.append("## Pictures")
        for picture in pictures:
            what = picture.stem.removeprefix(f"{name}-").replace("_", " ")
            parts.append(f"![{what}](../../recorded/examples/{picture.name})")
    return "\n\n".join(parts) + "\n"


def gallery() -> str:
    """Return the cards of all examples."""
    cards = ["::::{grid} 1 2 2 3", ":gutter: 3", ""]
    for name, example in GALLERY.items():
        picture = RECORDED / f"{name}-{example.picture}.webp"
        cards += [f":::{{grid-item-card}} {example.title}", f":link: examples/{name}", ":link-type: doc"]
        if picture.exists():
            cards.append(f":img-bottom: ../recorded/examples/{picture.name}")
            cards.append(f":img-alt: {example.picture.replace('_', ' ')}")
        cards += ["", example.about, ":::", ""]
    listed = [f"examples/{name}" for name in GALLERY]
    return "\n".join([*cards, "::::", "", "```{toctree}", ":hidden:", "", *listed, "```", ""])


def write_examples(folder: Path) -> None:
    """Write the page of each example, and the gallery, which the page of the examples includes."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {f"{name}.md": page(name) for name in GALLERY} | {"gallery.txt": gallery()}
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run examples and record their output and pictures.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    for each in options.names or GALLERY:
        print(each, flush=True)  # noqa: T201  # the progress
        record(each, options.data)
