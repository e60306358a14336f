"""Shapes of keys that are recognised wherever they are printed, though nobody declared them.

Only forms that nothing else has: a fixed beginning and enough characters behind it. A name is what stands in
the output instead. The table in docs/concepts/log-rules.md is checked against this one.
"""

from typing import NamedTuple


class Shape(NamedTuple):
    """What matches is hidden, or of it the group `secret`."""

    name: str
    pattern: str


_EDGE = r"(?:^|[^A-Za-z0-9_])"
"""Nothing of a word before: RE2 has no lookbehind, so what is hidden is a group."""


def _key(pattern: str) -> str:
    return f"{_EDGE}(?P<secret>{pattern})"


SHAPES: tuple[Shape, ...] = (
    Shape("aws-key", _key("(?:AKIA|ASIA)[A-Z0-9]{16}")),
    Shape(
        "aws-secret", r"(?i:aws_secret_access_key)[\"' ]{0,3}[:=][\"' ]{0,3}(?P<secret>[A-Za-z0-9/+=]{40})"
    ),
    Shape("github", _key("gh[pousr]_[A-Za-z0-9]{36,}")),
    Shape("github", _key("github_pat_[A-Za-z0-9_]{22,}")),
    Shape("gitlab", _key("glpat-[A-Za-z0-9_-]{20,}")),
    Shape("openai", _key("sk-[A-Za-z0-9]{32,}")),
    Shape("openai", _key("sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,}")),
    Shape("anthropic", _key("sk-ant-[A-Za-z0-9_-]{20,}")),
    Shape("huggingface", _key("hf_[A-Za-z0-9]{30,}")),
    Shape("slack", _key("xox[abeoprs]-[A-Za-z0-9-]{10,}")),
    Shape("google", _key("AIza[A-Za-z0-9_-]{35}")),
    Shape("jwt", _key(r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,}")),
    Shape(
        "authorization",
        r"(?i:authorization)[\"']{0,2} ?[:=] ?[\"']?(?i:bearer|basic|token) +"
        r"(?P<secret>[A-Za-z0-9._~+/=-]{8,})",
    ),
    Shape("authorization", r"(?:^|[^A-Za-z])[Bb]earer +(?P<secret>[A-Za-z0-9._~+/=-]{20,})"),
    Shape("url-password", r"://[^\s/:@\"'<>]*:(?P<secret>[^\s/@\"'<>]+)@"),
)

OPEN = (
    rf"{_EDGE}(?:AKIA|ASIA|gh[pousr]_|github_pat_|glpat-|sk-|hf_|xox[abeoprs]-|AIza|eyJ|[Bb]earer )"
    r"[A-Za-z0-9._~+/=-]*\z|://[^\s/@\"'<>]*\z"
)
"""The end of a text that a key may go on behind."""
