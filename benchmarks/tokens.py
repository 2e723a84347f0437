"""Language models as they run: a plan's tokens beside a plain session with IO binding, onnxruntime-genai and two GPUs.

    python benchmarks/tokens.py [--device GPU] [--second GPU.1] [--layers 16 --hidden 2048 ...] [--json F]

1. The unsplit plan against a loop over one session whose state stays on the device, by turns, each loop in processes of
   its own; aim: within 3 %. Where GroupQueryAttention has the caches, also against one that binds them once, with room
   for all tokens.
2. On the CPU against the loop of onnxruntime-genai, where that is installed; aim: at least as fast. Its caches are copied in
   each step or in one buffer, as `past_present_share_buffer` says; its threads are half of the cores, unless it is told.
3. With ``--second``: half of the layers on it, one sequence, against one device (aim: at most 1.05 times), and two sequences in
   flight (aim: at least 1.8 times the tokens of one).
4. The predicted step, by a profile at the middle of the answer, beside the measured one; aim: within 10 %. With
   ``--second`` also that of the halves on both.

Each part runs in a process of its own, so that it finds the memory of the cards free.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import editor
from benchmarks.record import record
from editor.devices.device import Device
from editor.execution.generation import Generator
from editor.execution.measure.benchmark import environment
from editor.execution.measure.profile import profile_all
from editor.execution.measure.tokens import measure_tokens
from editor.graph.graph import Graph
from editor.graph.states import sizes_of_step
from editor.placement.device_profile import costs_of

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 15
TURNS = 3
"""Processes for each loop"""
Loop = Callable[[list[int], int], list[float]]
"""A prompt and how many tokens are new -> seconds of each token after the first"""


def maker() -> Any:
    """``examples/language-model/make.py`` as a module."""
    spec = spec_from_file_location("maker", ROOT / "examples" / "language-model" / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["maker"] = module
    spec.loader.exec_module(module)
    return module


class PlainSession:
    """A loop over one session of ONNX Runtime: what people write by hand."""

    def __init__(self, path: Path, provider: str) -> None:
        self.session = onnxruntime.InferenceSession(path, providers=[provider])
        self.kind = "cuda" if provider.startswith("CUDA") else "cpu"
        self.past = [i for i in self.session.get_inputs() if i.name.startswith("past")]
        self.present = [o.name for o in self.session.get_outputs() if o.name != "logits"]

    def generate(self, prompt: list[int], new: int) -> list[float]:
        """Seconds of each token after the first."""
        value = onnxruntime.OrtValue.ortvalue_from_numpy
        half = self.past[0].type == "tensor(float16)"
        states = [
            value(
                np.zeros([1, i.shape[1], 0, i.shape[3]], np.float16 if half else np.float32),
                self.kind,
                0,
            )
            for i in self.past
        ]
        ids, seen, times = prompt, 0, []
        for _ in range(new):
            start = time.perf_counter()
            seen += len(ids)
            binding = self.session.io_binding()
            binding.bind_cpu_input("input_ids", np.array([ids], np.int64))
            binding.bind_cpu_input("attention_mask", np.ones((1, seen), np.int64))
            for info, state in zip(self.past, states, strict=True):
                binding.bind_ortvalue_input(info.name, state)
            binding.bind_output("logits", "cpu")
            for name in self.present:
                binding.bind_output(name, self.kind, 0)
            self.session.run_with_iobinding(binding)
            logits, *states = binding.get_outputs()
            ids = [int(logits.numpy()[0, -1].argmax())]
            times.append(time.perf_counter() - start)
        return times[1:]


class BoundOnce(PlainSession):
    """A loop that binds the caches of GroupQueryAttention once, each as input and output, with room for all tokens."""

    def generate(self, prompt: list[int], new: int) -> list[float]:
        """Seconds of each token after the first."""
        value = onnxruntime.OrtValue.ortvalue_from_numpy
        half = self.past[0].type == "tensor(float16)"
        binding, room = self.session.io_binding(), len(prompt) + new - 1
        for info, name in zip(self.past, self.present, strict=True):
            shape = [1, info.shape[1], room, info.shape[3]]
            state = value(np.zeros(shape, np.float16 if half else np.float32), self.kind, 0)
            binding.bind_ortvalue_input(info.name, state)
            binding.bind_ortvalue_output(name, state)
        ids, seen, times = prompt, 0, []
        for _ in range(new):
            start = time.perf_counter()
            seen += len(ids)
            binding.bind_cpu_input("input_ids", np.array([ids], np.int64))
            binding.bind_cpu_input("attention_mask", np.ones((1, seen), np.int64))
            binding.bind_output("logits", "cpu")
            self.session.run_with_iobinding(binding)
            logits = binding.get_outputs_as_ortvaluevector()[len(self.present)]
            ids = [int(logits.numpy()[0, -1].argmax())]
            times.append(time.perf_counter() - start)
        return times[1:]


def genai_loop(folder: Path, share: bool) -> Loop:
    """onnxruntime-genai's own loop, with caches in one buffer or copied in each step."""
    genai = import_module("onnxruntime_genai")
    config = genai.Config(str(folder))
    config.overlay(json.dumps({"search": {"past_present_share_buffer": share}}))
    model = genai.Model(config)

    def generate(prompt: list[int], new: int) -> list[float]:
        settings = genai.GeneratorParams(model)
        settings.set_search_options(max_length=len(prompt) + new, do_sample=False)
        generator = genai.Generator(model, settings)
        generator.append_tokens([prompt])
        times = []
        for _ in range(new):
            start = time.perf_counter()
            generator.generate_next_token()
            times.append(time.perf_counter() - start)
        return times[1:]

    return generate


