"""Rules: a backend's description of an op, registered for its class."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import RegistrationError
from wyrm.graph import REGISTRY, loop_form
from wyrm.graph.loop_form import Reducer
from wyrm.graph.registration import Rules


class Rule:
    """The description of an op for the backend of these tests."""

    def __init__(self, text: str = "the default") -> None:
        self.text = text


class Twice(wy.Unary):
    """An op."""

    __slots__ = ()
    formula = "x * 2.0"

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient * 2.0,)


class Doubled(Twice):
    """A subclass of the op."""

    __slots__ = ()


class Family(wy.Unary, abstract=True):
    """The base class of a family of ops."""

    __slots__ = ()

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient,)


class Member(Family):
    """A member of the family."""

    __slots__ = ()
    formula = "x + 0.0"


def rules() -> Rules[Rule]:
    return Rules("TESTS", Rule())


def op(name: str, base: type = wy.Unary, **parts: Any) -> Any:
    """Return a new op."""
    own = {"vjp": lambda self, gradient: (gradient,), "formula": "x + 0.0", "__module__": __name__}
    return type(name, (base,), {**own, **parts})


X = wy.Constant([1.0, 2.0])


def test_a_rule_serves_the_op_and_its_subclasses() -> None:
    known = rules()
    assert known.of(Twice(X)).text == "the default"
    known.register(Twice)(Rule("of Twice"))
    assert known.of(Twice(X)).text == known.of(Doubled(X)).text == "of Twice"
    known.register(Doubled)(Rule("of Doubled"))  # even if another was looked up before
    assert known.of(Doubled(X)).text == "of Doubled" and known.of(Twice(X)).text == "of Twice"
    assert known.of(X).text == known.of(Member(X)).text == "the default"


def test_a_family_has_one_rule() -> None:
    known = rules()

    @known.register(Family)
    class OfFamily(Rule):
        def __init__(self) -> None:
            super().__init__("of the family")

    assert known.of(Member(X)).text == "of the family"
    assert known.of_op(op("Later", Family)).text == "of the family"
    assert OfFamily.__name__ == "OfFamily"


def test_ops_share_a_rule() -> None:
    known = rules()
    known.register(Twice, Member)(Rule("of both"))
    assert known.of(Twice(X)) is known.of(Member(X))


def test_an_op_has_one_rule() -> None:
    known = rules()
    known.register(Twice)(Rule("of Twice"))

    class Other(Rule):
        pass

    with pytest.raises(RegistrationError, match=r"op Twice already has a rule in TESTS, Rule, .*, Other: merge them"):
        known.register(Twice)(Other("another"))
    with pytest.raises(RegistrationError, match="op Twice already has a rule in TESTS"):
        known.register(Twice)(Rule("the same class"))
    assert known.of(Twice(X)).text == "of Twice"


def test_what_is_defined_anew_takes_the_place_of_what_was_there() -> None:
    known = rules()
    for text in ("first", "second"):

        @known.register(Twice)
        class OfTwice(Rule):
            def __init__(self) -> None:
                super().__init__(text)  # noqa: B023  # called within the iteration

        assert known.of(Twice(X)).text == text
        again = op("Again")
        known.register(again)(Rule(text))
        assert known.of(again(X)).text == text


def test_what_is_no_op_and_what_is_no_rule() -> None:
    known = rules()
    with pytest.raises(RegistrationError, match=r"Forgotten is not an op: write @TESTS\.register\(Op\) above"):

        @known.register  # type: ignore[arg-type]  # the test
        class Forgotten(Rule):
            pass

    with pytest.raises(RegistrationError, match=r"int is not a rule of TESTS: derive it from Rule"):
        known.register(Twice)(int)
    with pytest.raises(RegistrationError, match="Nothing is not a rule of LOOPS: derive it from LoopForm"):
        wy.LOOPS.register(Member)(type("Nothing", (), {}))


def test_every_op_has_a_loop_form() -> None:
    assert type(wy.LOOPS.of(Twice(X))) is wy.LoopForm
    forms = [wy.LOOPS.of_op(each) for each in REGISTRY.values()]
    assert all(isinstance(form, wy.LoopForm) for form in forms)
    assert sum(type(form) is not wy.LoopForm for form in forms) > 40


KINDS = {
    "Decomposed": "decompose",
    "ByFlatIndex": "by_flat_index",
    "Reduced": "reducer",
    "Gathered": "gather_index",
    "Scattered": "scatter_index",
    "ByKernel": "kernel",
    "DrawsRows": "draws_from",
}


@pytest.mark.parametrize(("kind", "word"), KINDS.items())
def test_a_loop_form_defines_what_its_kind_must_define(kind: str, word: str) -> None:
    form = type("Lacking", (getattr(loop_form, kind),), {})
    reason = f"Lacking is a {kind} form, which must define {word}: add it to Lacking"
    with pytest.raises(RegistrationError, match=reason):
        wy.LOOPS.register(op("Left"))(form)


def test_every_kind_of_loop_form_answers_what_the_compiler_asks() -> None:
    asked = {word for word in dir(wy.LoopForm) if not word.startswith("_")}
    for kind in KINDS:
        words = {word for word in vars(getattr(loop_form, kind)) if not word.startswith("_")}
        assert KINDS[kind] in words <= asked
        assert len(words) <= 5


@pytest.mark.parametrize("name", ["kernel", "adding_kernel", "by_flat_index"])
def test_a_function_that_is_compiled_is_static(name: str) -> None:
    with pytest.raises(RegistrationError, match=f"{name} of Wrong is compiled on its own: make it a @staticmethod"):
        type("Wrong", (wy.LoopForm,), {name: lambda x, out: None})


@pytest.mark.parametrize(
    ("word", "value", "instead"),
    [
        ("kernel", staticmethod(lambda x, out: None), "kernel"),
        ("kernel_arguments", lambda self, operands, out: operands, "kernel_arguments"),
        ("reducer", Reducer(0.0, "total + x"), "reducer"),
        ("gather_index", lambda self, index: index, "gather_index"),
        ("scatter_index", lambda self, parent, index: None, "scatter_index"),
        ("takes_views", True, "takes_views"),
        ("decompose", lambda self: self.parents[0], "decompose"),
        ("decompose", lambda self: self.parents[0], "decompose"),
    ],
)
def test_an_op_that_has_what_belongs_in_a_rule_is_refused(word: str, value: Any, instead: str) -> None:
    reason = (
        f"op Late has '{word}', which belongs in a rule for the op. Write below it:\n    @wy.LOOPS.register(Late)\n"
        f"    class LateRule(wy.LoopForm):\n        ...  # {instead} goes here; a method takes the node after self"
    )
    with pytest.raises(RegistrationError, match=re.escape(reason)):
        op("Late", **{word: value})
    assert f"{__name__}.Late" not in REGISTRY


def test_a_family_that_says_it_is_refused_with_its_first_op() -> None:
    base: Any = type("Older", (wy.Unary,), {"kernel": staticmethod(lambda x, out: None)}, abstract=True)
    with pytest.raises(RegistrationError, match=r"op Of has 'kernel',[^@]*@wy.LOOPS.register\(Older\)"):
        op("Of", base)


def test_an_attribute_and_a_property_may_have_these_names() -> None:
    class Convolved(wy.Unary):
        __slots__ = ("kernel",)
        formula = "x + 0.0"
        kernel: float

        def __init__(self, x: Any, kernel: float) -> None:
            super().__init__(x, kernel=kernel)

        @property
        def reducer(self) -> str:
            return f"by {self.kernel}"

        def vjp(self, gradient: Any) -> tuple[Any, ...]:
            return (gradient,)

    assert Convolved(X, 2.0).reducer == "by 2.0"
    assert np.array_equal(Convolved(X, 2.0).forward(), X.value)
