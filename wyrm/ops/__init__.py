"""Operations on nodes: one class per op, one folder per family of ops.

`import wyrm` imports these modules; the others are imported when a method or a function of theirs is first used.
"""

import wyrm.ops.cross_entropy.softmax
import wyrm.ops.elementwise.activation
import wyrm.ops.elementwise.arithmetic
import wyrm.ops.elementwise.comparison
import wyrm.ops.elementwise.exponential
import wyrm.ops.indexing.index
import wyrm.ops.indexing.joining
import wyrm.ops.indexing.slicing
import wyrm.ops.normalization.normalization
import wyrm.ops.products.embed
import wyrm.ops.products.linear_gelu
import wyrm.ops.products.loops
import wyrm.ops.random.dropout
import wyrm.ops.reducing.reduction
import wyrm.ops.shaping.expanding
import wyrm.ops.shaping.shape
import wyrm.ops.shaping.transpose  # noqa: F401  # all of these register their ops
