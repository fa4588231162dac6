"""Compile kernels: functions in a subset of Python, for numbers and arrays of NumPy, become loop programs.

A kernel is written with `def` in a file. It is compiled for the kinds of its arguments: the types of numbers, and the
dtype, the number of axes and the layout of arrays. It does what Python and NumPy do, or is refused with `NotCompiled`,
which names the line and says what to write instead.

>>> from wyrm.kernels.functions import KernelFunction
>>> from wyrm.kernels.translate import Translation
>>> from wyrm.kernels.values import ViewKind
>>> from wyrm.ir.types import FLOAT32
>>> from wyrm.ops.linear_cross_entropy_kernels import clear
>>> translation = Translation(checked=False)
>>> compiled = translation.specialized(KernelFunction(clear), (ViewKind(FLOAT32, 2, "contiguous"),))
>>> print(compiled.function)
def clear(x: float32*, x.n0: int64, x.n1: int64):
    n#1 = x.n0
    for i#2 in range(n#1):
        i = i#2
        n#3 = x.n1
        for i#4 in range(n#3):
            j = i#4
            x[((i * x.n1) + j)] = float32(0.0)

The language of kernels has:

Values
    Numbers: bool, int8 to int64, uint8 to uint64, float32 and float64. Arrays of these, which are arguments or parts of
    them: a kernel makes no arrays. Tuples, also within tuples. Constants of the module, `math.pi`, `np.inf`; functions,
    modules, dtypes and None are known while compiling.
Types
    As in NumPy 2. A literal takes the type of what it meets, and has to fit it. A variable has one type, that of all
    its values: an integer in a variable is an int64, a float a float64, where in NumPy it would take the type of what
    it meets. `float(x)` is a float64. The result of an operator of two bools is an int64, but for `& | ^`.
Arithmetic
    `+ - * / // % ** & | ^ ~ << >>`, comparisons, also chained, `and`, `or`, `not`, `x if c else y`. Integers wrap
    around; `//` and `%` of integers by 0 give 0. A power of integers takes a literal.
Functions
    `abs bool divmod float int len max min pow round`; of NumPy and `math` those of one float, such as `exp`, and
    `sign maximum minimum where power arctan2 hypot copysign fmod isnan isinf isfinite logical_and logical_or
    logical_not`; `np.float32(x)`, `x.astype(dtype)`, `x.view(dtype)` and `x.item()` of a number.
Arrays
    `x[i, j]`, negative indices, slices, also with steps above 0, `...`, tuples as indices; `x.shape size ndim dtype
    itemsize strides T`. A part of an array is a view. `x[...] = y` copies a number, or an array that fits, as NumPy
    does it, also where both overlap in one axis. Indices are checked in debug mode alone: elsewhere, one that is out of
    range reads and writes what lies there.
Statements
    Assignments, also `a, b = b, a` and `x[i] += y`; `if`, `while`, `for` over `range`, over an array, `x.flat`,
    `enumerate(x)`, `zip(x, y)` and `np.ndindex(shape)`; `break`, `continue`, `return`; `raise IndexError(text)`.
    `assert` is ignored. What is read before it has a value is 0. A condition that is known while compiling, such as
    `x.dtype == np.float32`, leaves the other branch out.
Calls
    Of kernels, with defaults, keywords, and `*` before a tuple. A kernel that is compiled with `distinct` writes to no
    array that shares memory with another one: parts of one array that it is called with do not overlap.

It has no closures, recursion, generators, comprehensions, lambdas, lists, dicts, texts, `try`, `with`, `in`, `@`,
functions of whole arrays, nor indices that are arrays or bools.
"""
