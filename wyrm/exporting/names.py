"""The names in exports: those of a user as names of C and JavaScript, and what cannot be a name there."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.errors import OptionError
from wyrm.graph.base import label
from wyrm.graph.parameters import Kept

STATIC = Path(__file__).with_name("static")
# The names of an optimizer's state and of counts among the tensors.
OPTIMIZER, PROGRAM = "optimizer/", "program/"
# The most characters of a name. LLVM, file systems and the reader of files in C have limits of their own beyond this.
_LONGEST = 200


def identifier(text: str, taken: Iterable[str] = ()) -> str:
    """Return a name for C and JavaScript that resembles the text and is not taken.

    >>> identifier("hidden layer.0"), identifier("7"), identifier("x", ["x"])
    ('hidden_layer_0', 'n7_', 'x_2')
    """
    name = "".join(each if each.isascii() and each.isalnum() else "_" for each in text).strip("_") or "value"
    if name[0].isdigit():
        name = f"n{name}"
    if name in _RESERVED or _OF_CODE.fullmatch(name):
        name = f"{name}_"
    found, count = name, 1
    while found in taken:
        count += 1
        found = f"{name}_{count}"
    return found


def check_names(name: str, predict: Mapping[str, Any], graphs: Sequence[NativeGraph]) -> None:
    """Raise `OptionError` for a name that a file of some target cannot hold: of the model, a prediction or a node.

    `predict` has the programs by the names of their predictions, and `graphs` those of all programs.
    """
    functions, macros = _defined()
    _check_own("name", name, frozenset())
    for each in predict:
        if not isinstance(each, str):
            raise OptionError(f"the name of a prediction must be a text, not {each!r}")
        _check_own("the name of a prediction", each, functions | _METHODS | (macros if name.isupper() else frozenset()))
    taken = {f"{name}_{each}" for each in [*functions, *predict]} | {f"{name.upper()}_{each}" for each in macros}
    nodes = [node for program in predict.values() for node in program._outputs]
    for graph in graphs:
        nodes += [*graph.schedule.leaves, *(graph.optimizer.parameters if graph.optimizer is not None else [])]
    for node in dict.fromkeys(nodes):
        if isinstance(node, Kept):
            _check_array(label(node))
        else:
            _check_length("the name of an input or output", label(node))
            if identifier(label(node)) in taken:
                raise OptionError(
                    f"an input or output has the name {label(node)!r} of something in {name}.h: rename it"
                )


def _check_own(what: str, name: str, taken: Collection[str]) -> None:
    """Check a name that files have as it is."""
    _check_length(what, name)
    if not _PLAIN.fullmatch(name):
        raise OptionError(f"{what} must be a name of C and JavaScript, such as {identifier(name)!r}, not {name!r}")
    if name in taken:
        raise OptionError(f"{what} must not be {name!r}, which means something else in an export: choose another one")


def _check_array(name: str) -> None:
    """Check the name of a parameter or buffer, which files of tensors have."""
    _check_length("the name of a parameter or buffer", name)
    if name == "__metadata__" or "\0" in name:
        raise OptionError(f"a parameter or buffer has the name {name!r}, which no safetensors file can hold: rename it")
    if name.startswith((OPTIMIZER, PROGRAM)):
        raise OptionError(
            f"a parameter or buffer has the name {name!r}, and names of the state of a training begin with "
            f"{OPTIMIZER!r} or {PROGRAM!r}: rename it"
        )


def _check_length(what: str, name: str) -> None:
    if len(name) > _LONGEST:
        raise OptionError(f"{what} has at most {_LONGEST} characters, and {name[:40] + '...'!r} has {len(name):,}")


@cache
def _defined() -> tuple[frozenset[str], frozenset[str]]:
    """Return the functions and types, and the macros, of the headers, without the model's name in front."""
    text = "".join((STATIC / file).read_text(encoding="utf-8") for file in ("model.h", "model_file.h"))
    functions, macros = (frozenset(re.findall(rf"\$\{{{kind}\}}_(\w+)", text)) for kind in ("name", "NAME"))
    return _FUNCTIONS | functions, macros


# Functions of trainings and of generation.
_FUNCTIONS = frozenset({"epoch", "step", "set_learning_rate", "begin", "next", "read_tokens"})
# A name that stands in C behind that of the model, and in JavaScript behind a dot.
_PLAIN = re.compile("[A-Za-z][A-Za-z0-9_]*")
# What objects of JavaScript have, or would be taken for a promise by, and the methods of every model.
_METHODS = frozenset({
    "then", "constructor", "toString", "toJSON", "valueOf", "hasOwnProperty", "tensors", "ready", "read", "write",
})  # fmt: skip
# The names that generated code gives to its values and labels, fixed-width types, and macros of limits.
_OF_CODE = re.compile(
    r"(v|i|n|c|r|head|body|end|turn|done|again|given|joined|then|else|after|never)\d+"
    r"|u?int(_fast|_least)?\d+_t|[A-Z][A-Z0-9_]*_(MAX|MIN|WIDTH)"
)
# The words of C, C++ and JavaScript, macros of compilers and of standard headers, and names of generated code.
_WORDS = """
    alignas alignof and and_eq arguments asm assert auto await bitand bitor bool break case catch char char16_t char32_t
    char8_t class co_await co_return co_yield compl complex concept const const_cast consteval constexpr constinit
    continue debugger decltype default delete do double dynamic_cast else enum eval explicit export extends extern false
    finally float for friend function goto if imaginary implements import in inline instanceof int interface let long
    mutable namespace new noexcept noreturn not not_eq null nullptr operator or or_eq package private protected public
    register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct super
    switch template this thread_local throw true try typedef typeid typename typeof typeof_unqual undefined union
    unsigned using var virtual void volatile wchar_t while with xor xor_eq yield

    arm far hpux huge i386 linux m68k mips near pascal sparc sun unix vax I IN OUT
    BUFSIZ EDOM EOF ERANGE FILENAME_MAX FOPEN_MAX HUGE_VAL HUGE_VALF INFINITY L_tmpnam NAN NULL SEEK_CUR SEEK_END
    SEEK_SET errno math_errhandling stderr stdin stdout FILE fpos_t intmax_t intptr_t max_align_t ptrdiff_t size_t
    ssize_t uintmax_t uintptr_t va_list
    M_1_PI M_2_PI M_2_SQRTPI M_E M_LN10 M_LN2 M_LOG10E M_LOG2E M_PI M_PI_2 M_PI_4 M_SQRT1_2 M_SQRT2

    batch bytes check count entry memory order place printf results rows seed shuffle size step table
"""
_RESERVED = frozenset(_WORDS.split())
