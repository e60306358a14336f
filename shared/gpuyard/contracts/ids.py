"""Identifiers. One grammar, legal as subject token, stream key, container name, label and file name."""

import base64
import hashlib
import re
from typing import Annotated

from msgspec import Meta

# `$(?!\n)` instead of `\Z`: means the same in Python, and JSON Schema's dialect knows it too.
ID_PATTERN = r"^[a-z0-9][a-z0-9-]{0,62}$(?!\n)"
GPU_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9/-]{0,127}$(?!\n)"

JobId = Annotated[str, Meta(pattern=ID_PATTERN, description="Job id, given by the scheduler.")]
NodeId = Annotated[str, Meta(pattern=ID_PATTERN, description="Node id, unique in the cluster.")]
GpuId = Annotated[str, Meta(pattern=GPU_ID_PATTERN, description="GPU UUID as NVML reports it.")]
RequestId = Annotated[
    str, Meta(pattern=ID_PATTERN, description="Chosen by the client; repeating it changes nothing.")
]
Name = Annotated[
    str, Meta(pattern=ID_PATTERN, description="Lower-case letters, digits and dashes, at most 63.")
]

_ID = re.compile(ID_PATTERN)


def is_id(text: str) -> bool:
    """Tell whether `text` follows the id grammar."""
    return _ID.match(text) is not None


def slug(text: str) -> str:
    """Turn any text into a legal id: lower case, every other run of characters becomes one dash."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40] or "job"


def job_id(name: str, request_id: str, digits: int = 6) -> str:
    """Derive a job's id from its request, so that a repeated request finds the same job."""
    digest = hashlib.blake2b(request_id.encode(), digest_size=20).digest()
    return f"{name[:40].rstrip('-')}-{base64.b32encode(digest).decode().lower()[:digits]}"
