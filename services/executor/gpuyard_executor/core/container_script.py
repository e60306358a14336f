"""The script that starts a rank in its container, and what it says when it can't.

The rank's environment comes with the start, when the container exists already; and it stays out of the
container's description, where everybody who may ask the engine could read it, and where NVIDIA's runtime
would believe it. So it is in a file that only the container sees. The output goes to named pipes: what passes
through the engine is lost with it, up to thousands of lines (docs/decisions/0008).

Every image needs `/bin/sh` and `env`, any of them. Names and values are quoted; a variable is never one of
the shell, which keeps some for itself.
"""

import errno
import re
from collections.abc import Mapping
from shlex import quote

from gpuyard_executor.core.container import INSIDE

_FAILED = re.compile(rb"^gpuyard-launch (\d+)$", re.MULTILINE)

_SCRIPT = """\
command -v env >/dev/null || {{ echo 'the image has no `env`' >&2; exit 127; }}
exec 3>&2 1<>{inside}/out 2<>{inside}/err
exec env {variables} /bin/sh -c {launch} sh "$@"
"""

_LAUNCH = f"""\
command -v "$1" >/dev/null || {{
    if [ -e "$1" ]; then echo gpuyard-launch {errno.EACCES} >&3; exit 126; fi
    echo gpuyard-launch {errno.ENOENT} >&3; exit 127
}}
exec "$@" 3>&-
"""


def render_script(env: Mapping[str, str]) -> bytes:
    """What `/bin/sh` runs in the container, the command as its arguments."""
    variables = " ".join(quote(f"{name}={value}") for name, value in sorted(env.items()))
    text = _SCRIPT.format(inside=INSIDE, variables=variables, launch=quote(_LAUNCH))
    return text.encode(errors="surrogateescape")


def parse_failure(words: bytes) -> int | None:
    """Why the command can't be run, as an error number; None if the script does not say so."""
    found = _FAILED.search(words)
    return int(found[1]) if found else None