def loop_of(runner: Generator) -> Loop:
    """The editor's loop."""
    return lambda prompt, new: list(runner.generate(prompt, new).seconds)


def by_turns(loops: dict[str, Loop], prompt: list[int], new: int) -> dict[str, list[list[float]]]:
    """[round] seconds of tokens of each loop; every other round goes backwards, and the first sequences do not count."""
    found: dict[str, list[list[float]]] = {name: [] for name in loops}
    for loop in loops.values():
        loop(prompt, new)  # cuDNN plans attention for each length
    for number in range(ROUNDS):
        for name in list(loops)[:: -1 if number % 2 else 1]:
            found[name].append(loops[name](prompt, new))
    return found


def ratio_of(one: list[list[float]], other: list[list[float]]) -> tuple[float, float, float]:
    """Medians in ms, and the median over the rounds of the quotient of their medians."""
    pairs = [(statistics.median(a), statistics.median(b)) for a, b in zip(one, other, strict=True)]
    return (
        1e3 * statistics.median(a for a, _ in pairs),
        1e3 * statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
    )


PLAN, PLAIN = "plan", "a plain session with IO binding"


def loops_of(path: Path, device: Device, graph: Graph, kind: str) -> dict[str, Callable[[], Loop]]:
    """Name -> what makes the loop: the unsplit plan's, and those that people write."""
    made: dict[str, Callable[[], Loop]] = {
        PLAN: lambda: loop_of(Generator.unsplit(graph, device)),
        PLAIN: lambda: PlainSession(path, device.provider).generate,
    }
    if kind != "plain":
        made["the same, caches bound once"] = lambda: BoundOnce(path, device.provider).generate
    if (
        device.provider.startswith("CPU")
        and find_spec("onnxruntime_genai") is not None
        and (path.parent / "genai_config.json").is_file()
    ):
        name = f"onnxruntime-genai {version('onnxruntime-genai')}"
        made[name] = lambda: genai_loop(path.parent, False)
        made[f"{name}, one buffer"] = lambda: genai_loop(path.parent, True)
    return made


def alone(
    path: Path, entry: dict[str, str], kind: str, prompt: list[int], new: int, name: str
) -> dict[str, Any]:
    """The seconds of a token of one loop, in a process that has no other."""
    (device,) = editor.load_devices([entry])
    graph = editor.partition(path, [device]).graph
    made = loops_of(path, device, graph, kind)
    if not name:
        return {"names": list(made)}
    loop = made[name]()
    times = [statistics.median(loop(prompt, new)) for _ in range(ROUNDS)]
    return {"seconds": statistics.median(times[3:])}  # cuDNN plans attention for each length


def one_device(
    path: Path, entry: dict[str, str], kind: str, prompt: list[int], new: int
) -> dict[str, Any]:
    """The unsplit plan against loops that people write, each in processes of its own, by turns.

    In one process the threads of five sessions hold each other up on two cores: a loop of 0.14 ms took 0.18.
    """
    arguments = path, entry, kind, prompt, new
    names: list[str] = in_own_process(alone, *arguments, "")["names"]
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(TURNS):
        for name in names[:: -1 if turn % 2 else 1]:
            times[name].append(in_own_process(alone, *arguments, name)["seconds"])
    ours = times.pop(PLAN)
    found: dict[str, Any] = {"beside": {}}
    for name, others in times.items():
        found["plan_ms"], other, quotient = ratio_of([[t] for t in ours], [[t] for t in others])
        found["beside"][name] = {"ms": other, "ratio": quotient}
        print(
            f"unsplit on {entry['name']}: {found['plan_ms']:.3f} ms a token, {name} {other:.3f} ms ({quotient:.3f} times)"
        )
    return found


def halves_by(layers: int, names: list[str]) -> list[dict[str, str]]:
    """Rules that place half of the layers, and what follows them, on the second device."""
    return [
        {"layer": f"{layers // 2}-{layers - 1}", "to": names[1]},
        {"scope": "lm_head", "to": names[1]},
        {"name": "*", "to": names[0]},
    ]


