"""Graphs and programs as ONNX files: what a file cannot hold, the conversion, and the check of what was written."""

from __future__ import annotations

import importlib.util
import inspect
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wyrm.engines.jax.lower import Lowerer, Sizes
from wyrm.engines.jax.namespace import JaxNamespace
from wyrm.errors import OptionError, WyrmError
from wyrm.graph.axes import Dim
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Input
from wyrm.graph.schedule import Schedule
from wyrm.jax.exporting import ExportedFunction, ExportLowerer, arguments_of, for_fixed_sizes
from wyrm.jax.lowering import checked_path, checked_sizes
from wyrm.ops.random.philox import Counter
from wyrm.support.imports import jax, jnp, missing_package, unread
from wyrm.support.options import flag
from wyrm.train.program import Program

# Coefficients of Chebyshev polynomials of 4 t - 2 for log(erfc(z) exp(z ** 2) / t), where t is 2 / (2 + z): computed
# with 40 digits. The first twelve suffice for float32.
_ERFC = (
    -1.3026537197817094, 0.64196979235649026, 0.019476473204185836, -0.0095615147868086316, -0.00094659534448203687,
    0.00036683949785276145, 4.2523324806907772e-5, -2.0278578112534243e-5, -1.6242900046470255e-6,
    1.3036558355805232e-6, 1.5626441722066143e-8, -8.5238095914926543e-8, 6.5290544390988515e-9,
    5.0593434955514689e-9, -9.9136415649303309e-10, -2.2736512229318359e-10, 9.6467911020155268e-11,
    2.3940380830391147e-12, -6.8860275264975534e-12, 8.9448792730907257e-13, 3.1309213993429581e-13,
    -1.1270822361367252e-13, 3.8109052551892321e-16, 7.106097613609237e-15, -1.5230282014571043e-15,
    -9.457494571291234e-17, 1.210237189224279e-16, -2.816663087747177e-17,
)  # fmt: skip


def erfc(x: Any) -> Any:
    """Return the complementary error function, exact relative to itself: `1 - erf(x)` is 0 from 4 on in float32."""
    size = jnp.abs(x)
    t = 2.0 / (2.0 + size)
    y, last, before = 4.0 * t - 2.0, t * 0.0, t * 0.0
    coefficients = _ERFC[: 12 if x.dtype == np.float32 else len(_ERFC)]
    for coefficient in coefficients[:0:-1]:  # Clenshaw's recurrence
        last, before = y * last - before + coefficient, last
    tail = t * jnp.exp(0.5 * (coefficients[0] + y * last) - before - size * size)
    return jnp.where(x < 0.0, 2.0 - tail, tail)


def log1p(x: Any) -> Any:
    """Return `log(1 + x)`, exact for small x (Higham, "Accuracy and stability of numerical algorithms", 2002)."""
    above = 1.0 + x
    is_lost = (above == 1.0) | (above == jnp.inf)
    rounded = jnp.where(is_lost, 1.0, above - 1.0)
    return jnp.where(above == 1.0, x, jnp.log(above) * jnp.where(is_lost, 1.0, x / rounded))


def expm1(x: Any) -> Any:
    """Return `exp(x) - 1`, exact for small x (Kahan's formula; see Higham, 2002)."""
    power = jnp.exp(x)
    is_near = (power != 1.0) & (jnp.abs(x) < 1.0)
    logarithm = jnp.where(is_near, jnp.log(jnp.where(is_near, power, 2.0)), 1.0)
    return jnp.where(power == 1.0, x, (power - 1.0) * jnp.where(is_near, x / logarithm, 1.0))


_FUNCTIONS = {"erfc": erfc, "expm1": expm1, "log1p": log1p}


class OnnxNamespace(JaxNamespace):
    """The functions of `jax.numpy`, with those of this module in place of JAX's."""

    def __getattr__(self, name: str) -> Any:
        return _FUNCTIONS.get(name) or super().__getattr__(name)


