"""Machine code by LLVM, through llvmlite."""
