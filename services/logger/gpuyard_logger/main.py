"""Builds the logger from its settings."""

from collections.abc import Sequence
from pathlib import Path

from gpuyard.contracts.errors import Unavailable
from gpuyard.runtime.launch import launch
from gpuyard.runtime.service import Context
from gpuyard_logger.blobs import ObjectPlaces
from gpuyard_logger.config import LoggerConfig, ObjectsConfig
from gpuyard_logger.service import LoggerService
from gpuyard_logger.shelf import Shelf


def build(config: LoggerConfig, context: Context) -> LoggerService:
    """Open the shelf, and object storage if there is any.

    Raises:
        Conflict: another logger uses the folder.
        Unavailable: the folder can't be used, or a package is missing.
        InvalidSpec: object storage can't be used as it is described.

    """
    try:
        shelf = Shelf(Path(config.dir))
    except OSError as error:
        raise Unavailable(
            f"the logger can't use its folder {config.dir}: {error}", "Check `dir` in [logger], and its disk."
        ) from error
    return LoggerService(config, context, shelf, _objects(config.objects))


def _objects(config: ObjectsConfig) -> ObjectPlaces | None:
    """Object storage, if there is to be any."""
    if not config.url:
        return None
    try:
        from gpuyard_logger.object_store import ObjectStore  # noqa: PLC0415 - most loggers have none
    except ImportError as error:
        raise Unavailable(
            "`url` in [logger.objects] is set, but the package obstore is not installed",
            "Install `gpuyard[objects]`.",
        ) from error
    return ObjectStore(config)


def main(argv: Sequence[str] | None = None) -> int:
    return launch("logger", LoggerConfig, build, argv)
