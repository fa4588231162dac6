"""Many small cases as one test: each runs whatever the others do, and each that fails is named.

A test of its own costs pytest and its workers several milliseconds; cases that take less stand together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import pytest

T = TypeVar("T")


def check_each(cases: Iterable[T], check: Callable[[T], None], name: Callable[[T], str] = str) -> None:
    """Call `check` for each case; raise the errors of those that fail, with their names, once all have run."""
    count, failures, names = 0, [], []
    for case in cases:
        count += 1
        try:
            check(case)
        # A skipped case would leave out those after it: cases that cannot run do not belong to the group.
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
            error.add_note(f"This is case {name(case)}.")
            failures.append(error)
            names.append(name(case))
    assert count, "there are no cases"
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} of {count} cases fail: {', '.join(names)}", failures)


class Group(list[T]):
    """The cases of one test; `pytest -k NAME` selects the tests that have a case of this name."""

    names: tuple[str, ...] = ()


def groups_of(cases: Iterable[T], size: int, name: Callable[[T], str] = str) -> list[Group[T]]:
    """Return groups of at most `size` cases."""
    every = list(cases)
    groups = [Group(every[start : start + size]) for start in range(0, len(every), size)]
    for group in groups:
        group.names = tuple(map(name, group))
    return groups


def keywords_of(item: pytest.Item) -> tuple[str, ...]:
    """Return the names of the cases of a test."""
    parameters: Mapping[str, object] = getattr(getattr(item, "callspec", None), "params", {})
    return tuple(name for each in parameters.values() if isinstance(each, Group) for name in each.names)


def each(
    cases: Iterable[T], size: int = 64, name: Callable[[T], str] = str
) -> Callable[[Callable[[T], None]], Callable[[list[T]], None]]:
    """Make a test of one case a test of groups of at most `size` cases."""
    groups = groups_of(cases, size, name)
    assert groups, "there are no cases"

    def decorate(check: Callable[[T], None]) -> Callable[[list[T]], None]:
        def test(group: list[T]) -> None:
            check_each(group, check, name)

        # Without `__wrapped__`, which would tell pytest that the test takes one case.
        test.__name__, test.__qualname__, test.__doc__ = check.__name__, check.__qualname__, check.__doc__
        test.__module__ = check.__module__
        ids = [f"from_{name(group[0])}" for group in groups]
        parametrized: Callable[[list[T]], None] = pytest.mark.parametrize("group", groups, ids=ids)(test)
        return parametrized

    return decorate
