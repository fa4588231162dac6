"""The plugin for mypy says of random expressions what the run time says, in short messages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.typing.check_corpus import short
from tests.typing.checkers import ROOT
from tests.typing.public_functions import PREAMBLE as of_public_functions
from tests.typing.public_functions import Call, calls
from tests.typing.random_programs import PREAMBLE, axes_at_run_time, expressions
from tests.typing.with_plugin import Checked
from wyrm.errors import ShapeError
from wyrm.mypy.messages import abbreviated
from wyrm.mypy.plugin import guarded
from wyrm.mypy.versions import check

_COUNT = 1000


@cache
def _chosen() -> list[str]:
    return list(dict.fromkeys(expressions(_COUNT)))


RANDOM = Checked("random", lambda: PREAMBLE + "".join(f"reveal_type({each})\n" for each in _chosen()), drawn=True)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, list[str] | None, list[str] | None]]:
    """Random expressions, each with its axes at run time and those that mypy reveals; None where they do not fit."""
    names: dict[str, Any] = {}
    exec(PREAMBLE, names)
    said, start = RANDOM.says(tmp_path_factory), PREAMBLE.count("\n") + 1
    return [
        (each, axes_at_run_time(each, names), _revealed(said.get(number, [])))
        for number, each in enumerate(_chosen(), start)
    ]


def _revealed(messages: list[tuple[str, str, str]]) -> list[str] | None:
    """Return the axes of a revealed type; None for an error."""
    if any(severity == "error" for severity, _, _ in messages):
        return None
    (text,) = [text for _, text, _ in messages if text.startswith("Revealed type is")]
    shape = re.search(r"tuple\[((?:[^\[\]]|\[(?:[^\[\]]|\[[^\]]*\])*\])*)\]\]?\"$", short(text))
    if shape is None:
        return ["unknown"]
    return [] if shape[1] == "()" else re.split(r", (?![^\[]*\])", shape[1])


def test_most_expressions_are_of_both_kinds(judged: list[tuple[str, Any, Any]]) -> None:
    fitting = [each for each, axes, _ in judged if axes is not None]
    assert len(fitting) > 350
    assert len(judged) - len(fitting) > 250


def test_no_expression_that_fits_is_an_error(judged: list[tuple[str, Any, Any]]) -> None:
    assert [(each, axes) for each, axes, found in judged if axes is not None and found is None] == []


def test_axes_are_those_of_the_run_time(judged: list[tuple[str, Any, Any]]) -> None:
    wrong = [
        (each, axes, found)
        for each, axes, found in judged
        if axes is not None and found is not None and found != ["unknown"] and not _agree(axes, found)
    ]
    assert not wrong, "\n".join(map(str, wrong))


def _agree(axes: list[str], found: list[str]) -> bool:
    return len(axes) == len(found) and all(b in ("Any", a) for a, b in zip(axes, found, strict=True))


def test_errors_of_the_run_time_are_found(judged: list[tuple[str, Any, Any]]) -> None:
    # What is missed has operands of axes without a name, after a slice or a reshape, whose sizes do not fit.
    missed = [each for each, axes, found in judged if axes is None and found is not None]
    assert len(missed) <= 0.03 * len(judged), missed


def test_few_axes_stay_unknown(judged: list[tuple[str, Any, Any]]) -> None:
    unknown = [each for each, axes, found in judged if axes is not None and found == ["unknown"]]
    assert len(unknown) <= 0.02 * len(judged), unknown


@cache
def _calls() -> list[Call]:
    return list(calls())


FUNCTIONS = Checked(
    "functions", lambda: of_public_functions + "".join(f"reveal_type({c.text})\n" for c in _calls()), drawn=True
)


@pytest.fixture(scope="module")
def of_functions(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Call, list[str] | None]]:
    """Calls of every public function, each with the axes that mypy reveals; None for an error."""
    said, start = FUNCTIONS.says(tmp_path_factory), of_public_functions.count("\n") + 1
    return [(each, _revealed(said.get(number, []))) for number, each in enumerate(_calls(), start)]


def test_most_functions_keep_exact_axes(of_functions: list[tuple[Call, list[str] | None]]) -> None:
    judged = [(call, found) for call, found in of_functions if call.axes is not None and found is not None]
    wrong = [(call, found) for call, found in judged if found != ["unknown"] and not _agree(call.axes or [], found)]
    assert wrong == []
    inexact = [call for call, found in judged if found != call.axes]
    assert len(judged) > 1000
    assert len(inexact) <= 0.03 * len(judged), inexact


def test_few_calls_of_functions_are_refused_where_they_run(of_functions: list[tuple[Call, list[str] | None]]) -> None:
    refused = [call for call, found in of_functions if call.axes is not None and found is None]
    # The declarations refuse, for instance, nodes as orders of Bessel functions.
    assert len(refused) <= 20, refused


def test_most_errors_of_functions_are_found(of_functions: list[tuple[Call, list[str] | None]]) -> None:
    wrong = [(call, found) for call, found in of_functions if call.axes is None]
    missed = [call for call, found in wrong if found is not None]
    assert len(wrong) > 500
    assert len(missed) <= 0.03 * len(wrong), missed


MESSAGES = {
    "x_ab + x_ba": "+ of (A, B) and (B, A): A against B",
    "x_ab @ x_ab": (
        "@ of (A, B) and (A, B): B against A; for products of each row with its row use x.vector_dot(y), of all rows "
        "with all rows x @ y.T"
    ),
    "(x_ab / float(len('ab')) ** 0.5) @ x_bc.T": "@ of (A, B) and (C, B): B against C",
    "x_ab * len('ab') ** -0.5 + x_ba": "+ of (A, B) and (B, A): A against B",
    "x_ab / np.sqrt(len('ab')) + x_ba": "+ of (A, B) and (B, A): A against B",
    "x_ab < x_b[:, None]": "< of (A, B) and (B, One): A against B",
    "1.0 - x_ab * x_abc": "* of (A, B) and (A, B, C): B against A",
    "x_ab.sum(axis=2)": "sum of (A, B): axis 2 is out of range for 2 axes: it must be from -2 to 1",
    "x_ab[0, 0, 0]": "[...] of (A, B): the operand has 2 axes, but the key indexes 3",
    "wy.where(x_ab > 0.0, x_ab, x_ba)": "where of (A, B) and (A, B) and (B, A): A against B",
    "wy.einsum('ij,jk->ik', x_ab, x_ab)": "einsum of (A, B) and (A, B): axis 'j': B against A",
    "wy.einsum('ij,jk,kl->il', x_ab, x_bc, x_ab)": ("einsum of (A, B) and (B, C) and (A, B): axis 'k': C against A"),
    "wy.concatenate([x_ab, x_bc])": "concatenate of (A, B) and (B, C): B against C",
    "wy.losses.mse(x_ab, x_ba)": "mse of (A, B) and (B, A): A against B",
    "wy.losses.mse(x_ab, x_b)": "mse of (A, B) and (B,): (A, B) against (B,)",
    "wy.losses.mse(wy.nn.Linear(b, 1)(x_ab), x_a)": "mse of (A, Any) and (A,): 2 axes against 1",
    "wy.losses.cross_entropy(s, wy.IndexInput(dims=(a,)))": (
        "cross_entropy of () and (A,): logits needs at least one axis, and the operand is a scalar"
    ),
    "x_abc * x_ab": "* of (A, B, C) and (A, B): B against A",
    "x_ab * x_abc": "* of (A, B) and (A, B, C): B against A",
    "wy.Input(dims=(a, b, wy.Dim(), wy.Dim())) * x_ab": "* of (A, B, Dim, Dim) and (A, B): Dim against A",
    "wy.scan(lambda h, v: (h + v, None), x_ab, x_abc)": "+ of (A, B) and (B, C): A against B",
}


CALLS = {
    "wy.nn.Linear(b, a)(x_ba)": "Linear of (B, A): expected (B, B)",
    "wy.nn.GRU(a, b)(x_abc)": "GRU of (A, B, C): expected (A, B, A)",
    "wy.nn.GRU(c, b)(x_abc, x_abc)": "GRU of (A, B, C): expected (A, B)",
    "wy.nn.MultiHeadAttention(c, 1)(x_abc, key=x_acb)": "MultiHeadAttention(key=) of (A, C, B): expected (A, C, C)",
    "wy.nn.Conv2d(a, b, 3)(x_abc)": "Conv2d of (A, B, C): expected (Any, A, Any, Any)",
    "wy.nn.LSTMCell(b, c)(x_ab, (x_ba, x_ab))": (
        "LSTMCell: argument 2 is ((B, A), (A, B)), expected LSTMState[A, C] | None"
    ),
    "wy.nn.GRUCell(b, c)(x_ab, (x_ab, x_ab))": "GRUCell: argument 2 is ((A, B), (A, B)), expected (A, C) | None",
    "wy.nn.LSTM(c, b)(x_abc, x_ab)": "LSTM: argument 2 is (A, B), expected LSTMState[A, B] | None",
    "wy.nn.LSTMCell(b, c)(x_a)": "LSTMCell of (A,): expected (Any, B)",
    "wy.nn.Embedding(a, b)(x_ab)": "Embedding: argument 1 holds floats, expected integers",
    "wy.nn.MultiHeadAttention(c, 1)(x_abc, x_abc)": "MultiHeadAttention of (A, B, C) and (A, B, C): B against C",
    "wy.nn.MultiHeadAttention(c, 1)(x_abc, keymask=x_ab)": (
        'Unexpected keyword argument "keymask" for overloaded function "__call__" of "MultiHeadAttention"; '
        'did you mean "key_mask"?'
    ),
    "wy.nn.MultiHeadAttention(c, 1)(x_ab, x_ab, x_ab)": (
        "MultiHeadAttention takes x and mask by position, not 3 arguments; key_mask=, past=, key=, value= by name"
    ),
}


OF_MODULES = Checked("modules", lambda: PREAMBLE + "".join(f"{each}\n" for each in CALLS))


def test_messages_of_modules_name_axes_alone(tmp_path_factory: pytest.TempPathFactory) -> None:
    said = OF_MODULES.says(tmp_path_factory)
    start = PREAMBLE.count("\n") + 1
    found = {each: [text for _, text, _ in said[number]] for number, each in enumerate(CALLS, start)}
    assert found == {each: [text] for each, text in CALLS.items()}


_OF_MESSAGES = PREAMBLE.replace("import wyrm", "import numpy as np\nimport wyrm")
OF_AXES = Checked("axes", lambda: _OF_MESSAGES + "".join(f"{each}\n" for each in MESSAGES))


def test_messages_name_two_axes(tmp_path_factory: pytest.TempPathFactory) -> None:
    said = OF_AXES.says(tmp_path_factory)
    start = _OF_MESSAGES.count("\n") + 1
    found = {each: said.get(number) for number, each in enumerate(MESSAGES, start)}
    assert found == {each: [("error", text, "axes")] for each, text in MESSAGES.items()}


FUNCTIONS_PREAMBLE = (
    PREAMBLE
    + """\
