"""What notebooks display."""

from __future__ import annotations

import copy
import html
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.jax.sharding import ShardingRow, ShardingTable
from wyrm.view import graph_data, notebook
from wyrm.view.derivation import MathNotation, Written


class Model(wy.nn.Module):
    def __init__(self) -> None:
        self.linear = wy.nn.Linear(3, 2)

    def __call__(self, x: Any) -> Any:
        return self.linear(x).tanh()


def shown(value: Any) -> dict[str, str]:
    """Return what a notebook gets; the text is the value's own."""
    bundle: dict[str, str] = value._repr_mimebundle_(include=None, exclude=None)
    return bundle


def page_in(bundle: dict[str, str]) -> str:
    """Return the page in the frame of a bundle."""
    found = re.fullmatch(r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts" [^>]*></iframe>', bundle["text/html"])
    assert found is not None
    return html.unescape(found[1])


def operation_of(node: Any, notation: MathNotation) -> Written:
    """Return a node that is a leaf, or an operation on leaves."""
    if node.is_leaf:
        return notation.name(node.name or str(node.value.item()))
    return notation.operation(node.op_name(), [operation_of(parent, notation) for parent in node.parents], [])


def texts(markup: str) -> list[str]:
    """Return the texts of markup, which must be well formed."""
    return [text.strip() for text in ElementTree.fromstring(f"<div>{markup}</div>").itertext() if text.strip()]


def test_a_node_is_its_page_in_a_frame_without_access() -> None:
    loss = Model()(wy.Input(dims=(4, 3), name="x")).sum()
    bundle = shown(loss)
    assert bundle["text/plain"] == repr(loss)
    assert page_in(bundle).startswith("<!doctype html>")
    assert 'title="The graph of sum"' in bundle["text/html"]
    assert "allow-same-origin" not in bundle["text/html"]


def test_a_program_is_its_page_with_its_loops() -> None:
    program = wy.compile(Model()(wy.Input(dims=(4, 3), name="x")))
    bundle = shown(program)
    assert bundle["text/plain"] == repr(program)
    assert '"stages":[{' in page_in(bundle)


def test_a_leaf_is_a_table() -> None:
    leaf = wy.Parameter([1.0, 2.0], name="<b>")
    bundle = shown(leaf)
    assert bundle["text/plain"] == repr(leaf)
    assert {"<b>", "parameter", "(2,)", "float32"} <= set(texts(bundle["text/html"]))


def test_index_nodes_have_pages_too() -> None:
    assert "argmax" in page_in(shown(wy.Input(dims=(4, 3)).argmax(axis=1)))


def test_a_tuple_of_axes_is_a_table_in_ipython() -> None:
    pytest.importorskip("IPython")
    script = (
        "from IPython.testing.globalipapp import start_ipython\n"
        "shell = start_ipython()\n"
        "import sys, wyrm as wy\n"
        "assert 'wyrm.view' not in sys.modules\n"
        "class Batch(wy.Dim): ...\n"
        "class Pixels(wy.Dim): ...\n"
        "show = lambda value: print(shell.display_formatter.format(value)[0].get('text/html'))\n"
        "shell.display_formatter.active_types = ['text/plain', 'text/html']\n"
        "show(wy.Input(dims=(Batch(), Pixels(1784), 3)).dims)\n"
        "for plain in ((), (1, 2), ('a', Batch()), (True, 2)): show(plain)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    markup, *others = ran.stdout.splitlines()
    assert texts(markup) == ["axis", "size", "0", "Batch", "from the data", "1", "Pixels", "1,784", "2", "unnamed", "3"]
    assert others == ["None"] * 4


def test_a_module_is_a_table_of_its_layers() -> None:
    model = Model()
    bundle = shown(model)
    assert bundle["text/plain"] == repr(model)
    assert {"linear", "Linear", "weight (3, 2), bias (2,)", "8", "total"} <= set(texts(bundle["text/html"]))
    assert texts(shown(wy.nn.Dropout(0.5))["text/html"]) == [repr(wy.nn.Dropout(0.5))]


def test_a_summary_is_a_table() -> None:
    summary = wy.summary(Model(), wy.Input(dims=(4, 3)))
    bundle = shown(summary)
    assert bundle["text/plain"] == repr(summary)
    assert {"FLOPs", "48", "total"} <= set(texts(bundle["text/html"]))


def test_a_sharding_is_a_table() -> None:
    sharding = ShardingTable([ShardingRow("<w>", "(Hidden(8),)", "Hidden: data", ("data",), 32, 4, 8)], {"data": 8})
    bundle = shown(sharding)
    assert bundle["text/plain"] == str(sharding)
    assert {"<w>", "4 B", "8 B", "mesh data 8"} <= set(texts(bundle["text/html"]))


def test_a_derivation_is_a_table_of_typeset_formulas() -> None:
    x, y = wy.Input(name="x<1>"), wy.Parameter(2.0, name="y2")
    derivation = wy.view.to_derivation(((x.square() + y.exp()) / (x - y).sqrt()) ** 2.0)
    bundle = shown(derivation)
    assert bundle["text/plain"] == str(derivation)
    assert isinstance(derivation, str)
    markup = bundle["text/html"]
    words = texts(markup)
    assert "x<1>" in words
    for element in ("mfrac", "msup", "msqrt", "msub"):
        assert f"<{element}>" in markup
    pretty = pytest.importorskip("IPython.lib.pretty")
    assert pretty.pretty(derivation) == str(derivation)
    assert pickle.loads(pickle.dumps(derivation)) == copy.deepcopy(derivation) == derivation


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda x, y: x.sin() - (y - x), "(y−x)"),
        (lambda x, y: (x + y) * 2.0, "(x+y)·2"),
        (lambda x, y: -(x + y), "−(x+y)"),
        (lambda x, y: (x + y) ** 2.0, "(x+y)2"),
        (lambda x, y: (x + y).sum(keepdims=True), "sum(x+y,axis=(),keepdims=True)"),
    ],
)
def test_parentheses_of_typeset_formulas(make: Any, expected: str) -> None:
    node = make(wy.Input(name="x"), wy.Input(name="y"))
    notation = MathNotation()
    # The last operation with its operands written out.
    operands = [operation_of(parent, notation) for parent in node.parents]
    written = notation.operation(node.op_name(), operands, list(node.attribute_values().items()))[0]
    assert expected in "".join(texts(f"<math>{written}</math>"))


