"""The properties that ONNX Runtime takes from device tables: options of its providers, and of sessions (with a dot).

Left out is what names a file or a folder, holds an address in memory, or loads code: ``session.*_file*``, ``ep.context_*``,
``backend_path``, ``trt_engine_cache_path``, ``cache_dir``, ``user_compute_stream`` and their like.
Sources: ``onnxruntime_session_options_config_keys.h`` and the page of each provider in ONNX Runtime's documentation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from editor.devices.device import Property, PropertyKind

_SESSION = """
switch session.disable_prepacking: keep weights as they are instead of repacking them for the kernels
switch session.use_env_allocators: share the allocators of the process
switch session.set_denormal_as_zero: treat denormal numbers as zero
switch session.disable_quant_qdq: leave quantised regions as QuantizeLinear and DequantizeLinear
switch session.disable_double_qdq_remover: keep doubled pairs of quantisation
switch session.enable_quant_qdq_cleanup: remove pairs of quantisation that remain
switch session.intra_op.allow_spinning: let waiting threads of an op spin
switch session.inter_op.allow_spinning: let waiting threads between ops spin
number session.dynamic_block_base: divide the work of an op into blocks that shrink
names session.intra_op_thread_affinities: processors of each thread, such as 1;2;3-4
switch session.force_spinning_stop: stop spinning at the end of a run
switch session.disable_cpu_ep_fallback: fail where an op would fall back to the CPU
switch session.disable_aot_function_inlining: do not inline functions before providers see them
number session.qdq_matmulnbits_accuracy_level: accuracy of 4-bit products, 0 to 4
switch session.x64quantprecision: exact 8-bit products on old x86 processors
switch session.strict_shape_type_inference: fail where shapes contradict each other
switch session.use_device_allocator_for_initializers: keep weights out of the arena
switch session.enable_dq_matmulnbits_fusion: fuse DequantizeLinear and MatMul
switch session.record_ep_graph_assignment_info: keep which provider got which node
switch mlas.enable_gemm_fastmath_arm64_bfloat16: multiply float32 in bfloat16 on ARM
switch mlas.use_lut_gemm: multiply low-bit weights by look-up tables
switch mlas.disable_kleidiai: do not use Arm KleidiAI kernels
switch optimization.enable_gelu_approximation: replace Gelu by FastGelu
switch optimization.enable_cast_chain_elimination: remove chains of Cast
names optimization.disable_specified_optimizers: optimisers to leave out, separated by ;
switch ep.share_ep_contexts: share compiled contexts between sessions
"""

_PROVIDERS: Mapping[str, str] = {
    "CUDAExecutionProvider": """
switch enable_profiling: accepted for old tables; `profile` measures ops
number gpu_mem_limit: bytes of the arena
word arena_extend_strategy: kNextPowerOfTwo or kSameAsRequested
word cudnn_conv_algo_search: EXHAUSTIVE, HEURISTIC or DEFAULT
switch do_copy_in_default_stream: copy in the default stream
switch cudnn_conv_use_max_workspace: let cuDNN use as much workspace as it likes
switch cudnn_conv1d_pad_to_nc1d: how 1-D convolutions are padded
switch enable_cuda_graph: capture runs as a CUDA graph
switch enable_skip_layer_norm_strict_mode: accurate SkipLayerNormalization
switch use_tf32: compute float32 in TF32
switch prefer_nhwc: compute in NHWC
switch fuse_conv_bias: let cuDNN fuse the bias
number sdpa_kernel: which attention kernels may be used
switch use_ep_level_unified_stream: one stream for the provider
switch tunable_op_enable: choose kernels by timing
switch tunable_op_tuning_enable: time kernels in runs
number tunable_op_max_tuning_duration_ms: limit of that""",
    "TensorrtExecutionProvider": """
number trt_max_workspace_size: bytes
number trt_max_partition_iterations: rounds of partitioning
number trt_min_subgraph_size: ops of the smallest subgraph
switch trt_fp16_enable: compute in float16
switch trt_bf16_enable: compute in bfloat16
switch trt_int8_enable: compute in int8
switch trt_dla_enable: use the deep learning accelerator
number trt_dla_core: which
switch trt_force_sequential_engine_build: build engines one after the other
switch trt_context_memory_sharing_enable: share memory between engines
switch trt_layer_norm_fp32_fallback: LayerNormalization in float32
number trt_builder_optimization_level: 0 to 5
number trt_auxiliary_streams: streams beside the main one
switch trt_sparsity_enable: use sparsity
switch trt_build_heuristics_enable: build faster
switch trt_cuda_graph_enable: capture runs as a CUDA graph
names trt_profile_min_shapes: smallest shapes, such as x:1x3x224x224
names trt_profile_max_shapes: largest shapes
names trt_profile_opt_shapes: usual shapes
names trt_op_types_to_exclude: op types that TensorRT leaves""",
    "NvTensorRTRTXExecutionProvider": """
