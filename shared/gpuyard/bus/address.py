"""Addresses of servers: checked before the first try, because a wrong one would be tried for ever."""

from urllib.parse import urlsplit

from gpuyard.contracts.errors import InvalidSpec

_SCHEMES = ("nats", "tls")


def servers_of(url: str) -> list[str]:
    """The servers of a list with commas.

    Raises:
        InvalidSpec: one of them can't be an address.

    """
    servers = [server.strip() for server in url.split(",")]
    for server in servers:
        if not _is_possible(server):
            raise InvalidSpec(
                f"`{without_token(server)}` is not the address of a bus",
                "Write it like `nats://HOST:4222`, or `tls://HOST:4222`; several are separated by commas.",
            )
    return servers


def without_token(server: str) -> str:
    """The part of an address that may be shown."""
    return server.rsplit("@", 1)[-1]


def _is_possible(server: str) -> bool:
    try:
        parts = urlsplit(server)
        return parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an unclosed bracket, or a port that is no number
        return False
