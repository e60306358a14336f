"""The services' own logs: one JSON object per line on standard error."""

import logging
import sys

import structlog

Log = structlog.typing.FilteringBoundLogger


def set_up(service: str, level: str = "info") -> Log:
    """Configure logging for a process and return its logger, bound to the service's name."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(default=str),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    logger: Log = structlog.get_logger(service=service)
    return logger
