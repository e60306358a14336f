"""What a job shall be, from the options of `submit` and `run` or from a job file."""

from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated

from cyclopts import Parameter

from gpuyard.client import jobfile
from gpuyard.client.jobfile import LoadedJob
from gpuyard.contracts.errors import InvalidSpec


@Parameter(name="*")
@dataclass(frozen=True)
class JobOptions:
    """Options that describe a job."""

    file: Annotated[
        Path | None, Parameter(name=("--file", "-f"), help="A job file instead of a command.")
    ] = None
    gpus: Annotated[int | None, Parameter(help="GPUs of all ranks together.")] = None
    ranks: Annotated[int | None, Parameter(help="Members of the gang; by default one per GPU.")] = None
    name: Annotated[str | None, Parameter(help="Name of the job.")] = None
    priority: Annotated[int | None, Parameter(help="-1000 to 1000; higher goes first.")] = None
    env: Annotated[
        tuple[str, ...], Parameter(negative=(), help="An environment variable, K=V; repeatable.")
    ] = ()
    label: Annotated[tuple[str, ...], Parameter(negative=(), help="A label, K=V; repeatable.")] = ()
    node: Annotated[tuple[str, ...], Parameter(negative=(), help="Only on this node; repeatable.")] = ()
    workdir: Annotated[Path | None, Parameter(help="The directory to ship; by default the current one.")] = (
        None
    )
    no_workdir: Annotated[bool, Parameter(negative=(), help="Ship no directory.")] = False


def job(command: tuple[str, ...], options: JobOptions) -> LoadedJob:
    """Put the job together.

    Raises:
        InvalidSpec: contradictory or malformed options.

    """
    if options.workdir and options.no_workdir:
        raise InvalidSpec("--workdir and --no-workdir exclude each other")
    made = _from_command(command, options) if options.file is None else _from_file(command, options)
    return made._replace(workdir=None if options.no_workdir else options.workdir or made.workdir)


def _from_file(command: tuple[str, ...], options: JobOptions) -> LoadedJob:
    assert options.file
    if command or options.env or options.gpus is not None or options.ranks is not None:
        raise InvalidSpec(
            "a job file says itself what runs: no command, --gpus, --ranks or --env beside -f",
            "Change the file, or leave -f out.",
        )
    return jobfile.load(options.file, _given(options))


def _from_command(command: tuple[str, ...], options: JobOptions) -> LoadedJob:
    if not command:
        raise InvalidSpec("there is no command to run", "Try `gpuyard run --gpus 2 -- python train.py`.")
    file = jobfile.parse({"command": list(command), **_given(options)})
    return LoadedJob(jobfile.spec_of(file, default_name=_name_for(command)), Path())


def _given(options: JobOptions) -> dict[str, object]:
    """The options as keys of a job file, so that both are checked alike."""
    table = {
        "name": options.name,
        "gpus": options.gpus,
        "ranks": options.ranks,
        "priority": options.priority,
        "env": pairs(options.env, "--env") or None,
        "labels": pairs(options.label, "--label") or None,
        "nodes": options.node or None,
    }
    return {key: value for key, value in table.items() if value is not None}


def pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """Read `K=V` options."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise InvalidSpec(f"`{text}` is not of the form K=V", f"Write it like `{option} SEED=1`.")
        found[key] = value
    return found


def _name_for(command: tuple[str, ...]) -> str:
    """The script's name rather than the interpreter's."""
    scripts = (word for word in command if word.endswith((".py", ".sh")))
    return PurePath(next(scripts, command[0])).stem
