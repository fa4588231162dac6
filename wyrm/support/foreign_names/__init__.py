"""Names of PyTorch, JAX and NumPy that wyrm lacks, each with an answer that says what to use instead.

In the answers, `x` is a node and `p` a parameter; a test checks that every name of wyrm in them exists. All tables
except that of nodes are imported only for an error.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, TypeVar, cast

from wyrm.support.foreign_names import nodes

Call = TypeVar("Call", bound=Callable[..., Any])


def refusal(owner: str, name: str, answers: Mapping[str, str]) -> AttributeError:
    """Return the error for a name of another library; `answers` says what to use instead."""
    # Without the object, so that Python adds no suggestion of its own.
    return AttributeError(f"{owner} has no attribute {name!r}: {answers[name]}", name=name, obj=None)


class Foreign:
    # A name of another library that nodes lack. Reading it raises an error with the alternative, and `help(wy.Node)`
    # shows the instance's docstring; hence the class has none. `__getattr__` would slow down every attribute access; a
    # descriptor costs nothing until it is read. pdoc honours `@private` only in data descriptors, which have `__set__`.
    __slots__ = ("__doc__", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.__doc__ = f"Not in wyrm: {nodes.ANSWERS.get(name, nodes.OF_INTEGERS)}.\n\n@private"

    def __get__(self, instance: object, owner: type) -> NoReturn:
        # The answers name methods of `Node`, which index nodes lack.
        if any(base.__name__ == "IndexNode" for base in owner.__mro__):
            raise refusal("IndexNode", self.name, {self.name: nodes.OF_INTEGERS})
        raise refusal("Node", self.name, nodes.ANSWERS)

    def __set__(self, instance: object, value: object) -> NoReturn:
        self.__get__(instance, type(instance))


class SizeWithHint(int):
    """A number of elements; calling it, as in PyTorch's `x.size()`, raises an error with the alternative."""

    __slots__ = ()

    def __call__(self, *arguments: object) -> NoReturn:
        raise TypeError("x.size is the number of elements, as in NumPy: use x.shape, or x.shape[axis] for one axis")


def explain_keywords(error: TypeError, name: str, keywords: Iterable[str], own: Iterable[str] = ()) -> None:
    """If `error` rejects a keyword, raise one that says what to use instead.

    That is an answer for a keyword of another library, else the most similar of `own`, the keywords that the function
    takes.
    """
    from wyrm.support.foreign_names.calls import ANSWERS
    from wyrm.support.texts import nearest

    message, own = str(error), list(own)
    for keyword in keywords:
        # A class that takes further options misses its own arguments before it comes to a keyword of another library.
        missing = "required positional argument" in message and keyword not in own
        unexpected = f"unexpected keyword argument {keyword!r}" in message
        if keyword in ANSWERS and (missing or unexpected):
            raise TypeError(f"{name} takes no keyword {keyword!r}: {ANSWERS[keyword]}") from None
        if unexpected and own and keyword not in own:
            instead = nearest(keyword, own) or f"; it takes {', '.join(own)}"
            # The words of Python's own error, which a call around this one recognizes.
            raise TypeError(f"{name} got an unexpected keyword argument {keyword!r}{instead}") from None


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


def answering(function: Call) -> Call:
    """Return the function, with errors that explain keywords of other libraries, and suggest one of its own."""

    @wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            return function(*arguments, **keywords)
        except TypeError as error:
            name = function.__qualname__
            if function.__name__ == "__init__" and arguments:
                name = type(arguments[0]).__name__  # maybe a subclass
            explain_keywords(error, name, keywords, keywords_of(function))
            raise

    return cast(Call, call)


class Refused:
    """An attribute of another library that would have no effect if it were set; reading or setting it raises an error.

    @private
    """

    __slots__ = ("name",)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type[Answering]) -> NoReturn:
        from wyrm.support.foreign_names import objects

        raise refusal(owner.__name__, self.name, getattr(objects, owner._foreign))

    def __set__(self, instance: Answering, value: object) -> NoReturn:
        self.__get__(instance, type(instance))


class Answering:
    """A base class whose errors explain attributes and keywords of other libraries."""

    # The table of `wyrm.support.foreign_names.objects`.
    _foreign: ClassVar[Literal["MODULE", "OPTIMIZER", "PROGRAM"]]

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "__init__" in cls.__dict__ and cls.__module__.startswith("wyrm."):
            cls.__init__ = answering(cls.__init__)  # type: ignore[method-assign]  # the same but for its errors

    if not TYPE_CHECKING:  # a class with `__getattr__` has every name, as far as the type checker can tell

        def __getattr__(self, name: str) -> Any:
            from wyrm.support.foreign_names import objects

            answers = getattr(objects, self._foreign)
            if name in answers and not hasattr(type(self), name):
                raise refusal(type(self).__name__, name, answers)
            return object.__getattribute__(self, name)  # raises Python's own error, or that of a property
