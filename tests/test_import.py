"""`import wyrm` is light: modules that only some programs need are imported on first use."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import wyrm as wy

HEAVY = ["llvmlite", "numba", "jax", "scipy", "torch", "sklearn", "matplotlib", "pandas"]


def loaded_by(program: str) -> set[str]:
    """Return the top-level modules loaded in a fresh interpreter after `program`."""
    report = f"{program}\nimport sys\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_wyrm_imports_nothing_heavy() -> None:
    loaded = loaded_by("import wyrm")
    assert "numpy" in loaded and "wyrm" in loaded
    assert not loaded.intersection(HEAVY)


def test_import_wyrm_leaves_slow_modules_of_python_alone() -> None:
    report = "import sys, numpy; before = set(sys.modules); import wyrm; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    slow = {"concurrent.futures", "dataclasses", "difflib", "hashlib", "logging", "tempfile"}
    assert not slow.intersection(done.stdout.split())


def test_a_forward_and_a_backward_import_nothing_heavy_either() -> None:
    program = "import wyrm as wy; p = wy.Parameter([1.0, 2.0]); (p * p).tanh().softmax().sum().backward()"
    assert not loaded_by(program).intersection(HEAVY)


def test_every_public_name_is_there() -> None:
    assert [name for name in wy.__all__ if not hasattr(wy, name)] == []


DEFINED = [
    name for name in sorted(wy.__all__) if inspect.isclass(getattr(wy, name)) or inspect.isfunction(getattr(wy, name))
]


def test_every_public_class_and_function_is_documented() -> None:
    assert [name for name in DEFINED if not inspect.getdoc(getattr(wy, name))] == []


def test_import_wyrm_leaves_the_compiler_and_the_layers_for_who_uses_them() -> None:
    report = "import sys, wyrm; print(*sorted(name for name in sys.modules if name.startswith('wyrm.')))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    rooms = {name.split(".")[1] for name in done.stdout.split()}
    assert not rooms & {
        "data",
        "estimators",
        "functions",
        "io",
        "losses",
        "metrics",
        "optim",
        "train",
        "view",
    }
    assert not [name for name in done.stdout.split() if name.startswith(("wyrm.engines.native", "wyrm.engines.jax"))]
    assert "wyrm.nn.linear" not in done.stdout.split()


def test_the_methods_of_nodes_are_there_from_the_start() -> None:
    program = (
        "import importlib, pkgutil, wyrm; owners = wyrm.Node, wyrm.IndexNode, wyrm.Parameter, wyrm.NarrowWeight; "
        "before = {(owner.__name__, name) for owner in owners for name in vars(owner)}; "
        "[importlib.import_module(each.name) for each in pkgutil.walk_packages(wyrm.ops.__path__, 'wyrm.ops.')]; "
        "from wyrm.graph.registration import METHODS; assert METHODS and set(METHODS) <= before"
    )
    subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)


@pytest.mark.parametrize("package", ["wyrm", "wyrm.nn"])
def test_what_is_imported_later_is_there_from_the_start(package: str) -> None:
    program = (
        f"import {package} as p; before = set(dir(p)); assert set(p.__all__) <= before; "
        f"from {package} import *; missing = [name for name in before if not hasattr(p, name)]; assert not missing; "
        f"assert before <= set(dir(p)); assert not hasattr(p, 'nothing'); "
    )
    subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)


@pytest.mark.parametrize(
    "statement",
    ["from wyrm import compile, Program, nn", "from wyrm.nn import GPT2, LSTM", "import wyrm.nn.linear",
     "import wyrm.train.program", "from wyrm.nn import initializers", "import wyrm; wyrm.nn.Linear; wyrm.nn.linear",
     "import wyrm; wyrm.nn.Module.save.__doc__.strip(); wyrm.nn.GPT2.from_pretrained",
     "from wyrm import attention, function, random, scan, linear_cross_entropy", "import wyrm; wyrm.random.index",
     "import numpy, wyrm; assert numpy.tanh(wyrm.Constant(0.0)).forward() == 0.0",
     "import numpy, wyrm; assert (numpy.ones(2) + wyrm.Constant(numpy.ones(2))).forward().tolist() == [2.0, 2.0]",
     "import numpy, wyrm; assert (numpy.arange(2) == wyrm.IndexConstant([0, 2])).forward().tolist() == [True, False]",
     "import numpy, wyrm; assert numpy.concatenate([wyrm.Constant([1.0]), numpy.ones(1)]).shape == (2,)"],
)  # fmt: skip
def test_names_that_are_imported_later_in_a_new_process(statement: str) -> None:
    subprocess.run([sys.executable, "-c", statement], capture_output=True, text=True, check=True)
