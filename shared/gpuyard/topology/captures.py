"""Captured topologies on disk: those shipped with the package, by name, and users' own, by path."""

import difflib
from pathlib import Path

from gpuyard.contracts.errors import InvalidSpec, NotFound
from gpuyard.topology.capture import Capture, parse_capture
from gpuyard.topology.table_text import TopologyError

_FOLDER = Path(__file__).parent / "captures"
_MAX_BYTES = 4 * 1024 * 1024


def names() -> list[str]:
    """Names of the shipped captures, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.txt"))


def load(name_or_path: str) -> Capture:
    """Read a capture by name, or from a file saved with `nvidia-smi topo -m`.

    Raises:
        NotFound: neither a shipped name nor a file; the nearest names are in the hint.
        InvalidSpec: it can't be read, or is no ordinary file.
        TopologyError: it holds no complete matrix.

    """
    known = names()
    path = _FOLDER / f"{name_or_path}.txt" if name_or_path in known else Path(name_or_path)
    try:
        if not name_or_path or not path.exists():
            raise _unknown(name_or_path, known)
        if not path.is_file():
            raise InvalidSpec(
                f"{name_or_path[:200]!r} is no ordinary file", "Name a file, or a known topology."
            )
        if path.stat().st_size > _MAX_BYTES:
            raise TopologyError(f"more than {_MAX_BYTES:,} bytes, so this is no topology", 1)
        # Bytes that are no text matter only inside a matrix, where the parser refuses them.
        text = path.read_bytes().decode(errors="replace")
    except (OSError, ValueError) as error:
        raise InvalidSpec(f"can't read the topology {name_or_path[:200]!r}: {error}") from error
    return parse_capture(_shown(path.stem), text)


def _shown(name: str) -> str:
    """A file may be called anything; what is printed and drawn must be text."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def _unknown(name: str, known: list[str]) -> NotFound:
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.4)
    partial = [each for each in known if name and name.lower() in each]
    guess = (partial or near)[:1]
    listed = f"Known: {', '.join(known)}; or give a file with the output of `nvidia-smi topo -m`."
    hint = f"Did you mean `{guess[0]}`? {listed}" if guess else listed
    return NotFound(f"no captured topology and no file is called {name[:200]!r}", hint, name=name[:200])
