"""Coverage-guided fuzzing of everything that reads a topology from text; see README.md beside this file.

Whatever the text, only TopologyError may leave the parser, its line lies inside the text, and what it
accepts is a complete matrix with a figure for every link.
"""

import random
import re
import sys
from itertools import combinations

import atheris  # type: ignore[import-untyped]

# Comparisons inside regular expressions guide the search as well.
atheris.enabled_hooks.add("RegEx")

with atheris.instrument_imports(include=["gpuyard.topology"]):
    from gpuyard.topology.capture import Capture, parse_capture
    from gpuyard.topology.link_speed import described
    from gpuyard.topology.table_text import TopologyError


def check(capture: Capture) -> None:
    """What holds for every accepted text."""
    topology = capture.topology
    count = len(topology.gpus)
    if [(link.a, link.b) for link in topology.links] != list(combinations(range(count), 2)):
        raise AssertionError("not every pair has one link")
    if not all(link.level or link.nvlinks for link in topology.links):
        raise AssertionError("a pair without a link")
    if not all(len(nic.levels) == count and None not in nic.levels for nic in topology.nics):
        raise AssertionError("a network card without its levels")
    for link in described(topology.links, capture.model):
        if not link.gb_s or link.basis is None:
            raise AssertionError("a link without a figure")


def read(data: bytes) -> None:
    """One input."""
    text = data.decode(errors="replace")
    try:
        check(parse_capture("fuzzed", text))
    except TopologyError as error:
        if not 1 <= error.line <= len(re.split("\r\n|\r|\n", text)):
            raise AssertionError(f"line {error.line} is outside the text") from error


def mutate(data: bytes, most: int, seed: int) -> bytes:
    """Change bytes, or lose, repeat, move or swap whole lines or words: damage that real texts have."""
    chance = random.Random(seed)
    if chance.random() < 0.5:
        return bytes(atheris.Mutate(data, most))
    parts = re.split(rb"(\n)" if chance.random() < 0.5 else rb"([\t ]+)", data)
    one, other = chance.randrange(len(parts)), chance.randrange(len(parts))
    change = chance.randrange(4)
    if change == 0:
        parts[one], parts[other] = parts[other], parts[one]
    elif change == 1:
        parts[one] = parts[other]
    elif change == 2:
        parts.insert(one, parts[other])
    else:
        del parts[one]
    return b"".join(parts)[:most]


if __name__ == "__main__":
    atheris.Setup(sys.argv, read, custom_mutator=mutate)
    atheris.Fuzz()
