"""Threads that share a product, inside a program: native code starts them, hands them work and waits.

The thread with the work does parts of it too, each of them the next one that nobody has taken. So it never waits for a
thread that is still waking up. Threads sleep while there is no work. One product at a time has them, and others that
run meanwhile use their own thread alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from wyrm.engines.native.products.writer import DECLARED, SHARED, Writer

if TYPE_CHECKING:
    from wyrm.engines.native.products.target import Target  # which needs llvmlite

# The most threads that share a product.
_MOST = 64
# Threads share products of so many multiplications in small programs too. Loops then fetch a part of the result from
# another core's cache, which takes longer than threads gain in a smaller product.
LARGE_PRODUCTS = 8_000_000
# In place of a number of multiplications: work that threads share, and work that they do not.
ALWAYS, ALONE = 2**62, -1
# How often a thread reads whether it may go on before it sleeps: for 50 to 200 microseconds, as waking up takes that
# long on a virtual machine. The pauses, by processor, let another thread of the core run meanwhile.
_SPINS = 4000
_X86, _ARM = "void @llvm.x86.sse2.pause()", "void @llvm.aarch64.isb(i32 15)"
_PAUSES = {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}
# The bits of a word that count the parts taken; the others have the turn.
_COUNT_BITS = 32
# The size of a mutex and of a condition of any POSIX system is lower.
_OPAQUE = 256
# Only the machine code of this module has this name.
MARK = b"pthread_create"
_STATE = {
    "mutex": f"[{_OPAQUE} x i8]", "started": f"[{_OPAQUE} x i8]", "ended": f"[{_OPAQUE} x i8]", "ready": "i64",
    "busy": "i64", "limit": "i64", "least": "i64", "threads": "i64", "turn": "i64", "taken": "i64", "pending": "i64",
    "parts": "i64", "function": "ptr", "arguments": "ptr", "seen": f"[{_MOST} x i64]",
}  # fmt: skip
_THREADS = [
    "declare i32 @pthread_create(ptr, ptr, ptr, ptr)",
    *(f"declare i32 @pthread_{name}(ptr)" for name in ("mutex_lock", "mutex_unlock", "cond_signal", "cond_broadcast")),
    *(f"declare i32 @pthread_{name}(ptr, ptr)" for name in ("mutex_init", "cond_init", "cond_wait")),
]


def text(target: Target) -> str:
    """Return the text of the module for a target.

    Its function does one of three things:

    - It is given a function, its arguments and the multiplications that they make, `ALWAYS` or `ALONE` for other work.
      It calls `function(arguments, part, parts)` for every part, all of them at the same time.
    - It is given no function, an integer in place of the arguments, and a number above 0: there may be so many parts,
      and a single one for fewer multiplications than the integer.
    - It is given no function, and -1: it forgets the threads, which a forked process does not have.
    """
    if not target.posix:
        return _alone()
    state = [f"@{name} = internal global {type} zeroinitializer, align 64" for name, type in _STATE.items()]
    pause = _PAUSES.get(target.architecture.lower())
    declared = [f"declare {pause.replace('i32 15', 'i32')}"] if pause else []
    return "\n".join([*DECLARED, *_THREADS, *declared, *state, _worker(pause), _run(pause), _exported()])


# --- the limit --------------------------------------------------------------------------------------------------------


class _Loaded:
    """The function of the module, once it is loaded, and the limits that are in force."""

    call: Callable[[None, int | None, int], int] | None = None
    limit = most = least = 0


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _most_threads() -> int:
    """Return how many threads may share a product: one for each processor, or fewer if the environment says so."""
    asked = [os.environ.get(name, "") for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")]
    return max(1, min([processors(), _MOST, *(int(each) for each in asked if each.isdigit() and int(each))]))


def loaded(call: Callable[[None, int | None, int], int]) -> None:
    """Take over the function of the module."""
    _Loaded.call, _Loaded.most = call, _most_threads()
    _apply()


def limit(threads: int | None) -> None:
    """Let products use at most this many threads; None: all processors."""
    _Loaded.limit = threads or 0
    _apply()


def share_from(multiplications: int | None) -> None:
    """Let threads share only products of at least so many multiplications; None: all that pay in a program of many."""
    _Loaded.least = multiplications or 0
    _apply()


def _apply() -> None:
    if _Loaded.call is not None:
        _Loaded.call(None, _Loaded.least, _Loaded.limit or _Loaded.most)


def _forget() -> None:
    if _Loaded.call is not None:
        _Loaded.call(None, None, -1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


# --- the text ---------------------------------------------------------------------------------------------------------


def bounds_of_part(to: Writer, count: str, unit: str | int) -> tuple[str, str]:
    """Return the first of `count` indices in the part `%part` of `%parts`, and the one after its last.

    Parts begin at multiples of `unit`. The last ones are empty if there are more parts than units.
    """
    before = unit - 1 if isinstance(unit, int) else to.subtract(unit, 1)
    units = to.divide(to.add(count, before), unit)
    first, end = (
        to.lower(to.multiply(to.divide(to.multiply(units, part), "%parts"), unit), count)
        for part in ("%part", to.add("%part", 1))
    )
    return first, end


def _load(to: Writer, name: str, type: str = "i64") -> str:
    """Read a part of the state; other threads may have written it."""
    return to.read_shared(f"@{name}", type)


def _store(to: Writer, name: str, value: str | int, type: str = "i64") -> None:
    to.write_shared(f"@{name}", value, type)


def _write_call(to: Writer, name: str, *places: str) -> str:
    return to.new(f"call i32 @pthread_{name}({', '.join(f'ptr {each}' for each in places)})")


def _spin(to: Writer, name: str, until: str, value: str, by: str | None) -> None:
    """Read a part of the state until its comparison `until` with a value holds, but at most `_SPINS` times."""

    def read(count: str) -> tuple[str, list[str]]:
        ended = to.compare(until, _load(to, name), value)
        return to.one_of(ended, to.compare("sge", count, _SPINS)), [to.add(count, 1)]

    def pause() -> None:
        if by is not None:
            to.do(f"call {by}")

    to.repeat(read, pause, carried=[("i64", "0")])


def _sleep(to: Writer, name: str, until: str, value: str, condition: str) -> None:
    """Sleep until the comparison `until` of a part of the state holds. The mutex is held before and after."""

    def sleep() -> None:
        _write_call(to, "cond_wait", f"@{condition}", "@mutex")

    to.repeat(lambda: (to.compare(until, _load(to, name), value), []), sleep)


def _take_parts(to: Writer, turn: str, parts: str, function: str, arguments: str) -> None:
    """Do those parts of a turn's work that no other thread has taken."""
    word = ""

    def read() -> tuple[str, list[str]]:
        nonlocal word
        word = _load(to, "taken")
        of_turn = to.compare("eq", to.new(f"lshr i64 {word}, {_COUNT_BITS}"), turn)
        left = to.compare("slt", to.new(f"and i64 {word}, {2**_COUNT_BITS - 1}"), parts)
        return to.fails(to.both(of_turn, left)), []

    def take() -> None:
        pair = to.new(f"cmpxchg ptr @taken, i64 {word}, i64 {to.add(word, 1)} seq_cst seq_cst")
        to.branch(to.new(f"extractvalue {{ i64, i1 }} {pair}, 1"), work)

    def work() -> None:
        part = to.new(f"and i64 {word}, {2**_COUNT_BITS - 1}")
        to.do(f"call void {function}(ptr {arguments}, i64 {part}, i64 {parts})")
        pending = to.new("atomicrmw sub ptr @pending, i64 1 seq_cst")
        to.branch(to.compare("eq", pending, 1), tell)

    def tell() -> None:
        _write_call(to, "mutex_lock", "@mutex")
        _write_call(to, "cond_signal", "@ended")
        _write_call(to, "mutex_unlock", "@mutex")

    to.repeat(read, take)


