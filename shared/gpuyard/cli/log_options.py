"""What is asked of `gpuyard logs`: its options, which of them go together, and what they mean."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from cyclopts import Parameter

from gpuyard.cli.log_ranks import parse_ranks
from gpuyard.cli.log_regex import check_regex
from gpuyard.cli.log_times import parse_time
from gpuyard.client.export import Format
from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.log import ERR, OUT

LIMIT = 1000
_BOUNDS = {"attempt": (1, 2**31), "tail": (0, 2**31), "context": (0, 1000), "limit": (1, 100_000)}
Flag = Parameter(negative=())


@Parameter(name="*")
@dataclass(frozen=True)
class LogOptions:
    """Options of `gpuyard logs`."""

    follow: Annotated[
        bool, Parameter(name=("--follow", "-f"), negative=(), help="Stay until the job has ended.")
    ] = False
    rank: Annotated[str | None, Parameter(help="Only these ranks, for example `0,8-15`.")] = None
    attempt: Annotated[int | None, Parameter(help="Only this attempt; by default the newest.")] = None
    stream: Annotated[Literal["out", "err"] | None, Parameter(help="Only standard output, or errors.")] = None
    since: Annotated[
        str | None, Parameter(help="From this time on: `10m` ago, `2025-01-31 14:05`, or seconds since 1970.")
    ] = None
    until: Annotated[str | None, Parameter(help="Before this time, written like --since.")] = None
    tail: Annotated[int | None, Parameter(help="Only the last so many lines of each rank.")] = None
    grep: Annotated[str | None, Parameter(help="Only lines that hold this regular expression.")] = None
    ignore_case: Annotated[
        bool, Parameter(name=("--ignore-case", "-i"), negative=(), help="--grep takes small for capital.")
    ] = False
    context: Annotated[
        int | None, Parameter(name=("--context", "-C"), help="So many lines around each match, too.")
    ] = None
    prefix: Annotated[
        bool | None, Parameter(help="Begin lines with their rank; by default if there are several.")
    ] = None
    raw: Annotated[bool, Parameter(negative=(), help="Bytes as they are, even to a terminal.")] = False
    fold: Annotated[
        bool, Parameter(negative=(), help="Show once what many ranks print, and mark who differs first.")
    ] = False
    label: Annotated[
        tuple[str, ...], Parameter(negative=(), help="Jobs with this label, K=V; repeatable.")
    ] = ()
    everything: Annotated[
        bool, Parameter(name="--all", negative=(), help="Search all jobs, newest first; needs --grep.")
    ] = False
    limit: Annotated[int | None, Parameter(help=f"With --all, at most so many lines; {LIMIT}.")] = None
    cursor: Annotated[str | None, Parameter(help="With --all, go on where a search stopped.")] = None
    export: Annotated[
        Path | None, Parameter(help="Write all attempts to this file: .txt, .log, .jsonl or .parquet.")
    ] = None
    format: Annotated[
        Format | None, Parameter(help="Of the exported file; by default by its name's ending.")
    ] = None
    pin: Annotated[bool, Parameter(negative=(), help="Keep the job's output, whatever its age.")] = False
    unpin: Annotated[bool, Parameter(negative=(), help="Let the rules decide again.")] = False


NO_OPTIONS = LogOptions()
_ABOUT_LINES = frozenset({"rank", "stream", "since", "until", "grep", "ignore_case"})
_ALLOWED = {
    "pin": frozenset({"label"}),
    "unpin": frozenset({"label"}),
    "export": frozenset({"format"}),
    "everything": _ABOUT_LINES | {"label", "limit", "cursor", "prefix", "raw"},
    "read": _ABOUT_LINES | {"follow", "attempt", "tail", "context", "prefix", "raw", "fold", "label"},
}
Mode = Literal["pin", "unpin", "export", "everything", "read"]


class Wanted(NamedTuple):
    """Which lines are wanted, in the words of the client."""

    ranks: frozenset[int] | None
    stream: int | None
    since_s: float | None
    until_s: float | None
    grep: str
    ignore_case: bool


def mode_of(options: LogOptions, refs: tuple[str, ...], *, as_json: bool) -> Mode:
    """What is to be done.

    Raises:
        InvalidSpec: options that do not go together, or no job.

    """
    given = {field.name for field in fields(options) if getattr(options, field.name) != field.default}
    modes: tuple[Mode, ...] = ("pin", "unpin", "export", "everything")
    mode: Mode = next((mode for mode in modes if mode in given), "read")
    alien = sorted(given - _ALLOWED[mode] - {mode})
    if alien and mode == "read":
        raise InvalidSpec(f"{_flag(alien[0])} needs {'--export' if alien[0] == 'format' else '--all'}")
    if alien:
        raise InvalidSpec(f"{_flag(alien[0])} does not go with {_flag(mode)}", "Leave one of them out.")
    _check_jobs(mode, refs, options)
    _check_manner(given, as_json=as_json)
    _check_bounds(options)
    return mode


def wanted(options: LogOptions, now_s: float) -> Wanted:
    """Read what the options say.

    Raises:
        InvalidSpec: no ranks, no times or no regular expression.

    """
    since_s = None if options.since is None else parse_time(options.since, now_s, "--since")
    until_s = None if options.until is None else parse_time(options.until, now_s, "--until")
    if since_s is not None and until_s is not None and since_s > until_s:
        raise InvalidSpec("--since is after --until: no line can be in between", "Swap them.")
    if options.grep is not None:
        check_regex(options.grep, ignore_case=options.ignore_case)
    return Wanted(
        None if options.rank is None else parse_ranks(options.rank),
        None if options.stream is None else {"out": OUT, "err": ERR}[options.stream],
        since_s,
        until_s,
        options.grep or "",
        options.ignore_case,
    )


def _check_jobs(mode: Mode, refs: tuple[str, ...], options: LogOptions) -> None:
    if mode == "everything":
        if refs:
            raise InvalidSpec("--all searches all jobs: name none", "Leave --all out, or narrow by --label.")
        if options.grep is None:
            raise InvalidSpec("--all needs --grep", "Say what to look for.")
    elif refs and options.label:
        raise InvalidSpec("jobs are chosen by name or by --label, not by both")
    elif not refs and not options.label:
        raise InvalidSpec("name a job, or choose jobs by --label", "`gpuyard ps --all` lists all jobs.")
    if mode == "export" and len(refs) > 1:
        raise InvalidSpec("one file holds one job", "Export them one by one.")


def _check_manner(given: set[str], *, as_json: bool) -> None:
    for option in sorted(given & {"ignore_case", "context"}):
        if "grep" not in given:
            raise InvalidSpec(f"{_flag(option)} needs --grep")
    shapes = [*sorted(given & {"raw", "fold"}), *(["json"] if as_json else [])]
    if len(shapes) > 1 and not given & {"pin", "unpin", "export"}:
        raise InvalidSpec(f"{_flag(shapes[0])} does not go with {_flag(shapes[1])}", "Choose one.")
    if "prefix" in given and shapes:
        raise InvalidSpec(f"--{shapes[0]} has its own way to say whose a line is: no prefix to choose")


def _check_bounds(options: LogOptions) -> None:
    for name, (least, most) in _BOUNDS.items():
        value = getattr(options, name)
        if value is not None and not least <= value <= most:
            raise InvalidSpec(f"{_flag(name)} is between {least} and {most}")


def _flag(name: str) -> str:
    return "--all" if name == "everything" else f"--{name.replace('_', '-')}"
