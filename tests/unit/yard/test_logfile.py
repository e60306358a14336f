import os
from pathlib import Path

from gpuyard.yard.logfile import last_lines, open_log, rotate


def test_a_full_log_is_set_aside_under_its_writer(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    descriptor = open_log(log)
    os.write(descriptor, b"0123456789\n")
    assert not rotate(log, most_bytes=11)
    assert rotate(log, most_bytes=10)
    os.write(descriptor, b"next\n")
    os.close(descriptor)
    assert (tmp_path / "a.log.1").read_bytes() == b"0123456789\n"
    assert log.read_bytes() == b"next\n"


def test_a_log_that_is_not_there_needs_no_rotation(tmp_path: Path) -> None:
    assert not rotate(tmp_path / "none.log")


def test_opening_keeps_what_was_written_before(tmp_path: Path) -> None:
    for _ in range(2):
        descriptor = open_log(tmp_path / "a.log")
        os.write(descriptor, b"x")
        os.close(descriptor)
    assert (tmp_path / "a.log").read_bytes() == b"xx"


def test_the_last_lines_that_say_something(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"one\ntwo \xff\n\n \n")
    assert last_lines(tmp_path / "a.log", 1) == ["two \ufffd"]
    assert last_lines(tmp_path / "a.log", 5) == ["one", "two \ufffd"]
    assert last_lines(tmp_path / "a.log", 1, most_bytes=3) == []
    assert last_lines(tmp_path / "none.log", 1) == []
