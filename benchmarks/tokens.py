"""Language models as they run: a plan's tokens beside a plain session with IO binding, onnxruntime-genai and two GPUs.

    python benchmarks/tokens.py [--device GPU] [--second GPU.1] [--layers 16 --hidden 2048 ...] [--json F]

1. The unsplit plan against a loop over one session whose state stays on the device, by turns; aim: within 3 %.
2. On the CPU against the loop of onnxruntime-genai, where that is installed; aim: at least as fast.
3. With ``--second``: half of the layers on it, one sequence, against one device (aim: at most 1.05 times), and two sequences in
   flight (aim: at least 1.8 times the tokens of one).
4. The predicted step, by a profile at the last context, beside the measured one; aim: within 10 %.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
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
from editor.graph.states import sizes_of_step
from editor.placement.device_profile import costs_of

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 5


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


def genai_times(folder: Path, prompt: list[int], new: int) -> list[float]:
    """Seconds of each token after the first in onnxruntime-genai's own loop."""
    genai = import_module("onnxruntime_genai")
    model = genai.Model(str(folder))
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


def ratio_of(one: list[list[float]], other: list[list[float]]) -> tuple[float, float, float]:
    """Medians in ms, and the median over the rounds of the quotient of their medians."""
    pairs = [(statistics.median(a), statistics.median(b)) for a, b in zip(one, other, strict=True)]
    return (
        1e3 * statistics.median(a for a, _ in pairs),
        1e3 * statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
    )


def one_device(
    path: Path, device: Device, provider: str, prompt: list[int], new: int
) -> dict[str, Any]:
    """The unsplit plan against loops that people write, by turns."""
    graph = editor.partition(path, [device]).graph
    runner, plain = Generator.unsplit(graph, device), PlainSession(path, provider)
    ours: list[list[float]] = []
    theirs: list[list[float]] = []
    genai: list[list[float]] = []
    has_genai = (
        device.provider.startswith("CPU")
        and find_spec("onnxruntime_genai") is not None
        and (path.parent / "genai_config.json").is_file()
    )
    runner.generate(prompt, new)  # cuDNN plans attention for each length
    plain.generate(prompt, new)
    for _ in range(ROUNDS):
        ours.append(list(runner.generate(prompt, new).seconds))
        theirs.append(plain.generate(prompt, new))
        if has_genai:
            genai.append(genai_times(path.parent, prompt, new))
    mine, other, quotient = ratio_of(ours, theirs)
    found = {"plan_ms": mine, "plain_session_ms": other, "ratio_to_plain": quotient}
    print(
        f"unsplit on {device.name}: {mine:.3f} ms a token, a plain session {other:.3f} ms ({quotient:.3f} times)"
    )
    if genai:
        _, other, quotient = ratio_of(ours, genai)
        found |= {"genai_ms": other, "ratio_to_genai": quotient}
        print(f"onnxruntime-genai: {other:.3f} ms a token (ours {quotient:.3f} times)")
    return found


def two_devices(
    path: Path, table: list[Any], layers: int, prompt: list[int], new: int
) -> dict[str, Any]:
    """Half of the layers on the second device: one sequence and two in flight, against the first device alone."""
    names = [entry["name"] for entry in table]
    rules = [{"layer": f"{layers // 2}-{layers - 1}", "to": names[1]}]
    rules.append({"scope": "lm_head", "to": names[1]})
    rules.append({"name": "*", "to": names[0]})
    halves = editor.partition(path, table, rules=rules)
    alone = editor.partition(path, table[:1])
    ours: list[list[float]] = []
    theirs: list[list[float]] = []
    split, whole = Generator.of(halves.placement), Generator.of(alone.placement)
    split.generate(prompt, new)
    whole.generate(prompt, new)
    for _ in range(ROUNDS):
        ours.append(list(split.generate(prompt, new).seconds))
        theirs.append(list(whole.generate(prompt, new).seconds))
    mine, other, quotient = ratio_of(ours, theirs)
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


def predicted(path: Path, device: Device, prompt: list[int], new: int) -> dict[str, Any]:
    """The step at the middle of the answer by a profile, beside the measured tokens."""
    graph = editor.partition(path, [device]).graph
    sizes = sizes_of_step(graph, 1, len(prompt) + new // 2)
    graph = editor.load_model(path, {**graph.define, **sizes})
    plan = editor.partition(graph, [device])
    (profile,) = profile_all(graph, plan.devices, 3.0).values()
    if isinstance(profile, str):
        print(f"not profiled: {profile}")
        return {"problem": profile}
    costs = costs_of(graph, plan.devices, "measured")
    step = plan.placement.price(costs).total
    plan.generate(prompt, new)
    measured = plan.generate(prompt, new).token.median
    print(
        f"a token on {device.name}: predicted {1e3 * step:.3f} ms, measured {1e3 * measured:.3f} ms "
        f"({step / measured - 1:+.1%})"
    )
    return {"predicted_ms": 1e3 * step, "measured_ms": 1e3 * measured}


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
        devices = editor.load_devices(table)
        prompt = np.random.default_rng(0).integers(3, options.vocabulary, options.prompt).tolist()
        print(f"{options.kind}, {shape}, {path.stat().st_size / 1e6:.0f} MB; {environment(0)}")
        provider = devices[0].provider
        found = {
            "model": vars(options) | {"json": None},
            "one": one_device(path, devices[0], provider, prompt, options.new),
            "predicted": predicted(path, devices[0], prompt, options.new),
        }
        if options.second:
            found["two"] = two_devices(path, table, options.layers, prompt, options.new)
    what = f"{options.kind}, {options.layers} layers of {options.hidden}, prompt {options.prompt}"
    one = found["one"]
    besides = {"a plain session with IO binding": "plain", "onnxruntime-genai": "genai"}
    rows = [
        {
            "machine": options.device,
            "model": what,
            "ours": f"{one['plan_ms']:.2f} ms",
            "beside": f"{beside}, {one['plan_ms'] / one[f'ratio_to_{key}']:.2f} ms",
            "times": f"{one[f'ratio_to_{key}']:.2f}",
        }
        for beside, key in besides.items()
        if f"ratio_to_{key}" in one
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
