"""What the kernels of ops share: sums, scratch memory, LAPACK, and loops of JAX."""