from typing import Any

on = s > 0.0
index = wy.IndexInput(2)
first_half = wy.vmap(lambda v: v.sum())


def double(v: wy.Tensor[A, B]) -> wy.Tensor[A, B]:
    return v * 2.0


def turned(v: wy.Tensor[A, B]) -> wy.Tensor[B, A]:
    return v.T


def unknown(v: Any) -> Any:
    return v


def step(h: wy.Tensor[B], v: wy.Tensor[B]) -> tuple[wy.Tensor[B], wy.Tensor[()]]:
    return h + v, h.sum()


def turned_step(h: wy.Tensor[A, B], v: wy.Tensor[B, C]) -> tuple[wy.Tensor[B, A], None]:
    return h.T, None


"""
)
OF_FUNCTIONS = {
    "wy.cond(on, double, double, x_ab)": "(A, B)",
    "wy.cond(on, lambda v: v @ x_bc, lambda v: v @ x_bc * 2.0, x_ab)": "(A, C)",
    "wy.cond(on, lambda v: (v, v.sum()), lambda v: (v.exp(), v.sum()), x_ab)": "((A, B), ())",
    "wy.cond(on, lambda v: v[0:3], lambda v: v[1:4], x_ab)": "(Any, B)",
    "wy.cond(on, unknown, double, x_ab)": "Any",
    "wy.switch(index, [double, lambda v: v.exp()], x_ab)": "(A, B)",
    "wy.vmap(lambda v: v * 2.0)(x_ab)": "(A, B)",
    "wy.vmap(lambda v: v[:, None] * v)(x_ab)": "(A, B, B)",
    "wy.vmap(lambda v, w: v @ w, in_axes=(0, None))(x_ab, x_bc)": "(A, C)",
    "wy.vmap(lambda v: v.exp(), in_axes=1, out_axes=1)(x_ab)": "(A, B)",
    "wy.vmap(lambda v: (v.sum(), v))(x_ab)": "((A,), (A, B))",
    "wy.vmap(double)(wy.stack([x_ab, x_ab]))": "(Any, A, B)",
    "wy.vmap(wy.vmap(lambda v: v * 2.0))(x_ab)": "(A, B)",
    "wy.vmap(wy.sum)(x_ab)": "(A,)",
    "wy.vmap(wy.nn.Linear(b, c))(x_ab)": "(A, C)",
    "first_half(x_ab)": "(A,)",
    "wy.vmap(unknown)(x_ab)": "Any",
    "wy.scan(step, x_b, x_ab)": "((B,), (A,))",
    "wy.scan(lambda h, v: ((h @ x_bc @ x_bc.T + v).tanh(), None), x_b, x_ab)": "((B,), None)",
    "wy.scan(lambda h, _: (h * 2.0, h), x_b, length=3)": "((B,), (Any, B))",
    "wy.scan(lambda h, v: ((h[0] + v, h[1]), h[1]), (x_b, x_ab), x_ab)": "(((B,), (A, B)), (A, A, B))",
    "wy.scan(lambda h, v: (h + v[0] * v[1], None), x_b, (x_ab, x_ab))": "((B,), None)",
    "wy.scan(lambda h, v: ((h[0] + v, h[1] + 1), h[1]), (x_b, wy.IndexConstant(0)), x_ab)": "(((B,), ()), (A,))",
    "wy.while_loop(lambda h: h.sum() > 1.0, lambda h: h * 0.5, x_ab)": "(A, B)",
    "wy.while_loop(lambda h: h[1] < 3, lambda h: (h[0] * 0.5, h[1] + 1), (x_ab, wy.IndexConstant(0)))": "((A, B), ())",
    "wy.jacobian(lambda v: v * 2.0)(x_ab)": "(A, B, A, B)",
    "wy.jacobian(lambda v: v.sum(axis=1))(x_ab)": "(A, A, B)",
    "wy.hessian(lambda v: (v * v).sum())(x_a)": "(A, A)",
    "wy.cond(on, lambda: x_ab, lambda: x_ba)": "cond: the functions return (A, B) and (B, A)",
    "wy.cond(on, lambda v: v, lambda v: v.sum(), x_ab)": "cond: the functions return (A, B) and ()",
    "wy.cond(on, double, turned, x_ab)": "cond: the functions return (A, B) and (B, A)",
    "wy.cond(on, lambda v: (v, v.T), lambda v: (v.T, v), x_ab)": (
        "cond: the functions return ((A, B), (B, A)) and ((B, A), (A, B))"
    ),
    "wy.switch(index, [double, turned], x_ab)": "switch: the functions return (A, B) and (B, A)",
    "wy.switch(index, [lambda: x_ab, lambda: x_ba])": "switch: the functions return (A, B) and (B, A)",
    "wy.scan(turned_step, x_ab, x_abc)": "scan of (A, B) and (A, B, C): carry has the axes (A, B) but becomes (B, A)",
    "wy.scan(lambda h, v: (h.T, None), x_ab, x_abc)": (
        "scan of (A, B) and (A, B, C): carry has the axes (A, B) but becomes (B, A)"
    ),
    "wy.scan(lambda h, v: ((h[1], h[0]), None), (x_a, x_b), x_ba)": (
        "scan of (A,) and (B,) and (B, A): carry[0] has the axes (A,) but becomes (B,)"
    ),
    "wy.scan(lambda h, v: (h + v, None), x_a, x_ab)": "+ of (A,) and (B,): A against B",
    "wy.scan(lambda h, v: (h + v[0] * v[1], None), x_b, (x_ab, x_ba))": (
        "scan of (B,) and (A, B) and (B, A): sequence lengths differ: A, B"
    ),
    "wy.scan(step, x_ab, x_abc)": "scan: the function takes ((B,), (B,)), but gets ((A, B), (B, C))",
    "wy.while_loop(lambda h: h.sum() > 1.0, lambda h: h.T, x_ab)": (
        "while_loop of (A, B): carry has the axes (A, B) but becomes (B, A)"
    ),
    "wy.vmap(lambda v: v)(s)": ("vmap of (): the operand has no axis to map over; set in_axes to None for it"),
    "wy.vmap(lambda v, w: v.sum() * w.sum())(x_ab, x_ba)": "vmap of (A, B) and (B, A): batch sizes differ: A and B",
    "wy.vmap(lambda v: v @ x_ab)(x_ab)": "@ of (B,) and (A, B): B against A",
}


OF_USERS = Checked("users", lambda: FUNCTIONS_PREAMBLE + "".join(f"reveal_type({each})\n" for each in OF_FUNCTIONS))


def test_calls_of_functions_of_users_have_exact_axes(tmp_path_factory: pytest.TempPathFactory) -> None:
    said = OF_USERS.says(tmp_path_factory)
    start = FUNCTIONS_PREAMBLE.count("\n") + 1
    found = {}
    for number, each in enumerate(OF_FUNCTIONS, start):
        errors = [text for severity, text, _ in said[number] if severity == "error"]
        (revealed,) = [text for severity, text, _ in said[number] if severity == "note"]
        found[each] = " ".join(errors) or abbreviated(short(revealed).removeprefix('Revealed type is "')[:-1])
    assert found == OF_FUNCTIONS


def test_axes_of_functions_of_users_are_those_of_the_run_time() -> None:
    names: dict[str, Any] = {}
    exec(FUNCTIONS_PREAMBLE, names)
    for each, expected in OF_FUNCTIONS.items():
        if not expected.startswith(("(", "Any")):
            with pytest.raises(ShapeError):
                eval(each, names)
        elif "Any" not in expected:
            assert _axes(eval(each, names)) == expected


def _axes(value: Any) -> str:
    if value is None:
        return "None"
    items = (
        [_axes(part) for part in value] if isinstance(value, tuple) else [type(axis).__name__ for axis in value.dims]
    )
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


OWN_OPS = (
    PREAMBLE
    + """

