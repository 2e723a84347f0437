"""What every process does first: no telemetry, and no code from the current folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import EXAMPLES, ROOT

MODEL = EXAMPLES / "models" / "mobilenetv2.onnx"
MARK = "imported-from-the-current-folder"


@pytest.fixture(scope="module")
def strange_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of modules named like the standard library's, ours and our dependencies'; each leaves a mark and fails."""
    folder = tmp_path_factory.mktemp("strange")
    packages = {
        p.name.split(".")[0] for p in Path(os.__file__).parent.iterdir() if p.suffix == ".py"
    }
    packages |= {
        p.name.split(".")[0]
        for p in Path(json.__file__).parent.parent.iterdir()
        if (p / "__init__.py").is_file()
    }
    for site in (p for p in sys.path if p.endswith("site-packages")):
        packages |= {
            p.name.removesuffix(".py")
            for p in Path(site).iterdir()
            if (p / "__init__.py").is_file() or p.suffix == ".py"
        }
    packages |= {"assets", "examples", "benchmarks", "conftest", "tests", "app", "hetero_editor"}
    code = f"open(__file__ + '.{MARK}', 'w').close()\nraise SystemExit('{MARK}')\n"
    for name in packages - {"editor", "sitecustomize", "usercustomize"}:
        if name.isidentifier():
            (folder / f"{name}.py").write_text(code)
    for name in ("ort_ep_strange", "strange_runtime"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(
            "def get_library_path(): ...\ndef get_ep_names(): ...\n" + code
        )
    info = folder / "strange-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strange\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[hetero_editor.runtimes]\nstrange = strange_runtime:get_ep_names\n"
    )
    shutil.copy(MODEL, folder / "m.onnx")
    # Python itself imports some modules for `-m`, before any code of ours runs; nothing can be done about these.
    (folder / "empty_package").mkdir()
    for name in ("__init__.py", "__main__.py"):
        (folder / "empty_package" / name).touch()
    while subprocess.run(
        [sys.executable, "-m", "empty_package"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        check=False,
    ).returncode:
        (imported,) = marks(folder)
        (folder / imported).unlink()
        (folder / f"{imported}.{MARK}").unlink()
    assert (
        (folder / "json.py").exists()
        and (folder / "numpy.py").exists()
        and (folder / "multiprocessing.py").exists()
    )
    return folder


def marks(folder: Path) -> list[str]:
    return sorted(path.name.removesuffix(f".{MARK}") for path in folder.rglob(f"*.{MARK}"))


def environment(**more: str) -> dict[str, str]:
    return {
        name: value
        for name, value in {**os.environ, **more}.items()
        if name not in ("PYTHONPATH", "PYTHONSAFEPATH")
    }


STARTS = {
    "module": (
        ["-m", "editor"],
        [
            "partition",
            "m.onnx",
            "--devices",
            "HETERO:OpenVINO.CPU,CPU,Interpreter",
            "--out",
            "{out}",
        ],
    ),
    "module, devices": (["-m", "editor"], ["devices"]),
    "module, bench": (["-m", "editor"], ["bench", "{out}/plan.json", "--seconds", "0.2"]),
    "script": (
        ["-c", "import sys; from editor.__main__ import main; sys.exit(main())"],
        ["partition", "m.onnx", "--devices", "HETERO:OpenVINO.CPU,CPU", "--out", "{out}"],
    ),
}


@pytest.mark.parametrize("way", STARTS)
def test_no_module_of_the_current_folder_is_imported(
    way: str, strange_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """By ``python -m editor``, and by what the installed command runs, in all processes that these start."""
    out = tmp_path_factory.getbasetemp() / "strange-out"
    start, arguments = STARTS[way]
    if way == "script":  # as the installed command: its own folder comes first, not the current one
        start = ["-P", *start]
    if "bench" in way and not (out / "plan.json").exists():
        import editor

        editor.partition(
            editor.load_model(strange_folder / "m.onnx"), "HETERO:OpenVINO.CPU,CPU"
        ).save(out / "plan.json")
    # The checkout is found by a path file, as an installed package is.
    finder = f"import sys; sys.path.append({str(ROOT)!r})"
    site = tmp_path_factory.mktemp("site")
    (site / "sitecustomize.py").write_text(finder)
    done = subprocess.run(
        [sys.executable, *start, *(a.format(out=out) for a in arguments)],
        cwd=strange_folder,
        env={**environment(), "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert marks(strange_folder) == []
    assert done.returncode == 0, done.stdout + done.stderr
    assert "strange_runtime" not in done.stdout and "ort_ep_strange" not in done.stdout


def wait_for(address: str, process: subprocess.Popen[str]) -> bytes:
    import urllib.request

    for _ in range(600):
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                return bytes(answer.read())
        except OSError:
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.1)
    raise AssertionError("the page does not answer")


@pytest.fixture
def started_app(strange_folder: Path) -> Iterator[str]:
    """The page, started by ``python /path/app.py m.onnx`` in the strange folder; its address."""
    with subprocess.Popen(
        [
            sys.executable,
            str(ROOT / "app.py"),
            "m.onnx",
            "--devices",
            "HETERO:OpenVINO.CPU,CPU",
            "--no-browser",
            "--no-token",
            "--port",
            "0",
            "--workspace",
            str(strange_folder / "workspace"),
        ],
        cwd=strange_folder,
        env=environment(PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        printed = ""
        for line in process.stdout:
            printed += line
            if found := re.search(r"http://127\.0\.0\.1:\d+\S*", line):
                break
        else:
            raise AssertionError(printed)
        try:
            wait_for(found[0], process)
            yield found[0]
        finally:
            process.terminate()
            process.communicate()


def test_the_page_imports_no_module_of_the_current_folder(
    started_app: str, strange_folder: Path
) -> None:
    import urllib.request

    with urllib.request.urlopen(started_app, timeout=60) as answer:
        assert b"m.onnx" in answer.read() or answer.status == 200
    assert marks(strange_folder) == []


def test_the_path_of_a_person_s_own_program_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("value = 1")
    code = (
        f"import sys; sys.path.append({str(ROOT)!r}); before = list(sys.path); import editor;"
        "assert sys.path == before; import mine;"
        "import os; assert 'PYTHONSAFEPATH' not in os.environ"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment(), check=True)


COUNTER = """
import array, fcntl, re, socket, struct, subprocess, sys
with socket.socket() as s:  # loopback up, and no route to anywhere
    name = struct.pack("16sh", b"lo", 0x1 | 0x40)
    fcntl.ioctl(s, 0x8914, name)
subprocess.run(["mount", "--bind", sys.argv[1], "/etc/resolv.conf"], check=True)
status = subprocess.run(sys.argv[2:]).returncode
def counters(path, kind, *names):
    rows = [line.split() for line in open(path) if line.startswith(kind)]
    table = dict(zip(rows[0], rows[1])) if kind.endswith(":") else {row[0]: row[1] for row in rows}
    return sum(int(table[name]) for name in names)
asked = counters("/proc/net/snmp", "Ip:", "OutNoRoutes") + counters("/proc/net/snmp", "Udp:", "NoPorts")
asked += counters("/proc/net/snmp6", "Ip6", "Ip6OutNoRoutes")
print("REQUESTS", asked, "STATUS", status)
"""


def watched_environment(home: Path) -> dict[str, str]:
    """The environment of a person with a new home: OpenVINO's telemetry stays off by itself in CI, and nowhere else."""
    given = environment(HOME=str(home), XDG_CACHE_HOME=str(home / ".cache"))
    for name in ("CI", "TF_BUILD", "JENKINS_URL"):
        given.pop(name, None)
    return given


def requests_of(*command: str, home: Path) -> tuple[int, int, str]:
    """Attempts of a program and its children, native code included, to reach anything but this machine; its exit status.

    It runs in a network without routes, whose kernel counts what was tried.
    """
    unshare = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--net", "--mount"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("this machine lets nobody make a network namespace")
    names = home / "resolv.conf"
    names.write_text("nameserver 192.0.2.53\n")
    done = subprocess.run(
        [*unshare, sys.executable, "-c", COUNTER, str(names), *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=watched_environment(home),
    )
    found = re.search(r"REQUESTS (\d+) STATUS (\d+)", done.stdout)
    assert found, done.stdout + done.stderr
    return int(found[1]), int(found[2]), done.stdout + done.stderr


def test_the_counter_sees_requests_of_native_code_and_of_names(tmp_path: Path) -> None:
    code = "import socket\ntry: socket.create_connection(('198.51.100.1', 80), 1)\nexcept OSError: pass"
    assert requests_of(sys.executable, "-c", code, home=tmp_path)[0] > 0
    code = "import socket\ntry: socket.getaddrinfo('www.example.org', 80)\nexcept OSError: pass"
    assert requests_of(sys.executable, "-c", code, home=tmp_path)[0] > 0
    code = "import openvino, time; time.sleep(5)"
    assert requests_of(sys.executable, "-c", code, home=tmp_path)[0] > 0, (
        "it would, if nobody kept it from that"
    )


def no_stores(home: Path) -> None:
    left = [str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()]
    assert not [
        name
        for name in left
        if re.search("intel|microsoft|onnxruntime.db|ga_cid", name, re.IGNORECASE)
    ]


def test_no_command_asks_the_network_for_anything(tmp_path: Path) -> None:
    plan = str(tmp_path / "out" / "plan.json")
    commands = (
        ["devices"],
        [
            "partition",
            str(MODEL),
            "--devices",
            "HETERO:OpenVINO.CPU,CPU",
            "--out",
            str(tmp_path / "out"),
        ],
        ["run", plan],
        ["bench", plan, "--seconds", "0.3"],
        ["profile", plan, "--seconds", "0.3"],
        ["export", plan, "--to", "openvino", "--out", str(tmp_path / "o")],
        ["export", plan, "--to", "split", "--out", str(tmp_path / "s")],
    )
    for command in commands:
        asked, status, printed = requests_of(
            sys.executable, "-m", "editor", *command, home=tmp_path
        )
        assert (asked, status) == (0, 0), f"{command}: {printed}"
    no_stores(tmp_path)
    for script in (*(tmp_path / "o").glob("*.py"), *(tmp_path / "s").glob("*.py")):
        assert requests_of(sys.executable, str(script), home=tmp_path)[0] == 0, script
    no_stores(tmp_path)


def test_a_program_that_uses_the_editor_asks_the_network_for_nothing(tmp_path: Path) -> None:
    code = (
        f"import editor; g = editor.load_model({str(MODEL)!r}); p = editor.partition(g, 'HETERO:OpenVINO.CPU,CPU,Interpreter');"
        "import numpy as np; p.run({'pixel_values': np.zeros((1, 3, 224, 224), np.float32)}); p.benchmark(seconds=0.2)"
    )
    asked, status, printed = requests_of(sys.executable, "-c", code, home=tmp_path)
    assert (asked, status) == (0, 0), printed
    no_stores(tmp_path)


PAGE = """
import re, subprocess, sys, time, urllib.request
command = [sys.executable, "app.py", sys.argv[1], "--devices", "HETERO:OpenVINO.CPU,CPU", "--no-browser",
           "--no-token", "--port", "0", "--workspace", sys.argv[2]]
process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
for line in process.stdout:
    if found := re.search(r"http://127\\.0\\.0\\.1:\\d+\\S*", line):
        break
time.sleep(float(sys.argv[3]))  # telemetry is sent from time to time
assert urllib.request.urlopen(found[0]).status == 200
process.terminate()
process.communicate()
"""


def test_the_page_s_server_asks_the_network_for_nothing(tmp_path: Path) -> None:
    asked, status, printed = requests_of(
        sys.executable, "-c", PAGE, str(MODEL), str(tmp_path / "work"), "12", home=tmp_path
    )
    assert (asked, status) == (0, 0), printed
    no_stores(tmp_path)
