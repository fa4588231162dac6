"""The native engine: a schedule as generated source that becomes machine code.

`lower` puts nodes into loops, `kernels` and `updates` write them as text, `source` joins them to a program, `binding`
gives them arrays, `library` compiles them or finds them compiled, `training` runs them over data.
"""
