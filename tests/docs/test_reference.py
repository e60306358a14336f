"""docs/reference is what the code says now."""

import runpy
import subprocess
import sys
from pathlib import Path

from gpuyard.cli.failures import INTERRUPTED, TIMED_OUT
from gpuyard.contracts.render import errors_page

ROOT = Path(__file__).parents[2]
GENERATE = ROOT / "docs" / "generate.py"


def test_reference_is_not_stale() -> None:
    checked = subprocess.run(
        [sys.executable, GENERATE, "--check"], capture_output=True, text=True, timeout=60, check=False
    )

    assert checked.returncode == 0, checked.stderr


def test_staleness_is_noticed(tmp_path: Path) -> None:
    generate = runpy.run_path(str(GENERATE))
    write, stale, renderers = generate["write"], generate["stale"], generate["RENDERERS"]

    write(tmp_path)
    assert stale(tmp_path) == []

    (tmp_path / "errors.md").write_text("by hand")
    (tmp_path / "messages.md").unlink()
    (tmp_path / "left-over.md").touch()
    assert stale(tmp_path) == ["errors.md", "left-over.md", "messages.md"]
    assert stale(tmp_path / "missing") == sorted(renderers)


def test_exit_codes_are_those_of_the_command_line() -> None:
    page = errors_page()

    assert f"{TIMED_OUT} the wait timed out, {INTERRUPTED} interrupted" in page
