"""The source of a kernel in a simple form: calls of kernels are inlined, and only loops end before the last statement.

Each assignment has one target, `break`, `continue` and `return` are variables and branches, and functions whose
derivative needs their value are called in assignments of their own.
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import math
import textwrap
from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType
from typing import Any, NoReturn

import numpy as np

from wyrm.errors import NotDifferentiable
from wyrm.ops.adjoints.program import Scratch, base, duplicate, indices, name, names, number
from wyrm.ops.adjoints.rules import function_of, is_costly, is_kernel, slopes_of, uses_value
from wyrm.ops.kernels.sums import accumulated

_ALLOCATORS: dict[Any, float | None] = {np.zeros: 0.0, np.ones: 1.0, np.empty: None, np.full: None}
# The names of files of generated code begin so.
GENERATED = "<wyrm kernel "
# How a block ends: it goes on, perhaps it has left the loop or the function, or it surely has.
_GOES_ON, _MAY_LEAVE, _LEAVES = range(3)


class Reader:
    """Reads a kernel and what it calls; `body`, `results` and `scratch` are what it finds.

    `space`: the modules and functions that the simple form names.
    """

    def __init__(self, function: Any) -> None:
        self.name: Any = function.__name__
        self.where: Any = self.name
        # The text of each line of a user, by its place.
        self.lines: dict[str, str] = {}
        self.space: dict[str, Any] = {"np": np, "math": math, "accumulated": accumulated}
        self.used: set[str] = {"np", "math", "accumulated", "range", "len", "abs", "max", "min", "int"}
        self.scratch: list[Scratch] = []
        self.results: list[str] = []
        self._inside: list[Callable[..., Any]] = []  # the kernels being read, to find recursion
        self._depth = 0  # of loops and branches
        tree = self._tree(function)
        self.parameters: list[str] = [each.arg for each in tree.args.args]
        self.used |= {*self.parameters, *_stored(tree)}
        # The names that the user gave; generated ones are made short at the end.
        self.own = frozenset(self.used)
        self._resolve(tree, function, {each: each for each in {*self.parameters, *_stored(tree)}})
        self._inside.append(function)
        self.body = self._function(tree.body)

    # --- helpers ------------------------------------------------------------------------------------------------------

    def fail(self, text: str, node: ast.AST | None = None) -> NoReturn:
        """Raise `NotDifferentiable` for the statement being read."""
        shown = "" if node is None else f"\n    {ast.unparse(node).splitlines()[0]}"
        raise NotDifferentiable(f"{self.where}: {text}{shown}")

    def fresh(self, prefix: str) -> str:
        """Return a name that nothing has."""
        if prefix not in self.used:
            self.used.add(prefix)
            return prefix
        count = 1
        while f"{prefix}_{count}" in self.used:
            count += 1
        self.used.add(f"{prefix}_{count}")
        return f"{prefix}_{count}"

    def _made(self, target: ast.expr | str, value: ast.expr) -> ast.Assign:
        goal = name(target) if isinstance(target, str) else target
        found = ast.Assign([goal], value, lineno=0)
        found.where = self.where  # type: ignore[attr-defined]  # a note of this module
        return found

    def _kept(self, statement: Any) -> Any:
        statement.where = self.where
        return statement

    def _tree(self, function: Any) -> ast.FunctionDef:
        if not isinstance(function, FunctionType):
            self.fail(f"{function!r} is not a function written in Python with def")
        source = source_of(function, self.where)
        tree = ast.parse(source).body[0]
        if not isinstance(tree, ast.FunctionDef):
            self.fail("a kernel must be defined with def, not as a lambda")
        given = tree.args
        if given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs:
            self.fail(f"{function.__name__} takes *args, **kwargs or keywords; name each parameter plainly")
        if function.__code__.co_freevars:
            captured = ", ".join(function.__code__.co_freevars)
            self.fail(f"{function.__name__} captures {captured} of an enclosing function; pass it as an argument")
        code = function.__code__
        first, lines = code.co_firstlineno, source.splitlines()
        for each in ast.walk(tree):
            if isinstance(each, ast.stmt):
                if not code.co_filename.startswith(GENERATED):
                    self.lines[f"{function.__name__}, {code.co_filename}:{first + each.lineno - 1}"] = lines[
                        each.lineno - 1
                    ].strip()
                each.where = f"{function.__name__}, {code.co_filename}:{first + each.lineno - 1}"  # type: ignore[attr-defined]  # as above
        return tree

    def _resolve(self, tree: ast.FunctionDef, function: FunctionType, renamed: dict[str, str]) -> None:
        """Rename the variables of a function, and what it reads of its module to what the simple form calls that."""
        known: dict[str, ast.expr] = {}
        for each in sorted(names(*tree.body) - set(renamed)):
            if each not in function.__globals__:
                if not hasattr(builtins, each):
                    self.where = f"{function.__name__}, {function.__code__.co_filename}"
                    self.fail(f"{each} is not defined")
                continue
            value = getattr(function.__globals__[each], "kernel_function", function.__globals__[each])
            if (isinstance(value, bool | int | float) and not isinstance(value, float | int)) or (
                isinstance(value, bool | int | float) and math.isfinite(value)
            ):
                known[each] = number(value)
            elif value is np or value is math:
                known[each] = name("np" if value is np else "math")
            else:
                held = next((key for key, found in self.space.items() if found is value), None)
                if held is None:
                    held = self.fresh(each)
                    self.space[held] = value
                known[each] = name(held)
        tree.body = [_Resolved(renamed, known).visit(each) for each in tree.body]

    # --- statements ---------------------------------------------------------------------------------------------------

    def _function(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return the body of a function in the simple form."""
        state = _Leaving(self.fresh("left"), None)
        found, ending = self._block(body, state)
        self._check_returns(state, ending)
        return [self._made(state.left, number(False)), *found]

    def _check_returns(self, state: _Leaving, ending: int) -> None:
        """Refuse a function that returns on one path, and comes to its end on another."""
        if state.results and ending != _LEAVES:
            self.fail("one path returns a value, and another one comes to the end without: write a return there, too")

    def _block(self, block: Sequence[ast.stmt], state: _Leaving) -> tuple[list[ast.stmt], int]:
        out: list[ast.stmt] = []
        for index, s in enumerate(block):
            self.where = getattr(s, "where", self.where)
            rest = block[index + 1 :]
            match s:
                case ast.Pass() | ast.Assert() | ast.Expr(value=ast.Constant()):
                    continue
                case ast.Break():
                    if state.stop is None:
                        self.fail("break outside of a loop")
                    out += [self._made(state.stop, number(True)), self._made(state.left, number(True))]
                    return out, _LEAVES
                case ast.Continue():
                    return [*out, self._made(state.left, number(True))], _LEAVES
                case ast.Return():
                    self._return(s, state, out)
                    return [*out, self._made(state.left, number(True))], _LEAVES
                case ast.If():
                    done = self._if(s, rest, state, out)
                    if done is not None:
                        return out, done
                case ast.For() | ast.While():
                    self._loop(s, out)
                case ast.Assign():
                    self._assign(s, out)
                case ast.AugAssign():
                    self._augmented(s, out)
                case ast.AnnAssign(value=None):
                    continue
                case ast.AnnAssign():
                    assert s.value is not None
                    self._single(s.target, s.value, out)
                case ast.Expr(value=ast.Call() as call):
                    self._call(call, [], out)
                case ast.Raise():
                    out.append(self._kept(s))
                    return out, _LEAVES
                case ast.Try() | ast.With():
                    self.fail("kernels have no try and no with: test before, and write an if statement", s)
                case _:
                    self.fail(f"kernels have no {type(s).__name__.lower()} statement", s)
        return out, _GOES_ON

    def _return(self, s: ast.Return, state: _Leaving, out: list[ast.stmt]) -> None:
        if state.in_loop:
            self.fail("return within a loop: assign the result, break, and return it after the loop", s)
        values = [] if s.value is None else list(s.value.elts) if isinstance(s.value, ast.Tuple) else [s.value]
        if state.results is None:
            state.results = [self.fresh("result") for _ in values]
            if state.outer:
                self.results = state.results
        if len(values) != len(state.results):
            self.fail("returns of different numbers of values", s)
        found = [self._expanded(each, out) for each in values]
        out += [self._made(goal, value) for goal, value in zip(state.results, found, strict=True)]

    def _if(self, s: ast.If, rest: Sequence[ast.stmt], state: _Leaving, out: list[ast.stmt]) -> int | None:
        """Add a branch, with the rest of the block if it may leave; return how that ends, None if it goes on."""
        test = self._expanded(s.test, out)
        where = self.where
        self._depth += 1
        first, ending = self._block(s.body, state)
        second, other = self._block(s.orelse, state)
        self._depth -= 1
        branch = ast.If(test, first, second)
        branch.where = where  # type: ignore[attr-defined]  # as above
        out.append(branch)
        if ending == other == _GOES_ON:
            return None
        if ending == other == _LEAVES:
            return _LEAVES
        raising = _raises(first) or _raises(second)
        if raising and {ending, other} == {_LEAVES, _GOES_ON}:
            return None  # after a raise nothing is done
        self._depth += 1
        after, last = self._block(rest, state)
        self._depth -= 1
        if {ending, other} == {_LEAVES, _GOES_ON}:
            (second if ending == _LEAVES else first).extend(after)
            return _LEAVES if last == _LEAVES else _MAY_LEAVE
        guard = ast.If(ast.UnaryOp(ast.Not(), name(state.left)), after, [])
        guard.where = where  # type: ignore[attr-defined]  # as above
        out.append(guard)
        return last if last == _LEAVES else _MAY_LEAVE

    def _loop(self, s: ast.For | ast.While, out: list[ast.stmt]) -> None:
        if s.orelse:
            self.fail("a loop with an else: set a variable before break, and test it after the loop", s)
        state = _Leaving(self.fresh("left"), self.fresh("stop") if _breaks(s.body) else None, in_loop=True, outer=False)
        where = self.where
        start = [self._made(state.left, number(False))]
        if state.stop is not None:
            start.append(self._made(state.stop, number(False)))
        if isinstance(s, ast.For):
            if not isinstance(s.target, ast.Name) or not isinstance(s.iter, ast.Call):
                self.fail("a loop over arrays: write for i in range(x.shape[0]), and x[i]", s)
            called = getattr(function_of(s.iter, self.space), "__name__", "")
            if called not in ("range", "shared_turns"):
                self.fail("a loop over arrays: write for i in range(x.shape[0]), and x[i]", s)
            given = s.iter.args[:1] if called == "shared_turns" else s.iter.args
            bounds = [self._expanded(each, out) for each in given]
            head: Any = ast.For(s.target, ast.Call(name("range"), bounds, []), [], [], lineno=0)
        else:
            ahead: list[ast.stmt] = []
            test = self._expanded(s.test, ahead)
            if ahead:  # the condition is computed by statements
                state.stop = state.stop or self.fresh("stop")
                broken = ast.Break()
                again = ast.If(ast.UnaryOp(ast.Not(), s.test), [broken], [])
                again.where = broken.where = where  # type: ignore[attr-defined]  # as above
                s = ast.While(ast.Constant(True), [again, *s.body], [])
                start = [self._made(state.left, number(False)), self._made(state.stop, number(False))]
                test = s.test
            head = ast.While(test, [], [])
        self._depth += 1
        head.body, _ = self._block(s.body, state)
        self._depth -= 1
        head.body = [*start, *head.body]
        head.stop, head.where = state.stop, where
        out.append(head)

    def _assign(self, s: ast.Assign, out: list[ast.stmt]) -> None:
        if len(s.targets) > 1:
            kept = self.fresh("t")
            self._single(name(kept), s.value, out)
            for each in s.targets:
                self._single(each, name(kept), out)
        else:
            self._single(s.targets[0], s.value, out)

    def _single(self, target: ast.expr, value: ast.expr, out: list[ast.stmt]) -> None:
        if isinstance(target, ast.Tuple):
            self._unpacked(target.elts, value, out)
            return
        if isinstance(target, ast.Subscript):
            target.slice = self._expanded(target.slice, out, whole=True)
            if any(isinstance(each, ast.Slice) or _is_ellipsis(each) for each in indices(target)):
                self._fill(target, value, out)
                return
        elif not isinstance(target, ast.Name):
            self.fail("an assignment to something that is neither a variable nor an element", target)
        made = function_of(value, self.space)
        if isinstance(value, ast.Call) and _hashable(made) and made in _ALLOCATORS:
            self._allocate(target, value, made, out)
        elif isinstance(value, ast.Call) and is_kernel(made) and slopes_of(made) is None:
            goal = target.id if isinstance(target, ast.Name) else self.fresh("r")
            self._call(value, [goal], out)
            if not isinstance(target, ast.Name):
                out.append(self._made(target, name(goal)))
        elif isinstance(value, ast.IfExp):
            self._chosen(target, value, out)
        else:
            whole = isinstance(target, ast.Name) and target.id not in names(value)
            out.append(self._made(target, self._expanded(value, out, whole=whole)))

    def _chosen(self, target: ast.expr, value: ast.IfExp, out: list[ast.stmt]) -> None:
        """Add `target = x if c else y` as a branch."""
        test = self._expanded(value.test, out)
        first: list[ast.stmt] = []
        second: list[ast.stmt] = []
        self._depth += 1
        self._single(duplicate(target), value.body, first)
        self._single(duplicate(target), value.orelse, second)
        self._depth -= 1
        out.append(self._kept(ast.If(test, first, second)))

    def _unpacked(self, targets: Sequence[ast.expr], value: ast.expr, out: list[ast.stmt]) -> None:
        if isinstance(value, ast.Attribute) and value.attr == "shape":
            for i, each in enumerate(targets):
                self._single(each, ast.Subscript(value, ast.Constant(i), ast.Load()), out)
        elif isinstance(value, ast.Tuple):
            if len(value.elts) != len(targets):
                self.fail("unpacking a tuple of another length", value)
            read = [names(*value.elts[i + 1 :]) for i in range(len(targets))]
            if not any(base(target) in later for target, later in zip(targets, read, strict=True)):
                for target, each in zip(targets, value.elts, strict=True):
                    self._single(target, each, out)
                return
            kept = [self.fresh("t") for _ in targets]
            for key, each in zip(kept, value.elts, strict=True):
                self._single(name(key), each, out)
            for target, key in zip(targets, kept, strict=True):
                self._single(target, name(key), out)
        elif isinstance(value, ast.Call) and is_kernel(function_of(value, self.space)):
            goals = [each.id if isinstance(each, ast.Name) else self.fresh("r") for each in targets]
            self._call(value, goals, out)
            for target, goal in zip(targets, goals, strict=True):
                if not isinstance(target, ast.Name):
                    self._single(target, name(goal), out)
        else:
            self.fail("unpacking something that is neither a tuple, a shape nor a call", value)

    def _augmented(self, s: ast.AugAssign, out: list[ast.stmt]) -> None:
        target = s.target
        if isinstance(target, ast.Subscript):
            if any(isinstance(each, ast.Slice) or _is_ellipsis(each) for each in indices(target)):
                self.fail("arithmetic on whole arrays: write a loop over the elements", s)
            target.slice = self._expanded(target.slice, out, whole=True)
            if isinstance(s.op, ast.Add | ast.Sub):
                value = self._expanded(s.value, out)
                out.append(self._kept(ast.AugAssign(target, s.op, value)))
                return
        load = duplicate(target)
        self._single(target, ast.BinOp(load, s.op, s.value), out)

    def _fill(self, target: ast.Subscript, value: ast.expr, out: list[ast.stmt]) -> None:
        """Add `target[...] = number` of a whole array or of a view."""
        found = self._expanded(value, out)
        fill = ast.Assign([target], found, lineno=0)
        fill.fills = True  # type: ignore[attr-defined]  # as above
        out.append(self._kept(fill))

    def _allocate(self, target: ast.expr, call: ast.Call, made: Any, out: list[ast.stmt]) -> None:
        if self._depth:
            self.fail(
                "an array made in a loop, in a branch or in a kernel called there: make it before, at the start of the "
                "kernel, and pass it on", call
            )  # fmt: skip
        assert isinstance(target, ast.Name)
        shape = call.args[0]
        sizes = [self._expanded(each, out) for each in (shape.elts if isinstance(shape, ast.Tuple) else [shape])]
        fill: ast.expr | None = self._expanded(call.args[1], out) if made is np.full else None
        if made is not np.full and _ALLOCATORS[made] is not None:
            fill = number(float(_ALLOCATORS[made] or 0.0))
        rest = call.args[2 if made is np.full else 1 :] + [each.value for each in call.keywords]
        dtype = ast.unparse(rest[0]) if rest else "np.float64"
        if dtype.endswith("dtype"):
            self.fail("the dtype of a new array must be np.float64, np.float32 or np.int64", call)
        types = {"np.float64": "f8", "np.float32": "f4", "np.int64": "i", "float": "f8", "int": "i"}
        if dtype not in types or any(each.id == target.id for each in self.scratch if isinstance(each, ast.Name)):
            self.fail("the dtype of a new array must be np.float64, np.float32 or np.int64", call)
        if any(each.name == target.id for each in self.scratch):
            self.fail("an array variable is bound anew: write to its elements, or use another name", call)
        self.scratch.append(Scratch(target.id, tuple(sizes), fill, types[dtype]))
        marker = ast.Expr(name(target.id))
        marker.made = self.scratch[-1]  # type: ignore[attr-defined]  # as above
        out.append(self._kept(marker))

    # --- calls --------------------------------------------------------------------------------------------------------

    def _call(self, call: ast.Call, goals: list[str], out: list[ast.stmt]) -> None:
        """Add the statements of a called kernel, whose results are assigned to `goals`."""
        function = function_of(call, self.space)
        if not is_kernel(function):
            self.fail(f"{ast.unparse(call.func)} is not a kernel: it has no adjoint here", call)
        if function in self._inside:
            self.fail(f"{function.__name__} calls itself; write a loop", call)
        where = self.where
        tree = self._tree(function)
        parameters = [each.arg for each in tree.args.args]
        given: dict[str, ast.expr] = dict(zip(parameters, call.args, strict=False))
        given |= {each.arg: each.value for each in call.keywords if each.arg is not None}
        for each, default in zip(reversed(parameters), reversed(function.__defaults__ or ()), strict=False):
            given.setdefault(each, number(default))
        if set(given) != set(parameters) or len(call.args) > len(parameters):
            self.fail(f"{function.__name__} takes {len(parameters)} arguments", call)
        self._check_memory(function, tree, given, call)
        renamed = {each: self.fresh(each) for each in (*parameters, *sorted(_stored(tree) - set(parameters)))}
        for each in parameters:
            self._single(name(renamed[each]), given[each], out)
        self._resolve(tree, function, renamed)
        state = _Leaving(self.fresh("left"), None, outer=False)
        self._inside.append(function)
        body, ending = self._block(tree.body, state)
        self._check_returns(state, ending)
        self._inside.pop()
        self.where = where
        out += [self._made(state.left, number(False)), *body]
        found = state.results or []
        if len(found) != len(goals) and goals:
            self.fail(f"{function.__name__} returns {len(found)} values, not {len(goals)}", call)
        out += [self._made(goal, name(each)) for goal, each in zip(goals, found, strict=False)]

    def _check_memory(self, function: Any, tree: ast.FunctionDef, given: dict[str, ast.expr], call: ast.Call) -> None:
        written = {
            base(target)
            for each in ast.walk(tree)
            for target in ([each.target] if isinstance(each, ast.AugAssign) else getattr(each, "targets", []))
            if isinstance(target, ast.Subscript)
        }
        inside = [each for each in ast.walk(tree) if isinstance(each, ast.Subscript | ast.Attribute | ast.Call)]
        indexed = {base(each) for each in inside if isinstance(each, ast.expr)}
        indexed |= {base(argument) for each in inside if isinstance(each, ast.Call) for argument in each.args}
        arrays = [
            (p, v) for p, v in given.items() if p in indexed and isinstance(v, ast.Name | ast.Subscript) and base(v)
        ]
        for i, (p, v) in enumerate(arrays):
            for q, w in arrays[i + 1 :]:
                one = isinstance(v, ast.Name) or isinstance(w, ast.Name) or ast.dump(v) == ast.dump(w)
                if {p, q} & written and base(v) == base(w) and one:
                    self.fail(
                        f"{p} and {q} of {function.__name__} are the same memory, and it writes to one of them: "
                        f"write its loop here", call
                    )  # fmt: skip

    # --- expressions --------------------------------------------------------------------------------------------------

    def _expanded(self, e: ast.expr, out: list[ast.stmt], whole: bool = False) -> Any:
        """Return an expression without calls of kernels; what must be computed before is added to `out`.

        `whole`: the expression is all of an assignment to a variable, so that its value has a name.
        """
        if isinstance(e, ast.Call):
            function = function_of(e, self.space)
            if function is np.where and len(e.args) == 3:
                return self._expanded(ast.IfExp(*e.args), out)
            if _hashable(function) and function in _ALLOCATORS:
                self.fail("an array made within an expression: assign it to a variable", e)
            if function in (max, min) and len(e.args) > 2:
                e = ast.Call(e.func, [ast.Call(e.func, e.args[:-1], []), e.args[-1]], [])
            if is_kernel(function) and slopes_of(function) is None:
                kept = self.fresh("r")
                self._call(e, [kept], out)
                return name(kept)
            if function is None:
                self.fail(f"{ast.unparse(e.func)} is not a function of numbers: write a loop over the elements", e)
            found: ast.expr = ast.Call(e.func, [self._expanded(each, out) for each in e.args], [])
            if not whole and (uses_value(function) or is_costly(found, self.space)):
                kept = self.fresh(getattr(function, "__name__", "t"))
                out.append(self._made(kept, found))
                return name(kept)
            return found
        if isinstance(e, ast.IfExp):
            kept = self.fresh("t")
            self._chosen(name(kept), e, out)
            return name(kept)
        if isinstance(e, ast.BoolOp):
            return self._joined(e, out)
        if isinstance(e, ast.NamedExpr | ast.Lambda | ast.ListComp | ast.GeneratorExp | ast.Starred | ast.Dict):
            self.fail(f"kernels have no {type(e).__name__.lower()}", e)
        if isinstance(e, ast.List):
            self.fail("kernels have no lists: make an array at the start of the kernel, as in np.zeros(n)", e)
        changed = copy.copy(e)
        for field, value in ast.iter_fields(e):
            if isinstance(value, ast.expr):
                setattr(changed, field, self._expanded(value, out))
            elif isinstance(value, list) and value and isinstance(value[0], ast.expr):
                setattr(changed, field, [self._expanded(each, out) for each in value])
        return changed

    def _joined(self, e: ast.BoolOp, out: list[ast.stmt]) -> ast.expr:
        """Return `x and y`; a branch where `y` needs statements of its own."""
        values = [self._expanded(e.values[0], out)]
        for position, each in enumerate(e.values[1:], 1):
            ahead: list[ast.stmt] = []
            value = self._expanded(each, ahead)
            if not ahead:
                values.append(value)
                continue
            kept, first = self.fresh("chosen"), values[0] if len(values) == 1 else ast.BoolOp(e.op, values)
            rest = e.values[position:]
            inner: list[ast.stmt] = []
            last = self._expanded(rest[0] if len(rest) == 1 else ast.BoolOp(e.op, list(rest)), inner)
            out.append(self._made(kept, first))
            test = name(kept) if isinstance(e.op, ast.And) else ast.UnaryOp(ast.Not(), name(kept))
            out.append(self._kept(ast.If(test, [*inner, self._made(kept, last)], [])))
            return name(kept)
        return ast.BoolOp(e.op, values)


