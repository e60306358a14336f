"""Builds the logger from its settings."""

from collections.abc import Sequence
from pathlib import Path

from gpuyard.contracts.errors import Unavailable
from gpuyard.runtime.launch import launch
from gpuyard.runtime.service import Context
from gpuyard_logger.config import LoggerConfig
from gpuyard_logger.service import LoggerService
from gpuyard_logger.shelf import Shelf


def build(config: LoggerConfig, context: Context) -> LoggerService:
    """Open the shelf.

    Raises:
        Conflict: another logger uses the folder.
        Unavailable: the folder can't be used.

    """
    try:
        shelf = Shelf(Path(config.dir))
    except OSError as error:
        raise Unavailable(
            f"the logger can't use its folder {config.dir}: {error}", "Check `dir` in [logger], and its disk."
        ) from error
    return LoggerService(config, context, shelf)


def main(argv: Sequence[str] | None = None) -> int:
    return launch("logger", LoggerConfig, build, argv)
