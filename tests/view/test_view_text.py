"""Graphs as text: every operation once, with axes and the user's line; names are escaped."""

from __future__ import annotations

import re
import sys

import pytest

import wyrm as wy
from wyrm.view import to_dot, to_text


class Batch(wy.Dim): ...


def test_each_operation_stands_once_with_axes_and_line() -> None:
    x = wy.Input(dims=(Batch(),), name="x")
    text = to_text((x.tanh() + 2.0) * (x.tanh() + 2.0))
    lines = text.splitlines()
    assert len([line for line in lines if "tanh(x)" in line]) == 1
    assert len([line for line in lines if "add(" in line]) == 1
    assert all("(Batch(),) float32" in line for line in lines)
    source = r"# test_view_text\.py:\d+ text = to_text\(\(x\.tanh\(\) \+ 2\.0\) \* \(x\.tanh\(\) \+ 2\.0\)\)$"
    assert re.search(source, lines[-1])


def test_a_gradient_is_shown_with_the_line_of_what_it_differentiates() -> None:
    x = wy.Parameter([1.0, 2.0], name="x")
    loss = x.exp().sum()  # this line
    text = to_text(wy.grad(loss, x))
    assert re.search(r"# test_view_text\.py:\d+ loss = x\.exp\(\)\.sum\(\)  # this line", text)
    assert "exp(x)" in text and "multiply(" in text


def test_attributes_are_shown() -> None:
    assert "softmax(x, axis=1)" in to_text(wy.Input(dims=(2, 3), name="x").softmax())
    assert "to=float64" in to_text(wy.Input(name="x").astype("float64"))


def test_equal_names_are_told_apart() -> None:
    lines = to_text(wy.Input(name="x") + wy.Input(name="x")).splitlines()
    assert lines[0].startswith("x ") and lines[1].startswith("%1 ")
    assert "add(x, %1)" in lines[2]


def test_dot_has_a_vertex_for_each_node_and_an_edge_for_each_operand() -> None:
    x = wy.Input(name='a "quoted" \\ name')
    dot = to_dot([x * x, x.tanh()])
    assert dot.count("->") == 3
    assert dot.count("label=") == 3
    assert 'label="a \\"quoted\\" \\\\ name\\n()", shape=box' in dot


@pytest.mark.parametrize("columns", [60, 80])
def test_texts_of_graphs_and_summaries_fit_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    class Width(wy.Dim): ...

    model = wy.nn.Linear(Width(64), Width(64)) >> wy.nn.LayerNorm(Width(64)) >> wy.nn.Linear(Width(64), 10)
    loss = model(wy.Input(dims=(4, Width(64)), name="a_long_name_of_an_input")).logsumexp(axis=1, keepdims=True).sum()
    whole = wy.view.to_text(loss)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    for text in (wy.view.to_text(loss), str(wy.summary(model))):
        assert max(map(len, text.splitlines())) <= columns and text.count("\n") > 4
    assert "layers.2" in str(wy.summary(model)) and max(map(len, whole.splitlines())) > 100
