"""`Record`: immutable classes of fields that are cheap to define."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, dataclass_transform


@dataclass_transform(frozen_default=True)
class Record:
    """Like a frozen dataclass with slots, whose fields are `__slots__`, in their order; type checkers see a dataclass.

    Two records are equal if they have the same class and equal fields. `dataclasses` would generate and compile
    functions for each class, which for nine classes took a tenth of the time of `import wyrm`.

    >>> class Point(Record):
    ...     __slots__ = ("x", "y")
    ...     x: int
    ...     y: int
    >>> Point(1, 2), Point(1, 2) == Point(1, 2)
    (Point(1, 2), True)
    """

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        # The fields of base classes come first.
        cls.__match_args__ += cls.__dict__["__slots__"]  # type: ignore[misc]  # synthesized, as mypy takes it

    if not TYPE_CHECKING:  # type checkers synthesize these from the fields

        def __init__(self, *values: object, **named: object) -> None:
            if named:
                values += tuple(named.pop(name) for name in self.__match_args__[len(values) :])
                if named:
                    raise TypeError(f"{type(self).__name__} has no field {next(iter(named))}")
            for name, value in zip(self.__match_args__, values, strict=True):
                object.__setattr__(self, name, value)

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(f"{self!r} is immutable, so {name} cannot be set")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._values()

    def _values(self) -> tuple[object, ...]:
        return tuple([getattr(self, name) for name in self.__match_args__])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._values()))})"
