"""From functions in a subset of Python to loop programs: types are found, arrays become pointers, sizes and steps."""