class Refusal(NamedTuple):
    """What ONNX lacks, and the scopes of JAX that it stands in, the innermost last."""

    what: str
    scopes: tuple[str, ...]


def first_refusal(traced: Any) -> Refusal | None:
    """Return the first operation of a closed jaxpr that cannot be written, or None."""
    plugins = unread("jax2onnx.plugins.plugin_system")
    plugins.import_all_plugins()
    for equation, scopes in _equations(traced.jaxpr, ()):
        name = equation.primitive.name
        what = _LACKING[name](equation) if name in _LACKING else ""
        if not what and name not in plugins.PLUGIN_REGISTRY:
            what = f"the operation {name!r} of JAX"
        if what:
            return Refusal(what, scopes)
    return None


def _equations(jaxpr: Any, outside: tuple[str, ...]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield the operations of a function, each before those inside of it, with their scopes."""
    for equation in jaxpr.eqns:
        scopes = (*outside, *filter(None, str(equation.source_info.name_stack).split("/")))
        yield equation, scopes
        for value in equation.params.values():
            for each in value if isinstance(value, tuple | list) else [value]:
                inside = getattr(each, "jaxpr", each)  # of a closed one
                if hasattr(inside, "eqns"):
                    yield from _equations(inside, scopes)


def _of_batch(equation: Any) -> str:
    return "factorizations of a batch of matrices" if len(equation.invars[0].aval.shape) > 2 else ""


def _backwards(equation: Any) -> str:
    return "loops from the last step to the first" if equation.params["reverse"] else ""


def _spread(equation: Any) -> str:
    between = any(inside for _, _, inside in equation.params["padding_config"])
    return "padding between the elements of an array" if between else ""


def _unusual(equation: Any) -> str:
    numbers = equation.params["dimension_numbers"]
    if len(numbers.lhs_spec) > 4:
        return "convolutions in three dimensions"
    is_usual = all(tuple(spec) == tuple(range(len(spec))) for spec in numbers)
    return "" if is_usual and equation.params["batch_group_count"] == 1 else "gradients by the kernel of a convolution"


def _outer(equation: Any) -> str:
    (summed, _), _ = equation.params["dimension_numbers"]
    return "" if summed else "products that sum over no axis, other than those by `*`"


def _all(what: str) -> Callable[[Any], str]:
    return lambda equation: what


# What of an operation cannot be written, or nothing.
_LACKING: dict[str, Callable[[Any], str]] = {
    "cholesky": _of_batch,
    "lu": _of_batch,
    "qr": _of_batch,
    "eig": _all("eigenvalues"),
    "eigh": _all("eigenvalues"),
    "svd": _all("singular values"),
    "bitcast_convert_type": _all("the bits of a float, such as its sign"),
    "cumprod": _all("running products"),
    "cummax": _all("running maxima"),
    "cummin": _all("running minima"),
    "scan": _backwards,
    "pad": _spread,
    "conv_general_dilated": _unusual,
    "dot_general": _outer,
}


# Takes the function of a package and returns the one that stands in its place.
Adapter = Callable[[Callable[..., Any]], Callable[..., Any]]


def _with_named_axes(original: Callable[..., Any]) -> Callable[..., Any]:
    """Take JAX's open axes in shapes by their names: `onnx_ir` asks them for integers, which they have not."""
    from jax.export import is_symbolic_dim

    def convert(dim: Any) -> Any:
        return original(str(dim) if is_symbolic_dim(dim) else dim)

    return convert


def _without_guesses(original: Callable[..., Any]) -> Callable[..., Any]:
    """Do not guess that an open first axis has the size of the first axis of an operand."""
    return lambda value: None


def _connected_by_its_graph(original: Callable[..., Any]) -> Callable[..., Any]:
    """Ask a value for its graph: jax2onnx compares it, after each operation, with the values of all before."""

    def is_connected(ctx: Any, value: Any) -> bool:
        graph, producer = ctx.builder.nodes, value.producer()
        if producer is None:
            is_found = value.graph is graph and (value.is_graph_input() or value.is_initializer())
        else:
            is_found = producer.graph is graph
        return bool(is_found or original(ctx, value))

    return is_connected


def _producer_by_its_value(original: Callable[..., Any]) -> Callable[..., Any]:
    """Ask a value for the node that computes it: jax2onnx makes a set of all nodes first, and searches their names."""

    def producer_of(nodes: Sequence[Any], value: Any) -> Any:
        if value is None or isinstance(value, str):
            return original(nodes, value)
        producer = value.producer()
        if producer is None and (value.is_graph_input() or value.is_initializer()):
            return None
        return producer if producer in nodes else original(nodes, value)

    return producer_of


def _consumers_by_their_value(original: Callable[..., Any]) -> Callable[..., Any]:
    """Ask a value for the nodes that read it, as for the one that computes it."""

    def consumers_of(nodes: Sequence[Any], value: Any) -> Any:
        if value is None or isinstance(value, str):
            return original(nodes, value)
        return [node for node in value.consumers() if node in nodes] or original(nodes, value)

    return consumers_of


# What stands in place of functions of jax2onnx, by their names and those of their parameters.
_OF_JAX2ONNX: dict[tuple[str, ...], Adapter] = {
    ("get_axis0_override", "value"): _without_guesses,
    ("_value_is_graph_connected", "ctx", "value"): _connected_by_its_graph,
    ("_producer_node", "nodes", "value_or_name"): _producer_by_its_value,
    ("_consumer_nodes", "nodes", "value_or_name"): _consumers_by_their_value,
}


@contextmanager
def adapted() -> Iterator[None]:
    """Return a context in which jax2onnx converts graphs with open axes, and large ones in linear time.

    Functions that another version of jax2onnx or `onnx_ir` lacks, or has with other parameters, stay as they are.
    """
    unread("jax2onnx.plugins.plugin_system").import_all_plugins()
    modules = [module for name, module in sys.modules.items() if name.startswith("jax2onnx.")]
    wanted: list[tuple[Any, tuple[str, ...], Adapter]] = [
        (unread("onnx_ir._core"), ("_maybe_convert_to_symbolic_dim", "dim"), _with_named_axes)
    ]
    wanted += [(module, key, adapter) for key, adapter in _OF_JAX2ONNX.items() for module in modules]
    kept = [
        (module, name, getattr(module, name), adapter)
        for module, (name, *parameters), adapter in wanted
        if hasattr(module, name) and [*inspect.signature(getattr(module, name)).parameters] == parameters
    ]
    for module, name, original, adapter in kept:
        setattr(module, name, adapter(original))
    try:
        with _untyped_values():
            yield
    finally:
        for module, name, original, _ in kept:
            setattr(module, name, original)


@contextmanager
def _untyped_values() -> Iterator[None]:
    """Let `onnx_ir` not warn of values to which jax2onnx gives a shape without a type: a file keeps neither of them."""

    def is_other(record: logging.LogRecord) -> bool:
        return not record.msg.startswith("The value type for shape")

    logger = logging.getLogger("onnx_ir.serde")
    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)


