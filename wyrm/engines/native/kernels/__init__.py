"""The kernel compiler: it translates functions written in a subset of Python and NumPy to loop programs.

A kernel is a function defined with `def` in a file. Each call specializes it for the kinds of its arguments: the type
of each scalar; the dtype, number of axes and layout of each array. A kernel computes what Python and NumPy compute,
or compiling it raises `NotCompiled`, which names the line and says what to write instead.

>>> from wyrm.engines.native.kernels.functions import KernelFunction
>>> from wyrm.engines.native.kernels.translate import Translation
>>> from wyrm.engines.native.kernels.values import ViewKind
>>> from wyrm.engines.native.ir.types import FLOAT32
>>> from wyrm.ops.pooling.pooling import clear
>>> translation = Translation(checked=False)
>>> compiled = translation.specialized(KernelFunction(clear), (ViewKind(FLOAT32, 1, "contiguous"),))
>>> print(compiled.function)
def clear(out: float32*, out.n0: int64):
    n#1 = out.n0
    for i#2 in range(n#1):
        i = i#2
        out[i] = float32(0.0)

The kernel language:

Values
    Scalars: bool, int8 to int64, uint8 to uint64, float32 and float64. Arrays of these, which are arguments or views of
    arguments: a kernel allocates no arrays. Tuples, also nested. Module constants, `math.pi`, `np.inf`. Functions,
    modules, dtypes, dataclasses and None are compile-time constants; the attributes of a dataclass are too.
Types
    As in NumPy 2. A literal is weakly typed: it takes the type of the other operand, and must fit it. A variable has
    one type, which holds all values assigned to it: unlike in NumPy, an integer literal assigned to a variable becomes
    an int64 and a float a float64. `float(x)` is a float64. Operators on two bools give an int64, except `& | ^`.
Arithmetic
    `+ - * / // % ** & | ^ ~ << >>`, comparisons, also chained, `and`, `or`, `not`, `x if c else y`. Integers wrap
    around on overflow. Integer `//` and `%` by 0 give 0. The exponent of an integer must be a literal.
Functions
    `abs bool divmod float int len max min pow round`; from NumPy and `math` the functions of one float, such as `exp`,
    and `sign maximum minimum where power arctan2 hypot copysign fmod isnan isinf isfinite logical_and logical_or
    logical_not`; `np.float32(x)`, and on scalars `x.astype(dtype)`, `x.view(dtype)` and `x.item()`.
Arrays
    `x[i, j]`, negative indices, slices with positive steps, `...`, tuples as indices; `x.shape size ndim dtype
    itemsize strides T`. Indexing and slicing give views. `x[...] = y` copies a scalar, or an array that broadcasts, as
    in NumPy, also where both overlap along one axis. Bounds are checked in debug mode only: otherwise an index out of
    range reads or writes other memory.
Statements
    Assignments, also `a, b = b, a` and `x[i] += y`; `if`, `while`, `for` over `range`, over an array, `x.flat`,
    `enumerate(x)`, `zip(x, y)` and `np.ndindex(shape)`; `break`, `continue`, `return`; `raise IndexError(text)`.
    A loop over a tuple, or `enumerate` or `zip` of tuples, is compiled once for each item, as is the element of
    `tuple(... for item in items)`: the items may be of different types.
    Threads share the turns of a last loop over `shared_turns(count, work)` of `wyrm.ops.kernels.sums`.
    `assert` is ignored. A variable read before its first assignment is 0. If a condition is a compile-time constant,
    such as `x.dtype == np.float32`, only the branch taken is compiled.
Calls
    Calls of other kernels, with defaults, keywords, and `*` before a tuple. All callers share the machine code of a
    kernel that `compiled_once` of `wyrm.ops.kernels.sums` marks. A kernel compiled with `distinct` must not write to an
    array that shares memory with another argument: views of one array passed to it must not overlap.
Memory
    `kernels/memory.py` has what kernels of native code itself use: words that threads share, arrays at an address,
    addresses of arrays and kernels, and calls of functions of C.

Not supported: closures, recursion, other generators and comprehensions, lambdas, lists, dicts, strings, `try`, `with`,
`in`, `@`, functions of whole arrays, and indexing by arrays or bools.
"""
