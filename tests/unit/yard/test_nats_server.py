import re
import sys
from pathlib import Path

import pytest

from gpuyard.contracts.errors import NotFound, Refused, Unavailable
from gpuyard.contracts.subjects import GIB, MAX_BUCKET_BYTES, STREAMS
from gpuyard.yard.endpoints import NATS, NATS_HEALTH, Endpoints
from gpuyard.yard.layout import Layout
from gpuyard.yard.nats_server import checked_version, find_binary, nats_program, version_of

BINARY = Path("/opt/nats-server")


def program(path: Path, text: str = "#!/bin/sh\necho 'nats-server: v2.15.1'\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_one_asked_for_goes_first(tmp_path: Path) -> None:
    mine = program(tmp_path / "mine")
    assert find_binary(str(mine)) == mine


@pytest.mark.parametrize("name", ["none", "folder", "text"])
def test_what_is_no_program_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").touch()
    with pytest.raises(NotFound) as error:
        find_binary(str(tmp_path / name))
    assert "pip install" in error.value.hint


def test_beside_this_python_then_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    with pytest.raises(NotFound, match="not installed"):
        find_binary(search_path=str(tmp_path / "bin"))
    on_path = program(tmp_path / "bin" / "nats-server")
    assert find_binary(search_path=str(tmp_path / "bin")) == on_path
    beside = program(tmp_path / "venv" / "nats-server")
    assert find_binary(search_path=str(tmp_path / "bin")) == beside


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("nats-server: v2.15.1\n", "2.15.1"),
        ("nats-server: v2.11.0-RC.1", "2.11.0-RC.1"),
        ("nats-server: v3.0.0", "3.0.0"),
    ],
)
def test_versions_are_read(text: str, version: str) -> None:
    assert checked_version(text, BINARY) == version


@pytest.mark.parametrize("text", ["nats-server: v2.9.10", "nats-server: v1.99.0", "", "GNU bash 5.2"])
def test_an_old_or_foreign_program_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="/opt/nats-server") as error:
        checked_version(text, BINARY)
    assert "pip install" in error.value.hint


def test_a_program_is_asked_for_its_version(tmp_path: Path) -> None:
    assert version_of(program(tmp_path / "it")) == "2.15.1"
    with pytest.raises(Unavailable, match="can't be run"):
        version_of(program(tmp_path / "broken", "#!/no/such/shell\n"))


def test_the_store_is_bounded_by_what_can_really_be_kept(tmp_path: Path) -> None:
    nats_program(BINARY, Layout(tmp_path), Endpoints("secret", {NATS: 1, NATS_HEALTH: 2}), {})
    found = re.search(r"max_file_store: (\d+)", (tmp_path / "nats.conf").read_text())
    assert found is not None
    assert int(found[1]) == sum(stream.max_bytes for stream in STREAMS) + MAX_BUCKET_BYTES < 19 * GIB
