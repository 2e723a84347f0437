"""Measures the ops of a model on this machine. Made by @MADE_BY@.

    python run.py                          # with the runtime that is installed here
    python run.py --runtime openvino --target NPU
    python run.py --runtime onnxruntime --target CUDAExecutionProvider

Needs Python 3.8 or newer, numpy, and onnxruntime or openvino. Writes profile.json beside it; take that file back and run
`python -m editor import PLAN profile.json`.

Every result is kept in results-*.jsonl as soon as it is there: after a crash, or Ctrl+C, start it again, and it goes on where
it was. A model that ended the process twice is left out. --again measures everything again.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import platform
import statistics
import sys
import tempfile
import time

import numpy
from shared import register

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before onnxruntime is imported
sys.modules["openvino_telemetry"] = None  # openvino then imports without telemetry

HERE = pathlib.Path(__file__).resolve().parent
LEAST_RUNS, MOST_RUNS, PROFILED_RUNS, TRIES = 5, 300, 12, 2
NUMPY_TYPES = {
    "float32": "f4",
    "float64": "f8",
    "float16": "f2",
    "int8": "i1",
    "int16": "i2",
    "int32": "i4",
    "int64": "i8",
    "uint8": "u1",
    "uint16": "u2",
    "uint32": "u4",
    "uint64": "u8",
    "bool": "?",
}


class OnnxRuntime:
    """Measures with ONNX Runtime, on one execution provider."""

    name = "onnxruntime"

    def __init__(self, target, threads, wanted):
        import onnxruntime

        self.properties, self.precision, self.custom_ops = {}, "", []
        self.library, self.version, self.threads = onnxruntime, onnxruntime.__version__, threads
        self.library.set_default_logger_severity(4)
        here = [p for p in onnxruntime.get_available_providers() if p != "AzureExecutionProvider"]
        target = next(
            (p for p in here if p.lower() == target.lower() + "executionprovider"), target
        )
        if target and target not in here:
            sys.exit(
                "error: ONNX Runtime has no {} here; it has: {}".format(target, ", ".join(here))
            )
        fitting = [
            p for p in here if p.lower() in (wanted.lower(), wanted.lower() + "executionprovider")
        ]
        self.target = target or (fitting or here)[0]

    def load(self, path, alone, trace=""):
        """A session; with ``alone`` an op that the provider refuses is an error, else the CPU runs it."""
        options = self.library.SessionOptions()
        register(options, self.custom_ops)
        options.intra_op_num_threads = self.threads
        options.add_session_config_entry("session.force_spinning_stop", "1")
        for key, value in self.properties.items():
            if "." in key:
                options.add_session_config_entry(key, value)
        if trace:
            options.enable_profiling = True
            options.profile_file_prefix = trace
        cpu = "CPUExecutionProvider"
        if alone and self.target != cpu:
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        own = {key: value for key, value in self.properties.items() if "." not in key}
        first = (self.target, own) if own and self.target != cpu else self.target
        providers = [first] if alone or self.target == cpu else [first, cpu]
        return self.library.InferenceSession(str(path), options, providers=providers)

    def runner(self, path, inputs, alone):
        """A function that runs a model once."""
        session = self.load(path, alone)
        return lambda: session.run(None, inputs)

    def layers(self, path, inputs):
        """The profiler's time of each kernel: name, type, provider, seconds."""
        with tempfile.TemporaryDirectory() as folder:
            session = self.load(path, False, str(pathlib.Path(folder) / "trace"))
            for _ in range(PROFILED_RUNS):
                session.run(None, inputs)
            with open(session.end_profiling(), encoding="utf-8") as file:
                events = json.load(file)
        runs, current, inside = [], {}, -1.0
        for event in sorted(
            events,
            key=lambda e: e.get("ts", 0) + (e.get("dur", 0) if e.get("name") == "model_run" else 0),
        ):
            if event.get("name") == "model_run":
                runs.append(current)
                current, inside = {}, -1.0
            elif (
                event.get("cat") == "Node"
                and event["name"].endswith("_kernel_time")
                and event["ts"] >= inside
            ):
                details = event.get("args", {})
                if details.get("op_name") in (
                    "If",
                    "Loop",
                    "Scan",
                ):  # what follows until its end is part of it
                    inside = event["ts"] + event["dur"]
                key = (
                    event["name"][: -len("_kernel_time")],
                    details.get("op_name", ""),
                    details.get("provider", ""),
                )
                current[key] = current.get(key, 0.0) + event["dur"] * 1e-6
        return [
            {
                "name": name,
                "type": kind,
                "provider": provider,
                "seconds": statistics.median(
                    run[name, kind, provider] for run in runs[1:] if (name, kind, provider) in run
                ),
            }
            for name, kind, provider in (runs[-1] if runs else ())
        ]


