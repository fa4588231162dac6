"""Writes the instructions of an LLVM function, one method a kind of instruction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

# The name of the function that a module exports to other modules.
SHARED = "wyrm_shared"
# What `lower` and `higher` call.
DECLARED = ["declare i64 @llvm.smin.i64(i64, i64)", "declare i64 @llvm.smax.i64(i64, i64)"]
# The type of a loop's value, and the value before the first turn.
Carried = tuple[str, str]


class Writer:
    """The instructions of one function. Methods that compute something return the name of the result."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._count = 0
        self._block = "entry"

    def function(self, head: str, end: str = "ret void") -> str:
        """Return the definition of a function with the instructions so far."""
        return "\n".join([f"define {head} {{", "entry:", *self._lines, f"  {end}", "}"])

    def do(self, text: str) -> None:
        """Write an instruction without a result."""
        self._lines.append(f"  {text}")

    def new(self, text: str) -> str:
        """Write an instruction."""
        self._count += 1
        self.do(f"%v{self._count} = {text}")
        return f"%v{self._count}"

    # --- integers and addresses -----------------------------------------------------------------------------------

    def add(self, first: str, second: str | int) -> str:
        """Add offsets."""
        return self.new(f"add nsw i64 {first}, {second}")

    def subtract(self, first: str | int, second: str | int) -> str:
        """Subtract offsets."""
        return self.new(f"sub nsw i64 {first}, {second}")

    def multiply(self, first: str, second: str | int) -> str:
        """Multiply offsets."""
        return self.new(f"mul nsw i64 {first}, {second}")

    def divide(self, first: str, second: str | int) -> str:
        """Divide a size and round down."""
        return self.new(f"udiv i64 {first}, {second}")

    def lower(self, first: str | int, second: str | int) -> str:
        """Return the lower of two integers."""
        return self.new(f"call i64 @llvm.smin.i64(i64 {first}, i64 {second})")

    def higher(self, first: str | int, second: str | int) -> str:
        """Return the higher of two integers."""
        return self.new(f"call i64 @llvm.smax.i64(i64 {first}, i64 {second})")

    def compare(self, how: str, first: str, second: str | int) -> str:
        """Compare integers by an LLVM predicate."""
        return self.new(f"icmp {how} i64 {first}, {second}")

    def both(self, first: str, second: str) -> str:
        """Return whether two conditions hold."""
        return self.new(f"and i1 {first}, {second}")

    def one_of(self, first: str, second: str) -> str:
        """Return whether at least one of two conditions holds."""
        return self.new(f"or i1 {first}, {second}")

    def fails(self, condition: str) -> str:
        """Return whether a condition does not hold."""
        return self.new(f"xor i1 {condition}, true")

    def select(self, condition: str, type: str, chosen: str, otherwise: str | int) -> str:
        """Choose one of two values."""
        return self.new(f"select i1 {condition}, {type} {chosen}, {type} {otherwise}")

    def address(self, type: str, base: str, index: str | int) -> str:
        """Return the address of the element at an index."""
        return base if index == 0 else self.new(f"getelementptr {type}, ptr {base}, i64 {index}")

    def opaque(self, address: str) -> str:
        """Return an address that LLVM takes for another one, so that it keeps no sums of it from turn to turn."""
        return self.new(f'call ptr asm "", "=r,0"(ptr {address})')

    # --- control --------------------------------------------------------------------------------------------------

    def label(self, name: str) -> None:
        """Begin a block."""
        self._lines.append(f"{name}:")
        self._block = name

    def loop(
        self, count: str | int, step: str | int, body: Callable[..., Sequence[str] | None],
        carried: Sequence[Carried] = (), first: str = "0",
    ) -> list[str]:  # fmt: skip
        """Write a loop from `first` to `count`; `body(index, *values)` returns the values of the next turn.

        Returns the values after the last turn.
        """
        self._count += 1
        number, before = self._count, self._block
        index = f"%i{number}"
        self.do(f"br label %head{number}")
        self.label(f"head{number}")
        place = len(self._lines)
        values = [f"%c{number}.{position}" for position in range(len(carried))]
        enters = self.compare("slt", index, count)
        self.do(f"br i1 {enters}, label %body{number}, label %end{number}")
        self.label(f"body{number}")
        after = body(index, *values) or ()
        self.do(f"%n{number} = add nsw i64 {index}, {step}")
        self.do(f"br label %head{number}")
        turns = [("i64", index, first, f"%n{number}")] + [
            (type, value, start, next) for (type, start), value, next in zip(carried, values, after, strict=True)
        ]
        self._lines[place:place] = [
            f"  {value} = phi {type} [ {start}, %{before} ], [ {next}, %{self._block} ]"
            for type, value, start, next in turns
        ]
        self.label(f"end{number}")
        return values

    def leave(self, text: str) -> None:
        """Return from the function; what follows in this block is never reached."""
        self._count += 1
        self.do(text)
        self.label(f"never{self._count}")

    def repeat(
        self, body: Callable[..., tuple[str, Sequence[str]]], again: Callable[[], None] = lambda: None,
        carried: Sequence[Carried] = (),
    ) -> None:  # fmt: skip
        """Write a loop that ends in its middle.

        `body(*values)` returns whether it ends and the values of the next turn; `again()` follows if it does not end.
        """
        self._count += 1
        number, before = self._count, self._block
        self.do(f"br label %turn{number}")
        self.label(f"turn{number}")
        place = len(self._lines)
        values = [f"%r{number}.{position}" for position in range(len(carried))]
        ends, after = body(*values)
        self.do(f"br i1 {ends}, label %done{number}, label %again{number}")
        self.label(f"again{number}")
        again()
        self.do(f"br label %turn{number}")
        self._lines[place:place] = [
            f"  {value} = phi {type} [ {first}, %{before} ], [ {next}, %{self._block} ]"
            for value, (type, first), next in zip(values, carried, after, strict=True)
        ]
        self.label(f"done{number}")

    def either(
        self, condition: str, then: Callable[[], Sequence[str]], otherwise: Sequence[str], type: str
    ) -> list[str]:
        """Return the values of `then()` if the condition holds, else `otherwise`."""
        self._count += 1
        number, before = self._count, self._block
        self.do(f"br i1 {condition}, label %given{number}, label %joined{number}")
        self.label(f"given{number}")
        chosen, last = then(), self._block
        self.do(f"br label %joined{number}")
        self.label(f"joined{number}")
        return [
            self.new(f"phi {type} [ {first}, %{last} ], [ {second}, %{before} ]")
            for first, second in zip(chosen, otherwise, strict=True)
        ]

    def branch(self, condition: str, then: Callable[[], None], otherwise: Callable[[], None] = lambda: None) -> None:
        """Write a branch."""
        self._count += 1
        number = self._count
        self.do(f"br i1 {condition}, label %then{number}, label %else{number}")
        for name, body in (("then", then), ("else", otherwise)):
            self.label(f"{name}{number}")
            body()
            self.do(f"br label %after{number}")
        self.label(f"after{number}")
