"""Methods that ops add to nodes, and where each of them stands.

An op class with a `method` or an `operator`, and a function under `@method(name)`, become members of `Node` (or of
`IndexNode` or `Parameter`) when their module is imported. `import wyrm` imports few of these modules. For the others
`wyrm._names.METHODS`, which `python -m wyrm.declare` generates, says where a method stands: until its module is
imported, `bind` puts a `Late` member in its place, which imports the module on first use. So `Node.sort` is
`@method("sort")` in the module that the table gives, and its type is in `methods.pyi`.

A method of `Node` that `IndexNode` lacks is a `ForeignName` member there: reading it says what to use instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from wyrm.support.foreign_names import ForeignName
from wyrm.support.foreign_names.nodes import OF_INTEGERS
from wyrm.support.late_imports import Late

if TYPE_CHECKING:
    from wyrm.graph.base import BaseNode

F = TypeVar("F", bound=Callable[..., object])

# The functions bound as methods, or the ops that they construct, by class and method name; `wyrm.declare` reads it.
METHODS: dict[tuple[str, str], Callable[..., object]] = {}
# The methods of `Node` that are no functions of the top level.
ONLY_METHODS: set[str] = set()
# The ops of the methods of `Node` that are methods of `IndexNode` too, by the method's name.
INTEGER_METHODS: dict[str, type[BaseNode]] = {}
# The ops that functions construct, by the function's name.
FUNCTIONS: dict[str, type[BaseNode]] = {}
# The classes that methods are added to, by name.
_OWNERS: dict[str, type[BaseNode]] = {}


def takes_methods(*classes: type[BaseNode]) -> None:
    """Let ops add methods to these classes."""
    _OWNERS.update({cls.__name__: cls for cls in classes})


def method(
    name: str,
    on: str | type[BaseNode] = "Node",
    op: type[BaseNode] | None = None,
    *,
    function: bool = True,
    integers: type[BaseNode] | None = None,
) -> Callable[[F], F]:
    """Return a decorator that binds a function as the method `name` of the nodes of class `on`.

    The method's type is that of the function or, for a function that only constructs `op`, the one that the op's family
    declares. A method of `Node` is a function too, `wy.name(x)`, unless `function` is False. With `integers` it is also
    a method of `IndexNode`, where the result is of that class.
    """
    owner = on if isinstance(on, str) else on.__name__

    def bound(given: F) -> F:
        METHODS[owner, name] = given if op is None else op
        if not function:
            ONLY_METHODS.add(name)
        if op is not None:
            given.__name__, given.__qualname__, given.__doc__ = name, name, op.__doc__
        _add(owner, name, given)
        if integers is not None:
            INTEGER_METHODS[name] = integers
            METHODS["IndexNode", name] = given
            _add("IndexNode", name, given)
        return given

    return bound


def bind(methods: Mapping[str, Iterable[str]]) -> None:
    """Add the methods of modules that are not imported yet, given as `Class.method` by module."""
    for module, names in methods.items():
        for each in names:
            owner, _, name = each.partition(".")
            if (owner, name) not in METHODS:
                _add(owner, name, Late(module, name))


def _add(owner: str, name: str, member: object) -> None:
    setattr(_OWNERS[owner], name, member)
    if owner == "Node" and not name.startswith("__"):
        other = _OWNERS["IndexNode"]
        if not any(name in vars(base) for base in other.__mro__):  # `hasattr` would import what the name stands for
            setattr(other, name, ForeignName(name, OF_INTEGERS, "IndexNode"))
