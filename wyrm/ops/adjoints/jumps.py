"""What rounding may change by a jump: conditions and integers that a kernel computes from floats.

The backward sweep computes values again. A compiler may round them in another way than those of the forward sweep, as
where it contracts a multiplication and an addition. Floats then differ in the last digits, but a condition may turn
from true to false. So the tape keeps such values.
"""

from __future__ import annotations

import ast

from wyrm.ops.adjoints.program import base, indices
from wyrm.ops.adjoints.rules import converts, formula_name, function_of, is_passive, slopes_of
from wyrm.ops.adjoints.values import Kernel

# Functions of floats that are exact, and so are alike wherever they are computed.
_EXACT = frozenset(["abs", "maximum", "minimum", "negative"])
# Functions that jump, beside those whose derivative is zero.
_JUMPING = frozenset(["copysign", "floor_divide", "fmod", "remainder"])


class Jumps:
    """The values of a kernel that jump.

    Elements of arrays that the kernel does not write, and numbers among its arguments, are the same in both sweeps.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._written = kernel.written()

    def jumps(self, e: ast.expr) -> bool:
        """Return whether an expression jumps itself, and reads floats that may be rounded in another way."""
        match e:
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return self.is_rounded(e)
            case ast.BinOp(left=left, op=ast.FloorDiv() | ast.Mod(), right=right):
                return self.is_rounded(left) or self.is_rounded(right)
            case ast.Call(args=given):
                function = function_of(e, self.kernel.space)
                jumping = is_passive(function) or slopes_of(function) or formula_name(function) in _JUMPING
                return bool(jumping) and any(map(self.is_rounded, given))
        return False

    def is_kept(self, text: str) -> bool:
        """Return whether a variable with one assignment has a value that is not computed again."""
        value = self.kernel.definitions[text].value
        return self.jumps(value) if self.kernel.kinds[text].is_float else self.is_rounded(value)

    def is_rounded(self, e: ast.expr) -> bool:
        """Return whether an expression reads floats that may be rounded in another way when they are computed again."""
        match e:
            case ast.Constant() | ast.Attribute():
                return False
            case ast.Name(id=text):
                return self._is_rounded_name(text)
            case ast.Subscript():
                if isinstance(e.value, ast.Attribute):
                    return False
                root = self.kernel.root(base(e))
                overwritten = self.kernel.kinds[root].is_float and root in self._written
                return overwritten or any(map(self.is_rounded, indices(e)))
            case ast.BinOp() if self.kernel.kind(e).is_float:
                return True
            case ast.Call(args=given):
                function = function_of(e, self.kernel.space)
                exact = is_passive(function) or converts(function) or formula_name(function) in _EXACT
                return not exact or any(map(self.is_rounded, given))
        return any(self.is_rounded(each) for each in ast.iter_child_nodes(e) if isinstance(each, ast.expr))

    def _is_rounded_name(self, text: str) -> bool:
        kind = self.kernel.kinds.get(text)
        if kind is None or not kind.is_float or kind.is_array or text in self.kernel.parameters:
            return False
        let = self.kernel.definitions.get(text)
        return let is None or self.is_rounded(let.value)
