"""Values and gradients at degenerate points, in all engines: JAX's numbers, or a documented choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from tests.degenerate_points import ROWS, Row, weights_of
from tests.each import check_each
from tests.once import computed_once
from wyrm.errors import LinAlgError

name_of = attrgetter("name")
NAMES = [row.name for row in ROWS]
SOLVABLE = [row for row in ROWS if not row.error]


def _nodes(row: Row) -> list[Any]:
    """Return the node of a row, and the gradients with respect to its operands."""
    leaves = [wy.Constant(np.asarray(x, np.float64)) for x in row.operands]
    node: Any = row.ours(*leaves)
    return [node, *wy.grad((node * weights_of(node.shape)).sum(), leaves, allow_unused=True)]


def _theirs() -> dict[str, list[Any]]:
    """Return JAX's value and gradients of all rows; one function compiles in less time than many."""
    operands = [[np.asarray(x, np.float64) for x in row.operands] for row in SOLVABLE]

    def all_rows(every: Sequence[Sequence[Any]]) -> list[list[Any]]:
        results = []
        for row, each in zip(SOLVABLE, every, strict=True):
            value, pull_back = jax.vjp(row.theirs, *each)
            results.append([value, *pull_back(jax.numpy.asarray(weights_of(value.shape)))])
        return results

    with jax.enable_x64(True):
        found = jax.jit(all_rows)(operands)
        return {row.name: [np.asarray(x) for x in each] for row, each in zip(SOLVABLE, found, strict=True)}


def _ours(engine: Any) -> dict[str, list[Any]]:
    """Return our value and gradients of all rows that are no errors, by one program."""
    groups = [_nodes(row) for row in SOLVABLE]
    nodes = [node for group in groups for node in group]
    flat = iter(wy.run(nodes) if engine == "reference" else wy.compile(nodes, engine=engine)())
    return {row.name: [next(flat) for _ in group] for row, group in zip(SOLVABLE, groups, strict=True)}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    return computed_once(tmp_path_factory, "degenerate-theirs", _theirs)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, list[Any]]]:
    return cache(lambda engine: computed_once(tmp_path_factory, f"degenerate-{engine}", lambda: _ours(engine)))


@pytest.mark.parametrize("engine", ["reference", "native", "jax"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_row_is_jaxs_number_or_its_choice(
    engine: str, theirs: dict[str, list[Any]], ours: Callable[[str], dict[str, list[Any]]]
) -> None:
    found = ours(engine)
    check_each(SOLVABLE, lambda row: compare(row, found[row.name], theirs[row.name]), name_of)


def compare(row: Row, ours: list[Any], theirs: list[Any]) -> None:
    value, *gradients = theirs
    found, *slopes = ours
    assert bool(row.reason) == (row.gradients is not None)
    np.testing.assert_allclose(found, value, rtol=1e-7, atol=1e-12, err_msg=row.name)
    expected = gradients if row.gradients is None else row.gradients
    for one, other in zip(slopes, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-12, err_msg=row.name)
    if row.gradients is not None:
        same = all(np.allclose(a, b, equal_nan=True) for a, b in zip(gradients, row.gradients, strict=True))
        assert not same or row.later_agrees, "JAX's number: the row needs no reason"


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("name", [row.name for row in ROWS if row.error])
def test_a_row_without_numbers_is_an_error(name: str, engine: str) -> None:
    row = ROWS[NAMES.index(name)]
    _, *slopes = _nodes(row)
    for slope in slopes:
        with pytest.raises(LinAlgError, match=row.error):
            wy.run([slope]) if engine == "reference" else wy.compile(slope)()


def test_names_of_rows_differ() -> None:
    assert len(set(NAMES)) == len(NAMES)
