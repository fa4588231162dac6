"""Functions that numba compiles, called from kernels and as kernels.

Native code calls one by the address of an entry: a function that numba compiles, which takes the address of a table of
64-bit words and returns whether an exception was raised. Numba is imported only where such a function is compiled.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from wyrm.engines.native.ir.program import Assign, LibraryCall, Number, Operation, Table, Variable, word_at
from wyrm.engines.native.ir.types import BOOL, INT32, INT64, PointerType, ScalarType, scalar_of
from wyrm.engines.native.kernels.functions import Routine, fingerprint
from wyrm.engines.native.kernels.values import (
    GroupKind,
    KernelValue,
    Kind,
    NotCompiled,
    NumKind,
    Static,
    ViewKind,
    fields_of,
    kind_of,
    known,
    rebuilt,
    types_of,
    variables_of,
)
from wyrm.ops.kernels.native import DEBUG, RAISED
from wyrm.support.frozen import frozen

if TYPE_CHECKING:
    from wyrm.engines.native.kernels.expressions import Expressions
    from wyrm.engines.native.kernels.statements import FunctionBody


@frozen
class OutsideFunction:
    """A function that native code calls by its symbol.

    `key`: its key among those of this process. `kinds`: the kinds of its arguments.
    """

    key: str
    kinds: tuple[Kind, ...]

    @property
    def symbol(self) -> str:
        """The name of the entry in machine code."""
        return f"wyrm_numba_{_digest(self.key, *map(repr, self.kinds))}"

    def encoded(self) -> tuple[str, object]:
        """Return the function as texts, numbers and tuples, for the cache."""
        return self.key, _encoded(self.kinds)

    @classmethod
    def decoded(cls, key: str, kinds: object) -> OutsideFunction:
        """Return the function of a result of `encoded`."""
        return cls(key, _decoded(kinds))

    def address(self) -> int:
        """Return the address of the entry, which numba compiles on the first call."""
        entry, _ = _entry(_functions[self.key], self.kinds)
        address: int = entry.address
        return address


class NumbaKernel(Routine):
    """A kernel that numba compiles."""

    def __init__(self, function: Any, name: str | None = None) -> None:
        super().__init__(name or function.py_func.__name__)
        self.function = function
        # Programs in the cache find the function by its key.
        _functions.setdefault(self.key, function)

    @property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self.function.py_func)

    @cached_property
    def key(self) -> str:
        """The hash of the function and of all that it calls."""
        return _digest(fingerprint(self.function), sys.modules["numba"].__version__)

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters."""
        parameters = self._signature.parameters.values()
        if any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD, each.KEYWORD_ONLY) for each in parameters):
            raise NotCompiled(f"{self.__name__} takes *args, **kwargs or keywords; name each parameter", self.where())
        return [each.name for each in parameters]

    def default(self, name: str) -> KernelValue | None:
        """Return the default value of a parameter; None for a required one."""
        found = self._signature.parameters[name].default
        return None if found is inspect.Parameter.empty else known(found)

    @cached_property
    def may_overflow(self) -> frozenset[str]:
        """The variables that may overflow an int64: none that the caller sees."""
        return frozenset()

    @cached_property
    def identity(self) -> str:
        """A text that identifies the compiled code."""
        return f"numba {self.key}"

    def where(self, line: int | None = None) -> str:
        """Return the function's name, file and line for error messages."""
        code = self.function.py_func.__code__
        return f"{self.__name__}, {code.co_filename}:{line or code.co_firstlineno}"

    def write(self, body: FunctionBody) -> bool:
        """Call the function with all parameters; a kernel returns nothing."""
        values = [rebuilt(body.kinds[name], variables_of(name, body.kinds[name])) for name in self.parameters]
        call(body, self.function, values)
        return False


@cache
def numba_kernel(function: Any, name: str | None = None) -> NumbaKernel:
    """Return the kernel of a function that numba compiles."""
    return NumbaKernel(function, name)


