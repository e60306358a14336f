from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.client import jobfile
from gpuyard.client.jobfile import JobFile, load, parse, spec_of
from gpuyard.contracts.errors import InvalidSpec, NotFound
from gpuyard.contracts.job import JobSpec, TaskSpec


def write(folder: Path, text: str, name: str = "train.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_one_line_is_a_job_file(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, "command = \"python train.py --name 'a b'\""))
    assert loaded.spec == JobSpec((TaskSpec(("python", "train.py", "--name", "a b")),), name="train")
    assert loaded.workdir is None


def test_the_short_form(tmp_path: Path) -> None:
    text = """
        name = "digits"
        command = ["python", "train.py"]
        gpus = 4
        ranks = 2
        workdir = "src"
        priority = -3
        nodes = ["n1", "n2"]
        grace_s = 2
        launch_deadline_s = 60.5
        [env]
        SEED = "1"
        [labels]
        team = "vision"
    """
    loaded = load(str(write(tmp_path, text)))
    assert loaded.spec == JobSpec(
        (TaskSpec(("python", "train.py"), gpus=4, ranks=2, env={"SEED": "1"}),),
        name="digits",
        priority=-3,
        labels={"team": "vision"},
        nodes=("n1", "n2"),
        grace_s=2.0,
        launch_deadline_s=60.5,
    )
    assert loaded.workdir == tmp_path / "src"


def test_the_long_form(tmp_path: Path) -> None:
    text = """
        workdir = "."
        [[tasks]]
        name = "worker"
        command = "python train.py"
        gpus = 2
        [[tasks]]
        name = "evaluator"
        command = ["python", "evaluate.py"]
        env = { WAIT = "1" }
    """
    loaded = load(write(tmp_path, text, "My Job.toml"))
    assert loaded.spec.name == "my-job"
    assert [(task.name, task.rank_count) for task in loaded.spec.tasks] == [("worker", 2), ("evaluator", 1)]
    assert loaded.workdir == tmp_path


def test_changes_replace_keys_of_the_file(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, 'command = "a"\npriority = 1'), {"priority": 5, "name": "other"})
    assert (loaded.spec.priority, loaded.spec.name) == (5, "other")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "either `command` or", "command ="),
        ("gpus = 2", "either `command` or", ""),
        ('command = "a"\n[[tasks]]\ncommand = "b"', "either `command` or", ""),
        ('gpus = 2\n[[tasks]]\ncommand = "b"', "belong into each", ""),
        ('comand = "a"', "unknown key `comand`", "`command`"),
        ('command = "a"\nquux = 1', "unknown key `quux`", "Known keys"),
        ('[[tasks]]\ncommand = "a"\ngpu = 2', "unknown key `gpu` in `tasks[0]`", "`gpus`"),
        ('command = "a"\ngpus = "two"', "`gpus` is `two`: it must be a whole number", "GPUs of all ranks"),
        ('command = "a"\ngpus = -1', "`gpus` is -1: it must be at least 0", "0 to 65536"),
        ('command = "a"\ngpus = 99999999999999999999999', "99999: it must be at most 65536", ""),
        ('command = "a"\nranks = 0', "`ranks` is 0: it must be at least 1", "leave it out"),
        ('command = "a"\ngpus = 3\nranks = 2', "can't be divided evenly", ""),
        ('command = "a"\npriority = 5000', "`priority` is 5000: it must be at most 1000", "-1000 to 1000"),
        ('command = "a"\ngrace_s = nan', "`grace_s`", ""),
        ('command = "a"\nlaunch_deadline_s = 0', "`launch_deadline_s` is 0: it must be more than 0", ""),
        ('command = "a"\nname = "Not An Id"', "a name has lower-case letters", "Try `not-an-id`."),
        ('command = "a"\nname = "x/y"', "`name`", ""),
        ('command = "a"\nenv = { "A B" = "1" }', "a key of `env`, `A B`: a variable's name", "SEED=1"),
        ('command = "a"\n[env]\nA = 1', "`env[...]`: it must be text", ""),
        ('command = "a"\nname = 1979-05-27', "`name`", ""),
        ('command = "unclosed \'quote"', "can't be split", "quotes"),
        ('command = ""', "is empty", ""),
        ("command = []", "is empty", ""),
        ('command = [""]', "is empty", ""),
        ('command = "a\\u0000b"', "`command`", ""),
        ("tasks = 5", "`tasks` is 5: it must be a list", ""),
        ('command = "a"\ncommand = "b"', "is not TOML", "toml.io"),
        ('name = "a"\ncommand = \n', "line 2", ""),
        ("a = " + "[" * 5000, "is not TOML", ""),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str, hint: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InvalidSpec) as caught:
        load(path)
    assert message in caught.value.message
    assert caught.value.message.startswith(str(path))
    assert hint in caught.value.hint


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"nothing\.toml"):
        load(tmp_path / "nothing.toml")


def test_files_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidSpec, match="is not TOML"):
        load(path)
    with pytest.raises(InvalidSpec, match="is a directory, not a job file"):
        load(tmp_path)
    with path.open("wb") as file:
        file.truncate(jobfile.MOST_BYTES + 1)
    with pytest.raises(InvalidSpec, match="is it a job file"):
        load(path)


def test_a_file_that_never_ends_is_not_read_whole() -> None:
    with pytest.raises(InvalidSpec, match="is it a job file"):
        load("/dev/zero")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(JobFile.__struct_fields__) | st.text(max_size=8)


@given(st.dictionaries(keys, values, max_size=5))
def test_any_table_is_a_job_or_a_clear_error(table: dict[str, object]) -> None:
    with suppress(InvalidSpec):
        spec = spec_of(parse(table))
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(spec), type=JobSpec) == spec


def test_the_file_allows_what_the_contract_allows() -> None:
    """Two structs describe the same fields; their limits must not drift apart."""
    file, spec = (msgspec.json.schema(kind)["$defs"] for kind in (JobFile, JobSpec))
    for ours, theirs in (("JobFile", "JobSpec"), ("TaskTable", "TaskSpec"), ("JobFile", "TaskSpec")):
        shared = file[ours]["properties"].keys() & spec[theirs]["properties"].keys()
        for key in shared - {"tasks", "workdir", "command", "name"}:
            assert file[ours]["properties"][key] == spec[theirs]["properties"][key], key
