"""Values and gradients of graphs in the reference engine, in native programs, and in programs of engine `jax`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import wyrm as wy
from tests.ops.test_ops_every import projected


def with_gradients(named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the nodes, and the gradients of a projection of each with respect to its parameters."""
    outputs: dict[str, Any] = {}
    for name, node in named.items():
        outputs[name] = node
        parameters = node.parameters() if node.dtype.kind == "f" else []
        if parameters:
            for parameter, gradient in zip(parameters, wy.grad(projected(node), parameters), strict=True):
                outputs[f"{name}, gradient of {parameter.name or parameter.shape}"] = gradient
    return outputs


def assert_parity(named: Mapping[str, Any], tolerance: float) -> None:
    """Assert that the engines agree on the nodes and their gradients.

    The tolerance is relative, and for an array with elements above 1 relative to the largest one.
    """
    outputs = with_gradients(named)
    nodes = list(outputs.values())
    wy.random.set_step(0)
    expected = wy.run(nodes)
    for engine in ("native", "jax"):
        options: Any = {"engine": engine}
        found = wy.compile(nodes, **options)()
        for name, have, want in zip(outputs, found, expected, strict=True):
            assert have.dtype == want.dtype, f"{engine}: {name}"
            scale = max(1.0, float(np.abs(want).max(initial=0.0)))
            message = f"{engine}: {name}"
            np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance * scale, err_msg=message)
