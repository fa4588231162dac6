"""The plugin for mypy knows that nodes with rows of different lengths give rows: each type is that of the run time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.typing.with_plugin import CheckedLines

PREAMBLE = """\
from __future__ import annotations
import numpy as np
import wyrm as wy


class Batch(wy.Dim): ...


class Words(wy.Ragged): ...


batch, words = Batch(), Words()
rows: list[list[float]] = [[1.0, 2.0], [], [3.0]]
x = wy.Input(rows, dims=(batch, words), name="x")
ids = wy.IndexInput([[1, 2], [], [3]], dims=(batch, words), name="ids")
of_row = wy.Input(np.ones(3), dims=(batch,), name="of_row", dtype=np.float32)
plain: wy.Node = of_row


"""
_FLOATS, _INTEGERS = (
    f"numpy.ndarray[tuple[Any, ...], numpy.dtype[numpy.{kind}[Any]]]" for kind in ("floating", "integer")
)
_ANY = "numpy.ndarray[tuple[Any, ...], numpy.dtype[Any]]"


def rows_of(array: str) -> str:
    return f"wyrm.graph.ragged.RaggedArray[{array}]"


# With the types that mypy reveals.
RIGHT = {
    "x.value": rows_of(_FLOATS),
    "ids.value": rows_of(_INTEGERS),
    "x.tanh().forward()": rows_of(_FLOATS),
    "wy.row_lengths(x).forward()": _INTEGERS,
    "x.sum(axis=1).forward()": _FLOATS,
    "plain.value": _FLOATS,
    "x.value[0]": _FLOATS,
    "x.value[1:]": rows_of(_FLOATS),
    "wy.compile(x * 2.0)({x: rows})": rows_of(_FLOATS),
    "wy.compile(outputs=ids)({ids: [[1], []]})": rows_of(_INTEGERS),
    "wy.compile(of_row)()": _FLOATS,
    "wy.compile([x, x * 2.0])()": f"list[{rows_of(_FLOATS)}]",
    "wy.compile([x, of_row])()": f"list[{_FLOATS} | {rows_of(_FLOATS)}]",
    "wy.compile([ids, of_row])()": f"list[{_ANY} | {rows_of(_ANY)}]",
    "wy.compile([of_row, of_row * 2.0])()": f"list[{_FLOATS}]",
}
WRONG = {
    "x.value.reshape(-1)": '"RaggedArray[ndarray[tuple[Any, ...], dtype[floating[Any]]]]" has no attribute "reshape"',
    "(x * 2.0).forward().T": '"RaggedArray[ndarray[tuple[Any, ...], dtype[floating[Any]]]]" has no attribute "T"',
    "wy.compile(x * 2.0)({x: rows}).shape": (
        '"RaggedArray[ndarray[tuple[Any, ...], dtype[floating[Any]]]]" has no attribute "shape"'
    ),
    "wy.compile([x, x])()[0].shape": (
        '"RaggedArray[ndarray[tuple[Any, ...], dtype[floating[Any]]]]" has no attribute "shape"'
    ),
    "of_row.value.lengths": '"ndarray[tuple[Any, ...], dtype[floating[Any]]]" has no attribute "lengths"',
}
OF_ENTRIES = CheckedLines("entries", PREAMBLE, RIGHT, WRONG)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What mypy says of each line."""
    return OF_ENTRIES.of_lines(tmp_path_factory)


def test_nodes_and_programs_give_rows_where_their_axes_say_so(said: dict[str, list[str]]) -> None:
    assert {each: said[each] for each in RIGHT} == {
        each: [f'Revealed type is "{type_}"'] for each, type_ in RIGHT.items()
    }


def test_rows_are_not_taken_for_an_array(said: dict[str, list[str]]) -> None:
    assert {each: said[each] for each in WRONG} == {each: [text] for each, text in WRONG.items()}


def test_the_run_time_agrees() -> None:
    names: dict[str, Any] = {"wy": wy}
    exec(PREAMBLE, names)
    for each, type_ in RIGHT.items():
        found = eval(each, names)
        found = found if isinstance(found, list) else [found]
        kinds = {
            wy.RaggedArray if "RaggedArray" in type_ else np.ndarray,
            np.ndarray if "|" in type_ else type(found[0]),
        }
        assert {type(value) for value in found} == kinds, each
    for each in WRONG:
        with pytest.raises(AttributeError):
            eval(each, names)
