from pathlib import Path

import pytest

from gpuyard.contracts.errors import Failure
from tests.unit.cli.conftest import Shell
from tests.unit.client.fake_yard import FakeYard


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print(1)")
    return tmp_path


def test_stdout_is_the_id_and_nothing_else(shell: Shell) -> None:
    result = shell("submit", "--", "python", "train.py")
    assert result.code == 0
    (job,) = shell.yard.jobs.values()
    assert result.out == f"{job.id}\n"
    assert f"gpuyard logs -f {job.id}" in result.err


def test_options_describe_the_job(shell: Shell) -> None:
    arguments = "--gpus 4 --ranks 2 --name big --priority 7 --env A=1 --env B=x=y --label team=vision"
    shell("submit", *arguments.split(), "--", "python", "train.py", "--gpus", "9", "-f")
    (job,) = shell.yard.jobs.values()
    (task,) = job.spec.tasks
    assert task.command == ("python", "train.py", "--gpus", "9", "-f")
    assert (task.gpus, task.ranks, task.env) == (4, 2, {"A": "1", "B": "x=y"})
    assert (job.spec.name, job.spec.priority, job.spec.labels) == ("big", 7, {"team": "vision"})


def test_a_job_can_be_bound_to_nodes(shell: Shell, here: Path) -> None:
    bound = shell("submit", "--node", "n1", "--node", "n2", "--json", "--", "true").json
    assert bound["nodes"] == ["n1", "n2"]
    (here / "job.toml").write_text('command = "true"\nnodes = ["n3"]')
    assert shell("submit", "-f", "job.toml", "--json").json["nodes"] == ["n3"]
    assert shell("submit", "-f", "job.toml", "--node", "n4", "--json").json["nodes"] == ["n4"]


def test_what_can_be_no_node_is_refused(shell: Shell) -> None:
    result = shell("submit", "--node", "No Such", "--", "true")
    assert result.code == 2
    assert "nodes" in result.err


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("python", "-u", "src/my_train.py"), "my-train"),
        (("/usr/bin/sleep", "5"), "sleep"),
        (("bash", "Run It.sh"), "run-it"),
        (("...",), "job"),
    ],
)
def test_a_job_is_named_after_its_script(shell: Shell, command: tuple[str, ...], name: str) -> None:
    shell("submit", "--", *command)
    (job,) = shell.yard.jobs.values()
    assert job.spec.name == name


def test_the_current_directory_is_shipped_unless_refused(shell: Shell, here: Path) -> None:
    (here / "sub").mkdir()
    uploads = []
    for options in ([], ["--workdir", "."], ["--workdir", "sub"], ["--no-workdir"]):
        shell("submit", *options, "--", "true")
        (job,) = shell.yard.jobs.values()
        uploads.append(job.spec.workdir)
    assert uploads[0] == uploads[1] != uploads[2]
    assert uploads[2].startswith("sha256-")
    assert uploads[3] == ""


def test_a_job_file(shell: Shell, here: Path) -> None:
    (here / "job.toml").write_text('command = "python train.py"\ngpus = 2\nworkdir = "."')
    job = shell("submit", "-f", "job.toml", "--name", "other", "--priority", "3", "--json").json
    assert (job["name"], job["priority"], job["gpus"], job["ranks"]) == ("other", 3, 2, 2)
    assert job["workdir"].startswith("sha256-")
    bare = shell("submit", "--file", "job.toml", "--no-workdir", "--json").json
    assert bare["workdir"] == ""


def test_a_wrong_job_file_names_the_key(shell: Shell, here: Path) -> None:
    (here / "job.toml").write_text('command = "a"\ngpu = 2')
    result = shell("submit", "-f", "job.toml")
    assert result.code == 2
    assert "job.toml: unknown key `gpu`" in result.err
    assert "Did you mean `gpus`?" in result.err
    assert shell("submit", "-f", "nothing.toml").code == 3


def test_a_refusal_exits_4(shell: Shell) -> None:
    async def refuse(yard: FakeYard) -> None:
        yard.refusal = Failure("refused", "no node has 9 GPUs", "8 fit.")

    result = shell("submit", "--gpus", "9", "--", "true", prepare=refuse)
    assert (result.code, result.out) == (4, "")
    assert result.err == "error: no node has 9 GPUs\n8 fit.\n"