def call(body: Expressions, function: Any, arguments: Sequence[KernelValue]) -> KernelValue:
    """Add a call of a function that numba compiles, and return its result: a number, a tuple of numbers, or nothing."""
    kernel = numba_kernel(function)
    kinds = tuple(_plain(kind_of(each), kernel) for each in arguments)
    outside = OutsideFunction(kernel.key, kinds)
    _, result = _entry(function, kinds)
    body.translation.outside[outside.symbol] = outside
    words = [word for value, kind in zip(arguments, kinds, strict=True) for word in fields_of(value, kind)]
    results = [] if result is None else variables_of(body.builder.fresh("r"), result)
    table = Variable(body.builder.fresh("table"), PointerType(INT64))
    failed = Variable(body.builder.fresh("failed"), INT32)
    body.builder.add(Table(table, tuple(words), room=len(results)))
    body.builder.add(LibraryCall(outside.symbol, (table,), by_value=True, result=failed))
    for place, each in enumerate(results, len(words)):
        body.builder.add(Assign(each, word_at(table, place, each.type)))
    body.builder.fail_where(Operation("not_equal", (failed, Number(0, INT32)), BOOL), f"{kernel.__name__} {RAISED}")
    return Static(None) if result is None else rebuilt(result, results)


def _plain(kind: Kind, kernel: NumbaKernel) -> Kind:
    """Return the kind of an argument without what native code alone knows of it; refuse what numba has no type for."""
    match kind:
        case NumKind(type, _):
            return NumKind(type)
        case GroupKind(items):
            return GroupKind(tuple(_plain(item, kernel) for item in items))
        case ViewKind():
            return kind
        case _:
            raise NotCompiled(
                f"{kernel.__name__} is called with {kind}; functions of numba take numbers, arrays and tuples here",
                kernel.where(),
            )


def _encoded(kinds: Sequence[Kind]) -> tuple[Any, ...]:
    """Return kinds as tuples of texts and numbers."""
    found: list[Any] = []
    for kind in kinds:
        match kind:
            case NumKind(type):
                found.append((type.kind, type.bits))
            case ViewKind(element, axes, layout):
                found.append((element.kind, element.bits, axes, layout))
            case GroupKind(items):
                found.append((_encoded(items),))
    return tuple(found)


def _decoded(found: Any) -> tuple[Kind, ...]:
    """Return the kinds of a result of `_encoded`."""
    kinds: list[Kind] = []
    for each in found:
        match each:
            case (kind, bits):
                kinds.append(NumKind(ScalarType(kind, bits)))
            case (kind, bits, axes, layout):
                kinds.append(ViewKind(ScalarType(kind, bits), axes, layout))
            case (items,):
                kinds.append(GroupKind(_decoded(items)))
    return tuple(kinds)


# The functions that this process has as kernels, by their keys.
_functions: dict[str, Any] = {}


def _digest(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]


# --- the entry, which numba compiles ----------------------------------------------------------------------------------


@cache
def _entry(function: Any, kinds: tuple[Kind, ...]) -> tuple[Any, Kind | None]:
    """Return the entry of a function for arguments of these kinds, and the kind of its result."""
    numba: Any = import_module("numba")
    types, extending = numba.types, import_module("numba.extending")
    name = function.py_func.__name__
    if function.targetoptions.get("forceobj") or not function.targetoptions.get("nopython", True):
        raise NotCompiled(f"{name} runs in numba's object mode; decorate it with numba.njit")
    if DEBUG:
        numba.config.BOUNDSCHECK = 1
    try:
        given = tuple(map(_type, kinds))
        function.compile(given)
        returned = function.overloads[given].signature.return_type
    except (numba.core.errors.NumbaError, KeyError) as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise NotCompiled(
            f"numba cannot compile {name} for ({', '.join(map(str, kinds))}): {' '.join(lines[:3])}",
            f"{name}, {function.py_func.__code__.co_filename}:{function.py_func.__code__.co_firstlineno}",
        ) from None
    result = _kind(returned, name)
    start = sum(len(types_of(kind)) for kind in kinds)
    read, write = extending.intrinsic(_reader(kinds, given)), extending.intrinsic(_writer(start))

    def entry(table: Any) -> int:
        try:
            write(table, function(*read(table)))
        except Exception:
            return 1
        return 0

    compiled = numba.cfunc(types.int32(types.CPointer(types.int64)))(entry)
    return compiled, result