number nv_max_workspace_size: bytes
number nv_max_shared_mem_size: bytes
switch nv_cuda_graph_enable: capture runs as a CUDA graph
switch enable_cuda_graph: capture runs as a CUDA graph
names nv_profile_min_shapes: smallest shapes
names nv_profile_max_shapes: largest shapes
names nv_profile_opt_shapes: usual shapes""",
    "QNNExecutionProvider": """
word backend_type: cpu, gpu, htp or saver-free backends of QNN by name
word htp_performance_mode: burst, balanced, high_performance, power_saver ...
number htp_graph_finalization_optimization_mode: 0 to 3
switch enable_htp_fp16_precision: float32 models in float16
switch enable_htp_shared_memory_allocator: share memory with the NPU
number vtcm_mb: megabytes of tightly coupled memory
number soc_model: number of the chip
number htp_arch: architecture of the NPU
word qnn_context_priority: low, normal, normal_high or high
switch offload_graph_io_quantization: quantise inputs and outputs on the CPU
number rpc_control_latency: microseconds""",
    "CoreMLExecutionProvider": """
word MLComputeUnits: ALL, CPUOnly, CPUAndGPU or CPUAndNeuralEngine
word ModelFormat: MLProgram or NeuralNetwork
switch RequireStaticInputShapes: leave ops with open sizes
switch EnableOnSubgraphs: take bodies of control flow
word SpecializationStrategy: Default or FastPrediction
switch AllowLowPrecisionAccumulationOnGPU: accumulate in float16""",
    "DmlExecutionProvider": """
word performance_preference: default, high_performance or minimum_power
word device_filter: gpu, npu or any
switch disable_metacommands: do not use the vendor's kernels
switch enable_graph_capture: capture runs
switch enable_graph_serialization: serialise the graph""",
    "OpenVINOExecutionProvider": """
names device_type: such as GPU or AUTO:GPU,CPU
word precision: FP32, FP16 or ACCURACY
number num_of_threads: threads
number num_streams: streams
word model_priority: LOW, MEDIUM, HIGH or DEFAULT
switch disable_dynamic_shapes: fix open sizes
switch enable_opencl_throttling: spare the processor
switch enable_qdq_optimizer: optimise quantised models""",
    "WebGpuExecutionProvider": """
word preferredLayout: NCHW or NHWC
switch enableGraphCapture: capture runs
word dawnBackendType: D3D12 or Vulkan
word powerPreference: high-performance or low-power
word validationMode: disabled, wgpuOnly, basic or full
names forceCpuNodeNames: nodes to leave to the CPU
word storageBufferCacheMode: disabled, lazyRelease, simple or bucket
word uniformBufferCacheMode: as above
word queryResolveBufferCacheMode: as above
word defaultBufferCacheMode: as above""",
    "XnnpackExecutionProvider": "number intra_op_num_threads: threads",
    "DnnlExecutionProvider": "switch use_arena: use an arena",
    "ACLExecutionProvider": "switch enable_fast_math: compute float32 faster and less accurately",
    "ROCMExecutionProvider": """
number gpu_mem_limit: bytes of the arena
word arena_extend_strategy: kNextPowerOfTwo or kSameAsRequested
switch miopen_conv_exhaustive_search: time all convolutions
switch tunable_op_enable: choose kernels by timing
switch enable_hip_graph: capture runs""",
    "MIGraphXExecutionProvider": """
switch migraphx_fp16_enable: compute in float16
switch migraphx_bf16_enable: compute in bfloat16
switch migraphx_int8_enable: compute in int8
switch migraphx_exhaustive_tune: time all kernels""",
}


def _parsed(lines: str) -> Iterator[Property]:
    for line in lines.strip().splitlines():
        kind, _, rest = line.partition(" ")
        name, _, text = rest.partition(": ")
        yield Property(name, _KINDS[kind], text)


_KINDS: Mapping[str, PropertyKind] = {
    "switch": "switch",
    "number": "number",
    "word": "word",
    "names": "names",
    "text": "text",
}
_INDEX = Property("device_id", "number", "which of the provider's devices; `unit` says the same")
SESSION = tuple(_parsed(_SESSION))
BY_PROVIDER: Mapping[str, tuple[Property, ...]] = {
    provider: (*_parsed(lines), *SESSION, _INDEX) for provider, lines in _PROVIDERS.items()
}
EVERY_PROVIDER = (*SESSION, _INDEX)
"""What a provider takes that is not listed."""
NOT_PASSED = frozenset({"enable_profiling", "device_id"})
"""Accepted, and not passed to the provider."""
