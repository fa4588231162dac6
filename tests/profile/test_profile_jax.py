"""`Program.profile` with the engine "jax": XLA's operations, by the nodes, modules and lines that they compute."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.browser import OpenPage
from tests.once import computed_once
from tests.subprocesses import on_simulated_devices
from wyrm.profile import Profile
from wyrm.profile.xla_code import CompiledCode

PEAKS = wy.profile.Peaks((1e11, 2e11), (5e10, 1e11), (1e10, 1.5e10), ((2e5, 1e11, 2e11),), threads=2)


class Batch(wy.Dim): ...


class Layers(wy.nn.Module):
    def __init__(self) -> None:
        self.layers = [wy.nn.Linear(16, 16) for _ in range(3)]
        self.out = wy.nn.Linear(16, 5)

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x).tanh()
        return self.out(x)


def trained() -> tuple[Any, dict[Any, np.ndarray]]:
    """Return a program that trains a model of equal layers, and its data."""
    x, labels = wy.Input(dims=(Batch(), 16), name="x"), wy.IndexInput(dims=(Batch(),), name="labels")
    draw = np.random.default_rng(0)
    loss = Layers()(x).cross_entropy(labels)
    program = wy.compile(loss, wy.optim.Adam(loss.parameters(), 0.01), engine="jax")
    return program, {x: draw.normal(size=(96, 16)).astype(np.float32), labels: draw.integers(0, 5, 96)}


@pytest.fixture(scope="module")
def profile() -> Profile:
    program, columns = trained()
    found: Profile = program.profile(columns, batch_size=32, steps=4, memory=True, peaks=PEAKS)
    return found


def test_products_have_their_flops_modules_and_lines(profile: Profile) -> None:
    assert profile.engine == "jax" and profile.steps == 4 and profile.threads == 1 and profile.peaks is PEAKS
    products = [stage for stage in profile.stages if stage.kind == "product"]
    (out,) = [stage for stage in products if stage.modules == ("out",) and stage.part == "forward"]
    assert out.calls == 4 and out.nodes == ("matmul (Batch=32, 5)",)
    assert out.flops == out.product_flops == 2 * 32 * 16 * 5
    assert (out.bytes_read, out.bytes_written) == (4 * (32 * 16 + 16 * 5), 4 * 32 * 5)
    assert out.location.startswith("test_profile_jax.py:") and out.source == "return self.out(x)"
    assert {stage.part for stage in products} == {"forward", "backward"}
    # Three layers forward, and backward two for each but the first, whose input needs no gradient; then the output's.
    flops = sum(stage.product_flops * stage.calls for stage in products) / 4
    assert flops == 2 * 32 * 16 * 16 * (3 + 5) + 2 * 32 * 16 * 5 * 3


def test_equal_layers_share_a_path(profile: Profile) -> None:
    shared = [stage for stage in profile.stages if stage.modules == ("layers[*]",) and stage.kind == "product"]
    # A loop runs them once for each of its layers.
    assert shared and all(stage.calls == 2 * 4 for stage in shared)


def test_times_add_up_and_every_part_is_there(profile: Profile) -> None:
    assert sum(stage.seconds for stage in profile.stages) == pytest.approx(profile.thread_seconds)
    assert sum(profile.parts.values()) == pytest.approx(profile.thread_seconds)
    assert {stage.part for stage in profile.stages} == {"data", "forward", "backward", "update", ""}
    assert all(stage.seconds >= 0 and stage.calls % 4 == 0 for stage in profile.stages if stage.nodes)
    updates = {stage.nodes for stage in profile.stages if stage.kind == "update" and stage.nodes}
    assert ("weight (16, 5)",) in updates


def test_the_text_says_what_it_costs_and_what_is_unsure(profile: Profile) -> None:
    text = str(profile)
    assert "4 steps of epoch" in text and "on one device" in text
    assert "operations took" in text and "which is not subtracted" in text
    assert "a fusion has the time of all its nodes" in text.replace("\n", " ")
    assert "memory of a step on one device, as XLA planned it" in text.replace("\n", " ")
    memory = profile.memory
    assert isinstance(memory, wy.profile.MemoryOfXla)
    parameters = 4 * 3 * (3 * (16 * 16 + 16) + 16 * 5 + 5)  # and two arrays of Adam for each
    assert memory.argument_bytes >= parameters and memory.shared_bytes >= parameters and memory.temporary_bytes > 0


def test_the_program_stays_as_it_was() -> None:
    program, columns = trained()
    program.epoch(columns, batch_size=32)
    before = [np.array(leaf.value) for leaf in program.trained], program.state_dict()
    program.profile(columns, batch_size=32, steps=2, peaks=PEAKS)
    for leaf, array in zip(program.trained, before[0], strict=True):
        np.testing.assert_array_equal(leaf.value, array)
    assert program.state_dict() == before[1]


def test_calls_and_gradients() -> None:
    program, columns = trained()
    backward = program.profile(columns, method="backward", steps=2, peaks=PEAKS)
    assert backward.method == "backward" and {"forward", "backward"} <= {stage.part for stage in backward.stages}
    x, weight = wy.Input(dims=(Batch(), 8), name="x"), wy.Parameter(np.ones((8, 4), np.float32), name="weight")
    call = wy.compile((x @ weight).tanh(), engine="jax").profile({x: np.ones((16, 8))}, steps=2, peaks=PEAKS)
    assert call.method == "call" and call.steps == 2 and {stage.part for stage in call.stages} == {"forward", ""}
    assert call.memory is None


def test_accumulation_counts_each_batch() -> None:
    program, columns = trained()
    profile = program.profile(columns, batch_size=16, accumulate=2, steps=2, peaks=PEAKS)
    (out,) = [each for each in profile.stages if each.modules == ("out",) and each.kind == "product"][:1]
    assert out.part == "forward"
    assert out.calls == 4 and out.nodes == ("matmul (Batch=16, 5)",)


def test_wrong_options_are_refused_before_anything_runs() -> None:
    program, columns = trained()
    with pytest.raises(wy.errors.OptionError, match="takes no threads, not 2"):
        program.profile(columns, threads=2)
    with pytest.raises(wy.errors.OptionError, match="method must be"):
        program.profile(columns, method="step")
    with pytest.raises(wy.errors.OptionError, match="steps must be an integer of at least 1"):
        program.profile(columns, steps=0)
    assert program._engine.compiled.last is None


def test_the_page_and_the_trace(open_page: OpenPage, profile: Profile, tmp_path: Path) -> None:
    page = open_page(profile.page(tmp_path / "profile.html"))
    assert page.locator("#what").text_content() == "epoch on one device"
    assert "of no node" in (page.locator("#keys").text_content() or "")
    assert "as XLA planned it" in (page.locator("#memory-sums").text_content() or "")
    assert not page.locator("#memory").is_visible() and page.locator("#timeline").is_visible()
    assert "a fusion has the time of all its nodes" in (page.locator("#notes").text_content() or "")
    renamed = [replace(each, kind="collective") if each.kind == "product" else each for each in profile.stages]
    devices = open_page(replace(profile, stages=tuple(renamed)).page(tmp_path / "devices.html"))
    names = [each.name for each in renamed if each.modules == ("out",) and each.kind == "collective"]
    assert names[0] in devices.locator("#rows td.nodes").all_text_contents(), "a collective has the name of XLA"
    page = open_page(tmp_path / "profile.html")
    page.locator("#search").fill("layers[*]")
    assert 0 < page.locator("#rows tr").count() < len(profile.groups)
    trace = json.loads(profile.chrome_trace(tmp_path / "trace.json").read_text())
    assert any(event["name"] == "thread_name" and event["args"]["name"] == "device 0" for event in trace["traceEvents"])
    steps = [event for event in trace["traceEvents"] if event["name"] == "step"]
    assert len(steps) == 4


def test_a_device_without_known_peaks(profile: Profile, open_page: OpenPage, tmp_path: Path) -> None:
    unknown = replace(profile, peaks=None)
    assert "peaks of this device are not known" in str(unknown).replace("\n", " ")
    page = open_page(unknown.page(tmp_path / "profile.html"))
    assert "The peaks of this device are not known." in (page.locator("main").text_content() or "")
    assert page.locator("#rows tr").count() > 0


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return computed_once(tmp_path_factory, "profiled", lambda: on_simulated_devices("tests.profile.sharded"))


def test_devices_and_their_collectives(sharded: Any) -> None:
    assert sharded["devices"] == 8 and "8 devices, whose times the table adds up" in sharded["text"]
    (reduction,) = sharded["collectives"]
    assert reduction["name"].startswith("all-reduce") and reduction["part"] == "collective"
    assert reduction["calls"] == 8 * 3 and reduction["nodes"] == ["sums of gradients and losses"]
    assert "The time of a collective has the wait for the last device in it." in sharded["text"].replace("\n", " ")


def test_products_of_devices_have_their_nodes(sharded: Any) -> None:
    forward = [each for each in sharded["products"] if each["part"] == "forward"]
    assert [each["modules"] for each in forward] == [["first"], ["out"]]
    # A device multiplies its rows.
    assert forward[0]["flops"] == 2 * (64 // 8) * 16 * 32 and forward[0]["calls"] == 8 * 3
    # XLA forgets the names of products that sum over divided rows.
    backward = [each for each in sharded["products"] if each["part"] == "backward"]
    assert sorted(each["modules"][0] for each in backward) == ["first", "out", "out"]


# --- compiled code ----------------------------------------------------------------------------------------------------

CODE = """HloModule jit_f, is_scheduled=true

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