def _worker(pause: str | None) -> str:
    """Return the function that a thread runs: wait for work, do parts of it, and begin again."""
    to = Writer()
    seen = to.address("i64", "@seen", to.new("ptrtoint ptr %number to i64"))
    to.do("br label %again")
    to.label("again")
    before = to.new(f"load i64, ptr {seen}")
    _spin(to, "turn", "ne", before, pause)
    _write_call(to, "mutex_lock", "@mutex")
    _sleep(to, "turn", "ne", before, "started")
    turn, parts = _load(to, "turn"), _load(to, "parts")
    function, arguments = _load(to, "function", "ptr"), _load(to, "arguments", "ptr")
    to.do(f"store i64 {turn}, ptr {seen}")
    _write_call(to, "mutex_unlock", "@mutex")
    _take_parts(to, turn, parts, function, arguments)
    return to.function("internal ptr @worker(ptr %number) nounwind", "br label %again")


def _run(pause: str | None) -> str:
    """Return the function that shares work among the threads and does parts of it itself."""
    to = Writer()
    identity = to.new("alloca i64")

    def prepare() -> None:
        for name, kind in (("mutex", "mutex"), ("started", "cond"), ("ended", "cond")):
            _write_call(to, f"{kind}_init", f"@{name}", "null")
        _store(to, "ready", 1)

    to.branch(to.compare("eq", _load(to, "ready"), 0), prepare)

    def start(number: str) -> None:
        def create() -> None:
            to.do(f"store i64 {_load(to, 'turn')}, ptr {to.address('i64', '@seen', number)}")
            given = f"ptr {identity}, ptr null, ptr @worker, ptr {to.new(f'inttoptr i64 {number} to ptr')}"
            failed = to.new(f"call i32 @pthread_create({given})")
            started = to.new(f"icmp eq i32 {failed}, 0")
            to.branch(started, lambda: _store(to, "threads", to.add(number, 1)))

        to.branch(to.compare("eq", _load(to, "threads"), number), create)

    others = to.subtract("%limit", 1)
    to.loop(others, 1, start)
    helpers = to.lower(others, _load(to, "threads"))
    parts = to.add(helpers, 1)
    _write_call(to, "mutex_lock", "@mutex")
    _store(to, "function", "%function", "ptr")
    _store(to, "arguments", "%arguments", "ptr")
    _store(to, "parts", parts)
    _store(to, "pending", parts)
    turn = to.new(f"and i64 {to.add(_load(to, 'turn'), 1)}, {2 ** (63 - _COUNT_BITS) - 1}")
    _store(to, "taken", to.new(f"shl i64 {turn}, {_COUNT_BITS}"))
    _store(to, "turn", turn)
    _write_call(to, "cond_broadcast", "@started")
    _write_call(to, "mutex_unlock", "@mutex")
    _take_parts(to, turn, parts, "%function", "%arguments")
    _spin(to, "pending", "sle", "0", pause)
    _write_call(to, "mutex_lock", "@mutex")
    _sleep(to, "pending", "sle", "0", "ended")
    _write_call(to, "mutex_unlock", "@mutex")
    return to.function("internal void @run(ptr %function, ptr %arguments, i64 %limit) noinline nounwind")


