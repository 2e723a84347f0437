"""The properties that OpenVINO takes from device tables.

Left out is what names a file or a folder: ``CACHE_DIR``, ``WEIGHTS_PATH``, ``CONFIG_FILE``, options
of compilers, and all private ones. Source: ``openvino/runtime/properties.hpp`` and the pages of the devices.
"""

from __future__ import annotations

from editor.devices.properties import Property

PROPERTIES = (
    Property(
        "INFERENCE_PRECISION_HINT",
        "word",
        "f32, f16, bf16 or dynamic: the type that float32 is computed in",
    ),
    Property("EXECUTION_MODE_HINT", "word", "PERFORMANCE or ACCURACY"),
    Property("PERFORMANCE_HINT", "word", "LATENCY, THROUGHPUT or CUMULATIVE_THROUGHPUT"),
    Property("PERFORMANCE_HINT_NUM_REQUESTS", "number", "runs in flight to plan for"),
    Property("NUM_STREAMS", "word", "streams, or AUTO"),
    Property("INFERENCE_NUM_THREADS", "number", "threads"),
    Property("ENABLE_CPU_PINNING", "switch", "bind threads to processors"),
    Property("ENABLE_CPU_RESERVATION", "switch", "reserve processors"),
    Property("ENABLE_HYPER_THREADING", "switch", "use both threads of a core"),
    Property("SCHEDULING_CORE_TYPE", "word", "ANY_CORE, PCORE_ONLY or ECORE_ONLY"),
    Property("MODEL_DISTRIBUTION_POLICY", "word", "TENSOR_PARALLEL or PIPELINE_PARALLEL"),
    Property("MODEL_PRIORITY", "word", "LOW, MEDIUM or HIGH"),
    Property("PERF_COUNT", "switch", "measure layers"),
    Property("CPU_DENORMALS_OPTIMIZATION", "switch", "treat denormal numbers as zero"),
    Property(
        "CPU_SPARSE_WEIGHTS_DECOMPRESSION_RATE",
        "number",
        "from which share of zeros weights are packed",
    ),
    Property("ENABLE_TENSOR_PARALLEL", "switch", "divide tensors over sockets"),
    Property("TBB_PARTITIONER", "word", "STATIC or AUTO"),
    Property(
        "DYNAMIC_QUANTIZATION_GROUP_SIZE", "number", "values that share a scale; 0 switches it off"
    ),
    Property("KV_CACHE_PRECISION", "word", "type of the cache"),
    Property("KEY_CACHE_PRECISION", "word", "type of its keys"),
    Property("VALUE_CACHE_PRECISION", "word", "type of its values"),
    Property("KEY_CACHE_GROUP_SIZE", "number", "keys that share a scale"),
    Property("VALUE_CACHE_GROUP_SIZE", "number", "values that share a scale"),
    Property("ACTIVATIONS_SCALE_FACTOR", "number", "scale against overflow in float16"),
    Property("DEVICE_ID", "word", "which device of the kind"),
    Property("GPU_HOST_TASK_PRIORITY", "word", "LOW, MEDIUM or HIGH"),
    Property("GPU_QUEUE_PRIORITY", "word", "LOW, MEDIUM or HIGH"),
    Property("GPU_QUEUE_THROTTLE", "word", "LOW, MEDIUM or HIGH"),
    Property("GPU_ENABLE_LOOP_UNROLLING", "switch", "unroll loops"),
    Property("NPU_COMPILER_TYPE", "word", "DRIVER or PLUGIN"),
    Property("NPU_TURBO", "switch", "highest clock"),
    Property("NPU_TILES", "number", "tiles"),
    Property("NPU_USE_NPUW", "switch", "use the NPU wrapper"),
    Property("NPUW_DEVICES", "names", "devices of the NPU wrapper, in order"),
)