%fused (p: f32[100,8], i: s32[], u: f32[1,8]) -> f32[100,8] {
  %p = f32[100,8]{1,0} parameter(0)
  %i = s32[] parameter(1)
  %zero = s32[] constant(0)
  %u = f32[1,8]{1,0} parameter(2)
  %e = f32[1,8]{1,0} exponential(%u), metadata={op_name="jit(f)/first:exp~n3/exp"}
  ROOT %d = f32[100,8]{1,0} dynamic-update-slice(%p, %e, %i, %zero), metadata={op_name="jit(f)/w:update~u0/set"}
}

ENTRY %main (x: f32[100,8], k: s32[], y: f32[1,8], image: f32[2,6,6,3], kernel: f32[3,3,3,4]) -> f32[100,8] {
  %x = f32[100,8]{1,0} parameter(0)
  %k = s32[] parameter(1)
  %y = f32[1,8]{1,0} parameter(2)
  %image = f32[2,6,6,3]{3,2,1,0} parameter(3)
  %kernel = f32[3,3,3,4]{3,2,1,0} parameter(4)
  %c = f32[2,4,4,4]{3,2,1,0} convolution(%image, %kernel), window={size=3x3}, dim_labels=b01f_01io->b01f
  %r = (f32[100,8]{1,0}, f32[]) all-reduce(%x, %y), to_apply=%add, metadata={op_name="jit(f)/(a~n1/sum:b~n2/sum)"}
  ROOT %f = f32[100,8]{1,0} fusion(%x, %k, %y), kind=kLoop, calls=%fused
}
"""


def test_work_and_names_in_compiled_code() -> None:
    code = CompiledCode(CODE)
    assert code.module == "jit_f" and list(code.ops) == ["c", "r", "f"]
    convolution, reduction, fusion = code.ops.values()
    assert convolution.product_flops == convolution.flops == 2 * (2 * 4 * 4 * 4) * (3 * 3 * 3)
    assert reduction.collective == "all-reduce" and [each.position for each in reduction.scopes] == [1, 2]
    assert [each.kind for each in fusion.scopes] == ["n", "u"] and fusion.own == fusion.scopes[1]
    # One row of the table is written in its place; the rest is neither read nor written.
    assert (fusion.flops, fusion.bytes_read, fusion.bytes_written) == (8.0, 4 + 32, 32)