def two_devices(
    path: Path, table: list[Any], layers: int, prompt: list[int], new: int
) -> dict[str, Any]:
    """Half of the layers on the second device: one sequence and two in flight, against the first device alone."""
    names = [entry["name"] for entry in table]
    halves = editor.partition(path, table, rules=halves_by(layers, names))
    alone = editor.partition(path, table[:1])
    placements = {"split": halves.placement, "whole": alone.placement}
    # Nothing else holds the weights: the parts below need the memory.
    times = by_turns({n: loop_of(Generator.of(p)) for n, p in placements.items()}, prompt, new)
    mine, other, quotient = ratio_of(times["split"], times["whole"])
    print(
        f"{len(halves.subgraphs)} subgraphs over {' and '.join(names)}: {mine:.3f} ms a token, {names[0]} alone "
        f"{other:.3f} ms ({quotient:.3f} times)"
    )
    rates = []
    for number in (1, 2):
        result = measure_tokens("halves", halves.placement, len(prompt), new, sequences=number)
        rates.append(result.figures.tokens_per_second)
        print(
            f"{number} in flight over both: {rates[-1]:.1f} tokens/s; difference {result.difference}"
        )
    one = measure_tokens("one", alone.placement, len(prompt), new).figures.tokens_per_second
    print(f"two in flight over both: {rates[1] / one:.2f} times one sequence on {names[0]}")
    return {
        "split_ms": mine,
        "alone_ms": other,
        "ratio": quotient,
        "tokens_per_second": rates,
        "alone_tokens_per_second": one,
        "two_in_flight": rates[1] / one,
    }


def predicted(
    path: Path, table: list[Any], layers: int, prompt: list[int], new: int
) -> dict[str, Any]:
    """The step at the middle of the answer by profiles, beside the measured tokens: of one device, or of halves on two."""
    devices = editor.load_devices(table)
    graph = editor.partition(path, devices).graph
    sizes = sizes_of_step(graph, 1, len(prompt) + new // 2)
    graph = editor.load_model(path, {**graph.define, **sizes})
    names = [device.name for device in devices]
    plan = editor.partition(graph, devices, rules=halves_by(layers, names) if names[1:] else [])
    for profile in profile_all(graph, plan.devices, 3.0).values():
        if isinstance(profile, str):
            print(f"not profiled: {profile}")
            return {"problem": profile}
    costs = costs_of(graph, plan.devices, "measured")
    step = plan.placement.price(costs).total
    times = [plan.generate(prompt, new).token.median for _ in range(ROUNDS)]
    measured = statistics.median(
        times[3:]
    )  # clocks and plans of cuDNN come to rest in the first ones
    print(
        f"a token on {' and '.join(names)}: predicted {1e3 * step:.3f} ms, measured {1e3 * measured:.3f} ms "
        f"({step / measured - 1:+.1%})"
    )
    return {"predicted_ms": 1e3 * step, "measured_ms": 1e3 * measured}


def in_own_process(part: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What a part of the benchmark finds; the memory that it takes goes with its process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(part, *arguments).result()


def main() -> None:
    """Measures what the command line says."""
    parser = argparse.ArgumentParser(description="tokens of a plan beside other loops")
    parser.add_argument("--device", default="CPU")
    parser.add_argument("--second", default="")
    parser.add_argument("--kind", default="llama")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--vocabulary", type=int, default=4096)
    parser.add_argument("--half", action="store_true")
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    module = maker()
    with tempfile.TemporaryDirectory() as folder:
        shape = module.Shape(
            options.layers,
            options.hidden,
            options.hidden // 64,
            options.hidden // 128,
            options.vocabulary,
            options.half,
        )
        target = Path(folder) / ("model.onnx" if options.kind == "plain" else "model")
        path = module.make(target, options.kind, shape)
        table = [{"name": options.device, "backendName": options.device}]
        table += (
            [{"name": f"{options.second} too", "backendName": options.second}]
            if options.second
            else []
        )
        prompt = np.random.default_rng(0).integers(3, options.vocabulary, options.prompt).tolist()
        print(f"{options.kind}, {shape}, {path.stat().st_size / 1e6:.0f} MB; {environment(0)}")
        lengths = prompt, options.new
        found: dict[str, Any] = {
            "model": vars(options) | {"json": None},
            "one": one_device(path, table[0], options.kind, *lengths),
            "predicted": in_own_process(predicted, path, table[:1], options.layers, *lengths),
        }
        if options.second:
            both = path, table, options.layers, *lengths
            found["two"] = in_own_process(two_devices, *both)
            found["two_predicted"] = in_own_process(predicted, *both)
    what = f"{options.kind}, {options.layers} layers of {options.hidden}, prompt {options.prompt}"
    one = found["one"]
    rows = [
        {
            "machine": options.device,
            "model": what,
            "ours": f"{one['plan_ms']:.2f} ms",
            "beside": f"{name}, {other['ms']:.2f} ms",
            "times": f"{other['ratio']:.2f}",
        }
        for name, other in one["beside"].items()
    ]
    record("tokens", rows)
    if options.second:
        two = found["two"]
        row = (
            what,
            f"{two['split_ms']:.2f} ms",
            f"{two['alone_ms']:.2f} ms",
            f"{two['ratio']:.2f}",
            f"{two['two_in_flight']:.2f}",
        )
        columns = (
            "model",
            "a token over both",
            "on one of them",
            "times",
            "tokens of two in flight against one",
        )
        record("tokens_two", [dict(zip(columns, row, strict=True))])
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
