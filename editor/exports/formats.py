"""The registry of export formats: what each is for, its options, and what writes it.

The command line, the page, the docs and Python read it. It names functions instead of importing them, so that `--help`
loads no implementation. A new format is a module and an entry here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from editor.arguments import check_one_of
from editor.errors import ExportError
from editor.groups import grouped

ExportForm = Literal[
    "html", "md", "csv", "json", "plan", "dot", "openvino", "onnxruntime", "onnx", "glow", "log", "tvm", "split",
    "split-ir", "npuw", "genai", "model-package", "qnn", "webgpu", "tensorrt", "executorch", "hailo", "litert", "llama-cpp",
    "olive", "model-explorer",
]  # fmt: skip
KitRuntime = Literal["onnxruntime", "openvino"]
KIT_RUNTIMES: tuple[KitRuntime, ...] = get_args(KitRuntime)
"""Runtimes that a kit can measure with."""


@dataclass(frozen=True)
class Option:
    """An option of a format."""

    name: str
    text: str
    """Says what it does."""
    values: tuple[str, ...] = ()
    """What it may be, the default first; empty: any text."""
    form: str = "FILE"
    """What stands for its value in the help, where it may be any text."""

    @property
    def usage(self) -> str:
        """As in ``dag=yes|no``."""
        return f"{self.name}={'|'.join(self.values) or self.form}"


@dataclass(frozen=True)
class Format:
    """A format that plans are written in."""

    text: str
    """Says what it is for."""
    writer: str
    """``module:function``, which takes the placement, the folder, ``stamp`` and the options; "" where `Plan` has it."""
    label: str = ""
    """What the page's menu calls it; "" where the menu has its files one by one."""
    group: str = ""
    """Heading in the page's menu; "" where the devices of the plan decide (``fits``)."""
    download: str = ""
    """The one file that the page's menu offers; "" for all of them."""
    options: tuple[Option, ...] = ()
    notes: str = ""
    """``module:function``: what the files do not keep of the devices that a plan uses."""
    limits: str = ""
    """``module:function``, which takes the placement: what the files limit to what it has room for; "" for nothing."""
    left_out: str = ""
    """``module:function``, which takes the placement: the same in a line, as far as ops run elsewhere; "" where none do."""
    weights: bool = False
    """Whether the model is copied with the files of its weights, whole."""
    parts: bool = False
    """Whether it has models of the subgraphs, with their weights."""
    models: tuple[str, ...] = ("onnx", "openvino")
    """Formats of models that it can write (``Graph.format``)."""
    unfit: str = ""
    """``module:function``, which takes the graph: why it cannot be written, "" where it can; "" for any graph."""
    takes: str = ""
    """The models that it can write, where ``unfit`` refuses others."""
    devices: tuple[str, ...] = ()
    """Which devices can use it: all of a runtime (``onnxruntime``), those of a provider of it (``onnxruntime.QNN``), or of a
    backend that no runtime here has (``hailo``)."""
    needs: str = ""
    """``module:function``, which takes the devices: whether the files work with all of them; "" where one that can use them is
    enough."""


