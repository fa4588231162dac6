"""Samples of ops with an open batch as files, and what a process without wyrm computes from them.

`python -m tests.jax.exports [onnx] [stablehlo]` prints the samples that cannot be exported, or are wrong, by their ops.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import wyrm as wy
from tests.samples import SAMPLES
from tests.samples.sample import Sample
from wyrm.errors import ShapeError
from wyrm.graph.schedule import Schedule

KINDS = ("onnx", "stablehlo")
# How many samples share a file.
GROUP = 16
# The folders of `wyrm.ops` whose ops have the most code.
LARGE = ("linalg.", "attention.", "random.", "recurrence.")
# Vectors that have any sign.
SIGNS = ("Vectors", "Eigenvectors", "SVDResiduals", "EighResiduals")
# Reads the files of a folder, computes them for three rows and for one, and prints what is wrong by names of samples.
PROGRAM = """
import json, sys
import numpy as np

kind = sys.argv[1]
if kind == "onnx":
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
else:
    import jax

def loaded(name, wide):
    if kind == "onnx":
        session = onnxruntime.InferenceSession(name + ".onnx", options, providers=["CPUExecutionProvider"])
        used = {x.name for x in session.get_inputs()}
        return lambda data: session.run(None, {name: array for name, array in data.items() if name in used})
    with open(name + ".hlo", "rb") as file:
        exported = jax.export.deserialize(file.read())
    def call(data):
        with jax.enable_x64(wide):
            results = exported.call(*data.values())
            return [np.asarray(x) for x in (results if isinstance(results, list) else [results])]
    return call

def wrong(found, wanted, any_sign):
    if found.shape != wanted.shape:
        return f"shape {found.shape}, not {wanted.shape}"
    if found.dtype != wanted.dtype and not (found.dtype == np.int32 and wanted.dtype == np.int64):
        return f"dtype {found.dtype}, not {wanted.dtype}"
    if any_sign:
        found, wanted = np.abs(found), np.abs(wanted)
    near = np.isclose(found, wanted, rtol=2e-4, atol=2e-5, equal_nan=True)
    return "" if near.all() else f"{found[~near][0]}, not {wanted[~near][0]}"

faults = {}
for group in json.load(open("groups.json")):
    arrays = np.load(group["file"] + ".npz")
    try:
        compute = loaded(group["file"], group["wide"])
        for count in (3, 1) if group["mapped"] else (None,):
            results = compute({name: arrays[name][:count] for name in group["inputs"]})
            for i, (name, found) in enumerate(zip(group["names"], results, strict=True)):
                fault = wrong(found, arrays[f"wanted{i}"][:count], group["any_sign"][i])
                if fault:
                    faults.setdefault(name, fault)
    except Exception as error:
        faults |= dict.fromkeys(group["names"], f"{type(error).__name__}: {error}")
