"""A folder that lives as long as this process, and credentials in it that nobody else can read."""

from __future__ import annotations

import datetime
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_PREFIX = "hetero-jobs-"
_LIFE = datetime.timedelta(days=3650)
"""A server may run for long; its next start makes new credentials."""


class PrivateFolder:
    """A folder for one process, 0700; those that killed processes have left beside it are removed."""

    def __init__(self, parent: Path | None = None) -> None:
        """Makes the folder.

        Args:
            parent: where; default: the folder for temporary files.
        """
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_made(parent)))
        self._lock = os.open(self.path / "new", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)  # held until the process ends, however it ends
        (self.path / "new").rename(self.path / "lock")
        for other in self.path.parent.glob(f"{_PREFIX}*/lock"):
            _remove_if_abandoned(other)

    def remove(self) -> None:
        """Removes the folder and what is in it. Idempotent."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def write_credentials(folder: Path) -> tuple[Path, Path]:
    """Makes a key and a certificate that it signs itself; returns their files (certificate, key), both 0600."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hetero-editor jobs")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + _LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return (
        _write(folder / "certificate.pem", certificate.public_bytes(serialization.Encoding.PEM)),
        _write(folder / "key.pem", secret),
    )


def _made(parent: Path | None) -> Path | None:
    if parent is not None and not parent.is_dir():
        parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    return parent


def _remove_if_abandoned(lock: Path) -> None:
    """Removes the folder of a lock that no process holds."""
    try:
        if lock.parent.lstat().st_uid != os.getuid():
            return
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(lock.parent, ignore_errors=True)
    except OSError:  # its process lives
        return
    finally:
        os.close(descriptor)


def _write(path: Path, content: bytes) -> Path:
    with os.fdopen(
        os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600), "wb"
    ) as file:
        file.write(content)
    return path
