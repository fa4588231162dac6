"""The run of native programs: steps, epochs, threads and the arrays that they use."""
