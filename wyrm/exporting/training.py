"""The exported functions of a training: an epoch, a step, and the learning rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from wyrm.engines.native.ir.types import scalar_of
from wyrm.engines.native.products.writer import Writer
from wyrm.engines.native.run.shuffle import PLACES
from wyrm.exporting.functions import MEMORY, RATES, ModuleText, code_of, input_parameters
from wyrm.exporting.interface import FunctionParameter, FunctionSignature, Role
from wyrm.exporting.plan import CHUNK, Training
from wyrm.exporting.runs import COUNT, FIRST, NUMBERS, ORDER, STEP_NUMBER, TOTALS
from wyrm.exporting.writing import address, call_kernel, load, refuse_if, store
from wyrm.graph.base import BaseNode

_BATCH = FunctionParameter("batch", Role.BATCH)
_RESULTS = FunctionParameter("results", Role.RESULTS)


class TrainingFunctions:
    """Writes the functions of a training."""

    def __init__(self, functions: ModuleText, training: Training, name: str) -> None:
        self.to_all, self.training, self.name = functions, training, name
        self._columns = "".join(f", ptr %{each.name}" for each in training.given)
        self._outputs = len(training.graph.outputs)
        self._count = len(training.graph.source.hyperparameters)
        numbers = training.numbers.formulas
        # Whether the numbers differ from step to step.
        self._vary = any(rate is not None for rate in training.rates) or any(
            numbers.depends_on(step) for *_, step, _ in training.numbers.groups
        )

    def define(self) -> list[FunctionSignature]:
        """Write the functions and return what callers need to know of them."""
        inputs = input_parameters(self.training.given)
        names = self.training.names
        rows = FunctionParameter("rows", Role.ROWS)
        order = FunctionParameter("order", Role.ORDER)
        options = [
            rows,
            _BATCH,
            FunctionParameter("shuffle", Role.FLAG),
            FunctionParameter("seed", Role.SEED),
            order,
            _RESULTS,
        ]
        epoch = FunctionSignature(
            f"{self.name}_epoch", [MEMORY, *inputs, *options],
            "Train on all rows once, in batches; shuffled by the seed and the number of epochs unless shuffle is 0.",
            names,
        )  # fmt: skip
        step = FunctionSignature(
            f"{self.name}_step", [MEMORY, *inputs, _BATCH, _RESULTS], "Do one step on a batch of rows.", names
        )
        found = [epoch, step]
        self.to_all.parts.append(self._row_of_numbers())
        self.to_all.parts.append(self._steps())
        self.to_all.parts.append(self._results())
        self.to_all.define(epoch, self._epoch)
        self.to_all.define(step, self._step)
        if any(rate is None for rate in self.training.rates):
            rate = FunctionSignature(
                f"{self.name}_set_learning_rate", [MEMORY, FunctionParameter("rate", Role.NUMBER)],
                "Set the learning rate of the next steps; it is not among the tensors.",
            )  # fmt: skip
            self.to_all.define(rate, self._set_rate)
            found.append(rate)
        return found

    # --- the numbers of the optimizer -----------------------------------------------------------------------------

    def _counter(self, to: Writer, name: str, index: int = 0) -> str:
        return self.to_all.at(to, self.training.counters[name], 8 * index)

    def _row_of_numbers(self) -> str:
        """Return the function that computes the numbers of the step that is `ahead` steps after the ones done."""
        all, to, training = self.to_all, self.to_all.begin(), self.training
        values: dict[BaseNode, str] = {}
        for position, (_, first, step, rate) in enumerate(training.numbers.groups):
            done = to.add(load(to, "i64", self._counter(to, "counts", first)), "%ahead")
            values[step] = to.new(f"sitofp i64 {to.add(done, 1)} to double")
            schedule = training.rates[position]
            if schedule is None:
                values[rate] = load(to, "double", all.head(to, RATES + position))
            else:
                at = to.add(load(to, "i64", self._counter(to, "optimizer_steps")), "%ahead")
                values[rate] = schedule.write(to, at)
        found = all.compute(to, training.of_steps, values) if self._count else []
        for position, value in enumerate(found):
            store(to, "double", value, to.address("i64", "%row", position))
        return to.function("internal void @numbers(ptr %memory, ptr %row, i64 %ahead) noinline nounwind")

    def _write_numbers(self, to: Writer, count: str | int) -> None:
        """Write calls that compute the numbers of the next steps."""
        if not self._count:
            return

        def row(index: str) -> None:
            place = address(to, self.to_all.at(to, self.training.step_rows), to.multiply(index, 8 * self._count))
            to.do(f"call void @numbers(ptr %memory, ptr {place}, i64 {index})")

        to.loop(count, 1, row)

    # --- steps ----------------------------------------------------------------------------------------------------

    def _steps(self) -> str:
        """Return the function that does steps on batches of one size and adds up the outputs."""
        all, to, training = self.to_all, self.to_all.begin(), self.training
        run, entry = training.run, training.run.bound.entry
        table = all.tables.fill(to, run.bound, "%batch", "%place")
        starts = entry.starts

        def word(position: int) -> str:
            return to.address("i64", table, position)

        def put(position: int, type: str, value: str | int) -> None:
            store(to, type, value, word(position))

        length = to.multiply("%count", "%batch")
        put(starts[ORDER], "i64", to.new("ptrtoint ptr %order to i64"))
        put(starts[ORDER] + 1, "i64", length)
        for each in training.given:
            place = run.columns.get(each.leaf)
            if place is not None:
                put(place, "i64", to.new(f"ptrtoint ptr %{each.name} to i64"))
                put(place + 1, "i64", "%rows")
                put(place + 2, "i64", each.elements)
        totals = all.at(to, training.totals)
        put(starts[TOTALS], "i64", to.new(f"ptrtoint ptr {totals} to i64"))
        put(starts[TOTALS] + 1, "i64", 1 + self._outputs)
        numbers = all.at(to, training.step_rows)
        put(starts[NUMBERS], "i64", to.new(f"ptrtoint ptr {numbers} to i64"))
        put(starts[NUMBERS] + 2, "i64", self._count)
        put(starts[STEP_NUMBER], "i64", "%step")
        if not self._vary:
            self._write_numbers(to, to.lower("%count", CHUNK))
        weight = to.new("sitofp i64 %batch to double")

        def chunk(done: str) -> tuple[str, list[str]]:
            now = to.lower(to.subtract("%count", done), CHUNK)
            if self._vary:
                self._write_numbers(to, now)
            put(starts[FIRST], "i64", done)
            put(starts[COUNT], "i64", now)
            put(starts[NUMBERS] + 1, "i64", now)
            all.zero(to, totals, 8 * (1 + self._outputs))
            status = to.new(f"call i32 @{entry.symbol}(ptr {table})")
            finished = to.new(f"fptosi double {load(to, 'double', to.address('i64', totals, 1))} to i64")
            self._add(to, totals, weight)
            self._advance(to, finished)

            def fail() -> None:
                all.forget(to, run, "%batch", "%place")
                to.leave(f"ret i32 {to.new(f'call i32 @error_of(i32 {status})')}")

            to.branch(to.new(f"icmp ne i32 {status}, 0"), fail)

            def diverge() -> None:
                all.forget(to, run, "%batch", "%place")
                to.leave(f"ret i32 {code_of('DIVERGED')}")

            to.branch(to.compare("slt", finished, now), diverge)
            after = to.add(done, now)
            return to.compare("sge", after, "%count"), [after]

        to.repeat(chunk, carried=[("i64", "0")])
        return to.function(f"internal i32 @steps({self._parameters()}) noinline nounwind", "ret i32 0")

    def _parameters(self) -> str:
        return f"ptr %memory, i64 %batch, i64 %place, i64 %count, ptr %order, i64 %rows, i64 %step{self._columns}"

    def _add(self, to: Writer, totals: str, weight: str) -> None:
        """Add the totals of some steps to those of the epoch, which lie behind them."""
        for position, is_sum in enumerate(self.training.sums):
            found = load(to, "double", to.address("i64", totals, 0 if position == 0 else 1 + position))
            if not is_sum:
                found = to.new(f"fmul double {found}, {weight}")
            place = to.address("i64", totals, 1 + self._outputs + position)
            store(to, "double", to.new(f"fadd double {load(to, 'double', place)}, {found}"), place)

    def _advance(self, to: Writer, count: str) -> None:
        """Count finished steps."""
        training = self.training
        trained = set(training.graph.parameters)
        places = [self._counter(to, "steps"), self._counter(to, "optimizer_steps")]
        parameters = training.graph.optimizer.parameters if training.graph.optimizer is not None else []
        places += [self._counter(to, "counts", i) for i, each in enumerate(parameters) if each in trained]
        for place in places:
            store(to, "i64", to.add(load(to, "i64", place), count), place)

    def _results(self) -> str:
        """Return the function that computes the outputs for all rows from the totals."""
        all, to, training = self.to_all, self.to_all.begin(), self.training
        rows = to.new("sitofp i64 %rows to double")
        totals, values = all.at(to, training.totals), dict[BaseNode, str]()
        for position, (leaf, is_sum) in enumerate(zip(training.means.formulas.inputs, training.sums, strict=True)):
            found = load(to, "double", to.address("i64", totals, 1 + self._outputs + position))
            values[leaf] = found if is_sum else to.new(f"fdiv double {found}, {rows}")
        for position, value in enumerate(all.compute(to, training.means, values)):
            store(to, "double", value, to.address("i64", "%results", position))
        return to.function("internal void @results(ptr %memory, i64 %rows, ptr %results) noinline nounwind")

    # --- the exported functions -----------------------------------------------------------------------------------

    def _check(self, to: Writer, rows: str) -> str:
        """Write the checks of all arguments; return the place of the batch size."""
        all, training = self.to_all, self.training
        all.check_memory(to)
        all.check_pointer(to, "results")
        place = to.new("call i64 @place_of(i64 %batch)")
        refuse_if(to, to.compare("slt", place, 0), code_of("BATCH"))
        for each in training.given:
            all.check_data(to, each, rows, training.limits)
        return place

    def _call(self, to: Writer, given: Mapping[str, str]) -> str:
        """Write a call of the function that does steps."""
        values = f"i64 {given['batch']}, i64 {given['place']}, i64 {given['count']}, ptr {given['order']}"
        return to.new(
            f"call i32 @steps(ptr %memory, {values}, i64 {given['rows']}, i64 {given['step']}{self._columns})"
        )

    def _keep(self, to: Writer) -> None:
        first, last = self.to_all.image.tensors
        self.to_all.copy(to, self.to_all.at(to, self.training.snapshot), address(to, "%memory", first), last - first)

    def _restore(self, to: Writer) -> None:
        first, last = self.to_all.image.tensors
        self.to_all.copy(to, address(to, "%memory", first), self.to_all.at(to, self.training.snapshot), last - first)

    def _undo_if(self, to: Writer, failed: str, code: str) -> None:
        def undo() -> None:
            self._restore(to)
            to.leave(f"ret i32 {code}")

        to.branch(failed, undo)

    def _clear(self, to: Writer) -> None:
        """Clear the totals of the epoch."""
        totals = self.to_all.at(to, self.training.totals)
        self.to_all.zero(to, to.address("i64", totals, 1 + self._outputs), 8 * self._outputs)

    def _epoch(self, to: Writer) -> None:
        all, training = self.to_all, self.training
        refuse_if(to, to.compare("slt", "%rows", 1), code_of("ARGUMENT"))
        refuse_if(to, to.compare("sge", "%rows", 2**31), code_of("ARGUMENT"))
        all.check_pointer(to, "order")
        refuse_if(to, to.compare("slt", "%seed", 0), code_of("ARGUMENT"))
        place = self._check(to, "%rows")
        full = to.divide("%rows", "%batch")
        covered = to.multiply(full, "%batch")
        rest = to.subtract("%rows", covered)
        last = to.new(f"call i64 @place_of(i64 {rest})")
        unknown = to.both(to.compare("sgt", rest, 0), to.compare("slt", last, 0))
        refuse_if(to, unknown, code_of("BATCH"))
        self._keep(to)
        self._clear(to)
        call_kernel(to, all.kernels.count_up, [("ptr", "%order"), ("i64", "%rows"), ("i64", "0")])

        def shuffle() -> None:
            pool = all.at(to, training.scratch)
            epochs = load(to, "i64", self._counter(to, "epochs"))
            seeds = [("i64", "%seed"), ("i64", epochs), ("ptr", pool), ("i64", "8")]
            seed = call_kernel(to, all.kernels.epoch_seed, seeds, "i64")
            words = [("ptr", "%order"), ("i64", "%rows"), ("i64", seed), ("ptr", pool), ("i64", str(PLACES))]
            call_kernel(to, all.kernels.shuffle, words)

        to.branch(to.new("icmp ne i32 %shuffle, 0"), shuffle)
        begin = load(to, "i64", self._counter(to, "steps"))
        given = {"order": "%order", "rows": "%rows", "batch": "%batch", "place": place, "count": full, "step": begin}

        def do(given: Mapping[str, str]) -> Callable[[], None]:
            def call() -> None:
                status = self._call(to, given)
                self._undo_if(to, to.new(f"icmp ne i32 {status}, 0"), status)

            return call

        to.branch(to.compare("sgt", full, 0), do(given))
        behind = to.address("i64", "%order", covered)
        given |= {"order": behind, "batch": rest, "place": last, "count": "1", "step": to.add(begin, full)}
        to.branch(to.compare("sgt", rest, 0), do(given))
        self._check_finite(to)
        epochs = self._counter(to, "epochs")
        store(to, "i64", to.add(load(to, "i64", epochs), 1), epochs)
        to.do("call void @results(ptr %memory, i64 %rows, ptr %results)")

    def _check_finite(self, to: Writer) -> None:
        """Undo the epoch or the step unless all that it has changed is finite."""
        for array in self.to_all.trained:
            number = scalar_of(array.dtype)
            if number is None or number.kind != "f" or not array.bytes:
                continue
            count = array.bytes // array.dtype.itemsize
            values = [("ptr", address(to, "%memory", array.offset)), ("i64", str(count))]
            finite = call_kernel(to, self.to_all.kernels.finite[number], values, "i64")
            self._undo_if(to, to.compare("eq", finite, 0), str(code_of("DIVERGED")))

    def _step(self, to: Writer) -> None:
        place = self._check(to, "%batch")
        self._clear(to)
        self._keep(to)
        given = {
            "order": self.to_all.at(to, self.training.identity), "rows": "%batch", "batch": "%batch", "place": place,
            "count": "1", "step": load(to, "i64", self._counter(to, "steps")),
        }  # fmt: skip
        status = self._call(to, given)
        self._undo_if(to, to.new(f"icmp ne i32 {status}, 0"), status)
        self._check_finite(to)
        to.do("call void @results(ptr %memory, i64 %batch, ptr %results)")

    def _set_rate(self, to: Writer) -> None:
        self.to_all.check_memory(to, ready=False)
        positive = to.new("fcmp oge double %rate, 0.0")
        finite = to.new("fcmp olt double %rate, 0x7FF0000000000000")
        refuse_if(to, to.fails(to.both(positive, finite)), code_of("ARGUMENT"))
        for position, factor in enumerate(rate_factors(self.training)):
            if factor is not None:
                value = to.new(f"fmul double %rate, {factor}")
                store(to, "double", value, self.to_all.head(to, RATES + position))


def rate_factors(training: Training) -> Sequence[str | None]:
    """Return the factor of each group's learning rate; None for a schedule, and for a rate of the group's own."""
    from wyrm.exporting.writing import double

    optimizer: object = training.graph.optimizer
    groups = [getattr(optimizer, "groups")[index] for index, *_ in training.numbers.groups]  # noqa: B009  # of any kind
    found: list[str | None] = []
    for group, rate in zip(groups, training.rates, strict=True):
        own = group is not optimizer and group._rate_factor is None
        found.append(None if rate is not None or own else double(group._rate_factor or 1.0))
    return found
