"""An image with this very Python and torch: interpreter, packages and the shared libraries they need.

It stands for what users build from a framework's image. A gigabyte is copied, once, when it is needed.
"""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from threading import Thread
from typing import IO

from docker import APIClient

from tests.docker.images import add_busybox

PYTHON = "gpuyard-test/python:1"
_PREFIX = Path("usr/local")
_LIBRARIES = _PREFIX / "lib" / "gathered"
_NOT_OF_PYTHON = re.compile(r"/(test|tests|idlelib|lib2to3|ensurepip|tkinter|config-3[^/]*|site-packages)$")
_NOT_OF_PACKAGES = re.compile(r"/(tests?|include)/")
_SHARED = re.compile(r"\.so(\.\d+)*$")


def make_python(client: APIClient, name: str = PYTHON) -> None:
    """Import the image through a pipe: it is never whole in memory."""
    repository, _, tag = name.rpartition(":")
    reading, writing = os.pipe()
    writer = Thread(target=_write, args=(os.fdopen(writing, "wb"),))
    writer.start()
    try:
        with os.fdopen(reading, "rb") as archive:
            changes = ["ENV PATH=/usr/local/bin:/bin", f"ENV LD_LIBRARY_PATH=/{_LIBRARIES}"]
            client.import_image_from_stream(archive, repository=repository, tag=tag, changes=changes)
    finally:
        writer.join()


def _write(pipe: IO[bytes]) -> None:
    stdlib = Path(sysconfig.get_path("stdlib", vars={"base": sys.base_prefix}))
    interpreter = Path(sys.executable).resolve()
    target = _PREFIX / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    files = _files_of("torch", "scikit-learn")
    programs = [interpreter, *_shared(stdlib.rglob("*.so*")), *_shared(files.values())]
    with pipe, tarfile.open(fileobj=pipe, mode="w|") as tar:
        add_busybox(tar)
        tar.add(interpreter, str(_PREFIX / "bin" / "python"))
        tar.add(stdlib, str(target), filter=_without)
        for name, file in files.items():
            tar.add(file, str(target / "site-packages" / name), recursive=False)
        for name, library in _libraries(programs).items():
            is_loader = name.startswith("ld-linux")
            tar.add(library.resolve(), str(library)[1:] if is_loader else str(_LIBRARIES / name))


def _without(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if _NOT_OF_PYTHON.search(member.name) else member


def _files_of(*distributions: str) -> dict[str, Path]:
    """Files of distributions, and of all that they need, by their names below `site-packages`."""
    known: dict[str, Path] = {}
    to_do, done = [*distributions], set[str]()
    while to_do:
        name = to_do.pop()
        with suppress(PackageNotFoundError):
            found = distribution(name)
            done.add(name)
            wanted = (file for file in found.files or () if not _NOT_OF_PACKAGES.search(str(file)))
            known |= {str(file): Path(file.locate()) for file in wanted if ".." not in file.parts}
            needed = {
                re.split(r"[^\w.-]", each)[0] for each in found.requires or () if "extra ==" not in each
            }
            to_do += needed - done
    return {name: path for name, path in known.items() if path.is_file()}


def _shared(files: Iterable[Path]) -> list[Path]:
    return [file for file in files if _SHARED.search(file.name) and file.is_file()]


def _libraries(programs: Iterable[Path]) -> dict[str, Path]:
    """What the dynamic linker would load for them from elsewhere than the packages, by name."""
    told = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    found = map(Path, re.findall(r"(?:=> |^\t)(/\S+) \(0x", told, re.MULTILINE))
    packages = sysconfig.get_path("purelib")
    return {path.name: path for path in found if not path.is_relative_to(packages)}