class OpenVino:
    """Measures with OpenVINO, on one device."""

    name = "openvino"

    def __init__(self, target, threads, wanted):
        import openvino

        self.properties, self.precision = {}, ""
        self.library, self.version, self.threads = openvino, openvino.__version__, threads
        self.core = openvino.Core()
        here = list(self.core.available_devices)
        if target and target.partition(":")[0] not in here:
            sys.exit("error: OpenVINO has no {} here; it has: {}".format(target, ", ".join(here)))
        fitting = [d for d in here if wanted.lower() in (d.lower(), d.partition(".")[0].lower())]
        self.target = target or (fitting or here)[0]

    def compile(self, path, **more):
        """A compiled model; ``more`` are further properties.

        CPUs and GPUs compute float32 as it is, as they do for the editor, and not in bf16 or f16, unless the table says so.
        """
        properties = {"PERFORMANCE_HINT": "LATENCY"}
        if self.target.partition(".")[0] in ("CPU", "GPU"):
            properties["INFERENCE_PRECISION_HINT"] = "f32"
        if self.target.startswith("CPU") and "INFERENCE_PRECISION_HINT" not in self.properties:
            properties["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = "0"
        properties.update(self.properties)
        properties.update(more)
        if self.threads:
            properties["INFERENCE_NUM_THREADS"] = self.threads
        compiled = self.core.compile_model(self.core.read_model(str(path)), self.target, properties)
        if not self.precision:
            try:
                self.precision = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
            except (RuntimeError, AttributeError):
                self.precision = "unknown"
        return compiled

    def request(self, compiled, inputs):
        """An infer request with its inputs set."""
        request = compiled.create_infer_request()
        for port in compiled.inputs:
            name = next((name for name in inputs if name in port.get_names()), None)
            value = inputs[name] if name is not None else list(inputs.values())[port.get_index()]
            request.set_tensor(port, self.library.Tensor(value))
        return request

    def runner(self, path, inputs, alone):
        """A function that runs a model once."""
        return self.request(self.compile(path), inputs).infer

    def layers(self, path, inputs):
        """The counters of each layer: name, type, seconds, and the ops that it was made of."""
        compiled = self.compile(path, PERF_COUNT="YES")
        ops = {}
        for op in compiled.get_runtime_model().get_ordered_ops():
            details = op.get_rt_info()
            if "originalLayersNames" in details:
                ops[op.get_friendly_name()] = details["originalLayersNames"].astype(str)
        request, times, kinds = self.request(compiled, inputs), {}, {}
        for _ in range(PROFILED_RUNS):
            request.infer()
            for layer in request.profiling_info:
                if layer.status == layer.Status.EXECUTED:
                    times.setdefault(layer.node_name, []).append(layer.real_time.total_seconds())
                    kinds[layer.node_name] = layer.node_type
        return [
            {
                "name": name,
                "type": kinds[name],
                "provider": "",
                "seconds": statistics.median(spent[1:] or spent),
                "ops": [part.strip() for part in ops.get(name, "").split(",") if part.strip()],
            }
            for name, spent in times.items()
        ]


class Results:
    """What was measured so far, one line of JSON each, so that a crash loses at most the model that was running."""

    def __init__(self, path, settings, again):
        self.path, self.done, self.tried, self.precision = path, {}, {}, ""
        if again and path.exists():
            path.unlink()
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        entries = []
        for line in lines:
            try:
                entries.append(json.loads(line))
            except ValueError:  # the process ended while it wrote this line
                continue
        if entries and entries[0].get("settings") != settings:
            sys.exit(
                f"error: {path.name} is of another kit or other settings; start with --again to measure all of it"
            )
        for entry in entries:
            if "begin" in entry:
                self.tried[entry["begin"]] = self.tried.get(entry["begin"], 0) + 1
            elif "what" in entry:
                self.done[entry["what"]] = entry
            self.precision = entry.get("precision", self.precision)
        self.file = open(path, "a", encoding="utf-8")  # noqa: SIM115  # as long as the process
        self.file.write("\n" if lines else "")  # the last line may be cut
        if not entries:
            self.add({"settings": settings})

    def add(self, entry):
        """Writes one line, and waits until it is on the disk."""
        self.file.write(json.dumps(entry) + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())

    def measure(self, what, function):
        """The result of a function, from the file where it is there; what goes wrong is a result too."""
        if what in self.done:
            return self.done[what]
        if self.tried.get(what, 0) >= TRIES:
            entry = {
                "what": what,
                "error": f"the process ended while it was measured, {TRIES} times",
            }
        else:
            self.add({"begin": what})
            try:
                entry = dict({"what": what}, **function())
            except Exception as error:  # noqa: BLE001  # runtimes raise what they like
                entry = {
                    "what": what,
                    "error": (str(error).strip().splitlines() or [type(error).__name__])[0][:300],
                }
        self.add(entry)
        self.done[what] = entry
        return entry


def value_of(spec):
    """A value for an input: what the kit states, random floats, or zeros for integers, which are valid as indices."""
    if spec["type"] not in NUMPY_TYPES:
        raise ValueError("inputs of type %s cannot be made here" % (spec["type"] or "unknown"))
    kind, shape = numpy.dtype(NUMPY_TYPES[spec["type"]]), tuple(spec["shape"])
    if "values" in spec:
        return numpy.array(spec["values"], kind).reshape(shape)
    if kind.kind == "f":
        return numpy.random.default_rng(0).standard_normal(shape).astype(kind)
    return (
        numpy.ones(shape, kind)
        if kind.kind == "b" or "mask" in spec["name"].lower()
        else numpy.zeros(shape, kind)
    )


def time_of(run, seconds):
    """Median seconds of a run: repeated for a time, without the first runs."""
    for _ in range(2):
        begin = time.perf_counter()
        run()
    first, spent, begin = time.perf_counter() - begin, [], time.perf_counter()
    least = LEAST_RUNS if first < seconds else 2
    while len(spent) < least or (time.perf_counter() - begin < seconds and len(spent) < MOST_RUNS):
        start = time.perf_counter()
        run()
        spent.append(time.perf_counter() - start)
    return {"seconds": statistics.median(spent), "least": min(spent), "runs": len(spent)}


def inputs_of(model):
    """A value for each input of a model, by name."""
    return {spec["name"]: value_of(spec) for spec in model["inputs"]}


def time_of_model(backend, model, seconds, alone=True):
    """Seconds of a run of a model; ``alone`` says whether an op that the device refuses is an error."""
    return time_of(backend.runner(HERE / model["file"], inputs_of(model), alone), seconds)


def links(backend, results, kit, seconds):
    """Seconds per launch, per value, and per byte that goes to the device and back.

    Each way by three models of next to no work: one small value, one large value, and many small values.
    """
    found = {}
    for name, model in kit["links"].items():
        found[name] = results.measure(
            "link " + name, lambda m=model: time_of_model(backend, m, seconds)
        )
        if "error" in found[name]:
            return {"error": found[name]["error"]}
    values = {name: model["values"] for name, model in kit["links"].items()}
    size = {name: model["bytes"] for name, model in kit["links"].items()}
    figures = {"launch_seconds": min(found["in_small"]["seconds"], found["out_small"]["seconds"])}
    for way in ("in", "out"):
        small, large, many = (f"{way}_{name}" for name in ("small", "large", "many"))
        begin = found[small]["seconds"]
        figures[way + "_latency"] = max(found[many]["seconds"] - begin, 0.0) / (
            values[many] - values[small]
        )
        figures[way + "_seconds_per_byte"] = max(found[large]["seconds"] - begin, 0.0) / (
            size[large] - size[small]
        )
    copy = numpy.ones(size["in_large"], "u1")
    target = numpy.empty_like(copy)
    host = results.measure(
        "copy in host memory", lambda: time_of(lambda: numpy.copyto(target, copy), seconds)
    )
    figures["host_copy_seconds_per_byte"] = (
        host["seconds"] / size["in_large"] if "seconds" in host else None
    )
    return figures


def measure_all(backend, kit, results, seconds):
    """The whole kit as one document."""
    models = kit["models"]
    used = sorted({group["model"] for group in kit["groups"]})
    pieces = [number for whole in kit["wholes"] for number in whole["pieces"]]
    jobs = len(used) + len(pieces) + 3 * len(kit["wholes"]) + 1
    share = max(0.02, min(0.5, seconds / (jobs + 6)))
    done = [0]

    def step(text):
        done[0] += 1
        print(f"{done[0]:3} of {jobs}: {text}", flush=True)

    def time_wholes(when):
        for number, whole in enumerate(kit["wholes"]):
            step(f"the ops of whole_{number} together, {when}")
            model = models[whole["model"]]
            results.measure(
                f"whole {number} {when}",
                lambda m=model: time_of_model(backend, m, 2 * share, False),
            )

    step("launches, transfers, copies")
    transfers = links(backend, results, kit, min(share, 0.2))
    time_wholes("before")
    for number in used + pieces:
        step(models[number]["file"])
        results.measure(
            f"model {number}", lambda m=models[number]: time_of_model(backend, m, share)
        )
    time_wholes("after")
    wholes = []
    for number, whole in enumerate(kit["wholes"]):
        step(f"the runtime's own profile of whole_{number}")
        model = models[whole["model"]]
        layers = results.measure(
            f"layers {number}",
            lambda m=model: {"layers": backend.layers(HERE / m["file"], inputs_of(m))},
        )
        wholes.append(
            whole_result(whole, kit, results, number, layers, transfers.get("launch_seconds", 0.0))
        )
    groups, failed = [], list(kit["unmeasurable"])
    for group in kit["groups"]:
        result = results.done[f"model {group['model']}"]
        if "error" in result:
            failed.append({"ops": group["ops"], "reason": result["error"]})
        else:
            groups.append(
                {"ops": group["ops"], "seconds": result["seconds"], "runs": result["runs"]}
            )
    return {"wholes": wholes, "groups": groups, "failed": failed, "links": transfers}


def whole_result(whole, kit, results, number, layers, launch):
    """A whole beside the sum of its groups, each without its launch: the scale says how far the two are apart."""
    times = [results.done[f"whole {number} {when}"] for when in ("before", "after")]
    errors = [one["error"] for one in times if "error" in one]
    if errors:
        return {"ops": whole["ops"], "error": errors[0]}
    inside = set(whole["ops"].values())
    parts = [
        results.done[f"model {group['model']}"]
        for group in kit["groups"]
        if inside.issuperset(group["ops"].values())
    ]
    total = sum(max(part["seconds"] - launch, 0.0) for part in parts if "seconds" in part)
    seconds = statistics.mean(one["seconds"] for one in times)
    complete = all("seconds" in part for part in parts)
    pieces = [results.done[f"model {part}"] for part in whole["pieces"]]
    cut = None
    if pieces and all("seconds" in piece for piece in pieces):
        cut = max(sum(piece["seconds"] for piece in pieces) - seconds, 0.0) / (len(pieces) - 1)
    scale = max(seconds - launch, 0.0) / total if total and complete else None
    return {
        "ops": whole["ops"],
        "seconds": seconds,
        "before": times[0]["seconds"],
        "after": times[1]["seconds"],
        "sum_of_groups": total,
        "scale": scale,
        "cut_seconds": cut,
        "layers": layers.get("layers", []),
        "layers_error": layers.get("error", ""),
    }


def stands_in(backend, kit):
    """Whether the CPU is measured in place of another device, whose properties it does not know."""
    return "CPU" in backend.target.upper() and "CPU" not in kit["device"].upper()


def choose_backend(options, kit):
    """The runtime to measure with: the one that was asked for, else the first that is installed."""
    wanted, reasons = options.runtime or kit["runtime"], []
    for kind in (OnnxRuntime, OpenVino):
        if wanted in ("", kind.name):
            try:
                backend = kind(options.target, options.threads, kit["device"])
                if kit.get("properties_of", "") in ("", kind.name) and not stands_in(backend, kit):
                    backend.properties = kit.get("properties", {})
                backend.custom_ops = kit.get("custom_ops", [])
                return backend
            except ImportError as error:
                reasons.append(f"{kind.name}: {error}")
    sys.exit("error: no runtime to measure with ({})".format("; ".join(reasons)))


def machine_name():
    """The machine and its processor, as far as the system tells."""
    processor = platform.processor() or platform.machine()
    try:
        lines = (
            pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        )
    except OSError:
        lines = []
    models = [
        line.split(":", 1)[1].strip()
        for line in lines
        if line.lower().startswith("model name") and ":" in line
    ]
    return f"{platform.node() or 'unnamed'} ({(models or [processor])[0]})"


def main():
    """Measures, and writes profile.json."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runtime",
        default="",
        choices=["", "onnxruntime", "openvino"],
        help="default: the one that is here",
    )
    parser.add_argument(
        "--target",
        default="",
        help="an execution provider of ONNX Runtime, or a device of OpenVINO",
    )
    parser.add_argument("--threads", type=int, default=0, help="of one op; 0: the runtime's choice")
    parser.add_argument(
        "--seconds",
        type=float,
        default=40.0,
        help="to measure, without the time to load the models",
    )
    parser.add_argument(
        "--machine", default=machine_name(), help="what to call this machine in the profile"
    )
    parser.add_argument("--again", action="store_true", help="forget former results")
    options = parser.parse_args()
    kit = json.loads((HERE / "kit.json").read_text(encoding="utf-8"))
    backend = choose_backend(options, kit)
    settings = {
        "runtime": backend.name,
        "runtime_version": backend.version,
        "target": backend.target,
        "threads": options.threads,
        "properties": backend.properties,
        "model_sha256": kit["model_sha256"],
        "define": kit["define"],
        "kit": hashlib.sha256((HERE / "kit.json").read_bytes()).hexdigest(),
    }
    print(
        "measuring {!r} for {} on {} {}, {}".format(
            kit["model"], kit["device"], backend.name, backend.version, backend.target
        )
    )
    if stands_in(backend, kit):
        print(
            "note: the CPU is measured in place of {}; where that has an execution provider or a device of its own, name "
            "it with --target".format(kit["device"]),
            file=sys.stderr,
        )
    safe = "".join(c if c.isalnum() else "_" for c in backend.target)
    results = Results(HERE / (f"results-{backend.name}-{safe}.jsonl"), settings, options.again)
    begin = time.perf_counter()
    figures = measure_all(backend, kit, results, options.seconds)
    if backend.precision and not results.precision:
        results.precision = backend.precision
        results.add({"precision": backend.precision})
    document = {
        "format": "hetero-editor/profile",
        "version": 1,
        "made_by": kit["made_by"],
        "model": kit["model"],
        "device": kit["device"],
        "machine": options.machine,
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
    }
    document.update(settings, precision=results.precision, **figures)
    temporary = HERE / "profile.json.writing"
    temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    os.replace(str(temporary), str(HERE / "profile.json"))
    for number, whole in enumerate(figures["wholes"]):
        if "error" in whole:
            print(f"whole_{number}: not measured: {whole['error']!r}")
        elif whole["scale"] is not None:
            together, apart = whole["seconds"] * 1e3, whole["sum_of_groups"] * 1e3
            print(
                f"whole_{number}: {together:.3f} ms; its groups one by one {apart:.3f} ms; scale {whole['scale']:.2f}"
            )
    for one in figures["failed"][:8]:
        print(
            "not measured: {}: {!r}".format(
                ", ".join(map(repr, list(one["ops"].values())[:3])), one["reason"]
            )
        )
    if stands_in(backend, kit):
        print(
            "these are times of {}, not of {}: the import says so wherever they are used".format(
                backend.target, kit["device"]
            )
        )
    print(f"wrote profile.json after {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
