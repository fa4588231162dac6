"""Rules: what a backend knows of each op besides its meaning. A rule stands beside its op and is registered for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wyrm.errors import RegistrationError

if TYPE_CHECKING:
    from wyrm.node.base import BaseNode

R = TypeVar("R")
T = TypeVar("T")
_NONE: Mapping[str, str] = MappingProxyType({})
# What belongs in a rule and not in the class of an op: the registry, and its name in a rule.
_WORDS: dict[str, tuple[Rules[Any], str]] = {}


class Rules(Generic[R]):
    """The rules of one backend. A rule for a class serves its subclasses; an op without a rule has the `default`.

    `words` are names that a class of an op may not have, each with its name in a rule: nobody would read it there.
    """

    def __init__(self, name: str, default: R, words: Mapping[str, str] = _NONE) -> None:
        self.name, self.default = name, default
        self._rules: dict[type, R] = {}
        self._found: dict[type, R] = {}
        _WORDS.update({word: (self, instead) for word, instead in words.items()})

    def register(self, *ops: type[BaseNode]) -> Callable[[T], T]:
        """Register a rule for ops, or for the base class of a family. What this returns takes the rule or its class.

        `RegistrationError` for what is no op or no rule, and for an op that has a rule already. A class that is defined
        anew, as in a notebook, takes the place of the one before.
        """
        for op in ops:
            if not (isinstance(op, type) and hasattr(op, "op_name")):
                raise RegistrationError(f"{_name(op)} is no op: write @{self.name}.register(Op) above the rule for Op")

        def registered(given: T) -> T:
            rule: Any = given() if isinstance(given, type) else given
            kind = type(self.default)
            if not isinstance(rule, kind):
                raise RegistrationError(f"{_name(given)} is no rule of {self.name}: derive it from {kind.__name__}")
            for op in ops:
                before = self._rules.get(op)
                if before is not None and not _is_anew(type(rule), type(before)):
                    raise RegistrationError(
                        f"op {op.__name__} has a rule in {self.name} already, {type(before).__name__}, and can have no "
                        f"other, {type(rule).__name__}: put all that it says into one class"
                    )
            self._rules.update(dict.fromkeys(ops, rule))
            self._found.clear()
            return given

        return registered

    def of(self, node: BaseNode) -> R:
        """The rule for a node's op."""
        return self.of_op(type(node))

    def of_op(self, op: type[BaseNode]) -> R:
        """The rule for an op: that of the nearest class among its bases that has one."""
        if op not in self._found:
            self._found[op] = next((self._rules[base] for base in op.__mro__ if base in self._rules), self.default)
        return self._found[op]


def check_words(op: type[BaseNode]) -> None:
    """`RegistrationError` where the class of an op has what belongs in a rule, for nobody would read it."""
    for base in op.__mro__:
        if _WORDS.keys().isdisjoint(base.__dict__.keys()):
            continue
        for word, (rules, instead) in _WORDS.items():
            # A static attribute and a property may have any name.
            if word in base.__dict__ and word not in op.attributes and not isinstance(base.__dict__[word], property):
                kind = type(rules.default).__name__
                raise RegistrationError(
                    f"op {op.__name__} has {word!r}, which belongs in a rule for the op. Write below it:\n"
                    f"    @wy.{rules.name}.register({base.__name__})\n"
                    f"    class {base.__name__}Rule(wy.{kind}):\n"
                    f"        ...  # {instead} goes here; a method takes the node after self"
                )


def _name(given: object) -> str:
    return str(getattr(given, "__name__", repr(given)))


def _is_anew(cls: type, before: type) -> bool:
    """Whether this is the class `before`, defined once more."""
    return cls is not before and (cls.__module__, cls.__qualname__) == (before.__module__, before.__qualname__)
