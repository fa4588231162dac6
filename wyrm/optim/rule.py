"""An optimizer's update rule as a graph, evaluated with NumPy in place, a block of elements at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wyrm.errors import RegistrationError
from wyrm.graph.axes import Dim
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.node import Node
from wyrm.graph.rows import RowSparse
from wyrm.graph.schedule import Schedule
from wyrm.graph.storage import bound_array
from wyrm.ops.elementwise.formula import MASKS, FormulaCall, array_function, interpret

# Elements per block. Intermediate arrays then stay in cache, and their memory is negligible beside the parameters.
# Measured on Adam with a million elements: blocks of 65536 to 262144 are equally fast, 4096 is half as fast, a single
# block is a third slower, and allocating a new array for every result is 16 times slower.
BLOCK = 65536

_Call = tuple[Callable[..., Any], tuple[int, ...], int]


class Elements(Dim):
    """The elements of a parameter, or of the rows that a gradient touches, flattened."""


def new_values(parameter: Input, state: Mapping[str, Input], update: tuple[Node, Mapping[str, Node]]) -> list[Node]:
    """Return the new parameter and the new state, in the order of `state`, as an optimizer's `update` returns them.

    Raise `RegistrationError` unless it returns the declared state, all in the parameter's dtype.
    """
    value, changed = update
    if changed.keys() != state.keys():
        raise RegistrationError(
            f"an optimizer's update must return the state that initial_state declares, {', '.join(state) or 'none'}; "
            f"it returned {', '.join(changed) or 'none'}"
        )
    outputs = [value, *(changed[name] for name in state)]
    for output in outputs:
        if output.dtype != parameter.dtype:
            raise RegistrationError(
                f"an optimizer's update must keep the dtype {parameter.dtype}, not return {describe(output)}"
            )
    return outputs


class UpdateEvaluator:
    """The graph of an elementwise update, from the parameter, gradient, state and scalars to the new values.

    `parameter`, `gradient` and the values of `state` are inputs of any number of elements, the `hyperparameters` are
    scalar inputs. `outputs` are the new parameter and the new state, in the order of `state`. Every engine runs this
    graph; a call runs it with NumPy. `flushes` says whether denormal state may become zero.

    Raise `RegistrationError` for a rule that is not elementwise, uses leaves other than its arguments and constants,
    or does not return the declared state in the parameter's dtype.
    """

    elementwise = True

    def __init__(
        self,
        parameter: Input,
        gradient: Input,
        state: Mapping[str, Input],
        hyperparameters: Mapping[str, Input],
        update: tuple[Node, Mapping[str, Node]],
        flushes: bool = False,
    ) -> None:
        self.parameter, self.gradient = parameter, gradient
        self.state, self.hyperparameters = dict(state), dict(hyperparameters)
        self.flushes = flushes
        self.outputs = new_values(parameter, state, update)
        self._compile()

    # --- from the graph to calls on numbered slots ----------------------------------------------------------------

    def _compile(self) -> None:
        schedule = Schedule(self.outputs)
        leaves = [self.parameter, self.gradient, *self.state.values(), *self.hyperparameters.values()]
        # The content of each slot; None for arrays that a call passes and for intermediate blocks.
        self._values: list[Any] = [None] * (2 + len(self.state))
        self._values += [np.zeros((), self.parameter.dtype) for _ in self.hyperparameters]
        slot: dict[BaseNode, int] = {leaf: i for i, leaf in enumerate(leaves)}
        self._scalar_calls: list[_Call] = []
        self._calls: list[_Call] = []
        self._masks: set[int] = set()
        for node in schedule.nodes:
            if node in slot:
                continue
            if isinstance(node, Constant) and not node.dims:
                slot[node] = self._constant(bound_array(node))
            elif node.is_leaf or node.formula is None:
                raise RegistrationError(
                    f"an optimizer's rule must be elementwise and use only its arguments and constants; "
                    f"{describe(node)} is not. A rule over whole parameters declares `elementwise = False`"
                )
            else:
                slot[node] = self._formula(node, [slot[parent] for parent in schedule.parents(node)])
        self._assign([slot[output] for output in schedule.outputs])

    def _constant(self, array: np.ndarray) -> int:
        self._values.append(array)
        return len(self._values) - 1

    def _formula(self, node: BaseNode, operands: list[int]) -> int:
        """Append the calls of a node's formula; return the slot of the result."""
        assert node.formula is not None
        number = self.parameter.dtype

        def constant(value: float) -> int:
            return self._constant(np.asarray(value, number))

        def apply(_: int, call: FormulaCall, arguments: list[int]) -> int:
            mask = call.function in MASKS
            # Scalar results are computed once for all blocks, in slots of their own.
            scalar = not node.dims
            result = self._constant(np.zeros((), np.bool_ if mask else number)) if scalar else self._block(mask)
            function = _where if call.function == "where" else array_function(np, call.function)
            (self._scalar_calls if scalar else self._calls).append((function, tuple(arguments), result))
            return result

        return interpret(node.formula, operands, lambda name: constant(getattr(node, name)), constant, apply)

    def _block(self, mask: bool) -> int:
        self._values.append(None)
        if mask:
            self._masks.add(len(self._values) - 1)
        return len(self._values) - 1

    def _assign(self, outputs: list[int]) -> None:
        """Assign each result an array: its target if that is no longer read by then, else a reusable block."""
        last_read = {argument: i for i, call in enumerate(self._calls) for argument in call[1]}
        made_by = {call[2]: i for i, call in enumerate(self._calls)}
        end = len(self._calls)
        targets = [0, *range(2, 2 + len(self.state))]
        home: dict[int, int] = {}
        for target, output in zip(targets, outputs, strict=True):
            unread = target not in outputs and last_read.get(target, -1) <= made_by.get(output, -1)
            if output in made_by and output not in home and unread:
                home[output] = target
        kept = {output for output in outputs if output not in home}
        last_read |= dict.fromkeys(kept, end)
        free: dict[bool, list[int]] = {True: [], False: []}
        self._blocks: list[tuple[int, np.dtype]] = []
        calls = []
        for i, (function, arguments, result) in enumerate(self._calls):
            slots = tuple(home.get(argument, argument) for argument in arguments)
            # Freed before the result is assigned: an elementwise call may overwrite its operand.
            for argument in set(arguments):
                if last_read[argument] == i and argument in made_by and home[argument] not in targets:
                    free[argument in self._masks].append(home[argument])
            if result not in home:
                mask = result in self._masks
                if not free[mask]:
                    self._blocks.append((result, np.dtype(np.bool_) if mask else self.parameter.dtype))
                home[result] = free[mask].pop() if free[mask] else result
            calls.append((function, slots, home[result]))
        self._calls = calls
        self._copies = [
            (target, home.get(output, output))
            for target, output in zip(targets, outputs, strict=True)
            if home.get(output, output) != target
        ]
        self._size = -1
        self._scratch = [np.empty(0, dtype) for _, dtype in self._blocks]

    # --- running --------------------------------------------------------------------------------------------------

    def __call__(
        self,
        parameter: np.ndarray,
        gradient: np.ndarray,
        state: Mapping[str, np.ndarray],
        hyperparameters: Mapping[str, float],
        flush: bool = False,
    ) -> None:
        """Write the new values into `parameter` and the arrays of `state`, which are contiguous.

        With `flush`, denormal state becomes zero where the gradient is zero.
        """
        values, first = self._values, 2 + len(self.state)
        for position, name in enumerate(self.hyperparameters, first):
            values[position][()] = hyperparameters[name]
        for function, arguments, result in self._scalar_calls:
            function(*[values[argument] for argument in arguments], out=values[result])
        flat = [array.reshape(-1) for array in (parameter, gradient, *(state[name] for name in self.state))]
        size = parameter.size
        for start in range(0, size, BLOCK):
            stop = min(start + BLOCK, size)
            self._run(flat if stop - start == size else [array[start:stop] for array in flat])
            if flush:
                no_gradient, limit = flat[1][start:stop] == 0.0, np.finfo(parameter.dtype).tiny
                for array in flat[2:]:
                    block = array[start:stop]
                    np.copyto(block, 0.0, where=no_gradient & (np.abs(block) < limit))

    def move_rows(
        self,
        array: np.ndarray,
        gradient: RowSparse,
        state: Mapping[str, np.ndarray],
        hyperparameters: Mapping[str, float],
    ) -> None:
        """Apply the rule to the rows of the gradient, each of which occurs once: gather, update, scatter."""
        arrays = [array, *(state[name] for name in self.state)]
        stride = max(1, BLOCK * array.shape[0] // max(1, array.size))
        for start in range(0, len(gradient.rows), stride):
            rows = gradient.rows[start : start + stride]
            gathered = [target.take(rows, axis=0) for target in arrays]
            slots = dict(zip(self.state, gathered[1:], strict=True))
            self(gathered[0], gradient.values[start : start + stride], slots, hyperparameters)
            for target, values in zip(arrays, gathered, strict=True):
                target[rows] = values

    def _run(self, arrays: list[np.ndarray]) -> None:
        """Apply the rule to one block."""
        values, size = self._values, len(arrays[0])
        values[: len(arrays)] = arrays
        if size != self._size:  # otherwise the blocks of the last run fit
            for i, (slot, dtype) in enumerate(self._blocks):
                if len(self._scratch[i]) < size:
                    self._scratch[i] = np.empty(size, dtype)
                values[slot] = self._scratch[i][:size]
            self._size = size
        for function, arguments, result in self._calls:
            if len(arguments) == 2:
                function(values[arguments[0]], values[arguments[1]], out=values[result])
            else:
                function(*[values[argument] for argument in arguments], out=values[result])
        if self._copies:
            # Copy all before writing any, since a rule may swap two states.
            copies = [values[result].copy() for _, result in self._copies]
            for (target, _), array in zip(self._copies, copies, strict=True):
                np.copyto(values[target], array)
        values[: len(arrays)] = [None] * len(arrays)  # keep no reference to the caller's arrays


def _where(condition: Any, chosen: Any, other: Any, out: np.ndarray) -> None:
    # np.where allocates a result, since `out` may alias an operand.
    np.copyto(out, np.where(condition, chosen, other))
