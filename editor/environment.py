"""The environment variables of the editor; processes that it starts inherit them."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Variable:
    """An environment variable."""

    name: str
    text: str
    """Says what it does."""
    default: str = ""
    """In words; "" where nothing is the default."""

    @property
    def value(self) -> str:
        """Its value now; "" where it is not set."""
        return os.environ.get(self.name, "")

    def set(self, value: str) -> None:
        """Sets it for this process and those that it starts; "" removes it."""
        os.environ[self.name] = value
        if not value:
            del os.environ[self.name]


LIMITS = {
    limit: Variable(f"HETERO_LIMIT_{limit.upper()}", text, default)
    for limit, text, default in (
        (
            "seconds",
            "Time to read a model and to ask the devices about it; `--limit-seconds` sets it too.",
            "30",
        ),
        (
            "memory",
            "Memory that this may add, such as `8GiB`; `--limit-memory` sets it too.",
            "half of the machine, at most 1.5 GiB and 32 times the size of the file",
        ),
        ("ops", "Most ops of a model, and layers of a profile.", "1,000,000"),
        ("expanded_ops", "Most ops after the expansion of local functions.", "200,000"),
        ("nesting", "Most bodies of `If`, `Loop` and `Scan` inside each other.", "16"),
        ("rank", "Most dimensions of a tensor.", "256"),
    )
}
"""By field of ``limits.Limits``."""
TRUST = Variable(
    "HETERO_EDITOR_TRUST",
    "`1` passes every property of device tables and plans to the runtimes, also those that name files or load code, and "
    "opens programs of PyTorch (`.pt2`); "
    "`--trust` sets it too.",
)
LIBRARIES = Variable(
    "HETERO_EDITOR_EP_LIBRARIES",
    "Libraries of execution providers that no package brings: `name=path`, several as in `PATH`. A device table can name no "
    "others.",
)
CUSTOM_OPS = Variable(
    "HETERO_EDITOR_CUSTOM_OPS",
    "Libraries of custom ops for ONNX Runtime, several as in `PATH`: files, or `onnxruntime-extensions`; as `--custom-ops`.",
)
CUSTOM_OPS_OF_TABLES = Variable(
    "HETERO_EDITOR_CUSTOM_OPS_OF_TABLES",
    "The libraries of the device tables that were read, for the processes that the editor starts. It sets this itself.",
)
COMPILE_CACHE = Variable(
    "HETERO_EDITOR_COMPILE_CACHE",
    "Size of the folder of compiled models, such as `8GiB`; `0` keeps nothing.",
    "2GiB",
)
CONNECTION = {
    field: Variable(name, text)
    for field, name, text in (
        (
            "scheduler",
            "HETERO_SCHEDULER",
            "The Dask scheduler of other machines; as `--scheduler`.",
        ),
        (
            "ca",
            "HETERO_TLS_CA",
            "Certificate of the authority that signed all others; as `--tls-ca`.",
        ),
        ("cert", "HETERO_TLS_CERT", "Certificate of this machine; as `--tls-cert`."),
        ("key", "HETERO_TLS_KEY", "The key of that certificate; as `--tls-key`."),
        ("insecure", "HETERO_INSECURE", "Anything: connects without TLS; as `--insecure`."),
    )
}
"""By field of ``Connection``."""
WORKER_OFFER = Variable(
    "HETERO_WORKER_OFFER", "Devices that a worker offers; as `worker --offer`.", "all"
)
WORKER_THREADS = Variable(
    "HETERO_WORKER_THREADS",
    "Most threads per subgraph of a worker; as `worker --threads`.",
    "the runtime's choice",
)
WORKER_CACHE = Variable(
    "HETERO_WORKER_CACHE",
    "Bytes of weights that a worker keeps on disk; as `worker --cache`.",
    "8 GiB",
)
VARIABLES = (
    *LIMITS.values(),
    TRUST,
    LIBRARIES,
    CUSTOM_OPS,
    CUSTOM_OPS_OF_TABLES,
    COMPILE_CACHE,
    *CONNECTION.values(),
    WORKER_OFFER,
    WORKER_THREADS,
    WORKER_CACHE,
)