def _exported() -> str:
    to = Writer()
    limit, least = _load(to, "limit"), _load(to, "least")

    def alone() -> None:
        to.do("call void %function(ptr %arguments, i64 0, i64 1)")

    def share() -> None:
        pair = to.new("cmpxchg ptr @busy, i64 0, i64 1 seq_cst seq_cst")

        def run() -> None:
            to.do(f"call void @run(ptr %function, ptr %arguments, i64 {limit})")
            _store(to, "busy", 0)

        to.branch(to.new(f"extractvalue {{ i64, i1 }} {pair}, 1"), run, alone)

    def change() -> None:
        def forget() -> None:
            for name in ("ready", "busy", "threads", "turn", "taken", "pending"):
                _store(to, name, 0)

        def take() -> None:
            _store(to, "limit", "%number")
            _store(to, "least", to.new("ptrtoint ptr %arguments to i64"))

        to.branch(to.compare("slt", "%number", 0), forget, take)

    none = to.new("icmp eq ptr %function, null")
    pays = to.both(to.compare("sgt", limit, 1), to.compare("sge", "%number", least))
    to.branch(none, change, lambda: to.branch(pays, share, alone))
    return to.function(f"i64 @{SHARED}(ptr %function, ptr %arguments, i64 %number) nounwind", "ret i64 0")


def _alone() -> str:
    """Return the module of a system without POSIX threads: one part."""
    to = Writer()
    none = to.new("icmp eq ptr %function, null")
    to.branch(none, lambda: None, lambda: to.do("call void %function(ptr %arguments, i64 0, i64 1)"))
    return to.function(f"i64 @{SHARED}(ptr %function, ptr %arguments, i64 %number) nounwind", "ret i64 0")
