"""What editors show of usual expressions: docstrings, short signatures in users' words, and public names only."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import wyrm as wy
from tests.typing.checkers import ROOT, is_installed
from tests.typing.language_server import LanguageServer

WYRM = ROOT / "wyrm"
STUBS = sorted(WYRM.rglob("methods.pyi"))
# The most characters of the parameters and the result of one public signature, and the longer ones.
LONGEST = 300
LONGER = {
    "data/interactions.py Interactions.of", "exporting/exported.py export",
    "nn/attention.py MultiHeadAttention.__init__", "nn/transformer.py TransformerBlock.__init__",
    "ops/random/sampling.py sampling_kernel", "train/fitting.py fit", "train/program.py Program.export",
    "watch/writer.py RunWriter.__init__",
}  # fmt: skip
# The most overloads of a public function, and those with more: pairs of shapes that broadcast, for nodes and integers.
MOST = 20
MORE = {"functions/methods.pyi maximum", "functions/methods.pyi minimum", "functions/methods.pyi reshape"}

PROGRAM = """\
import numpy as np
import wyrm as wy

class Batch(wy.Dim): ...
class In(wy.Dim): ...
class Hid(wy.Dim): ...

x = wy.Input(dims=(Batch(), In(4)), name="x")
w = wy.Parameter(np.zeros((4, 3), np.float32), dims=(In(4), Hid(3)))
model = wy.nn.Sequential(wy.nn.Linear(In(4), Hid(3)), wy.nn.Linear(Hid(3), In(4)))
program = wy.compile(x.sum(), wy.optim.Adam([w]))
"""
# Names of a newcomer's program, with the file that a jump to the definition opens.
NAMES = {
    "wy.Input": "graph/leaves.py", "wy.Parameter": "graph/parameters.py", "wy.Dim": "graph/axes.py",
    "wy.compile": "train/compiling.py", "program.epoch": "train/program.py", "wy.train.fit": "train/fitting.py",
    "x.dims": "graph/node.py", "x.shape": "graph/base.py", "x.forward": "graph/values.py",
    "x.maximum": "graph/methods.pyi", "x.sum": "graph/methods.pyi", "wy.maximum": "functions/methods.pyi",
    "wy.exp": "functions/methods.pyi", "wy.sum": "functions/methods.pyi", "wy.where": "ops/elementwise/comparison.py",
    "wy.concatenate": "ops/indexing/joining.py", "wy.einsum": "functions/contraction.py",
    "wy.scan": "functions/loops.py", "wy.function": "functions/function.py", "wy.grad": "ops/gradients/reverse.py",
    "wy.random.normal": "random/distributions.py", "wy.linalg.solve": "linalg/systems.py",
    "wy.losses.cross_entropy": "losses/classification.py", "wy.optim.Adam": "optim/moments.py",
    "wy.nn.Linear": "nn/linear.py", "wy.nn.Conv2d": "nn/convolution.py", "wy.nn.Sequential": "nn/layer.py",
    "wy.nn.MultiHeadAttention": "nn/attention.py", "wy.nn.LSTM": "nn/recurrent.py", "model.parameters": "module.py",
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanguageServer]:
    if not is_installed("ty"):  # the quickest of the servers
        pytest.skip("ty is not installed; pip install 'wyrm-autodiff[dev]' brings it")
    with LanguageServer("ty", tmp_path_factory.mktemp("program")) as started:
        yield started


def of_program(name: str) -> object:
    """Return what a name of the program stands for."""
    first, *rest = name.split(".")
    found: object = {"x": wy.Node, "program": wy.Program, "model": wy.nn.Module}.get(first, wy)
    for each in rest:
        found = getattr(found, each)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_hover_texts_have_the_docstring_and_jumps_find_the_definition(name: str, server: LanguageServer) -> None:
    shown = server.hover(PROGRAM + name)
    documented = "The axes" if name == "x.dims" else inspect.getdoc(of_program(name))
    assert documented is not None
    words = re.findall(r"\w+", documented.partition("\n")[0])[:5]
    assert re.findall(r"\w+", shown.docstring.replace("\\", ""))[: len(words)] == words
    assert f"wyrm/{NAMES[name]}" in server.definitions(PROGRAM + name)


def test_hover_texts_of_values_name_the_axes(server: LanguageServer) -> None:
    assert server.hover(f"{PROGRAM}x").text == "Input[tuple[Batch, In]]"
    assert server.hover(f"{PROGRAM}w").text == "Parameter[tuple[In, Hid]]"
    assert server.hover(f"{PROGRAM}program").text == "Program[FloatArray, float]"
    assert "ndarray" not in server.hover(f"{PROGRAM}x.maximum").text  # but `Number | Array`


@pytest.mark.parametrize(
    "name", ["wy", *(f"wy.{name}" for name in wy.__all__ if isinstance(getattr(wy, name), ModuleType))]
)
def test_completion_has_the_names_of_run_time(name: str, server: LanguageServer) -> None:
    module = of_program(name)
    assert isinstance(module, ModuleType)
    shown = set(server.completions(f"{PROGRAM}{name}."))
    assert set(module.__all__) <= shown
    # ty adds the modules of a package.
    modules = {path.stem for path in Path(str(module.__file__)).parent.iterdir()}
    assert shown - {each for each in dir(module) if not each.startswith("_")} - modules == set()


@pytest.fixture(scope="module")
def jedi_of_program() -> Callable[[str], Any]:
    """Return what gives Jedi's view, which IPython and some editors show, of the program with a text at its end."""
    jedi = pytest.importorskip("jedi")
    project = jedi.Project(ROOT)
    return lambda text: jedi.Script(PROGRAM + text, project=project)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "x.dims"])
