"""`python -m wyrm.declare`."""

from wyrm.declare import write

write()