assert "wyrm" not in sys.modules
print(json.dumps(faults))
"""


class Batch(wy.Dim): ...


class Case(NamedTuple):
    """A sample as a node, mapped over an open batch unless it has no operand, and the data of its inputs."""

    name: str
    sample: Sample
    node: Any
    data: dict[Any, np.ndarray]
    mapped: bool

    @property
    def wide(self) -> bool:
        """Whether the sample computes in float64, or with integers that need 64 bits."""
        return bool(self.node.dtype == np.float64) or is_64_bit(self.sample)


def is_64_bit(sample: Sample) -> bool:
    """Return whether the integers of a sample need 64 bits, which JAX and files do not have unless told otherwise."""
    arrays = (*sample.operands, np.asarray(sample.expected(*sample.operands)))
    return any(x.dtype.kind == "i" and bool(((x < -(2**31)) | (x >= 2**31)).any()) for x in arrays)


def on_inputs(sample: Sample, axes: tuple[Any, ...], names: Iterator[str]) -> Case:
    """Return a sample on inputs with these axes first: three rows that differ by a factor if they are floats."""
    data: dict[Any, np.ndarray] = {}
    for operand in sample.operands:
        array = np.asarray(operand)
        dims: Any = (*axes, *array.shape)
        if array.dtype.kind in "iu":
            leaf: Any = wy.IndexInput(dims=dims, name=next(names))
            rows: list[Any] = [array.astype(np.int64 if is_64_bit(sample) else np.int32)] * 3
        elif array.dtype == np.bool_:
            leaf, rows = wy.Input(dims=dims, dtype=np.bool_, name=next(names)), [array] * 3
        else:
            leaf = wy.Input(dims=dims, name=next(names))
            rows = [(0.95**i * array).astype(np.float32) for i in range(3)]
        data[leaf] = np.stack(rows) if axes else rows[0]
    node = wy.vmap(sample.build)(*data) if axes else sample.build(*data)
    reached = set(Schedule([node]).leaves)
    return Case(str(sample), sample, node, {leaf: array for leaf, array in data.items() if leaf in reached}, bool(axes))


def cases(samples: Sequence[Sample] = SAMPLES) -> list[Case]:
    """Return all samples."""
    batch, names, found = Batch(), (f"x{i}" for i in itertools.count()), dict[str, Case]()
    for sample in samples:
        try:
            each = on_inputs(sample, (batch,), names)
        except ShapeError:  # of an op without operands, or of a buffer, which belongs to no row
            each = on_inputs(sample, (), names)
        if each.mapped and not each.data:
            each = on_inputs(sample, (), names)
        repeats = sum(other.sample.op is sample.op and str(other.sample) == str(sample) for other in found.values())
        found[each.name if not repeats else f"{each.name} ({repeats + 1})"] = each
    return [each._replace(name=name) for name, each in found.items()]


def is_large(sample: Sample) -> bool:
    """Return whether the code of a sample is hundreds of operations, which jax2onnx writes in quadratic time."""
    return sample.op.__module__.removeprefix("wyrm.ops.").startswith(LARGE)


def groups(kind: str, found: Sequence[Case]) -> Iterator[list[Case]]:
    """Yield some samples at a time: with and without a batch, of one float type, and large ones alone in ONNX."""
    alike = defaultdict(list)
    for each in found:
        alike[each.mapped, each.wide, kind == "onnx" and is_large(each.sample)].append(each)
    for (_, _, large), members in alike.items():
        size = 1 if large else GROUP
        yield from (members[start : start + size] for start in range(0, len(members), size))


def export(kind: str, group: Sequence[Case], path: Path) -> list[Any]:
    """Write samples to one file, and return its inputs."""
    nodes, inputs = [each.node for each in group], [leaf for each in group for leaf in each.data]
    with jax.enable_x64(True) if group[0].wide else nullcontext():
        if kind == "onnx":
            wy.jax.to_onnx(nodes, path.with_suffix(".onnx"), inputs, check=False)
        else:
            path.with_suffix(".hlo").write_bytes(wy.jax.export(nodes, inputs).serialize())
    return inputs


def write(kind: str, found: Sequence[Case], folder: Path) -> dict[str, str]:
    """Write samples to files of a folder, with data and what the reference engine computes; return why some are not."""
    refused: dict[str, str] = {}
    written: list[dict[str, Any]] = []

    def add(group: Sequence[Case]) -> None:
        name = str(len(written))
        try:
            inputs = export(kind, group, folder / name)
        except Exception as error:  # of many types, from a few samples
            if len(group) == 1:
                refused[group[0].name] = f"{type(error).__name__}: {error}"
                return
            add(group[: len(group) // 2])
            add(group[len(group) // 2 :])
            return
        data = {leaf: array for each in group for leaf, array in each.data.items()}
        for leaf, array in data.items():
            leaf.set(array)
        wy.random.set_step(0)
        arrays = {f"wanted{i}": value for i, value in enumerate(wy.run([each.node for each in group]))}
        # With 64-bit types, the integers of a file have 64 bits too.
        wide = {leaf.name: group[0].wide and data[leaf].dtype.kind == "i" for leaf in inputs}
        arrays |= {leaf.name: data[leaf].astype(np.int64) if wide[leaf.name] else data[leaf] for leaf in inputs}
        np.savez(folder / name, **arrays)  # type: ignore[arg-type]  # by name
        written.append(
            {
                "file": name,
                "names": [each.name for each in group],
                "inputs": [leaf.name for leaf in inputs],
                "mapped": group[0].mapped,
                "wide": group[0].wide,
                "any_sign": [any(text in each.name for text in SIGNS) for each in group],
            }
        )

    for group in groups(kind, found):
        add(group)
    (folder / "groups.json").write_text(json.dumps(written))
    return refused


def faults(kind: str, found: Sequence[Case], folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return which samples cannot be exported as "onnx" or "stablehlo", and which a process without wyrm gets wrong."""
    refused = write(kind, found, folder)
    done = subprocess.run([sys.executable, "-I", "-c", PROGRAM, kind], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    wrong: dict[str, str] = json.loads(done.stdout)
    return refused, wrong


def main(kinds: Sequence[str]) -> None:
    """Print which samples cannot be exported, or are wrong, by their ops."""
    found = cases()
    for kind in kinds or KINDS:
        with tempfile.TemporaryDirectory() as folder:
            refused, wrong = faults(kind, found, Path(folder))
        by_op = defaultdict(list)
        for each in found:
            reason = refused.get(each.name) or wrong.get(each.name)
            if reason:
                by_op[each.sample.op.__name__].append((each.name, reason))
        right, ops = len(found) - sum(map(len, by_op.values())), {each.sample.op.__name__ for each in found}
        print(f"{kind}: {right} of {len(found)} samples, {len(ops - by_op.keys())} of {len(ops)} ops")
        print(f"{sum(each.mapped for each in found)} samples have an open batch")
        for op, reasons in sorted(by_op.items(), key=lambda item: -len(item[1])):
            print(f"  {op}: {len(reasons)}")
            for name, reason in reasons:
                print(f"    {name}: {reason[:300]}")


if __name__ == "__main__":
    main(sys.argv[1:])
