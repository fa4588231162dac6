"""The XLA backend: a graph lowered to a function of JAX arrays, which runs on CPU, GPU and TPU."""
