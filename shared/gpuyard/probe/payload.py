"""Payloads that prove their arrival: both ends make them from a number, and share nothing else.

A rate alone proves nothing: where an IOMMU translates, copies were seen that ran at a plausible rate and
delivered zeros.
"""

import torch

_ODD = 1_640_531_527
"""A large odd factor: neighbouring words differ in many bits."""
_STEPS = 1024
"""Sums of small whole numbers are exact in float32, in whatever order they are added."""


def words(number: int, size_bytes: int, place: torch.device) -> torch.Tensor:
    """A payload to copy, int32 `[size_bytes / 4]`; another number makes another payload."""
    return torch.arange(size_bytes // 4, dtype=torch.int32, device=place).mul_(_ODD).add_(number)


def terms(rank: int, size_bytes: int, place: torch.device) -> torch.Tensor:
    """What one rank adds to an all-reduce, float32 `[size_bytes / 4]`."""
    return _ramp(size_bytes, place).add_(rank)


def total(ranks: int, size_bytes: int, place: torch.device) -> torch.Tensor:
    """The sum of the terms of so many ranks."""
    return _ramp(size_bytes, place).mul_(ranks).add_(ranks * (ranks - 1) // 2)


def is_same(received: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether it arrived word for word; both lie at the receiver."""
    return torch.equal(received, expected)


def _ramp(size_bytes: int, place: torch.device) -> torch.Tensor:
    return torch.arange(size_bytes // 4, dtype=torch.int32, device=place).remainder_(_STEPS).float()