# The sizes of open axes that a file is tried with, until two fit: 1, where runtimes broadcast, and larger ones.
_SIZES = (1, 3, 16, 64)
# How far numbers may be from those of JAX, relative to the largest, and how many of them farther: the larger of two
# nearly equal elements may be another one.
_TOLERANCE, _FEW = 1e-2, 0.01


class Fault(Exception):
    """What is wrong with a file."""


def check_file(
    file: Path, names: Sequence[str], compute: Callable[[int], tuple[Callable[..., Any], Sequence[Any]]], is_open: bool
) -> None:
    """Raise `Fault` for a file that its runtime cannot load, or that has other shapes or numbers than JAX computes.

    `names` are those of its inputs. `compute(size)` returns the function of JAX for a size of open axes, and the shapes
    of its arguments. Without ONNX Runtime, only the format and the types are checked.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        import onnx

        try:
            onnx.checker.check_model(str(file), full_check=True)
        except onnx.checker.ValidationError as error:
            raise Fault(f"the file is not valid: {error}") from error
        return
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of classes of its own
        raise Fault(f"ONNX Runtime cannot load the file: {error}") from error
    # The file leaves out inputs that no output depends on.
    used = {each.name for each in session.get_inputs()}
    tried = 0
    for size in _SIZES if is_open else _SIZES[:1]:
        faults = []
        for data, expected in _computed(compute, size):
            try:
                found = session.run(None, {x: array for x, array in zip(names, data, strict=True) if x in used})
            except Exception as error:
                faults.append(f"ONNX Runtime cannot run the file: {error}")
            else:
                faults.append(next(filter(None, map(_difference, found, expected)), ""))
        if faults and all(faults):
            raise Fault(faults[0] + (f", for open axes of size {size}" if is_open else ""))
        tried += bool(faults)
        if tried == 2:
            return


def _computed(
    compute: Callable[[int], tuple[Callable[..., Any], Sequence[Any]]], size: int
) -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Yield data and what JAX computes from them: for numbers of any sign, and for numbers between 0 and 1."""
    try:
        function, arguments = compute(size)
        compiled = jax.jit(function, compiler_options={"xla_backend_optimization_level": 0}).lower(*arguments).compile()
    except Exception:  # of many types: windows do not fit into axes of this size
        return
    for is_positive in (False, True):
        random = np.random.default_rng(0)
        data = [_drawn(random, x.shape, np.dtype(x.dtype), is_positive) for x in arguments]
        yield data, [np.asarray(result) for result in compiled(*data)]


