"""`scipy.integrate`, of which wyrm has nothing."""


def odeint(*arguments: object, **keywords: object) -> object:
    raise NotImplementedError("an integrator of differential equations")
