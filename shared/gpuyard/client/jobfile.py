"""Job files: a job as a person writes it down, in TOML.

The short form describes one task at the top level; the long form lists several under `[[tasks]]`. A file is
checked strictly: a misspelt key must not be ignored. The schema in docs/reference is made from `JobFile`.
"""

import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from gpuyard.contracts.codec import validated
from gpuyard.contracts.complaint import complaint
from gpuyard.contracts.errors import InvalidSpec, NotFound
from gpuyard.contracts.ids import Name, NodeId, slug
from gpuyard.contracts.job import EnvName, JobSpec, MetricRule, TaskSpec, Text
from gpuyard.contracts.log_rule import LogRule
from gpuyard.contracts.strict import check_keys

MOST_BYTES = 1_000_000

# A plain `str`: with pattern and length limit beside a sequence, msgspec 0.22 corrupts memory.
Command = Annotated[
    str | tuple[Text, ...],
    Meta(description="Program and arguments: a list, or one string that is split as a shell would."),
]
Gpus = Annotated[int, Meta(ge=0, le=65536, description="GPUs of all ranks together.")]
Ranks = Annotated[int, Meta(ge=1, le=65536, description="Members of the gang; default one per GPU, or 1.")]
Env = Annotated[dict[EnvName, Text], Meta(max_length=1024, description="Added environment.")]
Secrets = Annotated[
    tuple[EnvName, ...],
    Meta(
        max_length=256,
        description="Variables whose values must never be seen in the output.",
    ),
]


class TaskTable(Struct, frozen=True, forbid_unknown_fields=True):
    """One role of the job: a `[[tasks]]` table."""

    command: Command
    name: Name = "main"
    gpus: Gpus = 0
    ranks: Ranks | None = None
    env: Env = {}
    secrets: Secrets = ()


class JobFile(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A job file. Either `command` and its companions at the top level, or `[[tasks]]`."""

    name: Name | None = None
    command: Command | None = None
    gpus: Gpus = 0
    ranks: Ranks | None = None
    env: Env = {}
    secrets: Secrets = ()
    tasks: Annotated[tuple[TaskTable, ...], Meta(max_length=64, description="Roles, in the long form.")] = ()
    workdir: Annotated[
        str | None,
        Meta(description="Directory to ship, relative to this file; none by default.", examples=["."]),
    ] = None
    priority: Annotated[int, Meta(ge=-1000, le=1000, description="Higher goes first.")] = 0
    labels: Annotated[dict[str, str], Meta(max_length=64, description="Free key-value pairs.")] = {}
    nodes: Annotated[
        tuple[NodeId, ...], Meta(max_length=1024, description="Only on these nodes; empty: on any.")
    ] = ()
    grace_s: Annotated[
        float, Meta(ge=0, le=86400, description="Seconds between the stop signal and the kill.")
    ] = 10.0
    launch_deadline_s: Annotated[
        float, Meta(gt=0, le=86400, description="Seconds for all ranks to get ready.")
    ] = 120.0
    metrics: Annotated[
        tuple[MetricRule, ...],
        Meta(max_length=32, description="Own rules for numbers in the output."),
    ] = ()
    log_rules: Annotated[
        tuple[LogRule, ...], Meta(max_length=32, description="Own rules for lines of the output.")
    ] = ()


class LoadedJob(NamedTuple):
    """What a job file says: the job, and the directory to upload with it."""

    spec: JobSpec
    workdir: Path | None


def load(path: Path | str, changes: Mapping[str, object] = MappingProxyType({})) -> LoadedJob:
    """Read a job file.

    Args:
        path: Where it is; its `workdir` is relative to it.
        changes: Keys that replace those of the file.

    Raises:
        NotFound: there is no such file.
        InvalidSpec: the file can't be read or is wrong; the message names the place.

    """
    path = Path(path)
    table = {**_table(path), **changes}
    try:
        file = parse(table)
        spec = spec_of(file, default_name=path.stem)
    except InvalidSpec as error:
        raise InvalidSpec(f"{path}: {error.message}", error.hint, file=path, **error.details) from error
    return LoadedJob(spec, None if file.workdir is None else path.parent / file.workdir)


def parse(table: Mapping[str, object]) -> JobFile:
    """Check what a job file holds: known keys, right types, values in range."""
    check_keys(dict(table), JobFile)
    try:
        return msgspec.convert(table, JobFile)
    except msgspec.ValidationError as error:
        raise complaint(error, table) from error


def spec_of(file: JobFile, *, default_name: str = "job") -> JobSpec:
    """Turn a checked file into a job, without its working directory."""
    return validated(
        JobSpec(
            tasks=tuple(_task(table) for table in _tables(file)),
            name=file.name or slug(default_name),
            priority=file.priority,
            labels=file.labels,
            nodes=file.nodes,
            grace_s=file.grace_s,
            launch_deadline_s=file.launch_deadline_s,
            metrics=file.metrics,
            log_rules=file.log_rules,
        )
    )


def split_command(text: str) -> tuple[str, ...]:
    """Split a command line as a shell would, without expanding anything."""
    if "\0" in text:
        raise InvalidSpec("a `command` can't hold NUL")
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise InvalidSpec(f"the command `{text}` can't be split: {error}", "Check its quotes.") from error


def _table(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise InvalidSpec(f"{path} is larger than {MOST_BYTES:,} bytes: is it a job file?")
        return tomllib.loads(text.decode())
    except FileNotFoundError as error:
        raise NotFound(f"there is no file `{path}`", "Check the path after -f.") from error
    except IsADirectoryError as error:
        raise InvalidSpec(
            f"`{path}` is a directory, not a job file", f"Name the file, such as `{path / 'job.toml'}`."
        ) from error
    except OSError as error:
        raise InvalidSpec(f"can't read `{path}`: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidSpec(f"{path} is not TOML: {error}", "See https://toml.io for the syntax.") from error


def _tables(file: JobFile) -> tuple[TaskTable, ...]:
    if file.command is None and file.tasks:
        if file.gpus or file.ranks is not None or file.env or file.secrets:
            raise InvalidSpec("`gpus`, `ranks`, `env` and `secrets` belong into each `[[tasks]]` table here")
        return file.tasks
    if file.command is not None and not file.tasks:
        return (
            TaskTable(file.command, gpus=file.gpus, ranks=file.ranks, env=file.env, secrets=file.secrets),
        )
    raise InvalidSpec(
        "give either `command` or `[[tasks]]`",
        'The smallest job file is one line: command = "python train.py"',
    )


def _task(table: TaskTable) -> TaskSpec:
    command = split_command(table.command) if isinstance(table.command, str) else table.command
    if not command:
        raise InvalidSpec(f"the command of task `{table.name}` is empty")
    try:
        return TaskSpec(
            command,
            name=table.name,
            gpus=table.gpus,
            ranks=table.ranks,
            env=table.env,
            secrets=table.secrets,
        )
    except ValueError as error:
        raise InvalidSpec(f"task `{table.name}`: {error}") from error
