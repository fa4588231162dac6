import wyrm as wy


class Batch(wy.Dim): ...


class Pixels(wy.Dim): ...


class Hidden(wy.Dim): ...


class Classes(wy.Dim): ...


class Classifier(wy.nn.Module):
    def __init__(self, pixels: Pixels, hidden: Hidden, classes: Classes) -> None:
        self.hidden = wy.nn.Linear(pixels, hidden)
        self.output = wy.nn.Linear(hidden, classes)

    def __call__(self, x: wy.Tensor[Batch, Pixels]) -> wy.Tensor[Batch, Classes]:
        return self.hidden(self.output(x).relu())
