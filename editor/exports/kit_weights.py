"""One file for the weights of many models, which refer to their parts of it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from onnx import ModelProto, TensorProto, numpy_helper

from editor.errors import ExportError, ModelError
from editor.files import replacing
from editor.graph.external_data import entry_of, external_tensors, is_external, load_tensor

_INLINE = 1024
"""Bytes up to which values stay in the model: runtimes need shapes while they load it."""
_ALIGN = 4096
"""Offsets are multiples of it, so that runtimes can map the file."""


class WeightsFile:
    """Writes every weight once; the file appears when it is complete."""

    def __init__(self, path: Path, folder: Path) -> None:
        """Begins a file.

        Args:
            path: of the file.
            folder: external data of the models is relative to it.
        """
        self.path, self._folder = path, folder
        self._places: dict[str, tuple[int, int]] = {}
        self._open = ExitStack()
        self._file: BinaryIO

    def __enter__(self) -> WeightsFile:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._open.enter_context(replacing(self.path))
        except OSError as error:
            raise self._failed(error) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._open.__exit__(kind, error, trace)
        except OSError as failure:
            raise self._failed(failure) from (error or failure)

    def _failed(self, error: OSError) -> ExportError:
        return ExportError(f"{self.path}: cannot be written ({error.strerror or error})")

    def refer(self, source: ModelProto) -> ModelProto:
        """A copy of a model whose large weights are in the file.

        Raises:
            ExportError: the disk is full, or weights of the model cannot be read.
        """
        model = ModelProto()
        model.CopyFrom(source)
        try:
            own = {tensor.name for tensor in model.graph.initializer}
            for tensor in external_tensors(model):  # in attributes and bodies
                if tensor.name not in own:
                    load_tensor(tensor, self._folder)
            for tensor in model.graph.initializer:
                self._move(tensor)
        except OSError as error:
            raise self._failed(error) from error
        except ModelError as error:
            raise ExportError(f"{self.path}: cannot be written: {error}") from error
        return model

    def _move(self, tensor: TensorProto) -> None:
        if tensor.data_type == TensorProto.STRING or not (tensor.name in self._places or self._is_large(tensor)):
            if is_external(tensor):
                load_tensor(tensor, self._folder)
            return
        if tensor.name not in self._places:
            self._places[tensor.name] = self._write(self._values(tensor))
        offset, length = self._places[tensor.name]
        place = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", self.path.name), ("offset", str(offset)), ("length", str(length))):
            place.external_data.add(key=key, value=value)
        tensor.CopyFrom(place)

    @staticmethod
    def _is_large(tensor: TensorProto) -> bool:
        if is_external(tensor):
            length = entry_of(tensor, "length")
            return not length.isdigit() or int(length) > _INLINE
        return bool(tensor.ByteSize() > _INLINE)

    def _values(self, tensor: TensorProto) -> bytes:
        if is_external(tensor):
            whole = TensorProto()
            whole.CopyFrom(tensor)
            load_tensor(whole, self._folder)
            return bytes(whole.raw_data)
        if tensor.raw_data:
            return bytes(tensor.raw_data)
        return numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name).raw_data

    def _write(self, values: bytes) -> tuple[int, int]:
        self._file.write(bytes(-self._file.tell() % _ALIGN))
        offset = self._file.tell()
        self._file.write(values)
        return offset, len(values)
