"""What was measured: one file for each machine, and the page and the pictures that are drawn from these files alone."""
