"""Addresses for the networks of gangs: each gets a small subnet of one pool, found by trying.

The engine's own pools hold some thirty networks. Nothing is written down: where the search begins depends on
the gang, and the engine says which subnets are taken.
"""

from collections.abc import Iterator
from ipaddress import IPv4Network
from itertools import chain
from zlib import crc32

_SMALLEST = 28
_RESERVED = 3
"""Of the network, of its gateway, of broadcast."""


def subnets(pool: str, gang: str, ranks: int) -> Iterator[str]:
    """Subnets of a pool that are large enough, in the order in which this gang tries them."""
    network = IPv4Network(pool)
    prefix = max(network.prefixlen, min(_SMALLEST, 32 - (ranks + _RESERVED - 1).bit_length()))
    count = 1 << (prefix - network.prefixlen)
    begin = crc32(gang.encode()) % count
    size = 1 << (32 - prefix)
    first = int(network.network_address)
    numbers = chain(range(begin, count), range(begin))
    return (f"{IPv4Network((first + number * size, prefix))}" for number in numbers)
