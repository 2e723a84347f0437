"""Two network namespaces with a shaped link between them: bandwidth by ``tc tbf``, delay by a forwarding process.

The kernels of test machines have no ``netem``. Each namespace has a TUN device; this process reads packets from one, waits, and
writes them to the other.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import queue
import select
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

EDGE_ADDRESS, SERVER_ADDRESS = "10.77.0.1", "10.77.0.2"
_MTU = 16_000
"""Large, so that a forwarder in Python keeps up with 1 Gbit/s."""
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_CLONE_NEWNET = 0x40000000


@dataclass(frozen=True)
class Shape:
    """One link, the same in both directions."""

    name: str
    bits: float
    """bit/s"""
    delay: float
    """seconds, one way"""


class Link:
    """The way between two namespaces; it can be cut and mended."""

    def __init__(self, edge: str, server: str) -> None:
        self.edge, self.server = edge, server
        """Names of the namespaces."""
        self._ended, self._connected = threading.Event(), threading.Event()
        self._connected.set()
        self._reader, self._writer = os.pipe()
        """Readable from the end on."""
        self._queues: list[queue.SimpleQueue[tuple[float, bytes] | None]] = []
        self._threads: list[threading.Thread] = []

    def cut(self) -> None:
        """From now on packets are lost, in both directions."""
        self._connected.clear()

    def mend(self) -> None:
        """Packets arrive again."""
        self._connected.set()

    def close(self) -> None:
        """Ends the forwarding, and waits until it has ended: only then may the devices be closed.

        The number of a closed descriptor goes to the next file or socket that the process opens, and packets went there.
        """
        self._ended.set()
        os.write(self._writer, b"\0")
        for packets in self._queues:
            packets.put(None)
        for thread in self._threads:
            thread.join()
        os.close(self._reader)
        os.close(self._writer)

    def forward(self, source: int, target: int, delay: float) -> None:
        """Takes packets from one TUN device to another, in threads of its own."""
        packets: queue.SimpleQueue[tuple[float, bytes] | None] = queue.SimpleQueue()

        def read() -> None:
            with contextlib.suppress(OSError):
                while self._reader not in select.select([source, self._reader], [], [])[0]:
                    packets.put((time.perf_counter() + delay, os.read(source, 65_536)))

        def write() -> None:
            with contextlib.suppress(OSError):
                while (next_one := packets.get()) is not None:
                    due, packet = next_one
                    if self._ended.wait(max(due - time.perf_counter(), 0)):
                        return
                    if self._connected.is_set():
                        os.write(target, packet)

        self._queues.append(packets)
        self._threads += [threading.Thread(target=work, daemon=True) for work in (read, write)]
        for thread in self._threads[-2:]:
            thread.start()


def why_not() -> str:
    """Why namespaces cannot be made here; "" where they can."""
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun cannot be used"
    name = f"he-try-{os.getpid()}"
    tried = subprocess.run(
        ["ip", "netns", "add", name], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        return f"network namespaces are not allowed: {tried.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=False)
    return ""


@contextlib.contextmanager
def namespaces(shape: Shape) -> Iterator[Link]:
    """Makes two connected namespaces, edge and server."""
    names = tuple(f"he-{side}-{os.getpid()}" for side in ("edge", "server"))
    link = Link(*names)
    devices: list[int] = []
    try:
        for name, own, other in zip(
            names, (EDGE_ADDRESS, SERVER_ADDRESS), (SERVER_ADDRESS, EDGE_ADDRESS), strict=True
        ):
            _ip("netns", "add", name)
            devices.append(_tun(name))
            _inside(name, "ip", "link", "set", "lo", "up")
            _inside(name, "ip", "addr", "add", own, "peer", other, "dev", "wire")
            _inside(name, "ip", "link", "set", "wire", "mtu", str(_MTU), "up")
            burst = max(2 * _MTU, int(shape.bits / 8 / 500))
            _inside(
                name,
                "tc",
                "qdisc",
                "add",
                "dev",
                "wire",
                "root",
                "tbf",
                "rate",
                f"{int(shape.bits)}bit",
                "burst",
                str(burst),
                "latency",
                "400ms",
            )
        for source, target in (devices, devices[::-1]):
            link.forward(source, target, shape.delay)
        yield link
    finally:
        link.close()
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        for device in devices:
            os.close(device)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def _inside(name: str, *command: str) -> None:
    _ip("netns", "exec", name, *command)


def _tun(namespace: str) -> int:
    """A TUN device ``wire`` in a namespace; packets are read from and written to the descriptor."""
    libc = ctypes.CDLL(None, use_errno=True)
    made: list[int] = []

    def enter() -> None:  # a namespace belongs to a thread
        with open(f"/var/run/netns/{namespace}", encoding="ascii") as there:
            if libc.setns(there.fileno(), _CLONE_NEWNET):
                return
        device = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", b"wire", _IFF_TUN | _IFF_NO_PI))
        made.append(device)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if not made:
        raise OSError(f"no TUN device in the namespace {namespace}")
    return made[0]
