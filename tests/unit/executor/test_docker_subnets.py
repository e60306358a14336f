"""Addresses for the networks of gangs."""

from ipaddress import IPv4Network
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from gpuyard_executor.core.subnets import subnets


@given(gang=st.text(max_size=20), ranks=st.integers(1, 200))
def test_each_has_room_and_lies_in_the_pool(gang: str, ranks: int) -> None:
    pool = IPv4Network("10.20.0.0/18")
    for text in islice(subnets(str(pool), gang, ranks), 5):
        subnet = IPv4Network(text)
        assert subnet.subnet_of(pool)
        assert subnet.num_addresses >= ranks + 3


@given(gang=st.text(max_size=20))
def test_all_are_tried_once(gang: str) -> None:
    tried = list(subnets("10.20.0.0/24", gang, 2))
    assert len(set(tried)) == len(tried) == 16
    assert sum(IPv4Network(subnet).num_addresses for subnet in tried) == 256


def test_gangs_begin_at_different_places() -> None:
    firsts = {next(subnets("198.18.0.0/15", f"job-{number}.1", 8)) for number in range(100)}
    assert len(firsts) > 90


def test_a_pool_smaller_than_the_gang_is_used_whole() -> None:
    assert list(subnets("10.0.0.0/30", "job.1", 100)) == ["10.0.0.0/30"]
