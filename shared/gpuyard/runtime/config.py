"""Settings of a service: defaults < TOML table < environment < flags. Read once, by the process's main.

Example: `[scheduler] tick_s = 0.5` in the file given by `--config`, or `GPUYARD_SCHEDULER__TICK_S=0.5`,
or `--tick-s 0.5`.
"""

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from gpuyard.contracts.complaint import complaint
from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.strict import check_keys, unknown_key

Port = Annotated[int, Meta(ge=0, le=65535)]


class BusConfig(Struct, frozen=True, kw_only=True):
    """Where the NATS server is."""

    url: Annotated[str, Meta(description="URL with user or token, if it wants one.")] = (
        "nats://127.0.0.1:4222"
    )
    replicas: Annotated[int, Meta(ge=1, le=5, description="Copies of each stream in a cluster.")] = 1


class TelemetryConfig(Struct, frozen=True, kw_only=True):
    """What is told about the service."""

    otlp_url: Annotated[str, Meta(description="OTLP/HTTP trace endpoint; empty: no traces.")] = ""
    log_level: Annotated[str, Meta(pattern="^(debug|info|warning|error)$")] = "info"


class ServiceConfig(Struct, frozen=True, kw_only=True):
    """What every service can be told; each service's own settings extend it."""

    health_host: Annotated[str, Meta(description="Address of /healthz, /readyz and /metrics.")] = "127.0.0.1"
    health_port: Annotated[Port, Meta(description="Port of them; 0: any free one.")] = 0


ConfigT = TypeVar("ConfigT", bound=Struct)


def load(
    kind: type[ConfigT],
    section: str,
    *,
    table: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
) -> ConfigT:
    """Merge one section's settings and check them.

    Raises:
        InvalidSpec: an unknown key (the nearest is named), or a value of the wrong type or out of range.
    """
    merged: dict[str, Any] = dict(table or {})
    check_keys(merged, kind)
    prefix = f"GPUYARD_{section.upper()}__"
    spelled = {
        key.removeprefix(prefix).lower(): value
        for key, value in (environment or {}).items()
        if key.startswith(prefix)
    }
    merged |= _known(spelled | dict(flags or {}), kind)
    try:
        return msgspec.convert(merged, kind, strict=False)
    except msgspec.ValidationError as error:
        wrong = complaint(error, merged)
        raise InvalidSpec(f"in [{section}] {wrong.message}", wrong.hint, **wrong.details) from error


def _known(values: Mapping[str, str], kind: type[Struct]) -> dict[str, Any]:
    fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
    for key in values:
        if key not in fields:
            raise unknown_key(key, fields)
    return {key: _parsed(value, fields[key]) for key, value in values.items()}


def _parsed(text: str, kind: Any) -> Any:
    """A list or table comes as JSON; everything else as it is."""
    info = msgspec.inspect.type_info(kind)
    while isinstance(info, msgspec.inspect.Metadata):
        info = info.type
    if not isinstance(info, msgspec.inspect.VarTupleType | msgspec.inspect.DictType):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidSpec(f"`{text}` is not JSON: {error}", 'Write a list as ["a", "b"].') from error


def split_argv(argv: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Take `--config FILE` and `--some-key value` apart."""
    flags: dict[str, str] = {}
    words = iter(argv)
    for word in words:
        if not word.startswith("--"):
            raise InvalidSpec(f"unexpected argument `{word}`", "Settings are given as `--key value`.")
        key, equals, value = word[2:].partition("=")
        following = value if equals else next(words, None)
        if following is None:
            raise InvalidSpec(f"`{word}` wants a value")
        flags[key.replace("-", "_")] = following
    return flags.pop("config", ""), flags


def read_file(path: str) -> dict[str, Any]:
    """Read a TOML file; an empty path is an empty file."""
    if not path:
        return {}
    try:
        return tomllib.loads(Path(path).read_text())
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSpec(f"can't read the settings in {path}: {error}") from error


def environment() -> Mapping[str, str]:
    """The process's environment, read here and nowhere else."""
    return os.environ
