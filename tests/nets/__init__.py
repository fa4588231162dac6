"""What a change that moves code must leave as it is: `python -m tests.nets FOLDER` writes it down, for `diff -r`."""
