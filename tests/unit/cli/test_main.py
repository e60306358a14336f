import json
from importlib.metadata import version

import pytest

import gpuyard
from gpuyard.cli.app import COMMANDS
from gpuyard.contracts import errors
from gpuyard.contracts.errors import GpuyardError
from tests.unit.cli.conftest import Shell
from tests.unit.client.fake_yard import FakeYard


def test_the_version_is_the_installed_one(shell: Shell) -> None:
    assert gpuyard.__version__ == version("gpuyard")
    result = shell("--version")
    assert (result.code, result.out) == (0, f"gpuyard {version('gpuyard')}\n")


def test_help_lists_every_command(shell: Shell) -> None:
    result = shell("--help")
    assert result.code == 0
    for name in COMMANDS:
        assert f" {name} " in result.out


@pytest.mark.parametrize("name", [name for name, (place, _) in COMMANDS.items() if "yard:" not in place])
def test_every_command_has_help(shell: Shell, name: str) -> None:
    result = shell(name, "--help")
    assert result.code == 0
    assert "--json" in result.out
    assert "--dir" in result.out


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["sumbit"], "no command `sumbit`", "Did you mean `gpuyard submit`?"),
        (["bogus"], "no command `bogus`", "gpuyard --help"),
        (["events", "--after", "-5"], "--after is at least 0", "seq"),
        (["frobnicate"], "no command `frobnicate`", "gpuyard --help"),
        (["--frobnicate"], "--frobnicate", ""),
        (["submit", "--gpsu", "2", "--", "a"], "--gpsu", "behind `--`"),
        (["submit", "--gpus", "two", "--", "a"], "two", ""),
        (["run", "python", "train.py", "--epochs", "3"], "--epochs", "behind `--`"),
        (["show"], "JOB", "gpuyard show --help"),
        (["show", "a", "b"], "b", ""),
        (["logs", "--tail", "-1", "a"], "--tail", ""),
        (["logs", "--attempt", "0", "a"], "--attempt", ""),
        (["logs", "--rank", "3-1", "a"], "list of ranks", "0,2-5"),
        (["cancel"], "at least one job", "gpuyard ps"),
        (["run"], "no command to run", "train.py"),
        (["run", "--gpus", "-1", "--", "a"], "`gpus` is -1: it must be at least 0", "0 to 65536"),
        (["run", "--priority", "5000", "--", "a"], "it must be at most 1000", "higher goes first"),
        (["run", "--env", "A B=x", "--", "a"], "a variable's name has letters", "SEED=1"),
        (["run", "--name", "A/b", "--", "a"], "`name` is `A/b`: a name has lower-case letters", "Try `a-b`."),
        (["run", "-f", "/"], "is a directory, not a job file", "job.toml"),
        (["run", "--gpus", "3", "--ranks", "2", "--", "a"], "divided evenly", ""),
        (["run", "--ranks", "0", "--", "a"], "`ranks`", ""),
        (["run", "--name", "A B", "--", "a"], "`name`", ""),
        (["run", "--env", "NOVALUE", "--", "a"], "`NOVALUE` is not of the form K=V", "--env SEED=1"),
        (["run", "--label", "=x", "--", "a"], "not of the form", "--label"),
        (["run", "--workdir", ".", "--no-workdir", "--", "a"], "exclude each other", ""),
        (["run", "--workdir", "/nowhere", "--", "a"], "/nowhere", "--no-workdir"),
        (["run", "-f", "job.toml", "--", "a"], "says itself what runs", ""),
        (["show", "a/b"], "`a/b` can't be a job", ""),
    ],
)
def test_wrong_usage_exits_2_and_says_what_to_do(
    shell: Shell, arguments: list[str], message: str, hint: str
) -> None:
    result = shell(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert message in result.err
    assert hint in result.err
    assert result.err.startswith("error: ")
    assert "Traceback" not in result.err

    split = arguments.index("--") if "--" in arguments else len(arguments)
    as_json = shell(*arguments[:split], "--json", *arguments[split:])
    if not arguments[0].startswith("-"):
        failure = json.loads(as_json.out)
        assert as_json.code == 2
        assert message in failure["message"]
        assert {"code", "message", "hint", "retryable", "details"} <= failure.keys()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidSpec("x"), 2),
        (errors.NotFound("x"), 3),
        (errors.Refused("x"), 4),
        (errors.Conflict("x"), 5),
        (errors.Unavailable("x"), 6),
        (errors.Fault("x"), 7),
        (TimeoutError("x"), 124),
        (KeyboardInterrupt(), 130),
        (RuntimeError("x"), 7),
        (ExceptionGroup("several", [errors.NotFound("x")]), 3),
    ],
)
def test_exit_codes(shell: Shell, error: BaseException, code: int) -> None:
    async def prepare(_: FakeYard) -> None:
        raise error

    assert shell("ps", prepare=prepare).code == code


def test_errors_come_in_words(shell: Shell) -> None:
    async def prepare(_: FakeYard) -> None:
        raise errors.Refused("no node has 9 GPUs", "8 fit.", most=8)

    assert shell("ps", prepare=prepare).err == "error: no node has 9 GPUs\n8 fit.\n"
    assert json.loads(shell("ps", "--json", prepare=prepare).out) == {
        "type": "failure",
        "code": "refused",
        "message": "no node has 9 GPUs",
        "hint": "8 fit.",
        "retryable": False,
        "details": {"most": "8"},
    }


def test_a_bug_of_ours_is_one_sentence_unless_asked(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    async def prepare(_: FakeYard) -> None:
        raise ZeroDivisionError("division by zero")

    result = shell("ps", prepare=prepare)
    assert result.code == 7
    assert "ZeroDivisionError: division by zero" in result.err
    assert "GPUYARD_DEBUG=1" in result.err
    assert "Traceback" not in result.err
    monkeypatch.setenv("GPUYARD_DEBUG", "1")
    assert "Traceback" in shell("ps", prepare=prepare).err


def test_json_behind_the_dashes_is_the_jobs_business(shell: Shell) -> None:
    result = shell("run", "--gpus", "-1", "--", "train", "--json")
    assert result.err.startswith("error: ")


def test_dir_reaches_the_connection(shell: Shell) -> None:
    shell("ps", "--dir", "/some/yard")
    shell("ps")
    assert shell.dirs == ["/some/yard", None]


def test_names_are_exported_lazily() -> None:
    for name in gpuyard.__all__:
        assert getattr(gpuyard, name) is not None
    assert set(gpuyard.__all__) <= set(dir(gpuyard))
    with pytest.raises(AttributeError, match="nothing"):
        gpuyard.nothing  # noqa: B018 - the access is the test
    assert issubclass(gpuyard.NotFound, GpuyardError)
