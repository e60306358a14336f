"""Images for tests, made of what this machine has: no registry is asked."""

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

from docker import APIClient

BUSYBOX = "gpuyard-test/busybox:1"


def make_busybox(client: APIClient, name: str = BUSYBOX, env: tuple[str, ...] = ()) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        add_busybox(tar)
    import_image(client, name, archive.getvalue(), ("PATH=/bin", *env))


def add_busybox(tar: tarfile.TarFile) -> None:
    """The folders of a root file system, and one static program under all its names."""
    for folder in ("bin", "dev", "etc", "proc", "run", "sys", "tmp", "workspace"):
        _add_folder(tar, folder, 0o1777 if folder == "tmp" else 0o755)
    busybox = shutil.which("busybox")
    assert busybox
    tar.add(Path(busybox).resolve(), "bin/busybox")
    for applet in subprocess.check_output(["busybox", "--list"], text=True).split():
        if applet != "busybox":
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)


def import_image(client: APIClient, name: str, archive: bytes, env: tuple[str, ...] = ()) -> None:
    repository, _, tag = name.rpartition(":")
    client.import_image_from_data(
        archive, repository=repository, tag=tag, changes=[f"ENV {each}" for each in env]
    )


def _add_folder(tar: tarfile.TarFile, name: str, mode: int) -> None:
    folder = tarfile.TarInfo(name)
    folder.type, folder.mode = tarfile.DIRTYPE, mode
    tar.addfile(folder)
