"""Random kernels give the same results compiled as in Python, for several dtypes and layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engines.native.kernels.running import compiled, copies, same, written

# LLVM relies on what the translation promises it, such as that no integer overflows, only where it optimizes.
pytestmark = pytest.mark.optimized

FLOATS, INTEGERS = ["float32", "float64"], ["int8", "uint8", "int32", "uint32", "int64", "uint64"]
Draw = st.DrawFn


@st.composite
def arrays(draw: Draw, dtype: str) -> np.ndarray[Any, Any]:
    """A matrix: contiguous, with contiguous rows, strided, transposed, reversed or empty."""
    rows, columns = draw(st.sampled_from([(3, 4), (1, 5), (4, 1), (2, 2), (0, 3), (3, 0), (5, 3)]))
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    base = random.integers(0, 100, (2 * rows + 1, 2 * columns + 1)).astype(dtype)
    if dtype in FLOATS:
        base = ((base - 50) / 8).astype(dtype)
    match draw(st.sampled_from(["contiguous", "rows", "steps", "transposed", "backwards"])):
        case "contiguous":
            return base[:rows, :columns].copy()
        case "rows":
            return base[1 : rows + 1, :columns]
        case "steps":
            return base[: 2 * rows : 2, 1 : 2 * columns : 2]
        case "transposed":
            return base[:rows, :columns].T
        case _:
            return base[:rows, :columns][::-1]


@st.composite
def numbers(draw: Draw, names: list[str], kind: str, depth: int = 0) -> str:
    """An arithmetic expression of names and literals of one dtype with a defined value."""
    if depth > 3 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(names))

    def operand() -> str:
        return draw(numbers(names, kind, depth + 1))

    operators = ["+", "-", "*"] + (["/"] if kind == "f" else ["//", "%", "&", "|", "^"])
    shapes = ["binary", "binary", "literal", "either", "extreme", "minus"] + (
        ["shift"] if kind != "f" else ["function"]
    )
    match draw(st.sampled_from(shapes)):
        case "binary":
            return f"({operand()} {draw(st.sampled_from(operators))} {operand()})"
        case "literal":
            value = draw(st.sampled_from(["1", "2", "3", "100"] + (["0.5", "-2"] if kind == "f" else [])))
            return f"({operand()} {draw(st.sampled_from(operators[:3]))} {value})"
        case "either":
            return f"({operand()} if {draw(conditions(names, kind, depth + 1))} else {operand()})"
        case "extreme":
            function = draw(st.sampled_from(["max", "min", "np.maximum", "np.minimum"]))
            return f"{function}({operand()}, {operand()})"
        case "minus":
            return f"(-{operand()})" if kind != "u" else f"(~{operand()})"
        case "shift":
            sign, by = draw(st.sampled_from(["<<", ">>"])), draw(st.sampled_from(["1", "3", "7"]))
            return f"({operand()} {sign} {by})"
        case _:
            function = draw(st.sampled_from(["abs", "np.floor", "np.sqrt", "np.sign", "np.square_of"]))
            return f"({operand()}) ** 2" if function == "np.square_of" else f"{function}({operand()})"


@st.composite
def conditions(draw: Draw, names: list[str], kind: str, depth: int = 0) -> str:
    """A condition: comparisons joined by `and`, `or` and `not`."""

    def operand() -> str:
        return draw(numbers(names, kind, depth + 1))

    compare = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
    match draw(st.sampled_from(["one", "one", "chain", "both", "not"])) if depth < 3 else "one":
        case "one":
            return f"({operand()} {draw(compare)} {operand()})"
        case "chain":
            return f"({operand()} {draw(compare)} {operand()} {draw(compare)} {operand()})"
        case "both":
            first, second = (draw(conditions(names, kind, depth + 1)) for _ in range(2))
            return f"({first} {draw(st.sampled_from(['and', 'or']))} {second})"
        case _:
            return f"(not {draw(conditions(names, kind, depth + 1))})"


@st.composite
def statements(draw: Draw, kind: str, inside: bool, depth: int = 0) -> list[str]:
    """Statements inside or outside the loops over the elements (i, j) of x; a and b are scalars of its dtype."""
    element = ["a", "b", "x[i, j]", "x[i][-1]", "x[-1, j]", "y[j]", "y[j:][0]", "x[i, j:][0]", "x.T[j, i]"]
    names = element if inside else ["a", "b"]
    found = []
    for _ in range(draw(st.integers(1, 3))):
        number = draw(numbers(names, kind))
        match draw(st.sampled_from(["assign", "both", "store", "add", "if", "row", "leave"])):
            case "assign":
                found.append(f"{draw(st.sampled_from('ab'))} = {number}")
            case "both":
                found.append(f"a, b = b, {number}")
            case "store" if inside:
                found.append(f"{draw(st.sampled_from(['x[i, j]', 'y[j]', 'x[i][j]', 'x[-1][j]']))} = {number}")
            case "add" if inside:
                target, sign = draw(st.sampled_from(["x[i, j]", "y[-1]", "a"])), draw(st.sampled_from("+-*"))
                found.append(f"{target} {sign}= {number}")
            case "if" if depth < 2:
                found.append(f"if {draw(conditions(names, kind))}:")
                found += [f"    {each}" for each in draw(statements(kind, inside, depth + 1))]
                found.append("else:")
                found += [f"    {each}" for each in draw(statements(kind, inside, depth + 1))]
            case "row" if inside:
                found.append(
                    draw(
                        st.sampled_from(["x[i] = y", "y[1:] = y[:-1]", "x[i, 1:] = b", "y[::2] = a", "x[:, j] = y[0]"])
                    )
                )
            case "leave" if inside:
                found += [f"if {draw(conditions(names, kind))}:", f"    {draw(st.sampled_from(['break', 'continue']))}"]
            case _:
                found.append("b = a")
    return found


@st.composite
def kernels(draw: Draw) -> tuple[str, str]:
    """The source of a kernel, and the dtype of its arguments."""
    dtype = draw(st.sampled_from([*FLOATS, *INTEGERS]))
    kind = np.dtype(dtype).kind
    inner = draw(
        st.sampled_from(
            ["for j in range(x.shape[1]):", "for j in range(x.shape[1] - 1, -1, -1):", "for j, c in enumerate(y):"]
        )
    )
    lines = ["for i in range(x.shape[0]):", f"    {inner}"]
    lines += [f"        {each}" for each in draw(statements(kind, True))]
    lines += [f"    {each}" for each in draw(statements(kind, False))]
    lines += draw(statements(kind, False))
    return "\n".join(["def kernel(x, y, a, b):", *(f"    {each}" for each in lines), "    return a, b\n"]), dtype


@settings(max_examples=70, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(kernels(), st.data())
def test_random_kernels(kernel: tuple[str, str], data: st.DataObject) -> None:
    text, dtype = kernel
    function = written(text, "kernel")
    x = data.draw(arrays(dtype))
    y = np.arange(1, x.shape[1] + 1).astype(dtype)
    a, b = np.dtype(dtype).type(3), np.dtype(dtype).type(7)
    arguments = x, y, a, b
    theirs = copies(arguments)
    with np.errstate(all="ignore"):
        expected = function(*theirs)
    # Without fused multiply-adds the results are bit-identical, except for the payloads of NaNs.
    for checked in (False, True):
        ours = copies(arguments)
        found = compiled(function, *arguments, checked=checked)(*ours)
        same(found, expected)
        same(ours[0], theirs[0])
        same(ours[1], theirs[1])
