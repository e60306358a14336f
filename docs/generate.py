"""Writes docs/reference: whatever can be derived from the code is never written by hand.

    python docs/generate.py            write
    python docs/generate.py --check    only compare; exit 1 and name what is stale

It stands outside the packages because it may look into all of them. A new page is one entry in RENDERERS.
"""

import argparse
import json
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from gpuyard.client.jobfile import JobFile
from gpuyard.contracts.asyncapi import asyncapi
from gpuyard.contracts.render import errors_page, messages_page
from gpuyard.contracts.schema import document, messages_schema
from gpuyard_executor.core.states import TRANSITIONS as RANK_STATES
from gpuyard_scheduler.core.states import TRANSITIONS as JOB_STATES

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"


def version() -> str:
    project: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project["version"]


def as_json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


STATES_HEAD = """# States

Drawn from the tables in the code; what is not in a table can't happen.
"""


def states_page() -> str:
    """State pictures of a job and of a rank."""
    job = [
        (before, after, happened) for before, ways in JOB_STATES.items() for happened, after in ways.items()
    ]
    rank = [(before, after, "") for before, ways in RANK_STATES.items() for after in sorted(ways)]
    parts = [STATES_HEAD]
    for title, first, arrows in (("A job", "queued", job), ("A rank", "preparing", rank)):
        lines = [f"{before} --> {after}{f': {label}' * bool(label)}" for before, after, label in arrows]
        drawing = "\n".join(f"    {line}" for line in (f"[*] --> {first}", *lines))
        parts.append(f"## {title}\n\n```mermaid\nstateDiagram-v2\n{drawing}\n```\n")
    return "\n".join(parts)


RENDERERS: dict[str, Callable[[], str]] = {
    "asyncapi.json": lambda: as_json(asyncapi(version())),
    "errors.md": errors_page,
    "job-file.schema.json": lambda: as_json(document(JobFile, "Gpuyard job file")),
    "messages.md": messages_page,
    "messages.schema.json": lambda: as_json(messages_schema()),
    "states.md": states_page,
}


def stale(folder: Path) -> list[str]:
    """Names of the files that differ from what they should be, and of those that should not be there."""
    extra = {path.name for path in folder.iterdir()} - set(RENDERERS) if folder.is_dir() else set()
    return sorted(extra | {name for name, render in RENDERERS.items() if _read(folder / name) != render()})


def write(folder: Path) -> None:
    """Write every file of the reference."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, render in RENDERERS.items():
        (folder / name).write_text(render(), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    if not parser.parse_args().check:
        write(REFERENCE)
        return 0
    names = stale(REFERENCE)
    if names:
        print(f"stale in docs/reference: {', '.join(names)}; run `make docs`", file=sys.stderr)
    return 1 if names else 0


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