def _type(kind: Kind) -> Any:
    """Return numba's type of a kind."""
    from numba import from_dtype, types

    match kind:
        case NumKind(type):
            return from_dtype(type.dtype)
        case ViewKind(element, axes, layout):
            return types.Array(from_dtype(element.dtype), axes, "C" if layout == "contiguous" else "A")
        case GroupKind(items):
            return types.Tuple(tuple(map(_type, items)))
    raise AssertionError(f"{kind} has no type")


def _kind(type: Any, name: str) -> Kind | None:
    """Return the kind of a result of this type; raise `NotCompiled` for one that kernels have no value for."""
    from numba import types
    from numba.np.numpy_support import as_dtype

    if isinstance(type, types.NoneType):
        return None
    if isinstance(type, types.BaseTuple):
        items = tuple(_kind(each, name) for each in _items(type))
        return GroupKind(tuple(each for each in items if each is not None))
    if isinstance(type, types.Number | types.Boolean):
        scalar = scalar_of(as_dtype(types.unliteral(type)))
        if scalar is not None:
            return NumKind(scalar)
    raise NotCompiled(f"{name} returns {type}; in kernels, functions of numba return numbers, or write to an argument")


def _items(type: Any) -> list[Any]:
    """Return the types of a tuple's items."""
    return list(type)


def _reader(kinds: tuple[Kind, ...], given: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the typing of a function that reads the arguments from a table."""
    from numba import types

    def read(_: Any, table: Any) -> Any:
        return types.Tuple(given)(table), generate

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = iter(range(sum(len(types_of(kind)) for kind in kinds)))

        def word(type: Any) -> Any:
            address = builder.gep(arguments[0], [context.get_constant(types.intp, next(place))])
            data = context.get_data_type(type)
            return context.unpack_value(builder, type, builder.bitcast(address, data.as_pointer()))

        def value(kind: Kind, type: Any) -> Any:
            if isinstance(kind, ViewKind):
                return _array(context, builder, kind, type, word)
            if isinstance(kind, GroupKind):
                pairs = zip(kind.items, type, strict=True)
                return context.make_tuple(builder, type, [value(*pair) for pair in pairs])
            return word(type)

        found = [value(kind, type) for kind, type in zip(kinds, given, strict=True)]
        return context.make_tuple(builder, signature.return_type, found)

    return read


def _array(context: Any, builder: Any, kind: ViewKind, type: Any, word: Callable[[Any], Any]) -> Any:
    """Return an array over the memory that the next words of a table describe."""
    from numba import types
    from numba.core import cgutils

    array = context.make_array(type)(context, builder)
    size = context.get_constant(types.intp, kind.element.itemsize)
    data = builder.inttoptr(word(types.intp), context.get_data_type(type.dtype).as_pointer())
    shape = [word(types.intp) for _ in range(kind.axes)]
    own = [builder.mul(word(types.intp), size) for _ in range(len(types_of(kind)) - 1 - kind.axes)]
    strides = [*own, size][: kind.axes] if kind.layout == "rows" else own
    if kind.layout == "contiguous":
        step = size
        for each in reversed(shape):
            strides.insert(0, step)
            step = builder.mul(step, each)
    context.populate_array(
        array, data=data, shape=cgutils.pack_array(builder, shape, ty=context.get_value_type(types.intp)),
        strides=cgutils.pack_array(builder, strides, ty=context.get_value_type(types.intp)), itemsize=size,
        meminfo=None,
    )  # fmt: skip
    return array._getvalue()


def _writer(start: int) -> Callable[..., Any]:
    """Return the typing of a function that writes a result to the words of a table from `start` on."""
    from numba import types

    def write(_: Any, table: Any, result: Any) -> Any:
        return types.void(table, result), generate

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = iter(range(start, sys.maxsize))

        def put(type: Any, value: Any) -> None:
            if isinstance(type, types.BaseTuple):
                for position, each in enumerate(_items(type)):
                    put(each, builder.extract_value(value, position))
            elif not isinstance(type, types.NoneType):
                address = builder.gep(arguments[0], [context.get_constant(types.intp, next(place))])
                target = builder.bitcast(address, context.get_data_type(type).as_pointer())
                context.pack_value(builder, type, value, target)

        put(signature.args[1], arguments[1])
        return context.get_dummy_value()

    return write
