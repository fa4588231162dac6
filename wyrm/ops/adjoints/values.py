"""From the simple form to one name per value: what is assigned in a turn of a loop is assigned once in that turn."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from wyrm.errors import NotDifferentiable
from wyrm.ops.adjoints.program import (
    SIZES,
    Block,
    Branch,
    Fail,
    Kind,
    Let,
    Loop,
    Put,
    Scratch,
    Store,
    Turns,
    While,
    base,
    blocks_of,
    every,
    expressions,
    indices,
    name,
    names,
    number,
    number_all,
    parsed,
    replaced,
)
from wyrm.ops.adjoints.reading import Reader
from wyrm.ops.adjoints.rules import converts, formula_name, function_of, gives_float, is_passive

_ORDER = ("b", "i", "f4", "f8")


class Kernel:
    """A kernel in the simple form, with one name per value.

    `kinds`: what each name holds. `results`: the names of what it returns. `views`: the assignments of views, by name.
    """

    def __init__(self, function: Callable[..., Any], kinds: Mapping[str, Kind]) -> None:
        reader = Reader(function)
        self.name, self.space, self.used = reader.name, reader.space, reader.used
        self.parameters: list[str] = reader.parameters
        self.scratch: list[Scratch] = []
        self.kinds: dict[str, Kind] = {each: kinds[each] for each in self.parameters}
        self.fresh, self.own, self.lines = reader.fresh, reader.own, reader.lines
        self.where: Any = reader.where
        self.views: dict[str, Let] = {}
        self.definitions: dict[str, Let] = {}
        self.body, self.results = _Conversion(self, reader).converted()
        remove_dead(self)
        number_all(self.body)

    def fail(self, text: str, where: str | None = None) -> NoReturn:
        """Raise `NotDifferentiable` for a statement."""
        raise NotDifferentiable(f"{where or self.where}: {text}")

    def new(self, prefix: str, kind: Kind) -> str:
        """Return a new name of this kind."""
        found = self.fresh(prefix)
        self.kinds[found] = kind
        return found

    def let(self, where: str, text: str, value: ast.expr) -> Let:
        """Return the only assignment to a name, which has its kind already."""
        found = self.definitions[text] = Let(where, text, value)
        if self.kinds[text].is_array:
            self.views[text] = found
        return found

    def prefix(self) -> str:
        """Return how the names of cotangents or tangents begin: as no name of the kernel does."""
        count = 1
        while any(each.startswith("d" * count + "_") for each in self.used):
            count += 1
        return "d" * count + "_"

    def root(self, array: str | None) -> str:
        """Return the array that a view is of."""
        while array in self.views:
            array = base(self.views[array].value)
        return array or ""

    def written(self) -> set[str]:
        """Return the arrays whose elements are written."""
        return {self.root(base(each.target)) for each in every(self.body) if isinstance(each, Store)}

    def kind(self, e: ast.expr) -> Kind:
        """Return what an expression computes."""
        found = kind_of(e, self.kinds, self.space)
        return Kind({"wf": "f8", "wi": "i"}.get(found.type, found.type), found.axes)


def _both(first: str, second: str) -> str:
    """Return the type of a variable that holds numbers of two types, as the compiler chooses it."""
    if {first, second} == {"i", "f4"}:
        return "f8"
    return max(first, second, key=_ORDER.index)


def _above(*kinds: str) -> str:
    """Return the type of arithmetic with operands of these types; "wf" and "wi" are those of literals."""
    if "f8" in kinds:
        return "f8"
    if "f4" in kinds:
        return "f8" if "i" in kinds else "f4"
    if "wf" in kinds:
        return "f8" if "i" in kinds else "wf"
    return "wi" if set(kinds) == {"wi"} else "i"


def kind_of(e: ast.expr, kinds: Mapping[str, Kind], space: Mapping[str, Any]) -> Kind:
    """Return what an expression computes, by what its variables hold; literals are of the types "wf" and "wi"."""

    def of(e: ast.expr) -> Kind:
        match e:
            case ast.Constant(value=bool()):
                return Kind("b")
            case ast.Constant(value=int()):
                return Kind("wi")
            case ast.Constant():
                return Kind("wf")
            case ast.Name(id=text):
                return kinds.get(text, Kind("wf"))
            case ast.Attribute(value=inner, attr=attribute):
                if attribute == "T":
                    return of(inner)
                return Kind("i") if attribute in SIZES else Kind("wf")
            case ast.Subscript(value=inner):
                found = of(inner)
                if not found.is_array:
                    return Kind(found.type)
                left = (found.axes or 0) - sum(not isinstance(i, ast.Slice) for i in indices(e))
                return Kind(found.type, left) if left > 0 else Kind(found.type)
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return Kind("b")
            case ast.UnaryOp(operand=inner):
                return of(inner)
            case ast.BinOp(left=left, op=op, right=right):
                first, second = of(left).type, of(right).type
                if isinstance(op, ast.Div):
                    return Kind(_above(first, second, *(["wf"] if "f4" not in (first, second) else [])))
                return Kind(_above(first, second))
            case ast.IfExp(body=first_, orelse=second_):
                return Kind(_above(of(first_).type, of(second_).type))
            case ast.Call():
                return _kind_of_call(e, [of(each).type for each in e.args])
        return Kind("wf")

    def _kind_of_call(e: ast.Call, types: Sequence[str]) -> Kind:
        function = function_of(e, space)
        if converts(function):
            return Kind("f4" if function.__name__ == "float32" else "f8")
        if is_passive(function):
            given = getattr(function, "__name__", "")
            if given == "bool" or given.startswith(("is", "logical")):
                return Kind("b")
            return Kind("f8" if gives_float(function) else "i")
        if formula_name(function) in ("maximum", "minimum", "abs", "add"):
            return Kind(_above(*types))
        return Kind("f8")

    return of(e)


class _Conversion:
    """Gives each value a name."""

    def __init__(self, kernel: Kernel, reader: Reader) -> None:
        self.kernel, self.reader = kernel, reader
        self.kinds: dict[str, Kind] = dict(kernel.kinds)  # of the names of the simple form
        self.where = reader.name
        self._infer(reader.body)

    def fail(self, text: str) -> NoReturn:
        self.kernel.fail(text, self.where)

    def converted(self) -> tuple[Block, list[str]]:
        env: dict[str, str] = {each: each for each in self.kernel.parameters}
        body = self._block(self.reader.body, env)
        missing = [each for each in self.reader.results if each not in env]
        if missing:
            self.fail("the kernel returns a value on one path and none on another")
        return body, [env[each] for each in self.reader.results]

    # --- what variables hold ------------------------------------------------------------------------------------------

    def _infer(self, body: Sequence[ast.stmt]) -> None:
        """Find what each variable of the simple form holds."""
        assigned: list[tuple[str, ast.expr, str]] = []
        for s in _every(body):
            match s:
                case ast.Assign(targets=[ast.Name(id=text)], value=value):
                    assigned.append((text, value, s.where))  # type: ignore[attr-defined]  # a note of the reader
                case ast.For(target=ast.Name(id=text)):
                    self.kinds[text] = Kind("i")
                case ast.Expr():
                    made: Scratch = s.made  # type: ignore[attr-defined]  # a note of the reader
                    self.kinds[made.name] = Kind(made.type, len(made.shape))
        for _ in range(len(assigned) + 2):
            before = dict(self.kinds)
            for text, value, where in assigned:
                if names(value) & {each for each, _, _ in assigned} - set(self.kinds) - {text} and isinstance(
                    value, ast.Name | ast.Subscript
                ):
                    continue  # what it reads is not known yet
                kind = kind_of(value, self.kinds, self.kernel.space)
                if kind.is_array:
                    if self.kinds.get(text, kind) != kind:
                        self.where = where
                        self.fail(f"the array variable {text} is bound to an array of other axes: use another name")
                    self.kinds[text] = kind
                    continue
                old = self.kinds.get(text, Kind("b")).type
                new = {"wf": "f8", "wi": "i"}.get(kind.type, kind.type)
                self.kinds[text] = Kind(_both(old, new))
            if before == self.kinds:
                break

    # --- statements ---------------------------------------------------------------------------------------------------

    def _read(self, e: ast.expr, env: Mapping[str, str]) -> ast.expr:
        for each in sorted(names(e)):
            if each not in env and each in self.kinds:
                if self.kinds[each].is_array:
                    self.fail(
                        f"the array variable {each} is bound anew in a branch or a loop, and read where it may be one "
                        f"array or another: use two names, and write to elements"
                    )
                self.fail(f"the variable {each} is read before it is assigned")
        found: ast.expr = replaced(e, env)
        self._check_numbers(found)
        return found

    def _check_numbers(self, e: ast.AST) -> None:
        """Refuse arithmetic of whole arrays, and indices and axes that an array does not have."""
        for each in ast.walk(e):
            operands: list[ast.expr] = []
            match each:
                case ast.BinOp(left=left, right=right):
                    operands = [left, right]
                case ast.UnaryOp(operand=operand):
                    operands = [operand]
                case ast.Compare(left=left, comparators=comparators):
                    operands = [left, *comparators]
                case ast.BoolOp(values=values):
                    operands = values
                case ast.Call(args=given) if function_of(each, self.kernel.space) is not len:
                    operands = given
                case ast.Subscript(value=value) if base(value) is None:
                    self.fail(f"{ast.unparse(value)}: functions of whole arrays have no adjoint; write a loop")
                case ast.Subscript(value=ast.Attribute(value=array, attr="shape"), slice=ast.Constant(value=int(axis))):
                    axes = self.kernel.kind(array).axes
                    if axes is not None and not -axes <= axis < axes:
                        self.fail(f"{ast.unparse(array)} has {_counted(axes)}, and {ast.unparse(each)} is read")
                case ast.Subscript(value=value):
                    self._check_indices(each, self.kernel.kind(value).axes)
            for operand in operands:
                if self.kernel.kind(operand).is_array:
                    self.fail(
                        f"{ast.unparse(operand)} is a whole array: write a loop over its elements\n"
                        f"    {ast.unparse(each)}"
                    )

    def _check_indices(self, element: ast.Subscript, axes: int | None) -> None:
        given = [each for each in indices(element) if not (isinstance(each, ast.Constant) and each.value is ...)]
        if axes is not None and len(given) > axes:
            array = ast.unparse(element.value)
            self.fail(f"{array} has {_counted(axes)}, and {ast.unparse(element)} has {len(given)} indices")
        for each in given:
            if not isinstance(each, ast.Slice) and self.kernel.kind(each).is_float:
                self.fail(f"an index is an integer: write int({ast.unparse(each)}) in {ast.unparse(element)}")

    def _assign(self, text: str, value: ast.expr, env: dict[str, str], out: Block) -> None:
        kind = self.kinds[text]
        given = self._read(value, env)
        if not kind.is_array:
            kind = self.kernel.kind(given)
        new = text if text not in self.kernel.kinds else self.kernel.fresh(text)
        self.kernel.kinds[new] = kind
        if kind.is_array and not isinstance(given, ast.Name | ast.Subscript | ast.Attribute):
            self.fail(f"{ast.unparse(value)}: functions of whole arrays have no adjoint; write a loop")
        out.append(self.kernel.let(self.where, new, given))
        env[text] = new

    def _block(self, block: Sequence[ast.stmt], env: dict[str, str]) -> Block:
        out: Block = []
        for s in block:
            self.where = getattr(s, "where", self.where)
            match s:
                case ast.Assign(targets=[ast.Name(id=text)], value=value):
                    self._assign(text, value, env, out)
                case ast.Assign(targets=[ast.Subscript() as target], value=value) if hasattr(s, "fills"):
                    self._fill(target, self._read(value, env), env, out)
                case ast.Assign(targets=[ast.Subscript() as target], value=value):
                    out.append(Store(self.where, self._element(target, env), self._read(value, env)))
                case ast.AugAssign(target=ast.Subscript() as target, op=op, value=value):
                    sign = 1 if isinstance(op, ast.Add) else -1
                    out.append(Store(self.where, self._element(target, env), self._read(value, env), sign))
                case ast.Expr():
                    self._make(s.made, env, out)  # type: ignore[attr-defined]  # a note of the reader
                case ast.Raise():
                    out.append(Fail(self.where, s))
                case ast.If(test=test, body=body, orelse=orelse):
                    self._branch(test, body, orelse, env, out)
                case ast.For() | ast.While():
                    self._loop(s, env, out)
                case _:
                    self.fail(f"no adjoint of {ast.unparse(s)}")
        return out

    def _make(self, made: Scratch, env: dict[str, str], out: Block) -> None:
        shape = tuple(self._read(each, env) for each in made.shape)
        fill = None if made.fill is None else self._read(made.fill, env)
        env[made.name] = made.name
        self.kernel.kinds[made.name] = Kind(made.type, len(shape))
        self.kernel.scratch.append(Scratch(made.name, shape, fill, made.type))
        if fill is not None:
            whole = ast.Subscript(name(made.name), ast.Constant(...), ast.Store())
            self._fill(whole, fill, {made.name: made.name}, out)

    def _element(self, target: ast.Subscript, env: Mapping[str, str]) -> ast.Subscript:
        found = self._read(target, env)
        assert isinstance(found, ast.Subscript)
        if self.kernel.kind(found).is_array:
            self.fail(f"{ast.unparse(target)} = ...: whole arrays are written element by element; write a loop")
        found.ctx = ast.Store()
        return found

    def _fill(self, target: ast.Subscript, value: ast.expr, env: Mapping[str, str], out: Block) -> None:
        """Write a number to all elements of a view, by loops."""
        if self.kernel.kind(value).is_array:
            self.fail(f"{ast.unparse(target)} = an array: write a loop over the elements")
        found = self._read(target, env)
        assert isinstance(found, ast.Subscript)
        whole = [i for i in indices(found) if not (isinstance(i, ast.Constant) and i.value is ...)]
        array: ast.expr = found.value
        kind = self.kernel.kind(found.value)
        if any(isinstance(i, ast.Slice) and ast.unparse(i) != ":" for i in whole) or any(
            not isinstance(i, ast.Slice) for i in whole
        ):
            view = self.kernel.new("part", self.kernel.kind(found))
            found.ctx = ast.Load()
            out.append(self.kernel.let(self.where, view, found))
            array, kind = name(view), self.kernel.kinds[view]
        block = out
        turning = [self.kernel.new("at", Kind("i")) for _ in range(kind.axes or 0)]
        for axis, each in enumerate(turning):
            bounds = number(0), parsed(f"{ast.unparse(array)}.shape[{axis}]"), number(1)
            loop = Turns(self.where, [], each, bounds)
            block.append(loop)
            block = loop.body
        index: ast.expr = name(turning[0]) if len(turning) == 1 else ast.Tuple([name(i) for i in turning], ast.Load())
        block.append(Store(self.where, ast.Subscript(array, index, ast.Store()), value))

    def _zero(self, text: str) -> ast.expr:
        kind = self.kinds[text].type
        return number(False if kind == "b" else 0 if kind == "i" else 0.0)

    def _branch(self, test: ast.expr, body: Any, orelse: Any, env: dict[str, str], out: Block) -> None:
        given, where = self._read(test, env), self.where
        first, second = dict(env), dict(env)
        branch = Branch(where, given, self._block(body, first), self._block(orelse, second))
        out.append(branch)
        for text in sorted({*first, *second}):
            if first.get(text) == second.get(text):
                continue
            if self.kinds[text].is_array:  # after the branch it is not known which array it is
                env.pop(text, None)
                continue
            types = [self.kernel.kinds[each[text]].type for each in (first, second) if text in each]
            kind = _both(types[0], types[-1])
            joined = self.kernel.new(text, Kind(kind))
            for inner, found in ((branch.body, first), (branch.orelse, second)):
                value = name(found[text]) if text in found else self._zero(text)
                place = len(inner) - (bool(inner) and isinstance(inner[-1], Fail))
                inner.insert(place, Put(where, joined, value, "join"))
            env[text] = joined

    def _loop(self, s: Any, env: dict[str, str], out: Block) -> None:
        where, stop = self.where, s.stop
        assigned = {
            each.targets[0].id
            for each in _every(s.body)
            if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)
        } | {each.target.id for each in _every(s.body) if isinstance(each, ast.For)}  # type: ignore[attr-defined]  # a name
        bounds: tuple[ast.expr, ...] = ()
        if isinstance(s, ast.For):
            assert isinstance(s.target, ast.Name) and isinstance(s.iter, ast.Call)
            assigned.add(s.target.id)
            bounds = self._bounds(s.iter.args, env, out)
        carried: dict[str, str] = {}
        starts: dict[str, Put] = {}
        for text in sorted(assigned):
            if self.kinds[text].is_array:  # in a turn it is the array that the turn binds
                env.pop(text, None)
                continue
            before = name(env[text]) if text in env else self._zero(text)
            carried[text] = self.kernel.new(text, self.kinds[text])
            starts[text] = Put(where, carried[text], before, "start")
            out.append(starts[text])
        inside = {**env, **carried}
        loop: Loop
        if isinstance(s, ast.For):
            assert isinstance(s.target, ast.Name)
            turn = self.kernel.new(s.target.id, Kind("i"))
            loop = Turns(where, [], turn, bounds)  # type: ignore[arg-type]  # three of them
            inside[s.target.id] = turn
        else:
            loop = While(where, [], self._read(s.test, inside))
        loop.body = self._block(s.body, inside)
        if stop is not None:
            loop.stop = name(inside[stop])
        for text, header in carried.items():
            if inside[text] != header:
                loop.body.append(Put(where, header, name(inside[text]), "next"))
            else:  # every turn leaves it as it was
                out[out.index(starts[text])] = self.kernel.let(where, header, starts[text].value)
        out.append(loop)
        for text, header in carried.items():
            after = self.kernel.new(text, self.kernel.kinds[header])
            out.append(self.kernel.let(where, after, name(header)))
            env[text] = after

    def _bounds(self, given: Sequence[ast.expr], env: Mapping[str, str], out: Block) -> tuple[ast.expr, ...]:
        found = [self._read(each, env) for each in given]
        for each, read in zip(given, found, strict=True):
            if self.kernel.kind(read).is_float:
                self.fail(f"range takes integers: write int({ast.unparse(each)}), or give an integer for it")
        if len(found) == 1:
            found = [number(0), *found]
        if len(found) == 2:
            found.append(number(1))
        for i, each in enumerate(found):
            if not _is_simple(each):
                kept = self.kernel.new("n", Kind("i"))
                out.append(self.kernel.let(self.where, kept, each))
                found[i] = name(kept)
        return tuple(found)


def _counted(axes: int) -> str:
    return "one axis" if axes == 1 else f"{axes} axes"


def _is_simple(e: ast.expr) -> bool:
    """Return whether a bound of a loop is a name, a number, a size, or one of them plus a number."""
    match e:
        case ast.Name() | ast.Constant() | ast.UnaryOp(operand=ast.Constant()):
            return True
        case ast.Attribute(attr="size") | ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=ast.Constant()):
            return _is_simple(left)
    return False


def _every(block: Sequence[ast.stmt]) -> Any:
    for s in block:
        yield s
        yield from _every(getattr(s, "body", []))
        yield from _every(getattr(s, "orelse", []))


def remove_dead(kernel: Kernel) -> None:
    """Remove the assignments that nothing reads, and the loops and branches that do nothing."""
    alive: set[str] = set(kernel.results)
    for made in kernel.scratch:
        alive |= names(*made.shape, *([made.fill] if made.fill is not None else []))

    def mark(block: Block) -> bool:
        """Mark what the block needs; return whether it does anything."""
        does = False
        for each in reversed(block):
            kept = isinstance(each, Store | Fail) or (isinstance(each, Let | Put) and each.name in alive)
            for inner in blocks_of(each):
                kept |= mark(inner)
            if kept:
                does = True
                alive.update(names(*expressions(each)))
                if isinstance(each, Store):
                    alive.update(names(each.target))
                if isinstance(each, Loop) and each.stop is not None:
                    alive.update(names(each.stop))
        return does

    before = -1
    while before != len(alive):
        before = len(alive)
        mark(kernel.body)

    def swept(block: Block) -> Block:
        out: Block = []
        for each in block:
            if isinstance(each, Let | Put) and each.name not in alive:
                continue
            if isinstance(each, Branch):
                each.body, each.orelse = swept(each.body), swept(each.orelse)
                if not each.body and not each.orelse:
                    continue
            elif isinstance(each, Loop):
                each.body = swept(each.body)
                if not each.body:
                    continue
            out.append(each)
        return out

    kernel.body = swept(kernel.body)
