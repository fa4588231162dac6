"""`check_op`: all rules of an op, compared with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wyrm.errors import WyrmError
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.loop_form import LOOPS
from wyrm.ops.gradients.reverse import pull_back, with_sizes
from wyrm.ops.random.philox import at_step
from wyrm.testing.engines import (
    FLOAT_TYPES,
    Alone,
    Task,
    alone,
    alone_tasks,
    computed,
    differences,
    foreign,
    installed_engines,
    leaf_like,
    on_operands,
    reference,
)
from wyrm.testing.gradients import GradientError, check_grads
from wyrm.testing.rules import (
    Finding,
    gradient_rule,
    in_both_types,
    meaning,
    of_copies,
    of_decomposition,
    of_meaning,
    of_reach,
    of_rebuilt,
    of_rows,
    of_vmap,
    raised,
    smooth,
    weights_like,
)


class OpError(WyrmError, AssertionError):
    """An op with rules that are wrong; `findings` has each rule, the engine that uses it, and what it does."""

    def __init__(self, message: str, findings: Sequence[Finding] = ()) -> None:
        super().__init__(message)
        self.findings: tuple[Finding, ...] = tuple(findings)


def check_op(
    node: BaseNode | Sequence[BaseNode],
    *,
    expected: object = None,
    order: int = 2,
    engines: Sequence[str] | None = None,
    seed: int = 0,
) -> None:
    """Check every rule of the op of a node, on the values of its operands; raise `OpError` that names what is wrong.

    An op says the same thing several times: what it computes in NumPy (`formula` or `evaluate`), in native code (the
    members of its `LoopForm`, such as `kernel`) and in JAX (`JaxForm.lower`); its gradient (`vjp`); how it computes a
    batch (`batched`, for `vmap`), how rows of data combine and what its elements do not depend on (`REACH`).
    These are compared:

    - values of the reference engine and of `engines` (native, and JAX where it is installed, by default), in each of
      float32 and float64 that the op takes, and the gradients and the ops in them;
    - the value in NumPy with `expected`, if it is given, and that `evaluate` leaves its operands alone;
    - gradients with finite differences, for derivatives up to `order`; 0 leaves them out, as for an op whose gradient
      is not that of its value;
    - the op under `vmap` with the op on each row, parts of the rows with all of them, and copies and pickles with it;
    - the value with that for other operands, where `wy.prove` takes an element not to depend on what changes.

    The error has a line for each wrong rule. Of two rules that differ, the wrong one is that which neither `expected`
    nor a third rule (the other engine, or the gradient) agrees with; if nothing decides, the line names both.

    Several nodes share programs, which is faster than a call for each; `expected` is then a sequence too. Random
    numbers are those of step 0.

    Raise `TypeError` for anything but nodes, and what computing the operands raises, such as `NotSet`.

    >>> class Doubled(wy.Unary):
    ...     def evaluate(self, xp, x, *, shape):
    ...         return x * 2.0
    ...     def vjp(self, gradient):
    ...         return (gradient * 3.0,)
    >>> try:
    ...     wy.testing.check_op(Doubled(wy.Parameter([1.0, 2.0])), engines=())
    ... except wy.testing.OpError as error:
    ...     error.findings[0].rule, error.findings[0].engine
    ('Doubled.vjp', 'reference')
    """
    nodes: list[Any] = [node] if isinstance(node, BaseNode) else list(node)
    for each in nodes:
        if not isinstance(each, BaseNode):
            raise TypeError(f"check_op takes a node, not {type(each).__name__}: build it first, as in MyOp(x)")
        if each.is_leaf:
            raise TypeError(f"check_op takes a node of an op, and {describe(each)} is a leaf: build one, as in MyOp(x)")
    several: Any = expected  # a sequence of a value for each node, unless there is one node
    values = [expected] if isinstance(node, BaseNode) or expected is None else list(several)
    values = values if len(values) == len(nodes) else [None] * len(nodes)
    chosen = installed_engines() if engines is None else list(engines)
    with at_step(0):
        subjects = [_Subject(each, value, order, seed) for each, value in zip(nodes, values, strict=True)]
        for subject in subjects if chosen else []:
            subject.add_tasks(order)
        for engine in chosen:
            _compare(subjects, engine)
    wrong = [(subject.node, finding) for subject in subjects for finding in subject.findings]
    if wrong:
        lines = [f"{describe(each)}:\n  {finding}" for each, finding in wrong]
        raise OpError("\n".join(lines), [finding for _, finding in wrong])


class _Subject:
    """A node to check, with what is wrong with it in NumPy, and what other engines are to compute."""

    def __init__(self, node: BaseNode, expected: object, order: int, seed: int) -> None:
        self.node, self.expected, self.seed = node, expected, seed
        self.findings: list[Finding] = []
        self.tasks: list[Task] = []
        self.made: list[Alone] = []
        self.gradient_wrong = False
        self.findings += of_rebuilt(node)
        made, found = in_both_types(node) if not self.findings else ([], [])
        self.findings += found
        if not made:
            return
        self.made, self.exact = made, made[0]
        self.findings += of_meaning(self.exact, expected)
        self.meaning_right = expected is not None and not self.findings
        self.findings += of_decomposition(self.exact)
        self.findings += of_copies(self.exact)
        self.findings += self._of_gradients(order)
        self.findings += of_vmap(self.exact)
        self.findings += of_rows(self.exact)
        self.findings += of_reach(self.exact)

    def add_tasks(self, order: int) -> None:
        """Add what engines are to compute."""
        for each in self.made:
            self.tasks += self._tasks(each, order)

    def _of_gradients(self, order: int) -> list[Finding]:
        """Compare gradients with finite differences, in float64."""
        node: Any = self.exact.node
        rule = gradient_rule(node)
        try:
            leaves = [leaf for leaf in smooth(self.exact) if leaf.dtype == np.float64] if order else []
            if leaves:
                check_grads(node, leaves, order=order, engines=(), seed=self.seed)
        except Exception as error:
            self.gradient_wrong = True
            finding = _of_error(rule, error)
            if "gradient of order 1 " in finding.text or not isinstance(error, GradientError):
                return [finding]
            found = [self._wrong_in_gradient(each) for each in alone(foreign(self._gradients_of_op(self.exact)))]
            named = [other for other in found if other is not None and other.rule != rule]
            return named or [finding]
        return []

    def _wrong_in_gradient(self, each: Alone) -> Finding | None:
        """Return what is wrong with the gradient of an op in the gradient."""
        node: Any = each.node
        try:
            leaves = smooth(each)
            if leaves:
                check_grads(node, leaves, order=1, engines=(), seed=self.seed)
        except Exception as error:
            return _of_error(gradient_rule(node), error)
        return None

    def _gradients_of_op(self, each: Alone) -> list[Any]:
        """Return the gradients of the op with respect to its float operands, weighted by random numbers."""
        node: Any = each.node
        leaves = smooth(each)
        if not leaves:
            return []
        weights = weights_like(reference([node]), [node], self.seed)
        found = pull_back([node], weights, leaves)
        return with_sizes([gradient for gradient in found if gradient is not None], [node])

    def _tasks(self, each: Alone, order: int) -> list[Task]:
        """Return what engines are to compute for the op in one float type."""
        node, data = each.node, each.data
        (value,) = reference([node])
        tasks = [Task(self.node, node, node, data, value)]
        other = _moved(each, self.seed)
        if other is not None:
            elsewhere = _on(each, other[0])
            tasks.append(Task(self.node, elsewhere.node, elsewhere.node, elsewhere.data, other[1]))
        form = LOOPS.of(node)
        name = type(form).__name__
        if form.adding_kernel is not None and value.dtype.kind == "f":
            # On leaves of its own: the value is added in place only if nothing else reads it.
            own = _on(each, data)
            more = leaf_like(node.dims, np.cos(np.arange(value.size)).reshape(value.shape).astype(value.dtype))
            total: Any = more.tanh() + own.node
            given = {**own.data, more: more.value}
            tasks.append(Task(self.node, node, total, given, reference([total])[0], f"{name}.adding_kernel"))
        if self.gradient_wrong or not order:
            return tasks
        gradients = self._gradients_of_op(each)
        if gradients:
            tasks += [task for task in alone_tasks(foreign(gradients)) if type(task.op) is not type(node)]
            arrays = reference(gradients)
            tasks += [
                Task(self.node, node, gradient, data, array, gradient_rule(node))
                for gradient, array in zip(gradients, arrays, strict=True)
            ]
        return tasks


def _of_error(rule: str, error: Exception) -> Finding:
    """Return an error of `check_grads` as a finding."""
    known = isinstance(error, GradientError)
    return Finding(rule, "reference", str(error).partition(": ")[2] if known else raised(error))


def _moved(each: Alone, seed: int) -> tuple[dict[BaseNode, np.ndarray], np.ndarray] | None:
    """Return other operands, and the value there, for an op whose rules may agree by chance: at 0, or at equal numbers.

    None for one whose operands need no change, or that refuses other ones.
    """
    data = each.data
    floats = [data[leaf] for leaf in each.floats if data[leaf].size]
    plain = [x for x in floats if np.all(x == x.flat[0]) or np.abs(x).max() < 1e-3]
    twins = any(np.array_equal(x, y) for i, x in enumerate(floats) for y in floats[:i])
    if not plain and not twins:
        return None
    random = np.random.default_rng(seed)
    for leaf in each.floats:
        x = data[leaf]
        data[leaf] = (x * (1.0 + 0.01 * random.random(x.shape)) + 0.01 * random.random(x.shape)).astype(x.dtype)
    try:
        value = each.at(data)
    except Exception:
        return None
    return (data, value) if value.dtype.kind != "f" or np.isfinite(value).all() else None


def _on(each: Alone, data: Mapping[BaseNode, np.ndarray]) -> Alone:
    """Return the op on leaves of its own that hold other arrays."""
    leaves = {leaf: leaf_like(leaf.dims, data[leaf]) for leaf in each.leaves}
    return on_operands(each.original, each.node, [leaves.get(parent) for parent in each.node.parents])


def _compare(subjects: Sequence[_Subject], engine: str) -> None:
    """Add to the findings what an engine computes in another way."""
    owner = {id(task): subject for subject in subjects for task in subject.tasks}
    tasks = [task for subject in subjects for task in subject.tasks]
    told: set[tuple[int, str]] = set()
    for task, found, expected, error in differences(tasks, engine):
        subject, rule = owner[id(task)], task.by(engine)
        # Engines share a form's rule, which one finding names; each computes a formula in its own way.
        shared = rule != meaning(task.op)
        known = any(each.rule == rule and (shared or each.engine == engine) for each in subject.findings)
        if known or (id(subject), rule) in told:  # in the other float type, or at another point
            continue
        told.add((id(subject), rule))
        finding = _judged(subject, task, engine, rule, found, expected, error)
        subject.findings.append(finding)


def _judged(
    subject: _Subject, task: Task, engine: str, rule: str, found: str, expected: str, error: Exception | None
) -> Finding:
    """Return which of two rules is wrong: that of the engine, or the meaning of the op."""
    if error is not None:
        return Finding(rule, engine, raised(error))
    own, dtype = meaning(task.op), task.expected.dtype
    both = f"computes {found}, and {own} {expected}, in {dtype}"
    if task.node is not task.op or task.op is not subject.exact.node or rule == own:
        return Finding(rule, engine, both)
    verdict = None if subject.meaning_right else _verdict(subject, engine)
    if subject.meaning_right or verdict is False:
        return Finding(rule, engine, both)
    if verdict is None and subject.gradient_wrong:
        return Finding(f"{rule} or {own}", engine, f"{both}; `expected=` decides")
    if verdict is None:
        return Finding(rule, engine, both)
    subject.findings = [finding for finding in subject.findings if finding.rule != gradient_rule(task.op)]
    return Finding(own, "reference", f"computes {expected}, and {rule} {found}, with which the gradient agrees")


def _verdict(subject: _Subject, engine: str) -> bool | None:
    """Return whether an engine is right and the reference engine wrong, by the gradient; None if nothing decides."""
    if not subject.gradient_wrong:
        return False
    each = subject.exact
    node: Any = each.node
    leaves = [leaf for leaf in each.floats if leaf.dtype == FLOAT_TYPES[0]]
    if not leaves or node.dtype != FLOAT_TYPES[0]:
        return None
    try:
        weights = weights_like(reference([node]), [node], subject.seed)
        gradients = reference([g for g in pull_back([node], weights, leaves) if g is not None])
        directions = {leaf: np.cos(1.0 + np.arange(leaf.value.size)).reshape(leaf.value.shape) for leaf in leaves}
        slope = sum(float(np.sum(g * directions[x])) for g, x in zip(gradients, leaves, strict=True))

        def number(distance: float) -> float:
            data = each.data
            for leaf, direction in directions.items():
                data[leaf] = data[leaf] + distance * direction
            (value,) = computed([node], data, engine)
            return float(np.sum(value * weights[0].value))

        measured = (number(1e-5) - number(-1e-5)) / 2e-5
    except Exception:
        return None
    return True if abs(measured - slope) <= 1e-5 * max(1.0, abs(slope)) else None
