"""The engines that run graphs: `numpy` evaluates node by node, `llvm` compiles to machine code."""
