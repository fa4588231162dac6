"""What runs a graph: `numpy` node by node, `llvm` as machine code."""
