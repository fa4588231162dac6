"""A deprecated name."""

from __future__ import annotations

from typing import Any

from .test_util import check_grads


def quick_grad_check(function: Any, x: Any, extra: tuple[Any, ...] = (), **keywords: Any) -> None:
    check_grads(lambda x: function(x, *extra), modes=["rev"])(x)
