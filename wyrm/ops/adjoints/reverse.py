"""The adjoint of a kernel: its loops run backwards, and add to the cotangents of what each statement reads."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from wyrm.ops.adjoints.blocks import AdjointOfBlock, Blocks, length_of, loops_at
from wyrm.ops.adjoints.columns import Tape
from wyrm.ops.adjoints.elements import Elements
from wyrm.ops.adjoints.jumps import Jumps
from wyrm.ops.adjoints.program import (
    Block,
    Branch,
    Keep,
    Kind,
    Let,
    Loop,
    Put,
    Statement,
    Store,
    Turns,
    While,
    base,
    blocks_of,
    comment,
    duplicate,
    every,
    expressions,
    indices,
    loads,
    name,
    names,
    number_all,
    parsed,
    rebased,
    replaced,
    statements_of,
    substituted,
    text_of,
)
from wyrm.ops.adjoints.rules import formula_name, function_of, is_costly, negated, slope, times
from wyrm.ops.adjoints.slopes import Slopes, moves, varied
from wyrm.ops.adjoints.values import Kernel


@dataclass(eq=False)
class Restored(ast.Pass):
    """The place in the code at which the values of a block are restored."""

    block: Block = field(default_factory=list)


class Reversed(ast.For):
    """A loop that runs backwards, and the loop of the kernel that it is made of."""

    loop: Loop


def _reversed(loop: Loop, turn: str, turns: ast.expr, body: list[ast.stmt]) -> Reversed:
    found = Reversed(name(turn), turns, body, [], lineno=0)
    found.loop = loop
    return found


class Reverse:
    """The adjoint of a kernel.

    `wrt`: the parameters that are differentiated. `blocked`: the loops whose turns are divided into blocks, by their
    positions among those that are in `depth` others; `adjoint` derives the adjoint of a block.
    """

    def __init__(
        self, kernel: Kernel, wrt: Sequence[str], blocked: Collection[int], depth: int, adjoint: AdjointOfBlock
    ) -> None:
        self.kernel, self._adjoint_of_block = kernel, adjoint
        self.wrt: list[str] = list(wrt)
        self.elements: Elements = Elements(kernel)
        self.jumps: Jumps = Jumps(kernel)
        self._divide(blocked, depth)
        self._hoist()
        number_all(kernel.body)
        self.elements = Elements(kernel)
        # Derivatives of maxima and minima, which the tape keeps.
        self.shares: set[str] = {each.share for each in every(kernel.body) if isinstance(each, Let)} - {""}
        self.prefix: str = kernel.prefix()
        self.slopes: Slopes = Slopes(kernel, self._active())
        self._find_homes()
        self.floats = {"f8": Tape(kernel.fresh("tape"), kernel.fresh("place"))}
        self.floats["f4"] = Tape(kernel.fresh("tape32"), kernel.fresh("place32"))
        self.integers: Tape = Tape(kernel.fresh("notes"), kernel.fresh("note"))
        self.bools: Tape = Tape(kernel.fresh("choices"), kernel.fresh("choice"))
        backward, needed = self._derived()
        if self._leave_shares(needed):
            backward, needed = self._derived()
        if self._simplify(needed):
            number_all(kernel.body)
            self.elements = Elements(kernel)
            self._find_homes()
            backward, needed = self._derived()
        self.needed = needed
        self.backward_code = backward

    def _derived(self) -> tuple[list[ast.stmt], set[str]]:
        """Return the backward sweep, and the values of the kernel that it needs."""
        self._shadowed: set[str] = set()
        backward = self._backward(self.kernel.body)
        return backward, self._closed(self._reads(backward))

    def local(self, prefix: str) -> str:
        """Return a name for what the derived code assigns."""
        return self.kernel.fresh(prefix)

    def tape_of(self, text: str) -> Tape:
        """Return the tape for values of a variable, or of the elements of an array."""
        kind = self.kernel.kinds[text]
        if kind.is_float:
            return self.floats[kind.type]
        return self.bools if kind.type == "b" else self.integers

    def divided(self) -> list[Blocks]:
        """Return the loops whose turns are divided into blocks, and have a derivative."""
        found = [each.blocks for each in every(self.kernel.body) if isinstance(each, Loop) and each.blocks is not None]
        return [each for each in found if each.derived is not None]

    def _divide(self, blocked: Collection[int], depth: int) -> None:
        """Prepare the loops whose turns are divided: count them, and keep the state before blocks."""
        places = [(block, each) for block in self._blocks() for each in block if isinstance(each, Loop)]
        for i, loop in enumerate(list(loops_at(self.kernel.body, depth))):
            if i not in blocked:
                continue
            block = next(block for block, each in places if each is loop)
            length = self.kernel.new("length", Kind("i"))
            loop.trips, loop.blocks = self.kernel.new("trips", Kind("i")), Blocks(self, loop, length)
            block.insert(block.index(loop), self._let(length, length_of(loop), loop))
            loop.body.insert(0, Keep(loop.where, loop.blocks.keep))

    # --- what depends on what -----------------------------------------------------------------------------------------

    def _blocks(self) -> Iterator[Block]:
        yield self.kernel.body
        for each in every(self.kernel.body):
            yield from blocks_of(each)

    def _find_homes(self) -> None:
        """Find the block at whose start the backward sweep has the value of each variable, and makes its cotangent."""
        self.home: dict[str, Block] = {}
        # A variable that a loop carries has the value before a turn in the body, and one after the loop nowhere.
        self.carrier: dict[str, Loop] = {}
        self.cotangent_home: dict[str, Block] = {}
        for block in self._blocks():
            for each in block:
                if isinstance(each, Let):
                    self.home[each.name] = self.cotangent_home[each.name] = block
                elif isinstance(each, Branch):
                    for inner in (*each.body, *each.orelse):
                        if isinstance(inner, Put) and inner.role == "join":
                            self.home[inner.name] = self.cotangent_home[inner.name] = block
                elif isinstance(each, Put) and each.role == "start":
                    self.cotangent_home[each.name] = block
                elif isinstance(each, Put) and each.carried:
                    self.home[each.name] = block
                    self.carrier[each.name] = each.loops[-1]

    def _active(self) -> set[str]:
        """Return the names and arrays of floats that depend on `wrt`, and on which a result or an array depends."""
        kernel, found_moves = self.kernel, moves(self.kernel)
        depends = varied(kernel, self.wrt).active
        useful = set(kernel.results) | {each for each in kernel.written() if each in kernel.parameters}
        for loop in every(kernel.body):
            if (
                isinstance(loop, Loop) and loop.blocks is not None
            ):  # a block is differentiated by itself, with all that it writes
                stores = [each for each in every(loop.body) if isinstance(each, Store)]
                useful |= {kernel.root(base(each.target)) for each in stores}
        changed = True
        while changed:
            changed = False
            for goal, value in found_moves:
                if goal in useful:
                    found = {kernel.root(each) for each in names(value)} - useful
                    if found:
                        useful |= found
                        changed = True
        return (depends & useful) | {each for each in self.wrt if kernel.kinds[each].is_array}

    # --- what the backward sweep cannot compute again -----------------------------------------------------------------

    def _hoist(self) -> None:
        """Assign what the tape must keep to variables of their own.

        That are elements that are read, and overwritten later, and what jumps where floats are rounded in another way.
        """
        self._hoisted(self.kernel.body)

    def _hoisted(self, block: Block) -> None:
        out: Block = []
        for each in block:
            for inner in () if isinstance(each, Loop) and each.blocks is not None else blocks_of(each):
                self._hoisted(inner)
            if isinstance(each, Branch) and (self._fleeting(each.test, each) or self.jumps.is_rounded(each.test)):
                test = self.kernel.new("chosen", Kind("b"))
                out.append(self._let(test, each.test, each))
                each.test = name(test)
            elif isinstance(each, Let | Put) and self._holds_floats(each.name):
                if isinstance(each, Let) and isinstance(each.value, ast.Subscript):
                    each.value.slice = self._without(each.value.slice, each, out)
                elif isinstance(each, Let) and self.jumps.jumps(each.value):
                    each.value = self._without_loads(each.value, each, out)
                else:
                    shared = each if isinstance(each, Let) and self._keeps_two(each) else None
                    each.value = self._without(each.value, each, out)
                    if shared is not None:
                        self._keep_share(shared, out)
            elif (
                isinstance(each, Let)
                and self.kernel.kinds[each.name].is_array
                and isinstance(each.value, ast.Subscript)
            ):
                each.value.slice = self._without(each.value.slice, each, out)
            elif isinstance(each, Store):
                each.value = self._without(each.value, each, out)
                each.target.slice = self._without(each.target.slice, each, out)
            out.append(each)
        block[:] = out

    def _keeps_two(self, s: Let) -> bool:
        """Return whether the tape would keep two operands of a maximum or a minimum."""
        if formula_name(function_of(s.value, self.kernel.space)) not in ("maximum", "minimum"):
            return False
        carried = {each.name for each in every(self.kernel.body) if isinstance(each, Put) and each.carried}
        kept = {ast.unparse(each) for each in self._fleeting(s.value, s)} | (names(s.value) & carried)
        return isinstance(s.value, ast.Call) and len(s.value.args) == 2 and len(kept) >= 2

    def _keep_share(self, s: Let, out: Block) -> None:
        """Let the tape keep the derivative of a maximum or a minimum in place of its operands."""
        assert isinstance(s.value, ast.Call)
        found = formula_name(function_of(s.value, self.kernel.space))
        share = slope(str(found), 0, s.value.args, s.value, ast.Constant(1.0))
        assert share is not None
        s.share = self.kernel.new("share", self.kernel.kind(s.value))
        out.append(self._let(s.share, share, s))

    def _leave_shares(self, needed: set[str]) -> bool:
        """Leave out the derivatives of maxima and minima whose operands the tape keeps anyway; return if there are."""
        changed = False
        for block in self._blocks():
            for each in [each for each in block if isinstance(each, Let) and each.share]:
                kept = {text for text in names(each.value) if text in self.home and self.must_save(text)}
                if kept <= needed:
                    block.remove(self.kernel.definitions.pop(each.share))
                    self.shares.discard(each.share)
                    each.share, changed = "", True
        return changed

    def _holds_floats(self, text: str) -> bool:
        kind = self.kernel.kinds[text]
        return kind.is_float and not kind.is_array

    def _let(self, text: str, value: ast.expr, like: Statement) -> Let:
        found = self.kernel.let(like.where, text, value)
        found.loops, found.number = like.loops, like.number
        return found

    def _fleeting(self, e: ast.expr, at: Statement) -> list[ast.Subscript]:
        """Return the elements that an expression reads and that are overwritten later, those in indices first."""
        found: list[ast.Subscript] = []
        for each in loads(e):
            for index in indices(each):
                found += self._fleeting(index, at)
            if not self.kernel.kind(each).is_array and not self.elements.lasts(each, at):
                found.append(each)
        return found

    def _without(self, e: ast.expr, at: Statement, out: Block) -> ast.expr:
        """Return an expression that reads variables, which `out` assigns, in place of what the tape must keep."""
        return self._without_loads(self._without_jumps(e, at, out), at, out)

    def _without_jumps(self, e: ast.expr, at: Statement, out: Block) -> ast.expr:
        if self.jumps.jumps(e):
            kept = self.kernel.new("chosen" if self.kernel.kind(e).type == "b" else "kept", self.kernel.kind(e))
            out.append(self._let(kept, self._without_loads(duplicate(e), at, out), at))
            return name(kept)
        changed = duplicate(e)
        for field_name, value in ast.iter_fields(changed):
            if isinstance(value, ast.expr):
                setattr(changed, field_name, self._without_jumps(value, at, out))
            elif isinstance(value, list):
                setattr(changed, field_name, [
                    self._without_jumps(each, at, out) if isinstance(each, ast.expr) else each for each in value
                ])  # fmt: skip
        return changed

    def _without_loads(self, e: ast.expr, at: Statement, out: Block) -> ast.expr:
        while found := self._fleeting(e, at):
            load = found[0]
            kept = self.kernel.new(f"{base(load)}_was", self.kernel.kind(load))
            out.append(self._let(kept, duplicate(load), at))
            e = substituted(e, load, name(kept))
        return e

    # --- the backward sweep -------------------------------------------------------------------------------------------

    def d(self, node: ast.expr) -> ast.expr:
        """Return the cotangent of a variable or of an element."""
        found = base(node)
        assert found is not None
        if self.kernel.kinds[found].is_array:
            self._shadowed.add(found)
        return rebased(node, self.prefix)

    def _add(self, leaf: ast.expr, g: ast.expr) -> list[ast.stmt]:
        goal = ast.unparse(self.d(leaf))
        minus = isinstance(g, ast.UnaryOp) and isinstance(g.op, ast.USub)
        return statements_of(f"{goal} -= {ast.unparse(negated(g))}" if minus else f"{goal} += {ast.unparse(g)}")

    def _backward(self, block: Block) -> list[ast.stmt]:
        """Return the reversed block, empty if nothing in it matters."""
        out: list[ast.stmt] = []
        said = ""
        for each in reversed(block):
            code: list[ast.stmt] = []
            match each:
                case Let() | Put() if each.name in self.slopes.active:
                    code = self._of_variable(each)
                case Store() if self.kernel.root(base(each.target)) in self.slopes.active:
                    code = self._of_store(each)
                case Branch():
                    first, second = self._backward(each.body), self._backward(each.orelse)
                    if first or second:
                        test: ast.expr = duplicate(each.test)
                        if not first:
                            test, first, second = ast.UnaryOp(ast.Not(), test), second, []
                        out.append(ast.If(test, first, second))
                case Loop(blocks=Blocks() as blocks):
                    code = self._of_blocks(blocks)
                case Loop():
                    inner = self._backward(each.body)
                    if inner:
                        out.append(self._turned(each, inner))
            if code and each.where != said:
                said = each.where
                out += comment(self.kernel.lines.get(said, ""))
            out += code
        return [Restored(block=block), *out] if out else []

    def _of_blocks(self, blocks: Blocks) -> list[ast.stmt]:
        """Return the loop over the blocks of turns, if the turns have a derivative."""
        active, body = self.slopes.active, list(every(blocks.loop.body))
        names_in = {each.name for each in body if isinstance(each, Let | Put)}
        roots = {self.kernel.root(base(each.target)) for each in body if isinstance(each, Store)}
        if active.isdisjoint(names_in | roots):
            return []
        blocks.find()
        blocks.derive(self._adjoint_of_block)
        return blocks.backward()

    def _of_variable(self, s: Let | Put) -> list[ast.stmt]:
        g = name(self.prefix + s.name)
        if isinstance(s, Let) and s.share:
            return self._of_share(s, g)
        if not (isinstance(s, Put) and s.carried):
            value = name(s.name) if isinstance(s, Let) else None
            return self.slopes.parts(s.value, g, self._add, s.where, value)
        zero = statements_of(f"{g.id} = 0.0")
        if s.name not in names(s.value):
            return [*self.slopes.parts(s.value, g, self._add, s.where), *zero]
        rest = _addend(s)
        if rest is not None:  # the cotangent of a sum is that of the sum before
            added, plus = rest
            return self.slopes.parts(added, g if plus else negated(g), self._add, s.where)
        kept = self.slopes.temporary()
        return [*statements_of(f"{kept} = {g.id}"), *zero, *self.slopes.parts(s.value, name(kept), self._add, s.where)]

    def _of_share(self, s: Let, g: ast.expr) -> list[ast.stmt]:
        """Return the cotangents of the operands of a maximum or a minimum, by the share of the first one."""
        assert isinstance(s.value, ast.Call)
        first, second = s.value.args
        part = self.slopes.parts(first, times(g, name(s.share)), self._add, s.where)
        return part + self.slopes.parts(second, times(g, parsed(f"1.0 - {s.share}")), self._add, s.where)

    def _of_store(self, s: Store) -> list[ast.stmt]:
        target = duplicate(s.target)
        g = self.d(target)
        root = self.kernel.root(base(target))
        if s.sign:
            reads = root in {self.kernel.root(each) for each in names(s.value)}
            if reads or not isinstance(s.value, ast.Name | ast.Subscript):
                kept = self.slopes.temporary()
                parts = self.slopes.parts(
                    s.value, name(kept) if s.sign > 0 else negated(name(kept)), self._add, s.where
                )
                return [*statements_of(f"{kept} = {ast.unparse(g)}"), *parts] if parts else []
            return self.slopes.parts(s.value, g if s.sign > 0 else negated(g), self._add, s.where)
        zero = statements_of(f"{ast.unparse(g)} = 0.0")
        if not self.slopes.is_active(s.value):
            return zero
        kept = self.slopes.temporary()
        parts = self.slopes.parts(s.value, name(kept), self._add, s.where)
        return [*statements_of(f"{kept} = {ast.unparse(g)}"), *zero, *parts]

    def _turned(self, loop: Loop, inner: list[ast.stmt]) -> ast.stmt:
        """Return a loop that runs backwards."""
        counted = isinstance(loop, While) or loop.stop is not None or not _known_step(loop)
        if counted and not loop.trips:
            loop.trips = self.kernel.new("trips", Kind("i"))
        if not isinstance(loop, Turns):
            turn = self.kernel.fresh("turn")
            self.slopes.temporaries.add(turn)
            return _reversed(loop, turn, parsed(f"range({loop.trips})"), inner)
        start, stop, step = loop.bounds
        if counted:
            if _is(start, 0) and _is(step, 1):
                return _reversed(loop, loop.name, parsed(f"range({loop.trips} - 1, -1, -1)"), inner)
            turn = self.kernel.fresh("turn")
            self.slopes.temporaries.add(turn)
            first = statements_of(f"{loop.name} = {text_of(start)} + {turn} * {text_of(step)}")
            found = parsed(f"range({loop.trips} - 1, -1, -1)")
            return _reversed(loop, turn, found, [*first, *inner])
        way = int(ast.literal_eval(step))
        if abs(way) == 1:
            last = _shifted(stop, -way)
        else:
            sign = 1 if way > 0 else -1
            last = f"{text_of(start)} + ({text_of(stop)} - {text_of(start)} - {sign}) // {way} * {way}"
            if way < 0:
                last = f"{text_of(start)} + ({text_of(stop)} - {text_of(start)} + 1) // ({way}) * ({way})"
        return _reversed(loop, loop.name, parsed(f"range({last}, {_shifted(start, -way)}, {-way})"), inner)

    # --- what the backward sweep reads --------------------------------------------------------------------------------

    def _reads(self, code: Sequence[ast.stmt]) -> set[str]:
        """Return the values of the kernel that the backward sweep reads."""
        found = {each for each in names(*code) if each in self.kernel.kinds and each not in self.slopes.temporaries}
        for each in self._shadowed:
            found |= self._of_view(each)
        turning = {each.name for each in every(self.kernel.body) if isinstance(each, Turns)}
        return found - turning

    def _of_view(self, view: str) -> set[str]:
        """Return what the indices of a view read; those of the view it is of, too."""
        if view not in self.kernel.views:
            return set()
        value = self.kernel.views[view].value
        held = base(value)
        found = names(value) - {held} if held is not None else names(value)
        return found | (self._of_view(held) if held is not None else set())

    def must_save(self, text: str) -> bool:
        """Return whether the backward sweep cannot compute a value again."""
        let = self.kernel.definitions.get(text)
        if let is None or text not in self.home:
            return True
        if self.kernel.kinds[text].is_array:
            return False
        if self._is_lost(let) or self.jumps.is_kept(text) or text in self.shares:
            return True
        return is_costly(let.value, self.kernel.space) and self._reads_saved(let)

    def _is_lost(self, let: Let) -> bool:
        """Return whether what an assignment reads is overwritten later."""
        if self._fleeting(let.value, let):
            return True
        return any(each in self.carrier and self.carrier[each] not in let.loops for each in names(let.value))

    def _reads_saved(self, let: Let) -> bool:
        """Return whether an assignment reads a value that only the tape has: its own value takes no more room.

        So it is, too, where it reads elements that turns of the same loop write: the turns follow each other, and each
        waits for what it computes.
        """
        home, waiting, seen = self.home[let.name], list(names(let.value)), set[str]()
        if self._reads_turns(let.value, let):
            return True
        while waiting:
            text = waiting.pop()
            if text in seen or text not in self.kernel.kinds or self.kernel.kinds[text].is_array:
                continue
            seen.add(text)
            inner = self.kernel.definitions.get(text)
            if self.home.get(text) is home and (inner is None or self._is_lost(inner)):
                return True
            if inner is not None and self._reads_turns(inner.value, let):
                return True
            waiting += [] if inner is None else names(inner.value)
        return False

    def _reads_turns(self, e: ast.expr, at: Statement) -> bool:
        """Return whether an expression reads elements that a loop around a statement writes."""
        for load in loads(e):
            for write, _ in self.elements.writes.get(self.kernel.root(base(load)), []):
                if any(each in write.loops for each in at.loops):
                    return True
        return False

    def _closed(self, needed: set[str]) -> set[str]:
        """Return the needed values with those that they are computed from."""
        turning = {each.name for each in every(self.kernel.body) if isinstance(each, Turns)}
        found: set[str] = set()
        waiting = list(needed)
        while waiting:
            text = waiting.pop()
            if text in found or text not in self.kernel.kinds or text in turning:
                continue
            found.add(text)
            let = self.kernel.definitions.get(text)
            if let is not None and not self.must_save(text):
                waiting += names(let.value)
        return found

    def saved(self, block: Block) -> list[str]:
        """Return the values of a block that go to the tape at its end, in the order in which they are assigned."""
        inside = [each for each in self.needed if self.home.get(each) is block and self.must_save(each)]
        trips = [each.trips for each in block if isinstance(each, Loop) and each.trips]
        return sorted(inside) + trips

    # --- a simpler kernel ---------------------------------------------------------------------------------------------

    def _simplify(self, needed: set[str]) -> bool:
        """Read carried variables after loops without copies, and assign sums to them at once; return if changed."""
        changed = False
        new: dict[str, str] = {}
        for block in self._blocks():
            for each in list(block):
                if isinstance(each, Let) and isinstance(each.value, ast.Name) and each.name not in needed:
                    carrier = self.carrier.get(each.value.id)
                    if carrier is not None and carrier not in each.loops:
                        new[each.name] = each.value.id
                        block.remove(each)
                        changed = True
        if new:
            final = {key: _followed(key, new) for key in new}
            self._rename(final)
        for block in self._blocks():
            changed |= self._merge(block, needed)
        return changed

    def _rename(self, new: dict[str, str]) -> None:
        for each in every(self.kernel.body):
            match each:
                case Let() | Put():
                    each.value = replaced(each.value, new)
                case Store():
                    each.value, each.target = replaced(each.value, new), replaced(each.target, new)
                case Branch() | While():
                    each.test = replaced(each.test, new)
                case Turns():
                    first, second, third = (replaced(bound, new) for bound in each.bounds)
                    each.bounds = first, second, third
            if isinstance(each, Loop) and each.stop is not None:
                each.stop = replaced(each.stop, new)
        self.kernel.results = [new.get(each, each) for each in self.kernel.results]
        for text in new:
            self.slopes.active.discard(text)
            del self.kernel.definitions[text]

    def _merge(self, block: Block, needed: set[str]) -> bool:
        """Assign the next value of a carried variable where it is computed, if nothing reads the one before later."""
        changed = False
        for put in [each for each in block if isinstance(each, Put) and each.carried]:
            if not isinstance(put.value, ast.Name) or put.name in needed or put.value.id in needed:
                continue
            let = self.kernel.definitions.get(put.value.id)
            if let is None or let not in block or let.share:
                continue
            later = block[block.index(let) + 1 :]
            readers = [each for each in every(self.kernel.body) if let.name in _all_names(each)]
            if (
                readers != [put]
                or any(put.name in _all_names(each) for each in every(later))
                or let.name in self.kernel.results
            ):
                continue
            if any(
                isinstance(each, Loop) and each.stop is not None and let.name in names(each.stop) for each in put.loops
            ):
                continue
            merged = Put(let.where, put.name, let.value, "next")
            merged.loops, merged.number = let.loops, let.number
            block[block.index(let)] = merged
            block.remove(put)
            self.slopes.active.discard(let.name)
            changed = True
        return changed


def _all_names(s: Statement) -> set[str]:
    found = names(*expressions(s))
    if isinstance(s, Store):
        found |= names(s.target)
    return found


def _addend(s: Put) -> tuple[ast.expr, bool] | None:
    """Return what an assignment adds to its variable, and whether it adds it; None if it does something else."""
    e = s.value
    if isinstance(e, ast.Call) and getattr(e.func, "id", "").startswith("accumulated") and len(e.args) == 2:
        e = ast.BinOp(e.args[0], ast.Add(), e.args[1])
    if isinstance(e, ast.BinOp) and isinstance(e.op, ast.Add | ast.Sub):
        left, right = e.left, e.right
        if isinstance(left, ast.Name) and left.id == s.name and s.name not in names(right):
            return right, isinstance(e.op, ast.Add)
        if (
            isinstance(e.op, ast.Add)
            and isinstance(right, ast.Name)
            and right.id == s.name
            and s.name not in names(left)
        ):
            return left, True
    return None


def _followed(key: str, new: dict[str, str]) -> str:
    while key in new:
        key = new[key]
    return key


def _known_step(loop: Loop) -> bool:
    if not isinstance(loop, Turns):
        return False
    try:
        return bool(ast.literal_eval(loop.bounds[2]))
    except ValueError:
        return False


def _is(e: ast.expr, value: int) -> bool:
    return isinstance(e, ast.Constant) and e.value == value


def _shifted(e: ast.expr, by: int) -> str:
    """Return the text of an integer plus a number."""
    if isinstance(e, ast.Constant | ast.UnaryOp) and not names(e):
        return str(int(ast.literal_eval(e)) + by)
    if isinstance(e, ast.BinOp) and isinstance(e.op, ast.Add | ast.Sub) and isinstance(e.right, ast.Constant):
        inside = int(ast.literal_eval(e.right)) * (1 if isinstance(e.op, ast.Add) else -1)
        return _shifted(e.left, inside + by)
    if by == 0:
        return ast.unparse(e)
    return f"{text_of(e)} {'+' if by > 0 else '-'} {abs(by)}"
