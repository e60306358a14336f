"""Output as a file, and how long it is kept; writing and keeping are the client's."""

from pathlib import Path
from typing import Any

import pytest

from gpuyard.client.aio import AsyncClient
from gpuyard.client.export import Exported
from gpuyard.contracts.errors import Refused
from gpuyard.contracts.job import Job
from tests.unit.cli.conftest import Shell
from tests.unit.client.fake_yard import FakeYard, a_job, a_spec


async def two_jobs(yard: FakeYard) -> None:
    for name in ("train", "eval"):
        await yard.record(a_job(a_spec(name, labels={"team": "vision"}), request_id=name), "queued")


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Path, str]]:
    """What was to be written where, and as what."""
    asked = []

    async def export_logs(_: AsyncClient, job: Job, path: Path, kind: str, **told: Any) -> Exported:
        asked.append((job.spec.name, path, kind))
        told["progress"](Exported(1, 10))
        told["notice"]("rank 3: 2 lines are lost")
        return Exported(12, 3400)

    monkeypatch.setattr(AsyncClient, "export_logs", export_logs)
    return asked


@pytest.mark.parametrize(
    ("name", "more", "kind"),
    [
        ("a.txt", (), "plain"),
        ("a.log", (), "plain"),
        ("a.jsonl", (), "jsonl"),
        ("a.parquet", (), "parquet"),
        ("a", ("--format", "jsonl"), "jsonl"),
        ("a.txt", ("--format", "parquet"), "parquet"),
    ],
)
def test_the_name_says_what_the_file_shall_be(
    shell: Shell,
    exported: list[tuple[str, Path, str]],
    tmp_path: Path,
    name: str,
    more: tuple[str, ...],
    kind: str,
) -> None:
    result = shell("logs", "train", "--export", str(tmp_path / name), *more, prepare=two_jobs)
    assert (result.code, result.out) == (0, "")
    assert exported == [("train", tmp_path / name, kind)]
    lost, wrote = result.err.splitlines()
    assert lost == "rank 3: 2 lines are lost"
    assert wrote.startswith("Wrote 12 lines, 3.4 kB of text of train-")


def test_an_export_as_json(shell: Shell, exported: list[object], tmp_path: Path) -> None:
    path = str(tmp_path / "a.txt")
    told = shell("logs", "train", "--export", path, "--json", prepare=two_jobs).json
    assert (told["path"], told["format"], told["lines"], told["text_bytes"]) == (path, "plain", 12, 3400)


def test_a_place_that_cannot_be_written_is_refused(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def export_logs(*_: Any, **__: Any) -> Exported:
        raise Refused("it can't be written: no space left", "Make room.")

    monkeypatch.setattr(AsyncClient, "export_logs", export_logs)
    result = shell("logs", "train", "--export", str(tmp_path / "a.txt"), prepare=two_jobs)
    assert result.code == 4
    assert "no space left" in result.err


@pytest.mark.parametrize(("option", "pinned"), [("--pin", True), ("--unpin", False)])
def test_output_is_pinned(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, option: str, *, pinned: bool
) -> None:
    asked = []

    async def pin_logs(_: AsyncClient, job: Job) -> None:
        asked.append((job.spec.name, True))

    async def unpin_logs(_: AsyncClient, job: Job) -> None:
        asked.append((job.spec.name, False))

    monkeypatch.setattr(AsyncClient, "pin_logs", pin_logs)
    monkeypatch.setattr(AsyncClient, "unpin_logs", unpin_logs)
    result = shell("logs", "train", option, prepare=two_jobs)
    assert result.code == 0
    assert result.out.endswith("  pinned\n" if pinned else "  not pinned\n")
    views = shell("logs", "--label", "team=vision", option, "--json", prepare=two_jobs).json_lines
    assert [view["pinned"] for view in views] == [pinned, pinned]
    assert sorted(asked) == [("eval", pinned), ("train", pinned), ("train", pinned)]
