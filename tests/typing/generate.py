"""Long programs, on which checking takes time that grows linearly; the benchmark of typing runs them."""

from __future__ import annotations

_PREAMBLE = """import wyrm as wy


class Batch(wy.Dim): ...


class Hidden(wy.Dim): ...


x = wy.Input(dims=(Batch(), Hidden(8)))
w = wy.Parameter.zeros((Hidden(8), Hidden(8)))
scale = wy.Parameter(1.0)
"""


def programs() -> dict[str, str]:
    """A chain of 300 operators, 100 residual blocks written out, 200 doublings and a formula of Horner's, by name."""
    chain = ["h0 = x + x", *(f"h{i + 1} = h{i} {'+-*/'[i % 4]} x" for i in range(300))]
    residual = [
        "h0: wy.Tensor[Batch, Hidden] = x",
        *(f"h{i + 1} = h{i} + (h{i} @ w).tanh() * h{i}" for i in range(100)),
    ]
    doublings = ["h0 = x + x", *(f"h{i + 1} = h{i} + h{i}" for i in range(200))]
    nested = ["h0: wy.Tensor[Batch, Hidden] = " + "scale + x * (" * 12 + "scale" + ")" * 12]
    bodies = {
        "chain of 300 operators": chain,
        "100 residual blocks": residual,
        "200 doublings": doublings,
        "12 operands in each other": nested,
    }
    return {name: _PREAMBLE + "\n".join(lines) + "\n" for name, lines in bodies.items()}
