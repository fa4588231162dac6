"""Registration: of ops, of rules, a backend's description of an op in a class registered for it, and of methods.

An op class with a `method` or an `operator`, and a function under `@method(name)`, become members of `Node` (or of
`IndexNode` or `Parameter`) when their module is imported: the hook `Op._bind_members` of the family of a class does it,
as soon as the class is defined. `import wyrm` imports few of these modules. For the others
`wyrm._names.METHODS`, which `python -m wyrm.declare` generates, says where a method stands: until its module is
imported, `bind` puts a `Late` member in its place, which imports the module on first use. So `Node.sort` is
`@method("sort")` in the module that the table gives, and its type is in `methods.pyi`.

A method of `Node` that `IndexNode` lacks is a `ForeignName` member there: reading it says what to use instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import CO_VARKEYWORDS
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wyrm.errors import RegistrationError
from wyrm.graph.op import Op
from wyrm.support.foreign_names import ForeignName
from wyrm.support.imports import Late

if TYPE_CHECKING:
    from wyrm.graph.base import BaseNode

F = TypeVar("F", bound=Callable[..., object])
R = TypeVar("R")
T = TypeVar("T")
_NONE: Mapping[str, str] = MappingProxyType({})
# Names that belong in a rule and not in an op class: the registry, and the name to use in a rule.
_RULE_NAMES: dict[str, tuple[Rules[Any], str]] = {}


class Rules(Generic[R]):
    """The rules of one backend. A class's rule serves its subclasses too; an op without a rule has the `default`.

    `rule_names` maps names that an op class must not define, because nothing would read them there, to their names in
    a rule. `check` raises `RegistrationError` for a rule that lacks something.
    """

    def __init__(
        self,
        name: str,
        default: R,
        rule_names: Mapping[str, str] = _NONE,
        check: Callable[[R], None] | None = None,
    ) -> None:
        self.name = name
        self.default = default
        self._check = check
        self._rules: dict[type, R] = {}
        self._cache: dict[type, R] = {}
        _RULE_NAMES.update({word: (self, instead) for word, instead in rule_names.items()})

    def register(self, *ops: type[BaseNode]) -> Callable[[T], T]:
        """Register a rule for ops, or for the base class of a family; return a decorator of the rule or its class.

        Raise `RegistrationError` for an argument that is not an op, for an object that is not a rule, and for an op
        that already has a rule. A class that is defined again, as in a notebook, replaces the one before.
        """
        for op in ops:
            if not (isinstance(op, type) and hasattr(op, "op_name")):
                raise RegistrationError(
                    f"{_name_of(op)} is not an op: write @{self.name}.register(Op) above the rule for Op"
                )

        def registered(given: T) -> T:
            rule: Any = given() if isinstance(given, type) else given
            kind = type(self.default)
            if not isinstance(rule, kind):
                raise RegistrationError(
                    f"{_name_of(given)} is not a rule of {self.name}: derive it from {kind.__name__}"
                )
            if self._check is not None:
                self._check(rule)
            for op in ops:
                before = self._rules.get(op)
                if before is not None and not _is_redefinition(type(rule), type(before)):
                    raise RegistrationError(
                        f"op {op.__name__} already has a rule in {self.name}, {type(before).__name__}, and cannot have "
                        f"another, {type(rule).__name__}: merge them into one class"
                    )
            self._rules.update(dict.fromkeys(ops, rule))
            self._cache.clear()
            return given

        return registered

    def of(self, node: BaseNode) -> R:
        """Return the rule for a node's op."""
        return self.of_op(type(node))

    def of_op(self, op: type[BaseNode]) -> R:
        """Return the rule for an op: that of its nearest base class that has one."""
        if op not in self._cache:
            self._cache[op] = next((self._rules[base] for base in op.__mro__ if base in self._rules), self.default)
        return self._cache[op]


def check_rule_names(op: type[BaseNode]) -> None:
    """Raise `RegistrationError` if an op class defines a name that belongs in a rule, where nothing would read it."""
    for base in op.__mro__:
        if _RULE_NAMES.keys().isdisjoint(base.__dict__.keys()):
            continue
        for word, (rules, instead) in _RULE_NAMES.items():
            # A static attribute and a property may have any name.
            if word in base.__dict__ and word not in op.attributes and not isinstance(base.__dict__[word], property):
                kind = type(rules.default).__name__
                raise RegistrationError(
                    f"op {op.__name__} has {word!r}, which belongs in a rule for the op. Write below it:\n"
                    f"    @wy.{rules.name}.register({base.__name__})\n"
                    f"    class {base.__name__}Rule(wy.{kind}):\n"
                    f"        ...  # {instead} goes here; a method takes the node after self"
                )


