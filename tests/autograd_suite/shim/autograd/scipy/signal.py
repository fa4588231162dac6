"""`scipy.signal`, of which wyrm has nothing."""


def convolve(*arguments: object, **keywords: object) -> object:
    raise NotImplementedError("convolution over chosen axes")
