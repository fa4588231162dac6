"""What a loop's results depend on: the least zones of its carries that a step maps to themselves."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wyrm.reach.rules import Reach, Reached, own_names
from wyrm.reach.ways import How, Way, nothing_said
from wyrm.reach.zones import ZERO, Bound, Bounds, Multiple, Variable, Zone, size_of

if TYPE_CHECKING:
    from wyrm.reach.facts import Analysis

# After so many turns, bounds that still change are given up; some turns later all of them.
_WIDENS, _GIVES_UP = 2, 8


class ScanReach(Reach):
    """The rule of `Scan`: the residuals are one flat array, so that only what is known of their parts is of use."""

    def help(self, node: Any) -> str:
        return "what a loop ends with depends on all steps: read its stacked results, of which each step has its own"

    def reached(self, node: Any, operands: Sequence[Reached], analysis: Analysis) -> Reached:
        loop = _Loop(node, operands, analysis)
        loop.run()
        found = analysis.nothing(node)
        found.parts, found.after = loop.parts()
        found.zones = [zone for part in found.parts for zone in analysis.image(node, part.zones, {})]
        return found


class _Loop:
    """A loop, with the atom of its steps and what is known of the inputs of its body at each step."""

    def __init__(self, node: Any, operands: Sequence[Reached], analysis: Analysis) -> None:
        steps = node.steps
        self.node, self.steps, self.analysis = node, steps, analysis
        self.limit, operands = operands[: steps.limited], operands[steps.limited :]
        carried, end = steps.carried, steps.carried + steps.sequences
        self.initial = operands[:carried]
        entries = [each.axes[0] for each in operands[carried:end]]
        signs = {1 if entry[0] > 0 else -1 for entry in entries if len(entry) == 1}
        self.sign: int = signs.pop() if len(signs) == 1 else 1
        self.step: int = analysis.fresh(size_of(steps.time))
        # In terms of this atom, a step reads what the one before it wrote.
        self.ahead: int = -self.sign if steps.reverse else self.sign
        self.around, analysis.kept = analysis.kept, analysis.kept | {self.step}
        self.given: dict[Any, Reached] = {}
        for k, (placeholder, operand) in enumerate(zip(steps.body.inputs, operands, strict=True)):
            if k < carried:
                operand = Reached(operand.axes, operand.zones)
            elif k < end:
                operand = self._row(operand)
            self.given[placeholder] = operand

    def _row(self, sequence: Reached) -> Reached:
        """Return what is known of the row of a sequence that a step reads."""
        entry, *axes = sequence.axes
        names = own_names(axes)
        if len(entry) == 1 and (entry[0] > 0) == (self.sign > 0):
            names[abs(entry[0])] = self.step
        return self.analysis.moved(self.node, sequence, names, axes=axes)

    def run(self) -> None:
        """Find zones of the carries before each step that a step maps into themselves."""
        analysis, inputs = self.analysis, self.steps.body.inputs[: self.steps.carried]
        around = analysis.known
        try:
            for turn in itertools.count():
                analysis.known = {**around, **self.given}
                for inner in self.steps.body.order:
                    if not inner.is_leaf:
                        analysis.known.pop(inner, None)
                analysis.run(self.steps.body.outputs)
                self.outputs: list[Reached] = [analysis.known[each] for each in self.steps.body.outputs]
                changes = [self._grows(each, out, turn) for each, out in zip(inputs, self.outputs, strict=False)]
                if not any(changes):
                    break
        finally:
            analysis.known, analysis.kept = around, self.around

    def _grows(self, carry: Any, out: Reached, turn: int) -> bool:
        """Add the zones of a carry after a step to those before the next one; return whether that changes them."""
        analysis, now = self.analysis, self.given[carry]
        axes, (own, others) = analysis.joined([now, out], [now.axes, out.axes], len(now.axes))
        before = analysis.image(self.node, now.zones, own)
        after = [
            Zone(self._shifted(zone.bounds), zone.node, zone.origin, zone.mask)
            for zone in analysis.image(self.node, out.zones, others)
        ]
        zones = analysis.united([*before, *after])
        if all(any(analysis.inside(zone, other) for other in before) for zone in zones):
            return False
        if turn >= _WIDENS:
            whole = analysis.hull(zones)
            old = analysis.hull(before).bounds if before else {}
            kept = {key: limit for key, limit in whole.bounds.items() if old.get(key) == limit}
            zones = [Zone(kept if turn < _GIVES_UP else {}, whole.node, whole.origin, whole.mask)]
        self.given[carry] = Reached(axes, zones)
        return True

    def _shifted(self, bounds: Bounds) -> Bounds:
        """Return bounds of a step in terms of the next one."""

        def steps_in(variable: Variable) -> int:
            if type(variable) is Multiple:
                return variable[1] if variable[0] == self.step else 0
            return int(variable == self.step)

        return {(u, v): limit + self.ahead * (steps_in(u) - steps_in(v)) for (u, v), limit in bounds.items()}

    def parts(self) -> tuple[list[Reached], list[Reached]]:
        """Return what is known of the parts of the residuals, and of the carries after each step."""
        analysis, steps, node = self.analysis, self.steps, self.node
        outputs = list(self.outputs)
        until = [zone for each in self.limit for zone in analysis.image(node, each.zones, {})]
        if steps.stops:
            until += analysis.image(node, outputs.pop().zones, {})
        carries = [self.given[each] for each in steps.body.inputs[: steps.carried]]
        found: list[Reached] = []
        for k, out in enumerate(outputs):
            if k < steps.carried:
                pair = [self._stacked(carries[k]), self._last(out, carries[k], self.initial[k])]
                found += reversed(pair) if steps.reverse else pair
            elif k < len(outputs) - steps.summed:
                found.append(self._stacked(out))
            else:
                found.append(Reached(out.axes, analysis.image(node, out.zones, out.atoms)))
        if steps.stops:
            found.append(Reached(()))
        for part in found:
            part.zones = [*part.zones, *until]
        return found, [self._stacked(out, until) for out in outputs[: steps.carried]]

    def _stacked(self, row: Reached, until: Sequence[Zone] = ()) -> Reached:
        return Reached(((self.step * self.sign,), *row.axes), [*row.zones, *until])

    def _last(self, out: Reached, carry: Reached, initial: Reached) -> Reached:
        """Return what is known of a carry after the last step; there may be none."""
        analysis, node = self.analysis, self.node
        variable, number = analysis.sizes[self.step]
        last: list[Bound] = [(self.step, variable, number - 1), (variable, self.step, 1 - number)]
        if self.ahead < 0:
            last = [(self.step, ZERO, 0)]
        if self.limit or self.steps.stops:
            last = []
        axes, names = analysis.joined([out, carry, initial], [out.axes, carry.axes, initial.axes], len(out.axes))
        step = {self.step: self.step}
        zones = analysis.image(node, out.zones, {**names[0], **step}, last, [self.step])
        if not last:
            zones += analysis.image(node, carry.zones, {**names[1], **step}, last, [self.step])
        return Reached(axes, zones + analysis.image(node, initial.zones, names[2]))


class ScanPartReach(Reach):
    """The rule of `ScanPart`."""

    def ways(self, node: Any) -> list[Way]:
        steps = getattr(node.parents[0], "steps", None)
        if steps is None:
            return nothing_said(node)
        # What is stacked has the axis of the steps; a carry after the last step and a sum have not.
        stacked = not steps.reverse and bool(node.dims) and node.dims[0] == steps.time
        return [Way(How.COUNTED if stacked else How.ANY, (steps.time,))]

    def reached(self, node: Any, operands: Sequence[Reached], analysis: Analysis) -> Reached | None:
        (whole,), steps = operands, getattr(node.parents[0], "steps", None)
        if steps is None or not whole.parts:
            return None
        places = [(tuple(steps.place_of(k)), axes, whole.parts[k]) for k, axes in enumerate(steps.axes)]
        places += [(tuple(steps.place_after(k)), None, part) for k, part in enumerate(whole.after)]
        for place, axes, part in places:
            if tuple(node.start) == place and axes in (None, node.to) and len(part.axes) == node.ndim:
                return part.replaced(zones=[Zone(zone.bounds, node, zone) for zone in part.zones])
        return None