def test_a_large_graph_is_text_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "LIMIT", 2)
    node = wy.Input(name="x").tanh().tanh()
    count = f"{node!r}\nThe graph has more than 2 nodes, the most in a notebook"
    assert shown(node) == {"text/plain": f"{count}; wy.view.open(...) opens its page in a browser of its own."}
    monkeypatch.setattr(graph_data, "LIMIT", 2)
    assert shown(node) == {"text/plain": f"{count}; wy.view.to_text(...) lists them."}


def test_show_displays_in_ipython_and_prints_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @wy.function
    def double(x: Any) -> Any:
        return x * 2.0

    double(1.0)
    wy.show(double)
    assert "t₁ = x · 2 " in capsys.readouterr().out
    ipython = pytest.importorskip("IPython")
    displayed = list[Any]()
    monkeypatch.setattr(ipython, "get_ipython", lambda: object())
    monkeypatch.setattr(ipython.display, "display", displayed.append)
    wy.show(double)
    assert [type(each) for each in displayed] == [wy.view.Derivation]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("widgets", [True, False])
def test_bars_in_a_notebook_give_no_warning(widgets: bool, tmp_path: Path) -> None:
    """The modules that make tqdm choose widgets are simulated: a kernel, with and without ipywidgets."""
    pytest.importorskip("IPython")
    if widgets:
        pytest.importorskip("ipywidgets")
    script = tmp_path / "cell.py"
    script.write_text(
        "import sys, types, warnings, IPython\n"
        "warnings.simplefilter('error')\n"
        "sys.modules['ipykernel.zmqshell'] = types.ModuleType('zmqshell')\n"
        f"if not {widgets}: sys.modules['ipywidgets'] = None\n"
        "import wyrm as wy\n"
        "from wyrm.engines.progress import shown_bar\n"
        "print(shown_bar().__mro__[1].__name__)\n"
        "w, x = wy.Parameter(0.0), wy.Input(name='x')\n"
        "program = wy.compile((w * x - 1.0).square(), wy.optim.SGD([w], 0.1), loop='python')\n"
        "program.epoch({x: [1.0, 2.0]}, progress=True)\n"
    )
    finished = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert "Warning" not in finished.stderr
    assert finished.stdout.splitlines()[0] == ("tqdm_notebook" if widgets else "tqdm")


def test_a_function_is_the_page_of_its_last_call() -> None:
    @wy.function
    def energy(x: Any, scale: Any) -> Any:
        return (x * scale).tanh().sum()

    before = shown(energy)
    assert before["text/plain"] == repr(energy)
    assert "energy(x: 'Any', scale: 'Any')" in " ".join(texts(before["text/html"])) and "reference" in str(before)
    energy(np.array([1.0, 2.0]), 3.0)
    assert "tanh" in page_in(shown(energy)) and shown(energy)["text/plain"] == repr(energy)
    same = wy.function(lambda x: x)
    same(1.0)
    assert "<table>" in shown(same)["text/html"]


def test_an_axis_is_a_table() -> None:
    class Rows(wy.Dim): ...

    assert texts(shown(Rows(3))["text/html"]) == ["axis", "size", "0", "Rows", "3"]
    assert shown(Rows() * 2)["text/plain"] == "Times[Rows(), 2]"


def test_a_history_is_a_table_of_epochs() -> None:
    history = wy.train.History()
    assert texts(shown(history)["text/html"]) == ["completed, 0 epochs"]
    for i in range(25):
        history.append({"loss": 1.0 / (i + 1), "seconds": 0.5})
    found = texts(shown(history)["text/html"])
    assert found[:6] == ["epoch", "loss", "seconds", "1", "1", "0.5"] and found[-4:-1] == ["25", "0.04", "0.5"]
    assert found.count("...") == 3 and "15" not in found and found[-1] == "completed, 25 epochs"
    assert shown(history)["text/plain"] == repr(history)
