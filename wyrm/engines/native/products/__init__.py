"""Products of matrices: a block of the result in registers, written as LLVM for the vectors of a processor."""
