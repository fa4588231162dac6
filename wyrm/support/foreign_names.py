"""Errors that say what to use instead of a name of PyTorch, JAX or NumPy that wyrm lacks.

`foreign_names.txt` holds the answers by name, below the places of the names; a test checks that every name of wyrm in
them exists. Such a name may be:

- an attribute of a node, place `nodes`: `wyrm.graph` gives the classes of nodes a `ForeignName` for each;
- an attribute of a module, an optimizer or a program, places of these names: their classes derive from `ExplainsNames`;
- a keyword of a function or method, place `keywords`: it has the decorator `@explains_keywords`; with a wrong number of
  operands, place `operands`;
- a name of a package, in the place of its name: `lazy_imports` reads it;
- a function of NumPy called with a node, place `numpy`: `wyrm.functions.numpy_protocol` reads it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, TypeVar, cast

Call = TypeVar("Call", bound=Callable[..., Any])


@cache
def sections() -> list[tuple[list[str], str]]:
    """Return the sections of the file: places, and lines."""
    with open(__file__.removesuffix("py") + "txt", encoding="utf-8") as file:  # noqa: PTH123  # pathlib loads slowly
        _, *sections = file.read().split("\n[")
    return [(places.split(), lines) for places, _, lines in (section.partition("]") for section in sections)]


@cache
def answers(place: str) -> dict[str, str]:
    """Return what to use instead of the names of other libraries at a place, by name."""
    shared = {} if place == "shared" else answers("shared")
    found = {}
    for line in "".join(lines for places, lines in sections() if place in places).splitlines():
        names, _, answer = line.partition(": ")
        answer = shared.get(answer, answer)
        for each in names.split():
            name, _, here = each.partition("=")
            found[name] = answer.replace("{}", here or name)
    return found


def refusal(owner: str, name: str, answer: str) -> AttributeError:
    """Return the error for a name of another library; `answer` says what to use instead."""
    # Without the object, so that Python adds no suggestion of its own.
    return AttributeError(f"{owner} has no attribute {name!r}: {answer}", name=name, obj=None)


class ForeignName:
    # An attribute of another library: reading or setting it raises an error that says what to use instead. `owner` is
    # the class that the error names, by default that of the object. `help(wy.Node)` shows the docstrings of instances,
    # so the class has none. In nodes a `__getattr__` would slow down every attribute access; a descriptor costs nothing
    # until it is read. pdoc honours `@private` only in data descriptors, which have `__set__`.
    __slots__ = ("__doc__", "answer", "name", "owner")

    def __init__(self, name: str, answer: str, owner: str = "") -> None:
        self.name: str = name
        self.answer: str = answer
        self.owner: str = owner
        self.__doc__ = f"Not in wyrm: {answer}.\n\n@private"

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise refusal(self.owner or owner.__name__, self.name, self.answer)

    def __set__(self, instance: object, value: object) -> NoReturn:
        self.__get__(instance, type(instance))


class SizeWithHint(int):
    """A number of elements; calling it, as in PyTorch's `x.size()`, raises an error with the alternative."""

    __slots__ = ()

    def __call__(self, *arguments: object) -> NoReturn:
        raise TypeError("x.size is the number of elements, as in NumPy: use x.shape, or x.shape[axis] for one axis")


def explain(error: TypeError, name: str, keywords: Iterable[str], own: Iterable[str] = ()) -> None:
    """If `error` rejects a keyword or a number of operands, raise an error that says what to use instead.

    For a keyword of another library, that is its answer; else it is the most similar of `own`, the function's keywords.
    """
    from wyrm.support.texts import nearest

    message, own, known = str(error), list(own), answers("keywords")
    for keyword in keywords:
        # With `**options`, Python reports a missing argument and not the keyword of another library.
        missing = "required positional argument" in message and keyword not in own
        unexpected = f"unexpected keyword argument {keyword!r}" in message
        if keyword in known and (missing or unexpected):
            raise TypeError(f"{name} takes no keyword {keyword!r}: {known[keyword]}") from None
        if unexpected and own and keyword not in own:
            instead = nearest(keyword, own) or f"; it takes {', '.join(own)}"
            # In the words of Python's error, which an outer `@explains_keywords` recognizes.
            raise TypeError(f"{name} got an unexpected keyword argument {keyword!r}{instead}") from None
    if "positional argument" in message and name in answers("operands"):
        raise TypeError(f"{message}: {answers('operands')[name]}") from None


def explain_count(error: TypeError, name: str, own: Iterable[str], constructor: Callable[..., Any], given: int) -> None:
    """If a method's constructor, whose name users do not know, rejects its arguments, name the method."""
    called, _, problem = str(error).partition("() ")
    if called != constructor.__qualname__:
        return
    if problem.startswith("takes"):
        count = "1 argument was" if given == 1 else f"{given} arguments were"
        raise TypeError(f"{name} takes {', '.join(own) or 'no arguments'}, but {count} given") from None
    raise TypeError(f"{name}() {problem}") from None


def keywords_of(function: Callable[..., Any]) -> list[str]:
    """Return the keywords that a function takes, also those of `**options: Unpack[...]`."""
    names: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            # Annotations are text, whose other names may exist for type checkers only.
            options = str(parameter.annotation).removeprefix("Unpack[").removesuffix("]")
            known = getattr(inspect.unwrap(function), "__globals__", {})
            names += getattr(known.get(options), "__annotations__", {})
        elif parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY) and parameter.name != "self":
            names.append(parameter.name)
    return names


def explains_keywords(function: Call) -> Call:
    """Make errors for unknown keywords say what to use instead: see `explain`."""

    @wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            return function(*arguments, **keywords)
        except TypeError as error:
            name = function.__qualname__
            if function.__name__ == "__init__" and arguments:
                name = type(arguments[0]).__name__  # maybe a subclass
            explain(error, name, keywords, keywords_of(function))
            raise

    return cast(Call, call)


class ExplainsNames:
    """A base class: errors for attributes of its objects and keywords of its classes say what to use instead."""

    # The place of these names.
    _foreign: ClassVar[Literal["modules", "optimizers", "programs"]]

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "__init__" in cls.__dict__ and cls.__module__.startswith("wyrm."):
            type.__setattr__(cls, "__init__", explains_keywords(cls.__init__))  # the same but for its errors

    if not TYPE_CHECKING:  # a class with `__getattr__` has every name, as far as the type checker can tell

        def __getattr__(self, name: str) -> Any:
            known = answers(self._foreign)
            if name in known and not hasattr(type(self), name):
                raise refusal(type(self).__name__, name, known[name])
            return object.__getattribute__(self, name)  # raises Python's own error, or that of a property


class ExplainsNamesOfClass(type):
    """The class of a class that `ExplainsNames`, whose own attributes explain names too, as in `wy.Program.step`."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            known = answers(cls._foreign)
            if name in known:
                raise refusal(cls.__name__, name, known[name])
            return type.__getattribute__(cls, name)  # raises Python's own error