def _drawn(random: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, is_positive: bool) -> np.ndarray:
    """Return numbers; integers are 0, or 0 and 1, because they may be indices."""
    if dtype.kind == "b":
        return random.random(shape) < 0.5
    if dtype.kind in "iu":
        return random.integers(0, 2 if is_positive else 1, shape).astype(dtype)
    drawn: Any = random.uniform(0.1, 0.9, shape) if is_positive else random.normal(size=shape)
    return np.asarray(drawn, dtype)


def _difference(found: Any, expected: np.ndarray) -> str | None:
    """Return what differs, or None. Where JAX computes no finite number, runtimes differ."""
    if found.shape != expected.shape:
        return f"ONNX Runtime computes the shape {found.shape}, JAX {expected.shape}"
    finite = np.isfinite(expected)
    have, want = np.asarray(found)[finite].astype(np.float64), expected[finite].astype(np.float64)
    allowed = _TOLERANCE * np.abs(want).max(initial=0.0) if expected.dtype.kind == "f" else 0.0
    wrong = ~(np.abs(have - want) <= allowed)
    if wrong.sum() <= _FEW * want.size:
        return None
    return f"ONNX Runtime computes {have[wrong][0]:.6g}, JAX {want[wrong][0]:.6g}"


def first_fault(outputs: Sequence[BaseNode], attempt: Callable[[BaseNode], None]) -> tuple[BaseNode, Exception] | None:
    """Return the first node whose op cannot be exported even alone, and why; `attempt` exports one node."""
    tried: set[tuple[object, ...]] = set()
    for node in Schedule(outputs).nodes:
        if node.is_leaf:
            continue
        key = (type(node), str(node.attribute_values()), *((x.dims, x.dtype) for x in node.parents))
        if key in tried:
            continue
        tried.add(key)
        try:
            copy = _on_inputs(node)
        except (WyrmError, TypeError, ValueError):  # its operands are no arrays
            continue
        try:
            attempt(copy)
        except WyrmError:  # its operands do not have the open axes of the result
            continue
        except Exception as error:  # of many types
            return node, error
    return None


