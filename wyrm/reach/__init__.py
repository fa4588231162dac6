"""Proofs of what can reach what: which positions of an input an element may depend on, known before anything runs.

`zones` has the arithmetic of positions, `rules` what an op may say of itself, `facts` what is known of each node of a
graph, `reading` what index maps say, and `claims` the claims that `wyrm.prove` proves.

>>> class Time(wy.Dim): ...
>>> x = wy.Input(dims=(Time(),))
>>> wy.prove(x.cumsum()).causal(Time).dims == x.dims
True
"""

from wyrm.reach.rules import KEPT, Along, Leading, Reach, Reached, SamePlace, Windowed

__all__ = ["KEPT", "Along", "Leading", "Reach", "Reached", "SamePlace", "Windowed"]
