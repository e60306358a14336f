"""The script that starts a rank in its container, and what it says when it can't.

The rank's environment comes with the start, when the container exists already; and it stays out of the
container's description, where everybody who may ask the engine could read it, and where NVIDIA's runtime
would believe it. So it is in a file that only the container sees. The output goes to named pipes: what passes
through the engine is lost with it, up to thousands of lines (docs/decisions/0008).

Every image needs `/bin/sh` and `env`, any of them. The last before the command is `env`: a shell would add
variables, and drop some.
"""

import errno
import re
from collections.abc import Mapping
from shlex import quote

from gpuyard_executor.core.container import INSIDE

_FAILED = re.compile(rb"^gpuyard-launch (\d+)$", re.MULTILINE)

_SCRIPT = f"""\
fail() {{{{ echo "gpuyard-launch $1" >&2; exit "$2"; }}}}
command -v env >/dev/null || {{{{ echo 'the image has no `env`' >&2; exit 127; }}}}
case "$1" in
*/*) [ -e "$1" ] || fail {errno.ENOENT} 127
     [ -x "$1" ] && [ ! -d "$1" ] || fail {errno.EACCES} 126 ;;
*) ({{path}} command -v "$1") >/dev/null || fail {errno.ENOENT} 127 ;;
esac
case "$1" in *=*) set -- /bin/sh -c 'exec "$@"' sh "$@" ;; esac
exec env {{variables}} "$@" 1<>{INSIDE}/out 2<>{INSIDE}/err
"""
"""A name with `=` would be a variable to `env`."""


def render_script(env: Mapping[str, str]) -> bytes:
    """What `/bin/sh` runs in the container, the command as its arguments."""
    variables = " ".join(quote(f"{name}={value}") for name, value in sorted(env.items()))
    path = f"PATH={quote(env['PATH'])};" if "PATH" in env else ""
    return _SCRIPT.format(variables=variables, path=path).encode(errors="surrogateescape")


def parse_failure(words: bytes) -> int | None:
    """Why the command can't be run, as an error number; None if the script does not say so."""
    found = _FAILED.search(words)
    return int(found[1]) if found else None
