"""The script that starts a rank in its container, run by the shells of this machine."""

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard_executor.core.container import INSIDE
from gpuyard_executor.core.container_script import parse_failure, render_script

PATH = os.environ["PATH"]
SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True).filter(lambda name: name != "PATH")
VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)


def run(
    folder: Path, env: dict[str, str], *command: str, shell: str = "dash"
) -> subprocess.CompletedProcess[bytes]:
    """Run a command as a container would; its output is what the engine would hear."""
    for pipe in ("out", "err"):
        (folder / pipe).touch()
        os.truncate(folder / pipe, 0)
    script = render_script(env).replace(INSIDE.encode(), str(folder).encode())
    (folder / "start").write_bytes(script)
    start = [shell, *(["sh"] if shell == "busybox" else []), str(folder / "start")]
    return subprocess.run([*start, *command], capture_output=True, env={"PATH": PATH}, check=False)


@pytest.mark.parametrize("shell", SHELLS)
def test_output_takes_the_pipes(tmp_path: Path, shell: str) -> None:
    heard = run(tmp_path, {}, "sh", "-c", "echo one; echo two >&2; exit 3", shell=shell)
    assert (heard.returncode, heard.stdout, heard.stderr) == (3, b"", b"")
    assert (tmp_path / "out").read_bytes() == b"one\n"
    assert (tmp_path / "err").read_bytes() == b"two\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_variables_that_shells_keep_for_themselves(tmp_path: Path, shell: str) -> None:
    env = {"UID": "7", "PPID": "8", "IFS": "x", "found": "9", "_": "y"}
    heard = run(tmp_path, env, shutil.which("env") or "", shell=shell)
    assert heard.returncode == 0, heard.stderr
    printed = (tmp_path / "out").read_text().splitlines()
    assert {f"{name}={value}" for name, value in env.items()} <= set(printed)


@given(env=st.dictionaries(NAMES, VALUES, max_size=5))
@settings(max_examples=20)
def test_values_arrive_as_they_are(tmp_path_factory: pytest.TempPathFactory, env: dict[str, str]) -> None:
    folder = tmp_path_factory.mktemp("rank")
    run(folder, env | {"PATH": PATH}, "env", "-0")
    printed = (folder / "out").read_bytes().split(b"\0")
    wanted = {f"{name}={value}".encode() for name, value in env.items()}
    assert wanted <= set(printed)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_missing_command(tmp_path: Path, shell: str) -> None:
    heard = run(tmp_path, {}, "no-such-program", shell=shell)
    assert (heard.returncode, parse_failure(heard.stderr)) == (127, errno.ENOENT)
    assert (tmp_path / "err").read_bytes() == b""


@pytest.mark.parametrize("shell", SHELLS)
def test_a_file_that_is_no_program(tmp_path: Path, shell: str) -> None:
    (tmp_path / "data").touch(0o600)
    heard = run(tmp_path, {}, str(tmp_path / "data"), shell=shell)
    assert (heard.returncode, parse_failure(heard.stderr)) == (126, errno.EACCES)


def test_a_command_with_an_equals_sign_is_no_variable(tmp_path: Path) -> None:
    program = tmp_path / "a=b"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    run(tmp_path, {}, str(program))
    assert (tmp_path / "out").read_bytes() == b"ran\n"


def test_the_path_is_the_ranks_own(tmp_path: Path) -> None:
    program = tmp_path / "mine"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    run(tmp_path, {"PATH": f"{tmp_path}:{PATH}"}, "mine")
    assert (tmp_path / "out").read_bytes() == b"ran\n"


def test_other_words_are_no_failure_of_exec() -> None:
    assert parse_failure(b"sh: can't create /run/gpuyard/out\n") is None
