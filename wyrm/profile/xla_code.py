"""The operations of code that XLA compiled: the nodes that each computes, its FLOPs, and the bytes that it moves."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wyrm.engines.jax.collectives import KINDS, WIDTHS, computations
from wyrm.engines.jax.scopes import Scope, scopes_of

_INSTRUCTION = re.compile(r"^\s*(ROOT )?%?([\w.-]+) = (\(.*?\)|\S+) ([a-z][a-z0-9-]*)\((.*)$")
_ARRAY = re.compile(r"(\w+)\[([\d,]*)\]")
_COLLECTIVES = re.compile(rf"^({KINDS}|ragged-all-to-all)\b")
# Operations whose time is that of the operations inside of them.
_AROUND = frozenset(["while", "conditional", "call", "async-start", "async-done"])
# Operations that do no floating-point arithmetic, or that take no time.
_MOVING = re.compile(
    "parameter|constant|tuple|get-tuple-element|bitcast|copy|broadcast|reshape|transpose|slice|dynamic-slice|gather|"
    "iota|concatenate|pad|reverse|dynamic-update-slice|convert|bitcast-convert|select|compare|and|or|not|xor|scatter|"
    "sort"
)
_FREE = frozenset(["parameter", "constant", "tuple", "get-tuple-element", "bitcast"])


@dataclass(frozen=True)
class Instruction:
    """An instruction: the shapes of its results, its operands by name, and the rest of its line."""

    name: str
    opcode: str
    arrays: tuple[tuple[str, tuple[int, ...]], ...]
    operands: tuple[str, ...]
    rest: str

    @property
    def bytes(self) -> float:
        """The bytes of the results."""
        return float(sum(math.prod(shape) * WIDTHS.get(dtype, 1) for dtype, shape in self.arrays))

    @property
    def elements(self) -> int:
        """The number of elements of the first result."""
        return math.prod(self.arrays[0][1]) if self.arrays else 0


@dataclass(frozen=True)
class CompiledOp:
    """An operation that XLA runs: its kind, what its names stand for, in order, and its work.

    `own` is the last of what it computes: its result. `flops` is None for a call of a library. A fusion has the work
    of all that it computes.
    """

    name: str
    opcode: str
    scopes: tuple[Scope, ...]
    own: Scope | None
    flops: float | None
    product_flops: float
    bytes_read: float
    bytes_written: float
    bits: int
    elements: int

    @property
    def collective(self) -> str:
        """The kind of a collective, such as "all-reduce", else empty."""
        match = _COLLECTIVES.match(self.opcode)
        return match[1] if match else ""


class CompiledCode:
    """The operations of a compiled program by name; `module` is the name of the program.

    >>> text = '''HloModule jit_f, is_scheduled=true
    ... ENTRY %main (x: f32[4,8], y: f32[8,2]) -> f32[4,2] {
    ...   %x = f32[4,8]{1,0} parameter(0)
    ...   %y = f32[8,2]{1,0} parameter(1)
    ...   ROOT %d = f32[4,2]{1,0} dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ... }'''
    >>> from wyrm.profile.xla_code import CompiledCode
    >>> op = CompiledCode(text).ops["d"]
    >>> op.opcode, op.flops, op.bytes_read, op.bytes_written
    ('dot', 128.0, 192.0, 32.0)
    """

    def __init__(self, text: str) -> None:
        self.module: str = text[len("HloModule ") :].split(",", 1)[0].split()[0]
        bodies = {name: [each for each in map(_read, lines) if each] for name, lines in computations(text).items()}
        # Computations of fusions and of reductions: what they do is part of the operation that calls them.
        self._bodies = bodies
        inside = {body for each in bodies.values() for one in each for body in _called(one)}
        self.ops: Mapping[str, CompiledOp] = {
            each.name: self._op(each, {one.name: one for one in body})
            for name, body in bodies.items()
            if name not in inside
            for each in body
            if each.opcode not in _FREE and each.opcode not in _AROUND
        }

    def _op(self, instruction: Instruction, known: dict[str, Instruction]) -> CompiledOp:
        if instruction.opcode == "fusion":
            (name,) = _called(instruction)[:1]
            body = self._bodies[name]
            by_name = {each.name: each for each in body}
            read, written = _moved_by_fusion(body, by_name)
        else:
            body, by_name = [instruction], known
            read, written = _moved(instruction, known)
        counts = [_flops(each, by_name) for each in body]
        products = sum(
            count or 0.0 for each, count in zip(body, counts, strict=True) if each.opcode in ("dot", "convolution")
        )
        flops = None if any(count is None for count in counts) else float(sum(count or 0.0 for count in counts))
        scopes = [scope for each in (*body, instruction) for scope in _scopes(each)]
        wide = any(dtype == "f64" for each in body for dtype, _ in each.arrays)
        return CompiledOp(
            instruction.name, "dot" if products else instruction.opcode, tuple(dict.fromkeys(scopes)),
            scopes[-1] if scopes else None, flops, products, read, written, 64 if wide else 32,
            instruction.elements,
        )  # fmt: skip


def _read(line: str) -> Instruction | None:
    match = _INSTRUCTION.match(line)
    if match is None:
        return None
    _, name, arrays, opcode, rest = match.groups()
    operands, _, attributes = rest.partition(")")
    shapes = tuple((dtype, tuple(map(int, filter(None, axes.split(","))))) for dtype, axes in _ARRAY.findall(arrays))
    names = tuple(re.findall(r"%([\w.-]+)", operands)) or tuple(
        re.findall(r"(?:^|[ ,/*=\d])([\w.-]+)(?:,|$)", operands)
    )
    return Instruction(name, opcode, shapes, names, operands + ")" + attributes)


def _called(instruction: Instruction) -> list[str]:
    """Return the computations that are part of an operation, not code of its own."""
    if instruction.opcode in ("while", "conditional", "call"):
        return []
    return re.findall(r"(?:calls|to_apply|select|scatter|comparator)=%?([\w.-]+)", instruction.rest)


def _scopes(instruction: Instruction) -> list[Scope]:
    match = re.search(r'op_name="([^"]*)"', instruction.rest)
    return [] if match is None else scopes_of(match[1])


# --- work -------------------------------------------------------------------------------------------------------------


def _flops(instruction: Instruction, known: Mapping[str, Instruction]) -> float | None:
    """Return the floating-point operations; None for a call of a library."""
    opcode, elements = instruction.opcode, instruction.elements
    if opcode == "custom-call":
        return None
    real = any(dtype.startswith(("f", "bf")) for dtype, _ in instruction.arrays)
    if not real or _MOVING.fullmatch(opcode) or _COLLECTIVES.match(opcode):
        return 0.0
    operands = [known[name] for name in instruction.operands if name in known]
    if opcode == "dot" and operands:
        axes = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", instruction.rest)
        shape = operands[0].arrays[0][1]
        return 2.0 * elements * math.prod(shape[int(i)] for i in (axes[1].split(",") if axes else ()) if i)
    if opcode == "convolution" and len(operands) == 2:
        labels = re.search(r"dim_labels=\w+_(\w+)->", instruction.rest)
        kernel = operands[1].arrays[0][1]
        outputs = kernel[labels[1].index("o")] if labels else 1
        return 2.0 * elements * math.prod(kernel) / max(1, outputs)
    if opcode in ("reduce", "reduce-window") and operands:
        return float(max(operands[0].elements, elements))
    return float(elements)


def _moved(instruction: Instruction, known: Mapping[str, Instruction]) -> tuple[float, float]:
    """Return the bytes that an operation outside of a fusion reads and writes."""
    operands = [known[name] for name in instruction.operands if name in known]
    if instruction.opcode in ("dynamic-slice", "gather", "slice"):
        return instruction.bytes, instruction.bytes
    if instruction.opcode in ("dynamic-update-slice", "scatter") and len(operands) > 1:
        update = operands[1] if instruction.opcode == "dynamic-update-slice" else operands[-1]
        return update.bytes, update.bytes
    return sum({each.name: each.bytes for each in operands}.values()), instruction.bytes


def _moved_by_fusion(body: Sequence[Instruction], known: Mapping[str, Instruction]) -> tuple[float, float]:
    """Return the bytes that a fusion reads and writes: of a parameter that is only sliced, the slices."""
    users: dict[str, list[Instruction]] = defaultdict(list)
    for each in body:
        for name in dict.fromkeys(each.operands):
            users[name].append(each)
    read = 0.0
    for each in body:
        if each.opcode != "parameter":
            continue
        parts = 0.0
        for user in users[each.name]:
            first = bool(user.operands) and user.operands[0] == each.name
            if first and user.opcode in ("dynamic-slice", "gather", "slice"):
                parts += user.bytes
            elif not (first and user.opcode in ("dynamic-update-slice", "scatter")):
                parts = each.bytes
                break
        read += min(parts, each.bytes)
    root = body[-1]
    while root.opcode == "bitcast" and root.operands and root.operands[0] in known:
        root = known[root.operands[0]]
    roots = [known[name] for name in root.operands if name in known] if root.opcode == "tuple" else [root]
    return read, sum(
        _moved(each, known)[1] if each.opcode in ("dynamic-update-slice", "scatter") else each.bytes for each in roots
    )