_REPORT, _ONNX = "Plan and report", ("onnx",)
_DEVICE = Option(
    "device",
    "the device of the plan that it is; by default the one of this provider, or the first",
    form="NAME",
)
_MEASURED = Option("measured", "what `bench PLAN --json FILE` wrote of this plan")
_ACCURACY = Option("accuracy", "what `accuracy PLAN --json` wrote of this plan")
FORMATS: dict[str, Format] = {
    "plan": Format("`plan.json`", "", "Plan, JSON", _REPORT, download="plan.json"),
    "html": Format(
        "a report that opens from disk, one page and an appendix",
        "editor.exports.report:write_html",
        "HTML report",
        _REPORT,
        options=(
            Option(
                "compare",
                "`tools` for what OpenVINO, Glow and ONNX Runtime would do, or paths of up to three other plans of the model",
                form="tools or PLAN,PLAN",
            ),
            _MEASURED,
            _ACCURACY,
        ),
    ),
    "md": Format(
        "a report as text for a ticket, one page and an appendix",
        "editor.exports.report:write_markdown",
        "Report, Markdown",
        _REPORT,
        options=(_MEASURED, _ACCURACY),
    ),
    "csv": Format(
        "a table of ops for spreadsheets",
        "editor.exports.report:write_csv",
        "Ops, CSV",
        _REPORT,
        options=(_ACCURACY,),
    ),
    "json": Format(
        "a report for programs",
        "editor.exports.report:write_json",
        "Report, JSON",
        _REPORT,
        options=(_MEASURED, _ACCURACY),
    ),
    "dot": Format(
        "Graphviz; `--render svg,png,pdf` draws it too",
        "editor.exports.dot:write_dot",
        options=(
            Option(
                "colour_by",
                "what the colours of ops stand for",
                ("affinity", "device", "unit", "codegen"),
            ),
            Option("dag", "`no` leaves out the graph of subgraphs", ("yes", "no")),
        ),
    ),
    "openvino": Format(
        "model, affinities, and a script that applies them and compiles `HETERO:`",
        "editor.exports.openvino:write_openvino",
        "OpenVINO: model, affinities, script",
        notes="editor.exports.openvino:notes",
        left_out="editor.exports.openvino:left_out",
        weights=True,
        devices=("openvino",),
        needs="editor.exports.openvino:knows_all",
    ),
    "onnxruntime": Format(
        "model, session settings, and a script that checks where ONNX Runtime placed each op",
        "editor.exports.onnxruntime:write_onnxruntime",
        "ONNX Runtime: annotated model, settings",
        options=(
            Option(
                "assignment",
                "how ops are named: by marks in the model, or by their names",
                ("annotations", "names"),
            ),
            Option(
                "budget", "`no` leaves out the memory budget of the CUDA provider", ("yes", "no")
            ),
        ),
        notes="editor.exports.onnxruntime:session_notes",
        left_out="editor.exports.onnxruntime:session_left_out",
        weights=True,
        models=_ONNX,
        devices=("onnxruntime",),
    ),
    "onnx": Format(
        "the ONNX standard's own device configurations (IR version 11)",
        "editor.exports.onnxruntime:write_multidevice",
        "ONNX device configurations",
        weights=True,
        models=_ONNX,
    ),
    "glow": Format(
        "device table, partition config, `partition.log`",
        "editor.exports.glow:write_glow",
        "Glow: device table, partition config",
    ),
    "log": Format(
        "`partition.log` in Glow's layout",
        "editor.exports.glow:write_partition_log",
        "Glow: partition log",
        download="partition.log",
        options=(
            Option(
                "sidecar", "`no` leaves out the file that says where it comes from", ("yes", "no")
            ),
        ),
    ),
    "tvm": Format(
        "model, placement, and a script for TVM Relax",
        "editor.exports.tvm:write_tvm",
        "TVM: annotation, script",
        notes="editor.exports.tvm:tvm_notes",
        left_out="editor.exports.tvm:left_out",
        weights=True,
        models=_ONNX,
        devices=("tvm",),
    ),
    "split": Format(
        "one model per subgraph and a runner that needs numpy and ONNX Runtime, and OpenVINO for its devices",
        "editor.exports.split:write_split",
        "One model per subgraph, runner",
        options=(
            Option(
                "sizes",
                "`open` keeps the dimensions that the model leaves open, so that the parts run at any size",
                ("fixed", "open"),
            ),
        ),
        notes="editor.exports.split:notes",
        left_out="editor.exports.split:left_out",
        parts=True,
        models=_ONNX,
        devices=("onnxruntime",),
    ),
    "split-ir": Format(
        "the same of an OpenVINO IR: one IR per subgraph and a runner that needs numpy and OpenVINO",
        "editor.exports.split:write_split_ir",
        "One IR per subgraph, runner",
        left_out="editor.exports.split:left_out_of_ir",
        parts=True,
        models=("openvino",),
        devices=("openvino",),
    ),
    "genai": Format(
        "a folder for onnxruntime-genai: the decoder as a pipeline of the subgraphs, with open sizes",
        "editor.exports.genai:write_genai",
        "onnxruntime-genai: decoder pipeline",
        notes="editor.exports.genai:notes",
        limits="editor.exports.genai:limits",
        left_out="editor.exports.genai:left_out",
        parts=True,
        models=_ONNX,
        unfit="editor.exports.genai:unfit",
        takes="models with a genai_config.json",
        devices=("onnxruntime",),
    ),
    "model-package": Format(
        "a model package for ONNX Runtime 1.32 and later: a variant for each plan, of which a session takes its provider's",
        "editor.exports.onnxruntime:write_model_package",
        "ONNX Runtime: model package",
        options=(
            Option(
                "plans",
                "paths of other plans of the model, with other providers",
                form="PLAN,PLAN",
            ),
        ),
        notes="editor.exports.onnxruntime:session_notes",
        left_out="editor.exports.onnxruntime:session_left_out",
        weights=True,
        models=_ONNX,
        devices=("onnxruntime",),
    ),
    "npuw": Format(
        "a plan of groups for the partitioner of OpenVINO's NPU, and a script that checks it and compiles",
        "editor.exports.openvino:write_npuw",
        "OpenVINO NPU: NPUW plan, script",
        models=("openvino",),
        devices=("openvino.NPU",),
    ),
    "qnn": Format(
        "the provider option `op_affinity` of QNN: op types that stay on the CPU, and names for versions after 2.7",
        "editor.exports.provider_options:write_qnn",
        "QNN: op_affinity",
        options=(_DEVICE,),
        models=_ONNX,
        devices=("onnxruntime.QNN",),
    ),
    "webgpu": Format(
        "`forceCpuNodeNames` of WebGPU, for onnxruntime-web and as a provider option",
        "editor.exports.provider_options:write_webgpu",
        "WebGPU: forceCpuNodeNames",
        options=(_DEVICE,),
        models=_ONNX,
        devices=("onnxruntime.WebGPU",),
    ),
    "tensorrt": Format(
        "op types that stay off TensorRT (`trt_op_types_to_exclude`) and TensorRT-RTX (`nv_op_types_to_exclude`); written by "
        "their documents, not tried here",
        "editor.exports.provider_options:write_tensorrt",
        "TensorRT: op types to exclude",
        options=(_DEVICE,),
        models=_ONNX,
        devices=("onnxruntime.TensorRT", "onnxruntime.TensorRT-RTX"),
    ),
    "executorch": Format(
        "op types that the partitioners of ExecuTorch for QNN (`skip_node_op_set`) and Core ML leave alone; written by their "
        "source, not tried here",
        "editor.exports.executorch:write_executorch",
        "ExecuTorch: op types to skip",
        options=(_DEVICE,),
        models=_ONNX,
        unfit="editor.exports.executorch:unfit_for_executorch",
        takes="programs of PyTorch",
    ),
    "hailo": Format(
        "`start_node_names`, `end_node_names` and `net_input_shapes` of each subgraph for the parser of Hailo's compiler; "
        "written by its examples, not tried here",
        "editor.exports.hailo:write_hailo",
        "Hailo: first and last nodes",
        options=(_DEVICE,),
        models=_ONNX,
        devices=("hailo",),
    ),
    "litert": Format(
        "numbers of the operators of a TensorFlow Lite file that stay off a delegate, and the range for "
        "`first_delegate_node_index`; written by its source, not tried here",
        "editor.exports.litert:write_litert",
        "LiteRT: operators to skip",
        options=(_DEVICE,),
        unfit="editor.exports.litert:unfit_for_litert",
        takes="TensorFlow Lite files",
        devices=("edgetpu", "litert"),
    ),
    "llama-cpp": Format(
        "`--override-tensor` of llama.cpp: a buffer for the weights of each module of a language model; written by its source, "
        "not tried here",
        "editor.exports.llama_cpp:write_llama_cpp",
        "llama.cpp: override-tensor",
        options=(
            Option(
                "gguf",
                "the model as GGUF, whose tensors are named, instead of those that there may be",
            ),
            Option(
                "buffers",
                "what llama.cpp calls the memory of devices, such as Vulkan0; known of the CPU, CUDA and ROCm",
                form="DEVICE=BUFFER,...",
            ),
        ),
        models=_ONNX,
        unfit="editor.exports.llama_cpp:unfit",
        takes="language models of Transformers",
    ),
    "olive": Format(
        "a model with `split_assignments` for Olive's pass `SplitModel`, and a cost model of its modules",
        "editor.exports.olive:write_olive",
        "Olive: split assignments, cost model",
        weights=True,
        models=_ONNX,
    ),
    "model-explorer": Format(
        "device, time and reason of each op as node data of Model Explorer",
        "editor.exports.model_explorer:write_model_explorer",
        "Model Explorer: node data",
    ),
}
WITH_WEIGHTS = tuple(name for name, form in FORMATS.items() if form.weights)


def by_devices() -> str:
    """All formats by the devices that can use them, for the help of the command line."""
    groups = grouped((", ".join(form.devices), name) for name, form in FORMATS.items())
    groups["any devices"] = groups.pop("")  # last
    return "; ".join(f"for {which}: {', '.join(names)}" for which, names in groups.items())


def usage() -> str:
    """The options of all formats, for the help of the command line."""
    return "; ".join(
        f"{name}: {', '.join(option.usage for option in form.options)}"
        for name, form in FORMATS.items()
        if form.options
    )


def check(form: str, options: Mapping[str, str]) -> Format:
    """The format of this name.

    Raises:
        ExportError: the format, an option or the value of an option is unknown; the message lists those that there are.
    """
    check_one_of(form, FORMATS, "unknown export format", ExportError)
    known = {option.name: option for option in FORMATS[form].options}
    for name, value in options.items():
        check_one_of(name, known, f"{form} has no option", ExportError)
        if known[name].values:
            check_one_of(value, known[name].values, f"{form}: {name} cannot be", ExportError)
    return FORMATS[form]
