"""Whether a container engine answers here, and whether it is fit for training."""

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from gpuyard.contracts.container_engine import (
    LIVE_RESTORE_FIX,
    EngineInfo,
    GpuAccess,
    choose_gpu_access,
    parse_info,
)
from gpuyard.yard.check import Check, fail, ok, warn

SOCKET = "/var/run/docker.sock"
_TIMEOUT_S = 5.0
_TOOLKIT_FIX = "Install nvidia-container-toolkit, run `nvidia-ctk runtime configure`, and restart Docker."


def examine_engine(gpu_count: int, path: str = SOCKET) -> Iterator[Check]:
    """Look at the engine. None is needed: without one, ranks are plain processes."""
    try:
        info = parse_info(_ask(path))
    except OSError as error:
        yield warn(
            "docker",
            f"no engine answers ({error.strerror or error}); ranks run as plain processes",
            "Not needed. For containers: install Docker and join its group.",
        )
    except (http.client.HTTPException, ValueError, TypeError) as error:
        yield warn("docker", f"what listens at {path} is no engine in order: {error}", "Restart Docker.")
    else:
        yield ok("docker", f'version {info.version} answers at {path}; `runtime = "docker"` uses it')
        yield judge_live_restore(info, gpu_count)
        if gpu_count:
            yield judge_gpu_access(info)


def judge_live_restore(info: EngineInfo, gpu_count: int) -> Check:
    """Without it a restart of the engine kills every container."""
    if info.has_live_restore:
        return ok("live-restore", "containers outlive a restart of the engine")
    if gpu_count:
        return fail("live-restore", "is off: work on GPUs is refused in containers", LIVE_RESTORE_FIX)
    return warn("live-restore", "is off: a restart of the engine ends all containers", LIVE_RESTORE_FIX)


def judge_gpu_access(info: EngineInfo) -> Check:
    """How containers get their GPUs, and why so."""
    access, why = choose_gpu_access(info)
    if access is GpuAccess.REQUEST:
        return warn("container GPUs", f"by device requests, which may not work: {why}", _TOOLKIT_FIX)
    return ok("container GPUs", f"by {access}: {why}")


def _ask(path: str) -> Mapping[str, Any]:
    with closing(_Connection(path)) as connection:
        connection.request("GET", "/info")
        answer = connection.getresponse()
        text = answer.read()
    if answer.status != http.client.OK:
        raise ValueError(f"it answers with {answer.status} {answer.reason}")
    raw: Mapping[str, Any] = json.loads(text)
    return raw


class _Connection(http.client.HTTPConnection):
    """HTTP over a socket in the file system."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