class Cube(wy.Unary):
    formula = "x * x * x"


class Product(wy.Binary):
    formula = "x * y"


class Power(wy.Unary):
    __slots__ = ("exponent",)
    formula = "x ** exponent"


class Scaled(wy.Unary):
    __slots__ = ("by",)
    formula = "x * by"
    by: float

    def __init__(self, x: wy.Node, by: float) -> None:
        super().__init__(x, by=by)


def value(node: Cube) -> float:
    return float(node.sum())


def total() -> wy.Tensor[A, B]:
    return x_ab + x_ba


reveal_type(Cube(x_ab))
reveal_type(Product(x_ab, y_ab).sum(axis=0))
Cube(x_ab) + x_ba
reveal_type(Scaled(x_ab, 2.0).shape)
value(Cube(x_ab))
Product(x_ab, x_ba)
Power(x_ab, exponent=2.0)
Power(x_ab, expnent=2.0)
"""
)


OF_OWN_OPS = Checked("own_ops", lambda: OWN_OPS)


def test_own_ops_without_type_arguments_keep_their_axes(tmp_path_factory: pytest.TempPathFactory) -> None:
    said = [message for line in sorted(OF_OWN_OPS.says(tmp_path_factory).items()) for message in line[1]]
    assert [(severity, short(text)) for severity, text, _ in said[:4]] == [
        ("error", "+ of (A, B) and (B, A): A against B"),  # and nothing of what the function returns
        ("note", 'Revealed type is "Cube[Parameter[tuple[A, B]], tuple[A, B]]"'),
        ("note", 'Revealed type is "Sum[Product[Any, Any, tuple[A, B]], tuple[B]]"'),
        ("error", "+ of (A, B) and (B, A): A against B"),
    ]
    assert [severity for severity, _, _ in said[4:]] == ["note", "error", "error"]
    assert said[5][1] == "Product of (A, B) and (B, A): A against B"  # and nothing of type parameters
    assert said[6][1:] == ("Power has no attribute 'expnent'; did you mean 'exponent'?", "call-arg")


def test_an_exception_in_a_hook_leaves_what_mypy_does_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(context: str) -> str:
        raise KeyError(context)

    module = sys.modules[guarded.__module__]
    monkeypatch.setattr(module, "RAISES", False)
    assert guarded(fails, str.upper)("context") == "CONTEXT"
    monkeypatch.setattr(module, "RAISES", True)
    with pytest.raises(KeyError):
        guarded(fails, str.upper)("context")


def test_only_newer_versions_of_mypy_are_tried(capsys: pytest.CaptureFixture[str]) -> None:
    check("2.4.9")
    assert capsys.readouterr().err == ""
    check("2.10.0+dev")
    assert capsys.readouterr().err == (
        "wyrm.mypy is tested with mypy 2.4, and this is 2.10.0+dev: where it fails, mypy gives the types of the "
        "declarations\n"
    )
    with pytest.raises(ImportError, match=r"needs mypy 2\.4, and this is 1\.19\.0: pip install 'mypy>=2\.4'"):
        check("1.19.0")


# Runs mypy as another version.
_AS_VERSION = """import sys
import mypy.version
mypy.version.__version__ = sys.argv.pop(1)
from mypy.__main__ import console_entry
console_entry()
"""


@pytest.mark.parametrize(("version", "status"), [("2.3.0", 2), ("2.5.0", 0)])
def test_another_version_of_mypy_says_one_line(version: str, status: int, tmp_path: Path) -> None:
    (tmp_path / "mypy.ini").write_text("[mypy]\nplugins = wyrm.mypy\n", encoding="utf-8")
    command = [sys.executable, "-c", _AS_VERSION, version, "--no-error-summary", "--cache-dir", os.devnull, "-c", ""]
    run = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert run.returncode == status, run.stdout + run.stderr
    (line,) = [*run.stdout.splitlines(), *run.stderr.splitlines()]
    assert f"mypy 2.4, and this is {version}" in line
