"""Gradients, which are graphs like any other."""

from wyrm.ops.gradients.reverse import grad, jvp, pull_back, value_and_grad, vjp

__all__ = ["grad", "jvp", "pull_back", "value_and_grad", "vjp"]
