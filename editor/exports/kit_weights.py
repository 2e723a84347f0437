"""One file for the weights of many models, which refer to their parts of it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO

from onnx import ModelProto, TensorProto, numpy_helper
from onnx.checker import ValidationError
from onnx.external_data_helper import load_external_data_for_tensor

from editor.errors import ExportError

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
        self._temporary = ""
        self._file: IO[bytes]

    def __enter__(self) -> WeightsFile:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, self._temporary = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        except OSError as error:
            raise ExportError(f"{self.path}: cannot be written ({error.strerror or error})") from error
        self._file = os.fdopen(handle, "wb")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._file.close()
            if kind is None:
                os.chmod(self._temporary, 0o644)
                os.replace(self._temporary, self.path)
        except OSError as failure:
            raise ExportError(f"{self.path}: cannot be written ({failure.strerror or failure})") from (error or failure)
        finally:
            Path(self._temporary).unlink(missing_ok=True)

    def refer(self, source: ModelProto) -> ModelProto:
        """A copy of a model whose large weights are in the file.

        Raises:
            ExportError: the disk is full, or weights of the model cannot be read.
        """
        model = ModelProto()
        model.CopyFrom(source)
        for tensor in model.graph.initializer:
            try:
                self._move(tensor)
            except OSError as error:
                raise ExportError(f"{self.path}: cannot be written ({error.strerror or error})") from error
            except (ValueError, ValidationError) as error:
                raise ExportError(f"{self.path}: cannot be written, because weights cannot be read: {error}") from error
        return model

    def _move(self, tensor: TensorProto) -> None:
        if tensor.data_type == TensorProto.STRING or not (tensor.name in self._places or self._is_large(tensor)):
            if tensor.data_location == TensorProto.EXTERNAL:
                load_external_data_for_tensor(tensor, str(self._folder))
                tensor.data_location = TensorProto.DEFAULT
                del tensor.external_data[:]
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
        if tensor.data_location == TensorProto.EXTERNAL:
            length = next((e.value for e in tensor.external_data if e.key == "length"), "")
            return not length.isdigit() or int(length) > _INLINE
        return bool(tensor.ByteSize() > _INLINE)

    def _values(self, tensor: TensorProto) -> bytes:
        if tensor.data_location == TensorProto.EXTERNAL:
            whole = TensorProto()
            whole.CopyFrom(tensor)
            load_external_data_for_tensor(whole, str(self._folder))
            return bytes(whole.raw_data)
        if tensor.raw_data:
            return bytes(tensor.raw_data)
        return numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name).raw_data

    def _write(self, values: bytes) -> tuple[int, int]:
        self._file.write(bytes(-self._file.tell() % _ALIGN))
        offset = self._file.tell()
        self._file.write(values)
        return offset, len(values)