def _name_of(given: object) -> str:
    return str(getattr(given, "__name__", repr(given)))


def _is_redefinition(cls: type, before: type) -> bool:
    """Return whether `cls` is the class `before`, defined again."""
    return cls is not before and (cls.__module__, cls.__qualname__) == (before.__module__, before.__qualname__)


# All ops, by module and name.
REGISTRY: dict[str, type[BaseNode]] = {}


def register(cls: type[BaseNode]) -> None:
    """Add an op to the registry; raise `RegistrationError` naming the parts that it lacks."""
    missing = [
        part
        for part, present in (
            ("shape_rule", cls.shape_rule is not Op.shape_rule),
            ("dtype_rule", cls.dtype_rule is not Op.dtype_rule),
            ("formula or evaluate", bool(cls.formula) or cls.evaluate is not Op.evaluate),
            ("vjp", cls.vjp is not Op.vjp),
        )
        if not present
    ]
    if missing:
        raise lacking(cls, missing)
    if not isinstance(cls.formula, str):
        raise RegistrationError(
            f'op {cls.__name__}: formula must be a string, as in "x * exp(x)", not {type(cls.formula).__name__}'
        )
    _check_evaluate(cls)
    check_rule_names(cls)
    cls.check_registration()
    key = f"{cls.__module__}.{cls.__qualname__}"
    previous = REGISTRY.get(key)  # a class defined again, as in a notebook, may take its methods again
    for name in (cls.__dict__.get("method"), f"__{cls.__dict__.get('operator')}__"):
        taken = name is not None and any(
            not isinstance(member := vars(base)[name], ForeignName)
            and not (isinstance(member, Late) and member.module == cls.__module__)
            for base in cls.__mro__[1:-1]
            if name in vars(base)
        )
        if taken and (previous is None or name not in (previous.method, f"__{previous.operator}__")):
            raise RegistrationError(f"op {cls.__name__} declares the method {name}, which nodes already have")
    REGISTRY[key] = cls


def _check_evaluate(cls: type[BaseNode]) -> None:
    """Raise `RegistrationError` for an `evaluate` that the engines cannot call."""
    code = getattr(cls.evaluate, "__code__", None)
    if code is None:
        return
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    takes_any = code.co_flags & CO_VARKEYWORDS
    if "shape" not in names and not takes_any:
        raise RegistrationError(
            f"op {cls.__name__}: evaluate takes ({', '.join(names)}); engines give it the namespace of arrays, the "
            f"value of each operand, and by name the shape of the result: def evaluate(self, xp, x, *, shape)"
        )


def lacking(cls: type[BaseNode], missing: Sequence[str]) -> RegistrationError:
    """Return the error for an op class without some of its parts."""
    return RegistrationError(
        f"op {cls.__name__} lacks {' and '.join(missing)}; every op has a shape rule, a meaning and a gradient "
        f"(return wyrm.ZERO or wyrm.Undefined(reason) where there is none); a class that only others derive from says "
        f"so: class {cls.__name__}(..., abstract=True)"
    )


# --- methods ----------------------------------------------------------------------------------------------------------

# What to use instead of a method that `IndexNode` lacks.
OF_INTEGERS = (
    "index nodes have operators, comparisons, slices, and sum, max, sort and the like: convert with "
    "x.astype(np.float32) for other functions"
)
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
        _add_member(owner, name, given)
        if integers is not None:
            INTEGER_METHODS[name] = integers
            METHODS["IndexNode", name] = given
            _add_member("IndexNode", name, given)
        return given

    return bound


def bind(methods: Mapping[str, Iterable[str]]) -> None:
    """Add the methods of modules that are not imported yet, given as `Class.method` by module."""
    for module, names in methods.items():
        for each in names:
            owner, _, name = each.partition(".")
            if (owner, name) not in METHODS:
                _add_member(owner, name, Late(module, name=name))


def _add_member(owner: str, name: str, member: object) -> None:
    setattr(_OWNERS[owner], name, member)
    if owner == "Node" and not name.startswith("__"):
        other = _OWNERS["IndexNode"]
        if not any(name in vars(base) for base in other.__mro__):  # `hasattr` would import what the name stands for
            setattr(other, name, ForeignName(name, OF_INTEGERS, "IndexNode"))
