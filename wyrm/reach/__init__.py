"""Proofs of what can reach what: which positions of an input an element may depend on, known before anything runs.

`wyrm.prove` is in `claims`, and the message of a claim that is not proved in `refusals`. A proof asks an analysis:
`facts` finds for each node on which positions of the inputs its elements may depend, `axis` whether they depend on the
size of an axis, `symmetry` whether they depend on the order along it.

An analysis goes through a graph node by node. `rules` has what an op may say of itself, `ways` how its axes
meet. For other ops, `formulas` reads elementwise formulas, `reading` index maps and reshapes, `relations`
finds once for all uses what a composition depends on, and `constants` finds what arrays such as masks hold. `zones` has
the arithmetic of positions: conjunctions of bounds `u - v <= c`.

>>> class Time(wy.Dim): ...
>>> x = wy.Input(dims=(Time(),))
>>> wy.prove(x.cumsum()).causal(Time).dims == x.dims
True
"""

from wyrm.reach.rules import KEPT, Along, Leading, Reach, Reached, SamePlace, Windowed
from wyrm.reach.ways import How, Way, ways_by

__all__ = ["KEPT", "Along", "How", "Leading", "Reach", "Reached", "SamePlace", "Way", "Windowed", "ways_by"]
