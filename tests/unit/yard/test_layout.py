import stat
from pathlib import Path

import pytest

from gpuyard.contracts.errors import Unavailable
from gpuyard.yard.layout import LEAST_FREE_BYTES, Layout, check_room, possession, prepare


def test_everything_lies_inside_and_is_private(tmp_path: Path) -> None:
    layout = prepare(tmp_path / "deep" / "yard")
    assert layout.logs.is_dir()
    assert layout.nats_store.is_dir()
    assert layout.log("monitor") == tmp_path / "deep" / "yard" / "logs" / "monitor.log"
    assert layout.data("executor") == tmp_path / "deep" / "yard" / "executor"
    assert stat.S_IMODE(layout.root.stat().st_mode) == 0o700


def test_preparing_again_keeps_what_is_there(tmp_path: Path) -> None:
    layout = prepare(tmp_path)
    (layout.nats_store / "kept").touch()
    prepare(tmp_path)
    assert (layout.nats_store / "kept").exists()
    assert not (tmp_path / "probe").exists()


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match="can't be used") as error:
        prepare(tmp_path / "file" / "yard")
    assert "--dir" in error.value.hint


def test_a_full_disk_is_refused() -> None:
    check_room(Path("/y"), LEAST_FREE_BYTES)
    with pytest.raises(Unavailable, match="511 MiB are free in /y"):
        check_room(Path("/y"), LEAST_FREE_BYTES - 1)


def test_possession_ends_with_the_body(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    for _ in range(2):
        with possession(layout):
            assert layout.lock.exists()
