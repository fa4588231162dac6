"""`wyrm.kernel`: functions with loops as ops."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# Bodies of kernels have no types.

from __future__ import annotations

import math
import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.exporting.in_wasm import in_wasm
from tests.exporting.loaded import check_predictions, loaded
from tests.ops.adjoints.programs import PROGRAMS, mandelbrot
from wyrm.errors import (
    DTypeError,
    IndexOutOfRange,
    NotDifferentiable,
    RegistrationError,
    ShapeError,
)
from wyrm.ops.adjoints.op import KernelOp
from wyrm.testing import check_grads

SCAN: Any = wy.scan  # of functions of any axes


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


@wy.kernel
def smoothed(x, factor):
    total, mean = 0.0, 0.0
    for i in range(x.size):
        mean = factor * mean + (1.0 - factor) * x[i]
        total += (x[i] - mean) * (x[i] - mean)
    return total


@wy.kernel
def products(x: wy.Tensor[Batch, Time], y: wy.Tensor[Time], out: wy.Written[Batch]):
    table = np.zeros(x.shape[1] + 1)
    for b in range(x.shape[0]):
        table[0] = 1.0
        for t in range(x.shape[1]):
            table[t + 1] = table[t] * math.tanh(x[b, t]) + y[t]
        out[b] = table[x.shape[1]]


@wy.kernel
def grown(x: wy.Tensor[Batch], s, out: wy.Written[Batch]):
    total = 0.0
    for i in range(x.size):
        v = x[i]
        while v < 3.0:
            v = v * 1.5 + s
        out[i] = v
        total += v * v  # type: ignore[assignment]  # elements are numbers here
    return total


@wy.kernel
def risen(v):
    while v < 3.0:
        v = v + 0.2 * v * v
    return v


def random(*shape: int) -> Any:
    return np.random.default_rng(3).uniform(0.3, 1.7, shape)


@wy.kernel
def around(x):
    total, k = 1.0, 2
    while k > -3:
        total = total * x[k] + 0.1
        k -= 1
    return total


def test_a_kernel_that_returns_a_number_has_gradients_of_both_orders() -> None:
    x, factor = wy.Parameter(random(6)), wy.Parameter(np.float64(0.3))
    check_grads(smoothed(x, factor), engines=["native"])
    check_grads(smoothed(x, 0.5), engines=["native"])


@pytest.mark.parametrize("of", [lambda x: smoothed(x, 0.5), lambda x: grown(x, 0.4)[0], lambda x: around(x)])
def test_engines_agree_on_ops_of_both_orders(of: Any) -> None:
    pytest.importorskip("jax")
    check_grads(of(wy.Parameter(random(4))))  # in all engines


def test_nothing_is_differentiated_by_residuals() -> None:
    x = wy.Parameter(random(4))
    gradient = wy.grad(smoothed(x, 0.5), x)
    with pytest.raises(NotDifferentiable, match="computed from another operand"):
        wy.grad(gradient.sum(), gradient.parents[-1])


def test_a_kernel_that_writes_an_array_has_the_axes_of_its_annotation() -> None:
    x, y = wy.Parameter(random(3, 4)), wy.Parameter(random(4))
    node = products(x, y)
    assert node.dims == (3,)
    check_grads(node, engines=["native"])


def test_a_kernel_with_several_results_gives_a_tuple() -> None:
    x, s = wy.Parameter(random(4)), wy.Parameter(np.float64(0.4))
    total, out = grown(x, s)
    assert (total.dims, out.dims) == ((), (4,))
    check_grads(total, engines=["native"])
    check_grads((out * out).sum() * total, engines=["native"])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_programs_of_open_sizes_equal_the_reference(dtype: Any) -> None:
    x = wy.Input(dims=(Batch(), Time()), dtype=dtype)
    y = wy.Input(dims=(Time(),), dtype=dtype)
    node = products(x, y)
    loss = (node * node).sum()
    outputs = [loss, wy.grad(loss, x), wy.grad(loss, y), wy.grad(wy.grad(loss, y).sum(), x)]
    program = wy.compile(outputs)
    assert "_gradient_gradient" in program.source
    for shape in ((3, 4), (5, 2), (1, 1), (0, 3)):
        given = {x: random(*shape).astype(dtype), y: random(shape[1]).astype(dtype)}
        x.set(given[x])
        y.set(given[y])
        for found, expected in zip(program(given), [each.forward() for each in outputs], strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype is np.float32 else 1e-12, atol=1e-6)


def test_loops_of_unknown_length_are_compiled_and_tell_when_their_tape_is_full() -> None:
    x, s = wy.Parameter(random(4)), wy.Parameter(np.float64(0.4))
    total, out = grown(x, s)
    loss = total * out.sum()
    outputs = [loss, wy.grad(loss, x), wy.grad(loss, s), wy.grad(wy.grad(loss, s), x)]
    for found, expected in zip(wy.compile(outputs)(), [each.forward() for each in outputs], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    check_grads(risen(s), engines=["native"])
    narrow = wy.kernel(risen.kernel_function, room=2)(s)
    for run in (lambda: wy.grad(narrow, s).forward(), lambda: wy.compile([wy.grad(narrow, s)])()):
        with pytest.raises(IndexOutOfRange, match=r"records more than 2 numbers.*room=8"):
            run()


@wy.kernel
def in_turn(x: wy.Tensor[Batch], turns: wy.IndexTensor[Batch], out: wy.Written[Batch]):
    for b in range(x.size):
        v = x[b]
        for _ in range(turns[b]):  # type: ignore[call-overload]  # elements are numbers here
            v = v * v * 0.5  # type: ignore[assignment]  # as above
        out[b] = v


def test_the_number_of_turns_may_be_data() -> None:
    x, turns = wy.Parameter(random(3)), wy.IndexInput(dims=(3,))
    gradient = wy.grad(in_turn(x, turns).sum(), x)
    program = wy.compile([gradient])
    for given in ([0, 0, 0], [3, 1, 2], [5, 0, 4]):
        v = np.array([x.value[b] ** (2 ** given[b]) * 0.5 ** (2 ** given[b] - 1) for b in range(3)])
        expected = np.array([2 ** given[b] * v[b] / x.value[b] for b in range(3)])
        np.testing.assert_allclose(program({turns: np.array(given)})[0], expected)


@wy.kernel
def neighbours(x: wy.Tensor[Batch], shift: int, out: wy.Written[Batch]):
    for i in range(x.size):
        out[i] = x[i] * x[i + shift]


def test_an_index_out_of_range_is_an_error_and_touches_no_memory() -> None:
    x = wy.Parameter(random(4))
    assert neighbours(x, -1).forward() == pytest.approx(x.value * np.roll(x.value, 1))
    program = wy.compile([neighbours(x, 100000)])
    with pytest.raises(IndexOutOfRange, match="neighbours"):
        program()
    with pytest.raises(IndexOutOfRange, match="neighbours"):
        neighbours(x, 100000).forward()


@wy.kernel
def picked(x: wy.Tensor[Batch], places: wy.IndexTensor[Time], out: wy.Written[Time]):
    for t in range(places.size):
        out[t] = x[places[t]] * x[places[t]]


def test_integers_are_operands_without_a_gradient() -> None:
    x = wy.Parameter(random(4))
    node = picked(x, np.array([3, 0, 3]))
    check_grads(node, engines=["native"])
    np.testing.assert_allclose(wy.compile([wy.grad(node.sum(), x)])()[0], 2 * x.value * [1, 0, 0, 2])
    places = wy.IndexInput(dims=(Time(),))
    program = wy.compile([picked(x, places)])
    np.testing.assert_allclose(program({places: np.array([1, 2])})[0], x.value[[1, 2]] ** 2)
    with pytest.raises(IndexOutOfRange):
        program({places: np.array([1, 4])})


def _slope(v):
    return 1.0 / (1.0 + v * v)


@wy.kernel(slopes=(_slope,))
def step(v):
    return 1.0 if v > 0.0 else 0.0


@wy.kernel
def fires(current, threshold):
    v, count = 0.0, 0.0
    for t in range(current.size):
        v = 0.9 * v + current[t]
        fired = step(v - threshold)
        v = v - fired * threshold
        count += fired
    return count


def test_slopes_of_ones_own_stand_in_place_of_the_derivative() -> None:
    current = wy.Parameter(np.array([0.6, 0.7, 0.1]))
    gradient = wy.grad(fires(current, 1.0), current)
    assert gradient.forward()[2] == pytest.approx(_slope(0.9 * (0.9 * 0.6 + 0.7 - 1.0) + 0.1 - 1.0))
    np.testing.assert_allclose(wy.compile([gradient])()[0], gradient.forward())


@wy.kernel
def signed(x, sign):
    return x * math.copysign(1.0, sign)


def test_zeros_of_either_sign_are_other_numbers() -> None:
    x = wy.Parameter(np.float64(2.0))
    assert [signed(x, sign).forward() for sign in (0.0, -0.0)] == [2.0, -2.0]


def test_a_call_without_nodes_runs_in_python() -> None:
    assert smoothed(np.array([1.0, 3.0]), 0.5) == 1.8125
    out = np.zeros(2)
    products(np.ones((2, 1)), np.ones(1), out)
    np.testing.assert_allclose(out, math.tanh(1.0) + 1.0)


def test_it_trains() -> None:
    x, factor = wy.Input(dims=(8,), dtype=np.float64), wy.Parameter(np.float64(0.9), name="factor")
    program = wy.compile(smoothed(x, factor), optimizer=wy.optim.SGD([factor], 0.02))
    first = program({x: random(8)})
    for _ in range(20):
        last = program({x: random(8)})
    assert last < first
    assert factor.value != 0.9


@wy.kernel
def writes_its_operand(x, y):
    x[0] = y
    return x[0]


@wy.kernel
def without_annotation(x, out):
    out[0] = x[0]


@wy.kernel
def other_axis(x: wy.Tensor[Batch], out: wy.Written[Time]):
    out[0] = x[0]


@wy.kernel
def refused(x: wy.Tensor[Batch]):
    for i in range(x.size):
        if x[i] > 1.0:
            return x[i]
    return 0.0


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: writes_its_operand(x, 2.0), RegistrationError, "writes to x"),
        (lambda x: without_annotation(x), ShapeError, "got no out: give it or, .* annotate its axes"),
        (lambda x: smoothed(x), ShapeError, "smoothed got no factor: give it or"),
        (lambda x: without_annotation(x, np.zeros(4)), RegistrationError, "writes to out, .*: leave it out"),
        (lambda x: other_axis(x), ShapeError, "axis Time of the result out is that of no operand; annotated are Batch"),
        (lambda x: products(x, x), ShapeError, "has 2 axes"),
        (lambda x: refused(x), NotDifferentiable, "return it after the loop"),
        (lambda x: smoothed(x, wy.Parameter(np.float32(1.0))), DTypeError, "float operands of one type"),
        (lambda x: smoothed(x, 0.5, wrong=1), TypeError, "no parameter wrong"),
        (lambda x: smoothed(x, 0.5, factor=0.7), TypeError, "smoothed got factor twice"),
        (lambda x: smoothed(x, 0.5, 0.7), TypeError, "smoothed has 2 parameters, x, factor, not 3"),
    ],
)
def test_mistakes_say_what_to_write(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(wy.Parameter(random(4)))


@wy.kernel
def looked_up(x: wy.Tensor[Batch], rows, out: wy.Written[Batch]):
    for i in range(x.size):
        out[i] = x[rows[i]]


@pytest.mark.parametrize(
    "of", [lambda x, y: smoothed(y, 0.5), lambda x, y: products(x, y).sum(), lambda x, y: grown(y, 0.5)[0].sum()]
)
def test_kernels_run_in_jax(of: Any) -> None:
    jax = pytest.importorskip("jax")
    leaves = {"x": wy.Parameter(random(3, 4), name="x"), "y": wy.Parameter(random(4), name="y")}
    made = of(**leaves)
    made.backward()
    with jax.enable_x64(True):
        function, parameters = wy.jax.lower(made)
        value, slopes = jax.jit(jax.value_and_grad(function))(parameters)
    np.testing.assert_allclose(value, made.forward(), rtol=1e-5)
    assert slopes
    for name, slope in slopes.items():
        np.testing.assert_allclose(slope, leaves[name].gradient, rtol=1e-4)


def test_an_index_out_of_range_is_nan_in_jax() -> None:
    jax = pytest.importorskip("jax")
    function, parameters = wy.jax.lower(
        looked_up(wy.Parameter(random(4).astype(np.float32)), wy.IndexConstant([0, 1, 7, 2]))
    )
    assert np.isnan(jax.jit(function)(parameters)).all()


def test_kernels_run_in_loops_and_batches_of_the_graph() -> None:
    x, y = wy.Parameter(random(3)), wy.Parameter(random(3))

    def body(carry: Any, _: Any) -> Any:
        return picked(carry, np.array([1, 2, 0])) * 0.9, smoothed(carry, 0.5)

    last, losses = SCAN(body, x, length=3)
    loss = (last * y).sum() + losses.sum()
    check_grads(loss, engines=["native"])
    gradient = wy.grad(loss, x)
    np.testing.assert_allclose(wy.compile([gradient])()[0], gradient.forward())
    rows = random(4, 3)
    found = wy.vmap(lambda row: smoothed(row, 0.5))(rows)
    np.testing.assert_allclose(found, [smoothed(row, 0.5) for row in rows])


@wy.kernel
def escaped(real: wy.Tensor[Batch], imaginary: wy.Tensor[Batch], out: wy.Written[Batch]):
    mandelbrot(real, imaginary, out)


def ops_of(program: Any) -> list[str]:
    return [type(node).__name__ for node in program._engine.graph.schedule.nodes if "Kernel" in type(node).__name__]


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_a_value_and_its_gradient_run_forward_once(engine: Any) -> None:
    if engine == "jax":
        pytest.importorskip("jax")
    x, y = wy.Parameter(random(3, 4)), wy.Parameter(random(4))
    loss = (products(x, y) ** 2).sum()
    both: Any = wy.compile([loss, wy.grad(loss, x), wy.grad(loss, y)], engine=engine)
    value: Any = wy.compile([loss], engine=engine)
    assert ops_of(both) == ["KernelProductsResiduals", "KernelProductsGradient"]
    assert ops_of(value) == ["KernelProducts"]
    if engine == "native":
        assert both.source.count("math.tanh(") == 2  # once in each sweep
        assert both.source.count("out_1[b] = table_1_was_1") == 1
    np.testing.assert_allclose(both()[0], loss.forward(), rtol=1e-14)


def test_the_reference_engine_runs_forward_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    evaluate = KernelOp.evaluate

    def counted(self: Any, *operands: Any, **keywords: Any) -> Any:
        ran.append(type(self).__name__.removeprefix("KernelProducts"))
        return evaluate(self, *operands, **keywords)

    monkeypatch.setattr(KernelOp, "evaluate", counted)
    x, y = wy.Parameter(random(3, 4)), wy.Parameter(random(4))

    def made() -> Any:
        return (products(x, y) ** 2).sum()

    def run_of(call: Any) -> list[str]:
        ran.clear()
        call()
        return list(ran)

    once = ["Residuals", "Gradient"]
    loss = made()
    value, slope = wy.run([loss, wy.grad(loss, x)])
    assert run_of(lambda: wy.run([loss, wy.grad(loss, x)])) == once
    assert run_of(loss.forward) == [""]
    assert run_of(loss.backward) == once
    assert loss.value == value
    np.testing.assert_array_equal(x.gradient, slope)
    assert run_of(made().backward) == once
    node = products(x, y)
    loss = (node * 2.0).sum()
    loss.backward()
    for factor in (0.9, 1.1):  # a later step runs forward for both
        x.set(factor * x.value)
        x.clear_gradient()
        assert run_of(loss.forward) == ["Residuals"]
        assert run_of(loss.backward) == ["Gradient"]
        products(x.value, y.value, out=(out := np.zeros(3)))
        np.testing.assert_array_equal(node.value, out)  # nodes hold what the last run computed
        assert loss.value == (2.0 * out).sum()
        np.testing.assert_array_equal(x.gradient, wy.grad((products(x, y) * 2.0).sum(), x).forward())
        np.testing.assert_array_equal(products(x, y).forward(), out)


def test_functions_of_jax_run_forward_once_and_have_gradients() -> None:
    jax = pytest.importorskip("jax")
    x, y = wy.Parameter(random(3, 4), name="x"), wy.Parameter(random(4), name="y")
    loss = (products(x, y) ** 2).sum()
    with jax.enable_x64(True):
        function, parameters = wy.jax.lower([loss, wy.grad(loss, x)])
        names = [type(node).__name__ for node in function._schedule.nodes]
        assert [each for each in names if "Kernel" in each] == ["KernelProductsResiduals", "KernelProductsGradient"]
        value, gradient = function(parameters)
        again = jax.grad(lambda given: function(given)[0])(parameters)
        slopes = jax.grad(lambda given: (function(given)[1] ** 2).sum())(parameters)
    np.testing.assert_allclose(value, loss.forward(), rtol=1e-12)
    np.testing.assert_allclose(gradient, wy.grad(loss, x).forward(), rtol=1e-12)
    np.testing.assert_allclose(again["x"], gradient, rtol=1e-12)
    expected = wy.grad((wy.grad(loss, x) ** 2).sum(), y).forward()
    np.testing.assert_allclose(slopes["y"], expected, rtol=1e-11)


def test_residuals_have_the_sizes_of_what_is_recorded() -> None:
    x, y = wy.Parameter(random(3, 4)), wy.Parameter(random(4))
    axes = {"x": (7, 5), "y": (5,)}
    plan = products(x, y).plan.gradient
    kept = {each.name: (each.shape, each.type) for each in plan.residuals(list(axes.values()))}
    assert kept == {"table": ((6,), "f8"), "tape": ((7 * 5,), "f8"), "notes": ((4,), "i")}
    rows = wy.Input(dims=(Batch(), Time()), dtype=np.float64)
    program = wy.compile((products(rows, y) ** 2).sum(), wy.optim.SGD([y], 0.01))
    memory = program.profile({rows: random(8, 4)}, batch_size=4, steps=2, memory=True).memory
    assert memory is not None
    stored = {each.name: each.shape for each in memory.arrays}
    # Four results, a table of five, a tape of sixteen and four notes, each at a multiple of eight elements.
    assert stored["kernel_products_residual"] == (8 + 8 + 16 + 8,)


def test_the_room_of_a_loop_of_unknown_length_is_in_residuals_of_both_types() -> None:
    for dtype in (np.float32, np.float64):
        x, s = wy.Parameter(random(4).astype(dtype)), wy.Parameter(dtype(0.4))
        total, out = grown(x, s)
        loss = total * out.sum()
        outputs = [loss, wy.grad(loss, x), wy.grad(loss, s)]
        for engine in ("native", "jax"):
            for found, expected in zip(
                wy.compile(outputs, engine=engine)(), [x.forward() for x in outputs], strict=True
            ):
                np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype is np.float32 else 1e-12)


def test_numbers_of_other_types_in_residuals_are_not_taken_for_nan() -> None:
    for dtype in (np.float32, np.float64):
        x = wy.Parameter(random(4).astype(dtype))
        gradient = wy.grad(around(x), x)
        assert np.isnan(gradient.parents[-1].forward()).any()  # the bits of -1
        with wy.watch_nan():
            assert np.isfinite(gradient.forward()).all()
        check_grads(around(wy.Parameter(random(4))), engines=["native"])


def test_graphs_with_kernels_and_kernels_are_pickled() -> None:
    x, y = wy.Parameter(random(3, 4)), wy.Parameter(random(4))
    node = products(x, y)
    outputs = [node, wy.grad((node * node).sum(), x)]
    restored = pickle.loads(pickle.dumps(outputs))
    assert type(restored[0]) is type(node)
    for found, expected in zip(wy.compile(restored)(), outputs, strict=True):
        np.testing.assert_array_equal(found, wy.compile([expected])()[0])
    assert pickle.loads(pickle.dumps(products)) is products

    @wy.kernel
    def inside(x):
        return x[0] * x[0]

    with pytest.raises(pickle.PicklingError, match=r"kernel inside cannot be pickled.*at the top of a module"):
        pickle.dumps(inside(y))


def test_all_parts_of_a_listing_have_the_lines_of_the_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    x, s = wy.Parameter(random(4)), wy.Parameter(np.float64(0.4))
    grown(x, s)
    wy.show(grown)
    text = capsys.readouterr().out
    kernel, *parts = text.split("\ndef grown_")
    written = [line.split("  #")[0].strip() for line in kernel.splitlines()[2:] if line]
    assert len(parts) == 2
    for part in parts:
        shown = [line.strip().removeprefix("# ").split("  #")[0] for line in part.splitlines()]
        assert [line for line in written if line not in shown] == []
    lines = text.splitlines()
    # A line that stays as it is stands once.
    assert not any(first.strip() == f"# {then.strip()}" for first, then in pairwise(lines))
    assert "\n\n    # Backward.\n" in text


def test_a_kernel_without_a_source_says_so() -> None:
    scope: dict[str, Any] = {}
    exec("def made(x):\n    return x[0]", scope)  # a function of no file
    kernel = wy.kernel(scope["made"])
    for call in (kernel.listing, lambda: kernel(wy.Parameter(random(2)))):
        with pytest.raises(NotDifferentiable, match="the source of made is not in a file"):
            call()


def test_exports_compute_kernels_and_their_gradients() -> None:
    x = wy.Input(random(3, 4).astype(np.float32), name="x")
    y = wy.Input(random(4).astype(np.float32), name="y")
    node = products(x, y)
    program: Any = wy.compile([node, wy.grad((node * node).sum(), x)])
    check_predictions(loaded(predict=program), program, ["value", "gradient"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["soft_dtw", "mandelbrot", "kalman"])
def test_a_program_of_loops_and_its_gradient_run_in_c_and_in_webassembly(name: str) -> None:
    if name == "soft_dtw":
        x = wy.Input(PROGRAMS[name][1](6)[0].astype(np.float32), name="x")
        loss = wy.kernel(PROGRAMS[name][0])(x, 0.5)
    elif name == "kalman":  # in blocks of turns, with a tape of float32
        x = wy.Input(PROGRAMS[name][1](40)[0].astype(np.float32), name="x")
        loss = wy.kernel(PROGRAMS[name][0], tape_limit=0)(x, 0.5, 0.1, 0.9)
    else:  # with loops of unknown length: notes of integers, and a tape with room
        x = wy.Input(np.linspace(-1.5, 0.5, 6, dtype=np.float32), name="x")
        loss = escaped(x, np.linspace(-1.0, 1.0, 6)).sum()
    program: Any = wy.compile([loss, wy.grad(loss, x)])
    assert ops_of(program)[0].endswith("Residuals")
    check_predictions(loaded(predict=program), program, ["value", "gradient"], rtol=1e-5, atol=1e-6)
    check_predictions(in_wasm(predict=program), program, ["value", "gradient"], rtol=1e-5, atol=1e-6)


SCALE = 2.0


def bent(v: Any) -> Any:
    return v * v


def straight(v: Any) -> Any:
    return v


@wy.kernel
def of_globals(x: Any) -> Any:
    total = 0.0
    for i in range(x.size):
        total += SCALE * bent(x[i])
    return total


def test_a_kernel_reads_global_names_as_they_are_when_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    x = wy.Parameter(np.array([1.0, 2.0, 3.0]))
    first = of_globals(x)
    assert of_globals(x).plan is first.plan
    monkeypatch.setitem(globals(), "SCALE", 10.0)
    assert float(wy.compile(of_globals(x))()) == of_globals(x.value) == 140.0
    monkeypatch.setitem(globals(), "bent", straight)
    assert float(wy.compile(of_globals(x))()) == of_globals(x.value) == 60.0
    np.testing.assert_array_equal(wy.compile(wy.grad(of_globals(x), x))(), [10.0, 10.0, 10.0])
    assert float(wy.compile(first)()) == 28.0  # a node stays what it was


def test_a_call_in_python_without_a_result_says_what_to_give() -> None:
    with pytest.raises(TypeError, match=r"runs in Python and writes to out: give it an array of zeros, as in out=np"):
        products(np.ones((2, 3)), np.ones(3))
    products(np.ones((2, 3)), np.ones(3), out=(out := np.zeros(2)))
    assert (out != 0.0).all()