def _on_inputs(node: BaseNode) -> BaseNode:
    """Return the op of a node on inputs in place of what the graph computes, other than random steps and keys."""
    inputs: Mapping[BaseNode, Any] = {
        x: IndexInput(dims=x.dims) if x.dtype.kind == "i" else Input(dims=x.dims, dtype=x.dtype)
        for i, x in enumerate(node.parents)
        if i not in node.residual_parents
        and not (isinstance(x, Counter) or x.dtype.kind == "u")
        and (not x.is_leaf or isinstance(x, Input | IndexInput))
    }
    return node.rebuild(inputs.get(x, x) for x in node.parents)


_WHO = "wy.jax.to_onnx"
_INSTEAD = (
    "wy.jax.export writes StableHLO, and wy.export C or WebAssembly, which have more operations; or write what comes "
    "before, and compute the rest elsewhere"
)
# The most characters that an error repeats of the message of a library.
_LONGEST = 300
# Before the number of a node in the name of the scope of its operations.
_SCOPE = "node_"


class _OnnxLowerer(ExportLowerer):
    """Lowers graphs for ONNX, without loops over equal layers, which its runtimes do not optimize.

    The operations of a node have a scope with its place in `nodes`, which grow.
    """

    uses_tiles = False

    def __init__(self, sizes: Sizes, nodes: list[BaseNode]) -> None:
        super().__init__(sizes, repeats=sys.maxsize)
        self._nodes = nodes

    @property
    def xp(self) -> JaxNamespace:
        """The functions of `jax.numpy`, some of them made of those that ONNX has."""
        return OnnxNamespace()

    def value(self, node: BaseNode, operands: list[Any]) -> Any:
        """Return the value of a node from those of its parents."""
        self._nodes.append(node)
        with jax.named_scope(f"{_SCOPE}{len(self._nodes) - 1}"):
            return super().value(node, operands)


class _OnnxFunction(ExportedFunction):
    """The function of a graph in operations for ONNX."""

    nodes: list[BaseNode]

    def _lowerer(self, sizes: Sizes) -> Lowerer:
        self.nodes = []
        return _OnnxLowerer(sizes, self.nodes)

    def traced(self, arguments: Sequence[Any]) -> Callable[..., list[Any]]:
        """Return the function as operations of JAX; raise `OptionError` for the first that ONNX does not have.

        All is traced before jax2onnx replaces functions of `jax.numpy` by its own, some of which take no open axis.
        """
        traced = jax.make_jaxpr(self.of_inputs)(*arguments)
        refusal = first_refusal(traced)
        if refusal is not None:
            numbers = [int(scope.removeprefix(_SCOPE)) for scope in refusal.scopes if scope.startswith(_SCOPE)]
            what = describe(self.nodes[numbers[-1]]) if numbers else "the graph"
            raise OptionError(f"{_WHO} cannot write {what}: files of ONNX have no {refusal.what}\n{_INSTEAD}")
        function = unread("jax.extend.core").jaxpr_as_fun(traced)
        return lambda *inputs: _apart(function(*inputs), inputs)


