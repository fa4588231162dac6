"""Write down what a change that moves code must leave as it is: `python -m tests.nets FOLDER`, for `diff -r`.

- `signatures.txt`: the signature of every public name and of its methods.
- `stages.txt`: the texts of all stages of 60 programs.
- `exports.txt`: digests of the C and WebAssembly of ten models that train.
- `numpy.txt`, `native.txt` and `jax.txt`: digests of values and gradients of all samples of ops, in each engine. They
  depend on the processor and on the versions of NumPy, LLVM and XLA: compare folders of one machine.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import inspect
import os
import pkgutil
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

import wyrm as wy
from tests.fuzz.generate import Generator
from tests.fuzz.run import PRODUCTIONS
from tests.nets.models import MODELS, programs
from tests.ops.test_ops_every import projected, run
from tests.samples import SAMPLES
from tests.samples.sample import Sample
from wyrm.engines.native.llvm import cache
from wyrm.exporting.exported import export

# Twenty programs of models, and as many random ones as make sixty.
RANDOM_PROGRAMS = 60 - 2 * len(MODELS)
# What a text says of an object without a name, and no other run says again.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def _public_modules() -> Iterator[Any]:
    yield wy
    for each in pkgutil.iter_modules(wy.__path__, "wyrm."):
        if each.ispkg and not each.name.rpartition(".")[2].startswith("_"):
            module = importlib.import_module(each.name)
            if getattr(module, "__all__", None):
                yield module


def signatures() -> Iterator[str]:
    """Yield the signatures of public names, and those of the public methods of classes."""
    for module in _public_modules():
        for name in sorted(module.__all__):
            value = getattr(module, name)
            yield _signature(f"{module.__name__}.{name}", value)
            for method in sorted(vars(value)) if inspect.isclass(value) else ():
                if not method.startswith("_"):
                    yield _signature(f"{module.__name__}.{name}.{method}", inspect.getattr_static(value, method))


def _signature(name: str, value: Any) -> str:
    value = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    try:
        said = str(inspect.signature(value)) if callable(value) else type(value).__name__
    except (TypeError, ValueError):
        said = "no signature"
    return name + _ADDRESS.sub("", said)


def stages() -> Iterator[str]:
    """Yield the stages of models' programs and of random ones."""
    for name, make in MODELS.items():
        for kind, program in zip(("train", "predict"), programs(make), strict=True):
            yield from _stages(f"{name}, {kind}", program)
    generator = Generator(PRODUCTIONS)
    for number in range(RANDOM_PROGRAMS):
        graph = generator.program((51, number)).graph()
        yield from _stages(f"random program {number}", wy.compile(graph.outputs))


def _stages(name: str, program: Any) -> Iterator[str]:
    for stage, text in program.stages().items():
        yield f"=== {name}: {stage}"
        yield _ADDRESS.sub("", text)


def exports() -> Iterator[str]:
    """Yield digests of the files of exports."""
    for target in ("c", "wasm32"):
        for name, make in MODELS.items():
            train, predict = programs(make)
            with tempfile.TemporaryDirectory() as folder:
                files = sorted(export(folder, train=train, predict=predict, target=target, batch_sizes=4).files)
                for file in files:
                    digest = _of_arrays(file) if file.suffix == ".safetensors" else _digest(file.read_bytes())
                    yield f"{target} {name} {file.name} {digest}"


def _of_arrays(file: Path) -> str:
    """Return the digest of the arrays of a file, whose header may list them in any order."""
    arrays = load_file(file)
    return _digest(b"".join(name.encode() + arrays[name].tobytes() for name in sorted(arrays)))


def _bits(compute: Callable[[list[Any]], Any]) -> Iterator[str]:
    """Yield digests of the values and gradients of samples."""
    for sample in SAMPLES:
        wy.random.set_step(0)
        try:
            found = [np.asarray(each) for each in compute(_outputs(sample))]
            said = " ".join(f"{each.dtype}{list(each.shape)}:{_digest(each.tobytes())}" for each in found)
        except wy.WyrmError as error:
            said = f"{type(error).__name__}: {error}".split("\n")[0]
        yield f"{sample} {said}"


def _outputs(sample: Sample) -> list[Any]:
    node = run(sample, sample.operands)
    leaves = [leaf for leaf in node.parameters() if leaf.dtype.kind == "f"]
    if not (sample.differentiable and leaves and node.dtype.kind == "f"):
        return [node]
    return [node, *wy.grad(projected(node), leaves, allow_unused=True)]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


NETS: dict[str, Callable[[], Iterator[str]]] = {
    "signatures": signatures,
    "stages": stages,
    "exports": exports,
    "numpy": lambda: _bits(wy.run),
    "native": lambda: _bits(lambda outputs: wy.compile(outputs)()),
    "jax": lambda: _bits(lambda outputs: wy.compile(outputs, engine="jax")()),
}


def main() -> int:
    """Write the chosen nets."""
    parser = argparse.ArgumentParser(prog="python -m tests.nets", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=list(NETS), default=list(NETS))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as programs_folder:
        os.environ["WYRM_CACHE_DIR"] = programs_folder
        cache.LEVEL = 0
        for name in options.only:
            lines = list(NETS[name]())
            (options.folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
            print(f"{name}: {len(lines):,} lines", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
