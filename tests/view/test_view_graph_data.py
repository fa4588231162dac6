"""The data of a graph page: groups of modules, runs of equal layers, gradients, axes, and a program's parts."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.graph import ProgramGraph
from wyrm.view import graph_data as module
from wyrm.view import reach
from wyrm.view.graph_data import graph_data
from wyrm.view.reach import dependences


class Batch(wy.Dim): ...


class Pixels(wy.Dim): ...


class Hidden(wy.Dim): ...


class Classes(wy.Dim): ...


class Classifier(wy.nn.Module):
    def __init__(self) -> None:
        self.hidden = wy.nn.Linear(Pixels(6), Hidden(4), seed=0)
        self.output = wy.nn.Linear(Hidden(4), Classes(3), seed=1)

    def __call__(self, x: Any) -> Any:
        return self.output(self.hidden(x).relu())


class Page:
    """The data of a page, read as the page reads them."""

    def __init__(self, shown: Any) -> None:
        self.data = graph_data(shown)
        self.nodes, self.groups = self.data["nodes"], self.data["groups"]

    def texts(self, column: str, table: str = "nodes") -> list[str | None]:
        strings = self.data["strings"]
        return [None if number < 0 else strings[number] for number in self.data[table][column]]

    def find(self, op: str, part: int = 0) -> int:
        """Return the only node of an operation."""
        (found,) = [
            number
            for number, (name, its) in enumerate(zip(self.texts("op"), self.nodes["part"], strict=True))
            if name == op and its == part
        ]
        return found

    def path(self, node: int) -> str:
        return self.texts("path", "groups")[self.nodes["group"][node]] or ""


@pytest.fixture
def loss() -> Any:
    batch = Batch()
    images = wy.Input(dims=(batch, Pixels(6)), name="images")
    labels = wy.IndexInput(dims=(batch,), name="labels")
    return Classifier()(images).cross_entropy(labels)


def check(page: Page) -> None:
    """Check what the page relies on, whatever the graph."""
    nodes, groups = page.nodes, page.groups
    assert len({len(column) for column in nodes.values()}) == 1
    assert len({len(column) for column in groups.values()}) == 1
    assert set(page.data["outputs"]) <= set(range(len(nodes["op"])))
    for number, parents in enumerate(nodes["parents"]):
        assert all(parent < number for parent in parents)
    assert nodes["part"] == sorted(nodes["part"])
    assert groups["parent"][0] == -1
    for group, parent in enumerate(groups["parent"]):
        assert parent < group
        mirror = groups["mirror"][group]
        if mirror >= 0:
            assert groups["mirror"][mirror] == group
            assert groups["part"][mirror] != groups["part"][group]
        first = groups["like"][group]
        if first >= 0:
            assert groups["parent"][first] == parent
            assert groups["repeats"][first] > 1 == groups["repeats"][group]
    for number, group in enumerate(nodes["group"]):
        assert groups["part"][group] == nodes["part"][number]
    for column in ("name", "formula", "line", "source"):
        assert all(-1 <= text < len(page.data["strings"]) for text in nodes[column])


def test_nodes_lie_in_the_groups_of_their_modules(loss: Any) -> None:
    page = Page(loss)
    check(page)
    assert page.data["title"] == "cross_entropy"
    assert page.path(page.find("relu")) == ""
    paths = {page.path(n) for n in range(len(page.nodes["op"])) if page.nodes["kind"][n] == module.PARAMETER}
    assert paths == {"hidden", "output"}  # parameters lie where they are used
    kinds = dict(zip(page.texts("path", "groups"), page.texts("class", "groups"), strict=True))
    assert (kinds["hidden"], kinds["output"]) == ("Linear", "Linear")
    names = dict(zip(page.texts("name"), page.nodes["group"], strict=True))
    assert names["images"] == names["labels"] == 0


def test_a_node_has_axes_bytes_formula_and_the_line(loss: Any) -> None:
    page = Page(loss)
    strings, nodes = page.data["strings"], page.nodes
    relu = page.find("relu")
    assert page.data["shapes"][nodes["shape"][relu]] == [["Batch", None], ["Hidden", 4]]
    assert nodes["bytes"][relu] == -1  # data decides the batch
    assert strings[nodes["line"][relu]].startswith("test_view_graph_data.py:")
    assert strings[nodes["source"][relu]] == "return self.output(self.hidden(x).relu())"
    assert strings[nodes["formula"][relu]] == "relu(add)"
    weights = [n for n, name in enumerate(page.texts("name")) if name == "weight" and nodes["part"][n] == 0]
    assert [nodes["parameters"][n] for n in weights] == [24, 12]
    assert [nodes["bytes"][n] for n in weights] == [96, 48]
    assert sum(nodes["parameters"]) == 24 + 4 + 12 + 3


def test_a_node_has_the_positions_of_the_inputs_on_which_it_depends(loss: Any) -> None:
    page = Page(loss)
    strings, nodes, reaches = page.data["strings"], page.nodes, page.data["reaches"]

    def words(node: int) -> list[tuple[str, str, str]]:
        found = reaches[nodes["reach"][node]] if nodes["reach"][node] >= 0 else []
        return [(page.texts("name")[of], strings[axis], strings[where]) for of, axis, where in found]

    own = ("images", "Batch", "its own")
    assert words(page.find("relu")) == [own, ("images", "Pixels", "all")]
    assert ("labels", "Batch", "all") in words(page.find("cross_entropy"))
    parameter = next(n for n, name in enumerate(page.texts("name")) if name == "weight")
    assert words(parameter) == []
    backward = [n for n, part in enumerate(nodes["part"]) if part]
    assert {nodes["reach"][n] for n in backward} == {-1}


class Time(wy.Dim): ...


def others() -> Any:
    """Return a matrix that is 0 on the diagonal."""
    positions: Any = wy.arange(Time(6))
    return wy.where(positions[:, None] != positions[None, :], 1.0, 0.0)


@pytest.mark.parametrize(
    ("make", "positions"),
    [
        (lambda x: x.cumsum(axis=0), "up to its own"),
        (lambda x: wy.flip(wy.flip(x, 0).cumsum(axis=0), 0), "from its own on"),
        (lambda x: x * 2.0, "its own"),
        (lambda x: x - x.mean(0), "all"),
        (lambda x: x[3], "3"),
        (lambda x: x[:3].sum(), "from 0 to 2"),
        (lambda x: wy.pad(x, ((2, 0), (0, 0)))[:-2], "2 before its own"),
        (lambda x: wy.pad(x, ((2, 0), (0, 0)))[:-2] + x, "from 2 before its own to its own"),
        (lambda x: others() @ x, "all but its own"),
    ],
)
def test_positions_in_words(make: Any, positions: str) -> None:
    node = make(wy.Input(dims=(Time(6), 2), name="x"))
    assert [each.positions for each in dependences([node])[node] if each.axis == "Time"] == [positions]


def test_a_large_graph_has_no_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "_LIMIT", 3)
    x = wy.Input(dims=(Time(6), 2), name="x")
    assert dependences([x * 2.0]) == {}
    data = graph_data(x * 2.0)
    assert data["reaches"] == [] and set(data["nodes"]["reach"]) == {-1}


def test_gradients_lie_in_groups_that_mirror_those_of_their_nodes(loss: Any) -> None:
    page = Page(loss)
    nodes, groups = page.nodes, page.groups
    weights = [n for n, name in enumerate(page.texts("name")) if name == "weight"]
    for weight in weights:
        gradient = nodes["gradient"][weight]
        assert nodes["part"][gradient] == 1
        assert nodes["shape"][gradient] == nodes["shape"][weight]
        assert groups["mirror"][nodes["group"][gradient]] == nodes["group"][weight]
    assert nodes["gradient"][page.find("relu")] >= 0
    assert page.texts("name", "groups").count("gradient") == 1


class Tied(wy.nn.Module):
    def __init__(self) -> None:
        self.tokens = wy.nn.Embedding(7, 4)
        self.layers = [wy.nn.Linear(4, 4)]
        self.scale = wy.Parameter(np.ones(4, np.float32), name="size of a feature")

    def __call__(self, indices: Any) -> Any:
        return (self.layers[0](self.tokens(indices)) * self.scale) @ self.tokens.weight.T


def test_parameters_have_their_paths_and_outside_their_modules_are_named_by_them() -> None:
    model = Tied()
    loss = model(wy.IndexInput(dims=(5,))).sum()
    page = Page(loss)
    names = dict(zip(page.texts("path"), page.texts("name"), strict=True))
    assert names.pop(None, None) is None
    assert names == {
        "tokens.weight": "tokens.weight", "layers[0].weight": "weight", "layers[0].bias": "bias",
        "scale": "size of a feature",
    }  # fmt: skip
    del model
    gc.collect()
    page = Page(loss)
    assert set(page.texts("path")) == {None}
    assert "weight" in page.texts("name")


def test_beside_other_outputs_the_only_scalar_has_its_gradient() -> None:
    x = wy.Parameter([1.0, 2.0], name="x")
    hidden = x.tanh()
    page = Page([hidden, hidden.square().sum(), hidden.argmax()])
    check(page)
    assert page.nodes["gradient"][page.find("tanh")] >= 0
    assert set(Page([hidden.sum(), hidden.square().sum()]).nodes["gradient"]) == {-1}


@pytest.mark.parametrize("make", [lambda x: x, lambda x: x.argmax(), lambda x: x.sum().round(), lambda x: x > 0.0])
def test_a_graph_without_a_gradient_is_the_forward_pass_alone(make: Any) -> None:
    page = Page(make(wy.Parameter([1.0, 2.0])))
    check(page)
    assert set(page.nodes["gradient"]) == {-1}
    assert set(page.nodes["part"]) == {0}


def test_residuals_of_a_recurrent_layer_have_no_gradient_of_their_own() -> None:
    page = Page(wy.nn.LSTM(3, 4)(wy.Input(dims=(2, 5, 3)))[0].sum())
    check(page)
    assert sum(gradient >= 0 for gradient in page.nodes["gradient"]) > 3


class Residual(wy.nn.Module):
    def __init__(self, width: int) -> None:
        self.linear = wy.nn.Linear(width, width)

    def __call__(self, x: Any) -> Any:
        return x + self.linear(x).dropout(0.5)


def stack(*blocks: Any) -> Page:
    page = Page(wy.nn.Sequential(*blocks)(wy.Input(dims=(2, 4))).sum())
    check(page)
    return page


def runs(page: Page, part: int = 0) -> dict[str, int]:
    groups = page.groups
    named = zip(page.texts("path", "groups"), groups["repeats"], groups["part"], strict=True)
    return {path or "": count for path, count, its in named if count > 1 and its == part}


def test_equal_layers_in_a_row_are_a_run() -> None:
    page = stack(*(Residual(4) for _ in range(5)))  # the streams of their random numbers differ
    assert runs(page) == {"layers[0]": 5}
    first = page.texts("path", "groups").index("layers[0]")
    assert [page.texts("path", "groups")[g] for g, like in enumerate(page.groups["like"]) if like == first] == [
        "layers[1]", "layers[2]", "layers[3]", "layers[4]",
    ]  # fmt: skip
    # The input of the first block has no gradient, and the result of the last one goes to a single node.
    assert list(runs(page, part=1).values()) == [3]


class Other(Residual):
    pass


class Scaled(Residual):
    def __call__(self, x: Any) -> Any:
        return x + self.linear(x).leaky_relu(0.5)


class ScaledMore(Residual):
    def __call__(self, x: Any) -> Any:
        return x + self.linear(x).leaky_relu(0.25)


def test_layers_of_one_class_that_differ_are_no_run() -> None:
    wide = wy.nn.Sequential(wy.nn.Linear(4, 8), wy.nn.Linear(8, 4))
    assert runs(stack(Residual(4), Other(4))) == {}
    assert runs(stack(wide)) == {}
    ScaledMore.__name__ = "Scaled"
    assert runs(stack(Scaled(4), Scaled(4), ScaledMore(4))) == {"layers[0]": 2}
    biased, plain = wy.nn.Linear(4, 4), wy.nn.Linear(4, 4, bias=False)
    assert runs(stack(biased, plain, wy.nn.Linear(4, 4, bias=False))) == {"layers[1]": 2}


def test_layers_that_share_a_parameter_are_no_run_with_one_that_does_not() -> None:
    shared, own = Residual(4), Residual(4)
    page = stack(shared, shared, own)
    # The parameters of the shared layer lie outside of both calls.
    assert runs(page) == {"layers[0]": 2}


def test_two_calls_of_one_module_are_two_groups() -> None:
    gate, x = Residual(4), wy.Input(dims=(2, 4))
    page = Page(gate(gate(x)).sum())
    check(page)
    assert page.texts("name", "groups")[1:].count("Residual") == 2 * 2
    assert list(page.groups["repeats"]).count(2) >= 1


def test_several_nodes_and_nodes_of_all_kinds() -> None:
    x = wy.Input(name="x")
    buffer = wy.Buffer(1.0, name="mean")
    page = Page([x * 2.0, (x + buffer).dropout(0.5), x * 2.0])
    check(page)
    assert len(page.data["outputs"]) == 3
    kinds = dict(zip(page.texts("name"), page.nodes["kind"], strict=True))
    assert kinds["x"] == module.INPUT
    assert kinds["mean"] == kinds["2.0"] == kinds["step"] == module.CONSTANT


def test_a_node_twice_is_an_output_once() -> None:
    x = wy.Input(name="x") * 2.0
    assert len(graph_data([x, x])["outputs"]) == 1


def test_markup_in_names_stays_text() -> None:
    x = wy.Input(name="<script>alert(1)</script>")
    page = Page(x.tanh())
    assert "<script>alert(1)</script>" in page.texts("name")
    assert "tanh(<script>alert(1)</script>)" in page.texts("formula")


def test_a_chain_of_any_depth_and_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    node: Any = wy.Parameter(1.0)
    for _ in range(3000):
        node = node.tanh()
    page = Page(node)
    assert page.nodes["part"].count(1) > 3000
    monkeypatch.setattr(module, "LIMIT", 4000)
    assert set(Page(node).nodes["part"]) == {0}  # without the gradient, the graph is not too large
    monkeypatch.setattr(module, "LIMIT", 3000)
    with pytest.raises(wy.errors.OptionError, match=r"more than 3,000 nodes, the most that a page shows: show a part"):
        graph_data(node)


@pytest.mark.parametrize(
    ("shown", "named"),
    [
        (wy.nn.Linear(2, 3), "Linear"),
        ([], "an empty sequence"),
        ("model", "str"),
        ([1, 2], "a list that holds int"),
        (None, "NoneType"),
    ],
)
def test_what_has_no_page(shown: Any, named: str) -> None:
    with pytest.raises(TypeError, match=f"not {named}; for a module, give it model"):
        graph_data(shown)


# --- programs ---------------------------------------------------------------------------------------------------------


def stages(page: Page) -> Iterator[tuple[str, list[str]]]:
    """Yield the kind of each stage of a program, and the operations that it computes."""
    ops = page.texts("op")
    for stage in page.data["program"]["stages"]:
        yield stage["kind"], [ops[node] or "" for node in stage["nodes"]]


def test_a_program_has_its_loops_with_the_nodes_that_they_compute(loss: Any) -> None:
    page = Page(wy.compile(loss, wy.optim.SGD(loss.parameters(), learning_rate=0.1)))
    check(page)
    found = list(stages(page))
    assert [kind for kind, _ in found].count("product") == 5
    assert [kind for kind, _ in found].count("update") == 4
    assert ("loop", ["add", "relu"]) in found
    weights = [n for n, name in enumerate(page.texts("name")) if name == "weight"]
    updated = [node for stage in page.data["program"]["stages"] if stage["kind"] == "update" for node in stage["nodes"]]
    assert set(weights) <= set(updated)
    assert "update weight of hidden" in [stage["name"] for stage in page.data["program"]["stages"]]
    assert all(page.nodes["gradient"][weight] >= 0 for weight in weights)
    assert page.nodes["gradient"][page.find("relu")] >= 0
    computed = {node for stage in page.data["program"]["stages"] for node in stage["nodes"]}
    left = {page.texts("op")[n] for n, kind in enumerate(page.nodes["kind"]) if kind == module.OPERATION} - {
        page.texts("op")[n] for n in computed
    }
    assert left <= {"transpose", "cross_entropy_count"}  # read in place, and a number that is known


def test_the_arrays_of_a_program_and_their_lifetimes(loss: Any) -> None:
    program = wy.compile(loss, wy.optim.SGD(loss.parameters(), learning_rate=0.1))
    before = Page(program)
    assert all(buffer["bytes"] == -1 for buffer in before.data["program"]["buffers"] if buffer["name"] == "relu")
    images, labels = program.inputs
    program({images: np.zeros((5, 6), np.float32), labels: np.zeros(5, np.int64)})
    page = Page(program)
    count = len(page.data["program"]["stages"])
    by_name = {buffer["name"]: buffer for buffer in page.data["program"]["buffers"]}
    assert by_name["relu"]["bytes"] == 5 * 4 * 4
    assert page.find("relu") in by_name["relu"]["nodes"]
    for buffer in by_name.values():
        assert 0 <= buffer["first"] <= buffer["last"] < count
    for first, second in itertools.pairwise(["matmul", "relu"]):
        assert by_name[first]["first"] < by_name[second]["first"]
    products = [stage for stage in page.data["program"]["stages"] if stage["kind"] == "product"]
    assert products[0]["flops"] == 2 * 5 * 6 * 4


def test_a_program_of_another_engine_is_its_graph(loss: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    program = wy.compile(loss)
    monkeypatch.setattr(wy.Program, "graph", property(lambda program: ProgramGraph(program.outputs, None)))
    page = Page(program)
    check(page)
    assert page.data["program"] is None
    assert page.nodes["gradient"][page.find("relu")] >= 0


def test_composite_nodes_and_equal_nodes_share_their_stages() -> None:
    x = wy.Input(dims=(3, 4), name="x")
    page = Page(wy.compile([x.softmax(), x.tanh() + x.tanh()]))
    check(page)
    found = [ops for _, ops in stages(page)]
    assert any("softmax" in ops for ops in found)
    assert any(ops.count("tanh") == 2 for ops in found)  # one computation for two nodes


def test_row_sparse_gradients_and_updated_buffers_of_a_program() -> None:
    table = wy.Parameter(np.ones((9, 4), np.float32), name="table")
    rows = wy.IndexInput(dims=(Batch(),), name="rows")
    normed: Any = wy.nn.BatchNorm(4)(table.index(rows))
    loss = normed.square().mean()
    page = Page(wy.compile(loss, wy.optim.SGD(loss.parameters(), learning_rate=0.1)))
    check(page)
    updates = [stage["name"] for stage in page.data["program"]["stages"] if stage["kind"] == "update"]
    assert "update table" in updates
    assert "update running_mean" in updates


def test_loops_of_a_graph_are_one_stage() -> None:
    x = wy.Input(dims=(6, 3), name="x")
    last, _ = wy.scan(lambda state, row: (state + row, state), wy.Constant(np.zeros(3, np.float32)), x)
    page = Page(wy.compile(last))
    assert ("scan", ["scan"]) in [(kind, sorted(set(ops))) for kind, ops in stages(page)]


class Cell(wy.nn.Module):
    def __init__(self) -> None:
        self.linear = wy.nn.Linear(3, 3)

    def __call__(self, state: Any, row: Any) -> tuple[Any, Any]:
        state = self.linear(state * 0.5 + row).tanh()
        return state, state


class Loop(wy.nn.Module):
    def __init__(self) -> None:
        self.cell = Cell()

    def __call__(self, rows: Any) -> Any:
        last, _ = wy.scan(self.cell, wy.Constant(np.zeros(3, np.float32)), rows)
        return last.sum()


def test_the_body_of_a_loop_is_a_group_of_its_own() -> None:
    page = Page(Loop()(wy.Input(dims=(6, 3), name="rows")))
    check(page)
    groups = list(zip(*(page.texts(column, "groups") for column in ("name", "path", "class")), strict=True))
    assert groups[:5] == [
        ("sum", None, None), ("Loop", None, "Loop"), ("scan", None, "6 steps"), ("cell", "cell", "Cell"),
        ("linear", "cell.linear", "Linear"),
    ]  # fmt: skip
    assert page.groups["parent"][:5] == [-1, 0, 1, 2, 3]
    assert ("scan", None, "6 steps, last first") in groups  # that of the gradient
    ops, parents = page.texts("op"), page.nodes["parents"]
    row = page.find("row")
    assert [ops[parent] for parent in parents[row]] == ["input"]
    assert page.nodes["kind"][row] == module.OPERATION
    scan = page.find("scan")
    assert {ops[parent] for parent in parents[scan]} == {"tanh"}
    # The same weight is used by every step.
    assert [page.texts("name")[parent] for parent in parents[page.find("matmul")]] == [None, "weight"]
    assert page.path(parents[page.find("matmul")][1]) == "cell.linear"


def test_loops_in_loops_and_loops_that_end() -> None:
    def inner(state: Any, row: Any) -> tuple[Any, Any]:
        return wy.scan(lambda total, x: (total + x, total), state, wy.stack([row, row]))[0], row

    last, _ = wy.scan(inner, wy.Constant(np.zeros(3, np.float32)), wy.Input(dims=(6, 3)))
    page = Page(last.sum())
    check(page)
    assert page.texts("class", "groups")[1:3] == ["6 steps", "2 steps"]
    assert page.groups["parent"][:3] == [-1, 0, 1]
    ended = wy.while_loop(lambda x: x < 9.0, lambda x: x * 2.0, wy.Parameter(1.0))
    page = Page(ended)
    check(page)
    assert page.texts("class", "groups")[1] == "steps while a condition holds"
    check(Page(wy.compile(ended)))


def test_a_constant_in_a_loop_and_around_it_is_one_node() -> None:
    half, rows = wy.Constant(0.5, name="half"), wy.Input(dims=(6, 3))
    last, _ = wy.scan(lambda state, row: (state * half + row, state), wy.Constant(np.zeros(3, np.float32)), rows)
    page = Page((last * half).sum())
    check(page)
    assert page.texts("name").count("half") == 1
    assert page.nodes["group"][page.texts("name").index("half")] == 0


def test_a_loop_that_a_gradient_computes_again() -> None:
    loop, x = Loop(), wy.Parameter(np.ones((6, 3), np.float32))
    check(Page(wy.checkpoint(loop, x)))