def to_onnx(
    target: Program | BaseNode | Sequence[BaseNode],
    path: str | os.PathLike[str],
    inputs: Sequence[BaseNode] | None = None,
    *,
    sizes: Mapping[type[Dim], int] | None = None,
    check: bool = True,
) -> None:
    """Write the outputs of a program or graph to an ONNX file, by jax2onnx.

    The file's inputs have the names of `inputs`, by default all inputs in order of first use; its outputs are
    `output_0`, `output_1` and so on. Parameters, open axes, `sizes` and random nodes are as in `export`. Integers are
    int32. What common models need can be written; factorizations of a batch of matrices, eigenvalues, singular values
    and some rare functions cannot.

    With `check`, ONNX Runtime loads the file and computes the outputs of drawn numbers, for two sizes of open axes,
    before it stands at its path; without that package, only its types are checked.

    Raise `ImportError` without jax2onnx, and the errors of `lower`. Raise `OptionError`, which names the op, before a
    file is written for what ONNX lacks, and for a file that cannot be loaded or has other shapes or numbers than JAX.

    >>> x = wy.Input(dims=(2, 3), name="x")
    >>> wy.jax.to_onnx(x.tanh(), "tanh.onnx")  # doctest: +SKIP
    """
    if importlib.util.find_spec("jax2onnx") is None:
        raise missing_package(_WHO, "jax2onnx", "onnx", name="jax2onnx")
    check = flag(f"{_WHO}: check", check)
    file = checked_path(path, _WHO, "path")
    folder = file.absolute().parent
    if not folder.is_dir():
        raise OptionError(f"{_WHO}: there is no folder {str(folder)!r} for the file {file.name!r}")
    function, fixed = _OnnxFunction(target, inputs, _WHO), checked_sizes(sizes, _WHO)
    names = arguments_of(function.inputs, fixed)[1]

    def attempt(node: BaseNode) -> None:
        with tempfile.TemporaryDirectory() as inside:
            _write(_OnnxFunction(node, None, _WHO), Path(inside) / "op.onnx", fixed, check)

    with tempfile.TemporaryDirectory(dir=folder) as inside:
        written = Path(inside) / file.name
        try:
            _write(function, written, fixed, check)
        except (WyrmError, ImportError):
            raise
        except Exception as error:  # of many types, from JAX, jax2onnx and the check
            found = first_fault(function.outputs, attempt)
            what, reason = (describe(found[0]), found[1]) if found else ("the graph", error)
            raise OptionError(
                f"{_WHO} cannot write {what}: {_shortened(str(reason))}\n{for_fixed_sizes(names)}{_INSTEAD}"
            ) from error
        for each in Path(inside).iterdir():
            each.replace(folder / each.name)


@contextmanager
def _types_of_process() -> Iterator[None]:
    """Return a context after which the process has the 64-bit types of JAX, or has them not, as before.

    In a block of `jax.enable_x64`, jax2onnx takes the block's choice for that of the process, and sets it for good.
    """
    with ThreadPoolExecutor(1) as threads:  # blocks hold for their own thread alone
        before = threads.submit(jax.config.read, "jax_enable_x64").result()
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


def _write(function: _OnnxFunction, file: Path, fixed: Mapping[type[Dim], int], check: bool) -> None:
    """Write a function to a file, and check the file; raise errors of many types."""
    import jax2onnx
    import onnx

    arguments, names = arguments_of(function.inputs, fixed)
    traced = function.traced(arguments)
    with adapted(), _types_of_process():
        jax2onnx.to_onnx(
            traced,
            arguments,
            return_mode="file",
            output_path=file,
            input_names=function.input_names(),
            output_names=[f"output_{i}" for i in range(len(function.outputs))],
            enable_double_precision=any(node.dtype == np.float64 for node in function.outputs),
        )
    model = onnx.load(file, load_external_data=False)
    _forget_shapes(model.graph)
    onnx.save(model, file)

    def compute(size: int) -> tuple[Callable[..., Any], Sequence[Any]]:
        shapes, _ = arguments_of(function.inputs, {**dict.fromkeys(names, size), **fixed})
        return function.traced(shapes), shapes

    if check:
        check_file(file, function.input_names(), compute, bool(names))


def _apart(results: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """Return results of which none is an input or another result, since each of them has a name in a file."""
    apart: list[Any] = []
    for result in results:
        if any(result is each for each in (*inputs, *apart)):
            result = ~~result if result.dtype == bool else result + np.zeros((), result.dtype)
        apart.append(result)
    return apart


def _shortened(text: str) -> str:
    """Return the start of a message: some hold a whole graph."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def _forget_shapes(graph: Any) -> None:
    """Remove shapes inside of a graph, which runtimes infer: jax2onnx may say 1 for an open axis."""
    import onnx

    del graph.value_info[:]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _forget_shapes(attribute.g)
