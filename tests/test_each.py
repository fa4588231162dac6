"""A test of many cases runs each of them, and names those that fail."""

from __future__ import annotations

import pytest

from tests.each import check_each, each


def test_every_case_runs_and_those_that_fail_are_named() -> None:
    seen: list[int] = []

    def check(case: int) -> None:
        seen.append(case)
        if case == 1:
            with pytest.raises(ValueError):
                pass
        if case == 2:
            pytest.skip("not here")
        assert case != 3

    with pytest.raises(BaseExceptionGroup, match="3 of 5 cases fail: one 1, one 2, one 3") as found:
        check_each(range(5), check, lambda case: f"one {case}")
    assert seen == [0, 1, 2, 3, 4]
    notes = [error.__notes__ for error in found.value.exceptions]
    assert notes == [[f"This is case one {case}."] for case in (1, 2, 3)]


def test_no_cases_are_an_error() -> None:
    with pytest.raises(AssertionError, match="there are no cases"):
        check_each([], print)
    with pytest.raises(AssertionError, match="there are no cases"):
        each([])


@each(range(10), size=4, name=lambda case: f"case {case}")
def test_groups_hold_all_cases(case: int) -> None:
    assert case in range(10)


def test_groups_have_the_names_of_their_cases() -> None:
    (mark,) = getattr(test_groups_hold_all_cases, "pytestmark")  # noqa: B009  # pytest adds it
    assert mark.kwargs["ids"] == [f"from_case {first}" for first in (0, 4, 8)]
    assert [group.names for group in mark.args[1]][-1] == ("case 8", "case 9")
