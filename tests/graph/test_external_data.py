"""External data of hostile models: nothing outside the model's folder, the cache and OUT is written, removed or linked."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from hostile import PLACES, SIZE, model_with, tree
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto

import editor
from editor.errors import EditorError
from editor.exports.model_copy import write_model
from editor.graph.external_data import all_tensors, external_tensors, locations_of
from editor.graph.model_file import read_model
from editor.runtimes.base import SubModel
from editor.runtimes.openvino.request import read_model as read_openvino


@pytest.mark.parametrize("place", PLACES)
def test_every_tensor_of_a_model_is_checked(place: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model_with(place, ("location", "w.bin")), path)
    (tmp_path / "w.bin").write_bytes(bytes(4 * SIZE))
    assert locations_of(read_model(path)) == ["w.bin"]
    onnx.save(model_with(place, ("location", "../secret")), path)
    with pytest.raises(editor.ModelError, match="outside the model's folder"):
        read_model(path)


REFUSED = {
    "two locations": [("location", "/etc/passwd"), ("location", "w.bin")],
    "two equal locations": [("location", "w.bin"), ("location", "w.bin")],
    "two offsets": [("location", "w.bin"), ("offset", "0"), ("offset", "8")],
    "an unknown key": [("location", "w.bin"), ("prepacked_0", "x|0|8")],
    "a way out and back": [("location", "../{name}/w.bin")],
    "a way through a folder": [("location", "sub/../w.bin")],
    "an absolute path inside": [("location", "{folder}/w.bin")],
    "an absolute path outside": [("location", "/etc/hostname")],
    "a link outside": [("location", "link.bin")],
    "a folder link outside": [("location", "linked/w.bin")],
    "a folder": [("location", "sub")],
    "a FIFO": [("location", "fifo")],
    "a device": [("location", "null")],
    "a socket": [("location", "socket")],
    "the model itself": [("location", "m.onnx")],
    "an address in memory": [
        ("location", "*/_ORT_MEM_ADDR_/*"),
        ("offset", "4096"),
        ("length", "8"),
    ],
    "a program": [("location", "numpy.py")],
    "no location": [("offset", "0")],
}


@pytest.mark.parametrize("case", REFUSED)
def test_locations_that_are_not_a_file_below_the_model_are_refused(
    case: str, tmp_path: Path
) -> None:
    import socket

    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    for path in (folder / "w.bin", folder / "numpy.py", tmp_path / "w.bin"):
        path.write_bytes(bytes(4 * SIZE))
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    (folder / "linked").symlink_to(tmp_path)
    os.mkfifo(folder / "fifo")
    if os.geteuid() == 0:
        os.mknod(folder / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    else:
        (folder / "null").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(folder / "socket"))
        entries = [
            (key, value.format(name=folder.name, folder=folder)) for key, value in REFUSED[case]
        ]
        onnx.save(model_with("initializer", *entries), folder / "m.onnx")
        with pytest.raises(editor.ModelError, match="external data of tensor 'w'"):
            editor.load_model(folder / "m.onnx")


def test_locations_are_kept_in_their_shortest_form(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(bytes(4 * SIZE))
    onnx.save(
        model_with(
            "initializer", ("checksum", "0"), ("length", "256"), ("location", ".//sub/./w.bin")
        ),
        tmp_path / "m.onnx",
    )
    (tensor,) = external_tensors(read_model(tmp_path / "m.onnx"))
    assert [(e.key, e.value) for e in tensor.external_data] == [
        ("location", "sub/w.bin"),
        ("length", "256"),
    ]


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A home with files that hostile models aim at, the model's folder, OUT and a folder for temporary files."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        root = Path(folder)
        for name in ("a/b", "out", "tmp", ".ssh", ".config/autostart"):
            (root / name).mkdir(parents=True)
        for name in ("secret", "a/secret", ".ssh/authorized_keys", "a/b/w.bin"):
            (root / name).write_bytes(bytes(range(256)))
        patch.setattr(tempfile, "tempdir", str(root / "tmp"))
        yield root


parts = st.sampled_from(
    [
        "..",
        ".",
        "a",
        "b",
        "w.bin",
        "secret",
        ".ssh",
        "authorized_keys",
        "new",
        "x.desktop",
        "",
        "//",
        "/",
    ]
)
locations = st.one_of(
    st.lists(parts, min_size=1, max_size=6).map("/".join),
    st.sampled_from(["secret", ".ssh/authorized_keys", "a/b/w.bin", "new"]).map("{root}/".__add__),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12),
)
entries = st.lists(
    st.tuples(
        st.sampled_from(["location", "location", "offset", "length", "basepath"]),
        locations | st.just("8"),
    ),
    max_size=3,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(PLACES), locations, entries, st.booleans())
def test_nothing_outside_is_touched_whatever_the_locations(
    home: Path, place: str, location: str, more: list[tuple[str, str]], huge: bool
) -> None:
    """From reading to exports; and where a hostile part reaches a writer by another way, the writer refuses it."""
    model_folder, out = home / "a/b", home / "out"
    given_entries = [
        (key, value.replace("{root}", str(home))) for key, value in [("location", location), *more]
    ]
    outside = (model_folder, out, home / "tmp")
    path = model_folder / "m.onnx"
    model = model_with(place, *given_entries)
    if huge:  # too large to be put into the model: the import copies files
        for tensor in external_tensors(model):
            tensor.dims[:] = [1 << 40]
    path.write_bytes(model.SerializeToString())
    before = tree(home, outside)
    try:
        plan = editor.partition(editor.load_model(path), "HETERO:OpenVINO.CPU,CPU")
        for form in ("openvino", "onnxruntime", "onnx", "split", "tvm"):
            try:
                plan.export(form, out)
            except EditorError:
                pass
        plan.run({"x": np.zeros(SIZE, np.float32)})
    except EditorError:
        pass
    graph = (
        editor.load_model(model_folder / "plain.onnx")
        if (model_folder / "plain.onnx").exists()
        else _plain(model_folder)
    )
    for writer in (
        lambda: write_model(model, graph, out / "copy.onnx"),
        lambda: read_openvino(SubModel(model, ("x",), ("y",), model_folder, "it")),
    ):
        try:
            writer()
        except Exception:  # noqa: BLE001  # runtimes raise what they like; what they did is looked at below
            pass
    assert tree(home, outside) == before
    assert not list((home / "tmp").glob("hetero-openvino*")), "the import leaves nothing behind"


def _plain(folder: Path) -> editor.Graph:
    onnx.save(model_with("initializer", ("location", "w.bin")), folder / "plain.onnx")
    return editor.load_model(folder / "plain.onnx")


def test_a_tensor_that_is_not_external_has_no_entries(tmp_path: Path) -> None:
    model = model_with("initializer", ("location", "/etc/passwd"))
    for tensor in all_tensors(model):
        tensor.data_location = TensorProto.DEFAULT
        tensor.raw_data = bytes(4 * SIZE)
    onnx.save(model, tmp_path / "m.onnx")
    assert not any(tensor.external_data for tensor in all_tensors(read_model(tmp_path / "m.onnx")))
