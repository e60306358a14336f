"""Builds the logger from its settings."""

from collections.abc import Sequence
from pathlib import Path

from gpuyard.contracts.errors import Unavailable
from gpuyard.runtime.launch import launch
from gpuyard.runtime.service import Context
from gpuyard_logger.config import LoggerConfig
from gpuyard_logger.file_store import FileStore
from gpuyard_logger.service import LoggerService


def build(config: LoggerConfig, context: Context) -> LoggerService:
    """Open the store.

    Raises:
        Conflict: another logger uses the folder.
        Unavailable: the folder can't be used.

    """

    def report(path: Path, holes: int) -> None:
        context.log.error("stored lines are damaged", file=str(path), places=holes)

    try:
        store = FileStore(Path(config.dir), open_files=config.open_files, on_damage=report)
    except OSError as error:
        raise Unavailable(
            f"the logger can't use its folder {config.dir}: {error}", "Check `dir` in [logger], and its disk."
        ) from error
    return LoggerService(config, context, store)


def main(argv: Sequence[str] | None = None) -> int:
    return launch("logger", LoggerConfig, build, argv)
