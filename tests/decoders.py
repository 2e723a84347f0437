"""The tiny decoders of the tests: those of ``examples/language-model``, with two layers and a vocabulary of 300."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_FILE = Path(__file__).resolve().parents[1] / "examples" / "language-model" / "make.py"
_SPEC = importlib.util.spec_from_file_location("make_language_model", _FILE)
assert _SPEC is not None
assert _SPEC.loader is not None
_MAKER = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = _MAKER
_SPEC.loader.exec_module(_MAKER)

LAYERS, VOCABULARY, HIDDEN, HEADS, KV_HEADS = 2, 300, 64, 4, 2
SIZE = HIDDEN // HEADS
BUILDER_KINDS = ("llama", "qwen", "int4")


def plain_decoder(path: Path, seed: int = 0, layers: int = LAYERS) -> Path:
    """With plain ops: the cache grows by Concat, the mask is made of lengths."""
    shape = _MAKER.Shape(layers, HIDDEN, HEADS, KV_HEADS, VOCABULARY)
    return Path(_MAKER.make(path, "plain", shape, seed))


def fused_decoder(
    folder: Path, seed: int = 0, kind: str = "llama", layers: int = LAYERS, hidden: int = HIDDEN
) -> Path:
    """With GroupQueryAttention and RotaryEmbedding, and ``genai_config.json`` beside it."""
    shape = _MAKER.Shape(layers, hidden, HEADS, KV_HEADS, VOCABULARY)
    return Path(_MAKER.make(folder, kind, shape, seed))