def source_of(function: Any, where: str | None = None) -> str:
    """Return the source of a kernel; raise `NotDifferentiable` for one that is not in a file."""
    try:
        kept: str | None = getattr(function, "source_of_kernel", None)
        return textwrap.dedent("".join(inspect.getsourcelines(function)[0]) if kept is None else kept)
    except (OSError, TypeError):
        name = function.__name__
        raise NotDifferentiable(f"{where or name}: the source of {name} is not in a file; define it in one") from None


class _Leaving:
    """The variables that say whether the rest of a loop or of a function is not run, and whether the loop ends."""

    def __init__(self, left: str, stop: str | None, in_loop: bool = False, outer: bool = True) -> None:
        self.left, self.stop, self.in_loop, self.outer = left, stop, in_loop, outer
        self.results: list[str] | None = None


class _Resolved(ast.NodeTransformer):
    """Renames variables, and puts expressions in place of what is read of the module."""

    def __init__(self, renamed: dict[str, str], known: dict[str, ast.expr]) -> None:
        self.renamed, self.known = renamed, known

    def visit_Name(self, node: ast.Name) -> ast.expr:  # the name that ast calls
        if node.id in self.renamed:
            return ast.copy_location(ast.Name(self.renamed[node.id], node.ctx), node)
        return duplicate(self.known[node.id]) if node.id in self.known else node


def _stored(tree: ast.FunctionDef) -> set[str]:
    return {each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def _breaks(body: Sequence[ast.stmt]) -> bool:
    for each in body:
        if isinstance(each, ast.Break):
            return True
        if isinstance(each, ast.If) and (_breaks(each.body) or _breaks(each.orelse)):
            return True
    return False


def _raises(block: Sequence[ast.stmt]) -> bool:
    return bool(block) and isinstance(block[-1], ast.Raise)


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _hashable(value: Any) -> bool:
    return isinstance(value, FunctionType | type) or (callable(value) and not isinstance(value, ModuleType))
