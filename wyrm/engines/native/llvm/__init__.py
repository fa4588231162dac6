"""The LLVM backend: it compiles loop programs to machine code with llvmlite."""
