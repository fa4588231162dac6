"""autograd's names, on wyrm."""

from wyrm.graph.node import Node

from .builtins import dict, isinstance, list, tuple
from .differential_operators import (
    checkpoint,
    deriv,
    elementwise_grad,
    grad,
    grad_and_aux,
    hessian,
    hessian_tensor_product,
    hessian_vector_product,
    holomorphic_grad,
    jacobian,
    make_ggnvp,
    make_hvp,
    make_jvp,
    make_vjp,
    tensor_jacobian_product,
    value_and_grad,
    vector_jacobian_product,
)  # fmt: skip

# autograd computes as it traces, so that its tests branch on values.
Node.__bool__ = lambda node: bool(node.forward())  # type: ignore[method-assign,assignment]  # as above
Node.__float__ = lambda node: float(node.forward())  # type: ignore[method-assign]  # as above