def test_jedi_finds_the_docstring(name: str, jedi_of_program: Callable[[str], Any]) -> None:
    documented = inspect.getdoc(of_program(name))
    (shown,) = jedi_of_program(name).help(PROGRAM.count("\n") + 1, len(name) - 1)
    assert documented is not None
    assert documented.partition("\n")[0] in shown.docstring()


def test_jedi_completes_public_names(jedi_of_program: Callable[[str], Any]) -> None:
    for module in (wy.nn, wy.losses, wy.optim, wy.linalg):
        shown = {each.name for each in jedi_of_program(f"{module.__name__.replace('wyrm', 'wy')}.").complete()}
        assert set(module.__all__) <= shown


def functions(path: Path) -> Iterator[tuple[str, list[ast.FunctionDef]]]:
    """Yield the public functions and methods of a file, each with all of its `def` statements."""
    found: dict[str, list[ast.FunctionDef]] = {}

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for each in body:
            if isinstance(each, ast.ClassDef) and not each.name.startswith("_"):
                collect(each.body, f"{prefix}{each.name}.")
            elif isinstance(each, ast.FunctionDef) and (each.name == "__init__" or not each.name.startswith("_")):
                found.setdefault(prefix + each.name, []).append(each)
            elif isinstance(each, ast.If):
                collect([*each.body, *each.orelse], prefix)

    collect(ast.parse(path.read_text(encoding="utf-8")).body, "")
    yield from found.items()


def public_files() -> list[Path]:
    """Return the files that define public names, and the stubs."""
    modules = [wy, *(module for name in wy.__all__ if isinstance(module := getattr(wy, name), ModuleType))]
    members = [getattr(module, name) for module in modules for name in module.__all__]
    defined = [inspect.getsourcefile(inspect.unwrap(each)) for each in members if inspect.isroutine(each)]
    defined += [inspect.getsourcefile(each) for each in members if isinstance(each, type)]
    files = {Path(file).resolve() for file in defined if file}
    return sorted({file for file in files if file.is_relative_to(WYRM)} | set(STUBS))


@pytest.mark.parametrize("path", STUBS, ids=lambda path: path.parent.name)
def test_stubs_have_docstrings(path: Path) -> None:
    listed = dict(functions(path))
    assert len(listed) > 20
    # Most servers read that of the last overload, pyrefly that of the first overload of a function.
    assert [name for name, statements in listed.items() if not ast.get_docstring(statements[-1])] == []
    of_functions = {name: statements for name, statements in listed.items() if "." not in name}
    assert [name for name, statements in of_functions.items() if not ast.get_docstring(statements[0])] == []


def test_public_signatures_are_short_and_name_public_options() -> None:
    long, many, private = set(), set(), set()
    for path in public_files():
        for name, statements in functions(path):
            title = f"{path.relative_to(WYRM).as_posix()} {name}"
            overloads = [each for each in statements if any(ast.unparse(d) == "overload" for d in each.decorator_list)]
            many |= {title} if len(overloads) > MOST else set()
            for each in overloads or statements:
                text = f"({ast.unparse(each.args)}) -> {ast.unparse(each.returns) if each.returns else None}"
                long |= {title} if len(text) > LONGEST else set()
                private |= {title} if re.search(r"Unpack\[_", text) else set()
    assert (long - LONGER, many - MORE, private) == (set(), set(), set())


def test_constructors_leave_the_docstring_to_the_class() -> None:
    # Pyright shows that of `__init__`, of a base class too, in place of that of the class.
    documented = [
        f"{path.relative_to(WYRM).as_posix()} {name}"
        for path in public_files()
        for name, statements in functions(path)
        if name.endswith("__init__") and any(map(ast.get_docstring, statements))
    ]
    assert documented == []


@pytest.mark.parametrize("name", ["sum", "mean", "var", "softmax", "maximum", "exp", "reshape", "take"])
def test_notebooks_show_the_arguments(name: str) -> None:
    method, function = inspect.signature(getattr(wy.Constant([1.0]), name)), inspect.signature(getattr(wy, name))
    assert next(iter(function.parameters)) == "x"
    assert list(function.parameters)[1:] == list(method.parameters)
    assert not {"arguments", "keywords", "attributes"} & set(method.parameters)
