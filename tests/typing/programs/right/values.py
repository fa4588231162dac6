# fmt: off
#@ list_filled_in_a_loop
steps: list[wy.Tensor[Batch, In]] = []
for _ in range(3):
    steps.append(x)
r: wy.Tensor[Batch, Any, In] = wy.stack(steps, axis=1)
#@ list_filled_by_insert_and_extend
sizes = [2]
sizes.insert(0, 3)
sizes.extend([7])
wy.nn.Linear(sizes[0], sizes[2])(wy.Input(dims=(4, 3)))
#@ list_that_grows_by_itself
sizes = [2]
sizes += [3]
wy.nn.Linear(sizes[-1], 2)(wy.Input(dims=(4, 3)))
#@ element_that_is_replaced
sizes = [2, 2]
sizes[0] = 3
wy.nn.Linear(sizes[0], 2)(wy.Input(dims=(4, 3)))
#@ element_that_is_deleted
sizes = [2, 3]
del sizes[0]
wy.nn.Linear(sizes[0], 2)(wy.Input(dims=(4, 3)))
#@ list_of_two_names
sizes = [2]
others = sizes
others[0] = 3
wy.nn.Linear(sizes[0], 2)(wy.Input(dims=(4, 3)))
#@ list_within_a_tuple
pair = [2], 5
pair[0][0] = 3
wy.nn.Linear(pair[0][0], 2)(wy.Input(dims=(4, 3)))
#@ list_that_a_function_fills
def fill(steps: list[wy.Tensor[Batch, In]]) -> None:
    steps.append(x)
steps: list[wy.Tensor[Batch, In]] = []
fill(steps)
r: wy.Tensor[Batch, Any, In] = wy.stack(steps, axis=1)
#@ number_that_a_condition_assigns
size = 2
if (size := 3) > 2:
    wy.nn.Linear(size, 2)(wy.Input(dims=(4, 3)))
#@ number_that_an_inner_function_assigns
def made() -> wy.Node:
    size = 2
    def change() -> None:
        nonlocal size
        size = 3
    change()
    return wy.nn.Linear(size, 2)(wy.Input(dims=(4, 3)))
made()
#@ number_of_one_branch
def made(wide: bool) -> wy.Node:
    size = 3
    if wide:
        size = 2
    return wy.nn.Linear(size, 2)(wy.Input(dims=(4, 3)))
made(False)
#@ number_of_a_default
def made(size: int = 2) -> wy.Node:
    return wy.nn.Linear(size, 2)(wy.Input(dims=(4, 3)))
made(3)
#@ number_of_a_pattern
size = 2
match numbers(3).shape:
    case (int() as size,):
        wy.nn.Linear(size, 2)(wy.Input(dims=(4, 3)))
    case _:
        pass
#@ field_of_a_dataclass
from dataclasses import dataclass
@dataclass
class Config:
    width: int = 64
    def made(self) -> wy.Node:
        return wy.nn.Linear(self.width, 10)(wy.Input(dims=(4, 32)))
Config(32).made()
#@ final_field_of_a_dataclass
from dataclasses import dataclass
from typing import Final
@dataclass
class Config:
    width: Final[int] = 64
    def made(self) -> wy.Node:
        return wy.nn.Linear(self.width, 10)(wy.Input(dims=(4, 32)))
Config(32).made()
#@ field_of_a_named_tuple
from typing import NamedTuple
class Config(NamedTuple):
    width: int = 64
    def made(self) -> wy.Node:
        return wy.nn.Linear(self.width, 10)(wy.Input(dims=(4, 32)))
Config(32).made()
#@ class_variable_of_a_subclass
class Base(wy.nn.Module):
    inputs = 0
    def __init__(self) -> None:
        self.layer = wy.nn.Linear(self.inputs, 10)
    def __call__(self) -> wy.Node:
        return self.layer(wy.Input(dims=(4, 8)))
class Wide(Base):
    inputs = 8
Wide()()
#@ weight_that_is_replaced
layer = wy.nn.Linear(3, 4)
layer.weight = wy.Parameter.zeros((8, 4))
layer(wy.Input(dims=(4, 8)))
#@ axes_of_no_class
rows, entries = wy.Dim(), wy.Dim()
ratings = wy.Input(dims=(rows, entries))
(ratings @ ratings.T).sum(axis=1) + ratings.sum(axis=1)
