"""The line that made a node, found only when it is asked for."""

from __future__ import annotations

import copy
import pickle
import sys
from types import FrameType
from typing import Any

import pytest

import wyrm as wy
from wyrm.graph.source_location import located_at, location_of, user_origin


def here() -> int:
    """Return the caller's line."""
    frame: FrameType = sys._getframe(1)
    return frame.f_lineno


def test_the_line_of_every_kind_of_code() -> None:
    p = wy.Parameter(1.0)
    found: list[tuple[Any, int]] = []
    for i in range(3):
        found.append((p * 2.0, here()))
        found.append(((p
                       + p), here() - 1))  # fmt: skip
        found += [(p.tanh(), here()) for _ in range(i)]
        found.append(((lambda: p.exp())(), here()))

    class Body:
        node, line = p.sin(), here()

    found.append((Body.node, Body.line))
    for node, line in found:
        assert (node.location.filename, node.location.line) == (__file__, line)
        again = pickle.loads(pickle.dumps(node))
        assert again.location == node.location == copy.deepcopy(node).location
    assert found[0][0].parents[1].location == found[0][0].location  # the constant's


def test_code_that_is_made_and_forgotten_is_told_apart() -> None:
    p = wy.Parameter(1.0)
    for i in range(50):
        names: dict[str, Any] = {"p": p, "__name__": "wyrmlike"}
        exec(compile("\n" * i + "node = p * 2.0", f"made{i}.py", "exec"), names)
        assert (names["node"].location.filename, names["node"].location.line) == (f"made{i}.py", i + 1)


@pytest.mark.parametrize("module", ["wyrm.made", "sklearn.pipeline", "joblib.parallel"])
def test_code_under_the_name_of_the_library_is_passed_over(module: str) -> None:
    names: dict[str, Any] = {"p": wy.Parameter(1.0), "__name__": module}
    exec("def make(): return p * 2.0", names)
    for _ in range(2):
        node, line = names["make"](), here()
        assert (node.location.filename, node.location.line) == (__file__, line)


def test_nodes_of_a_gradient_have_the_line_of_what_they_differentiate() -> None:
    p = wy.Parameter([1.0, 2.0])
    first, line = p.square(), here()
    second, other = first.tanh().sum(), here()
    gradient = wy.grad(second, p)
    lines = {node.location.line for node in wy.graph.traversal.topological_order([gradient])}
    assert {line, other} <= lines and gradient.location.line == line
    assert (p * 2.0).location.line == here()  # but not afterwards


def test_another_line_within_and_the_own_one_after() -> None:
    p = wy.Parameter(1.0)
    outer, inner = (p * 2.0).origin, (p * 3.0).origin
    with located_at(outer):
        with located_at(inner):
            assert (p + p).origin == inner
        assert (p + p).origin == outer
    with pytest.raises(KeyError), located_at(outer):
        raise KeyError
    assert (p + p).location.line == here()


def test_a_vjp_that_a_subclass_gives_is_the_one_that_counts() -> None:
    from wyrm.ops.elementwise.arithmetic import Multiply

    class Halved(Multiply):
        """A product with half of its gradient."""

        __slots__ = ()
        operator = ""  # another op has this operator

        def vjp(self, gradient: Any) -> tuple[Any, ...]:
            x, y = self.parents
            return gradient * y * 0.5, gradient * x * 0.5

    p = wy.Parameter(3.0)
    Halved(p, wy.Constant(4.0)).backward()
    assert float(p.gradient) == 2.0


def test_a_line_is_found_by_who_asks_for_a_message() -> None:
    def of_the_library() -> Any:
        return location_of(user_origin())

    assert of_the_library().line == here()
