"""The engines that run graphs, and what they share: data, order of rows, positions in an epoch, progress."""
