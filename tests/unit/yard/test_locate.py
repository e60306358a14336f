import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpuyard.client import locate
from gpuyard.client.locate import Address, RunningService, YardFile
from gpuyard.contracts.errors import InvalidSpec, NotFound, Unavailable

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place from where no yard is found."""
    for name in ("GPUYARD_DIR", "GPUYARD_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@contextmanager
def running_yard(folder: Path, url: str = "nats://t@127.0.0.1:1") -> Iterator[int]:
    """A directory that looks as if `gpuyard up` ran there: its lock is held by another process."""
    folder.mkdir(parents=True, exist_ok=True)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder / locate.LOCK_FILE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        locate.save(folder, YardFile(url, holder.pid, 0.0))
        yield holder.pid
        holder.kill()


def configure(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config" / "gpuyard" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)


def test_nothing_found_says_how_to_start_one() -> None:
    with pytest.raises(NotFound) as error:
        locate.find()
    assert "gpuyard up" in error.value.hint


def test_a_named_directory_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUYARD_URL", "nats://elsewhere:4222")
    with running_yard(tmp_path / "a", "nats://a"), running_yard(tmp_path / "b", "nats://b"):
        monkeypatch.setenv("GPUYARD_DIR", str(tmp_path / "a"))
        assert locate.find() == Address("nats://a", tmp_path / "a")
        assert locate.find(str(tmp_path / "b")) == Address("nats://b", tmp_path / "b")


def test_a_url_goes_before_what_lies_here(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_yard(Path(".gpuyard").absolute()):
        monkeypatch.setenv("GPUYARD_URL", "nats://elsewhere:4222")
        assert locate.find() == Address("nats://elsewhere:4222", None)


def test_the_yard_here_is_found(tmp_path: Path) -> None:
    configure(tmp_path, 'url = "nats://configured"')
    with running_yard(Path(".gpuyard").absolute(), "nats://here"):
        assert locate.find().url == "nats://here"


def test_the_nearest_yard_above_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    top, deep = Path().absolute(), Path("a", "b", "c").absolute()
    deep.mkdir(parents=True)
    Path("a", "b", ".gpuyard").mkdir()  # no yard
    monkeypatch.chdir(deep)
    with running_yard(top / ".gpuyard", "nats://top"):
        assert locate.find() == Address("nats://top", top / ".gpuyard")
        with running_yard(top / "a" / ".gpuyard", "nats://nearer"):
            assert locate.find().url == "nats://nearer"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives directories away")
def test_a_yard_of_someone_else_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    top, below = Path().absolute(), Path("below").absolute()
    below.mkdir()
    monkeypatch.chdir(below)
    with running_yard(top / ".gpuyard", "nats://mine"), running_yard(below / ".gpuyard", "nats://theirs"):
        os.chown(below / ".gpuyard", 65534, 65534)
        assert locate.find().url == "nats://mine"


def test_a_directory_of_that_name_that_is_no_yard_is_passed_over(tmp_path: Path) -> None:
    Path(".gpuyard").mkdir()
    configure(tmp_path, 'url = "nats://configured"')
    assert locate.find() == Address("nats://configured")


def test_the_user_may_configure_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    configure(tmp_path, 'dir = "~/mine"')
    with running_yard(tmp_path / "mine"):
        assert locate.find().dir == tmp_path / "mine"


@pytest.mark.parametrize(
    ("text", "words"),
    [("dri = 'x'", "dri"), ("dir = 3", "config.toml"), ("dir = [", "TOML"), ("\x00", "TOML")],
)
def test_a_wrong_configuration_is_refused(tmp_path: Path, text: str, words: str) -> None:
    configure(tmp_path, text)
    with pytest.raises(InvalidSpec, match=words):
        locate.find()


def test_the_nearest_key_is_named(tmp_path: Path) -> None:
    configure(tmp_path, "dirr = 'x'")
    with pytest.raises(InvalidSpec) as error:
        locate.find()
    assert "`dir`" in error.value.hint


def test_a_named_directory_without_a_yard(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no yard in") as error:
        locate.find(str(tmp_path / "a b"))
    assert f"--dir '{tmp_path}/a b'" in error.value.hint


def test_a_yard_that_does_not_run(tmp_path: Path) -> None:
    with running_yard(tmp_path / "a"):
        pass
    with pytest.raises(Unavailable, match="not running") as error:
        locate.find(str(tmp_path / "a"))
    assert "gpuyard up" in error.value.hint


def test_a_yard_that_is_still_starting(tmp_path: Path) -> None:
    with running_yard(tmp_path / "a"):
        (tmp_path / "a" / locate.YARD_FILE).unlink()
        with pytest.raises(Unavailable, match="still starting"):
            locate.find(str(tmp_path / "a"))


def test_what_the_yard_before_wrote_is_not_believed(tmp_path: Path) -> None:
    with running_yard(tmp_path / "a"):
        locate.save(tmp_path / "a", YardFile("nats://old", 1, 0.0))
        with pytest.raises(Unavailable, match="still starting"):
            locate.find(str(tmp_path / "a"))


def test_the_lock_tells_who_runs_there(tmp_path: Path) -> None:
    assert locate.lock_holder(tmp_path / "a") is None
    with running_yard(tmp_path / "a") as pid:
        assert locate.lock_holder(tmp_path / "a") == pid
    assert locate.lock_holder(tmp_path / "a") is None


def test_the_yard_file_is_private_and_reads_back(tmp_path: Path) -> None:
    yard = YardFile("nats://t@127.0.0.1:1", 7, 1.5, {"logger": RunningService(8, 9)})
    locate.save(tmp_path, yard)
    assert locate.load(tmp_path) == yard
    assert stat.S_IMODE((tmp_path / locate.YARD_FILE).stat().st_mode) == 0o600
    assert not list(tmp_path.glob("*.new"))


def test_a_leftover_of_a_crash_does_not_leak_the_token(tmp_path: Path) -> None:
    (tmp_path / "yard.json.new").touch(0o644)
    locate.save(tmp_path, YardFile("nats://t@127.0.0.1:1", 7, 1.5))
    assert stat.S_IMODE((tmp_path / locate.YARD_FILE).stat().st_mode) == 0o600


def test_a_damaged_yard_file_is_named(tmp_path: Path) -> None:
    (tmp_path / locate.YARD_FILE).write_text("{")
    with pytest.raises(InvalidSpec, match=r"yard\.json"):
        locate.load(tmp_path)
