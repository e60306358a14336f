"""Secrets don't get into the output, however it is cut; nothing else is touched."""

import re
from base64 import b64encode, urlsafe_b64encode
from json import dumps
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.contracts.log import ERR, OUT, LogChunk
from gpuyard_executor.core.batching import MAX_LINE_BYTES, Batcher, Position, covers, rebuild
from gpuyard_executor.core.redaction import Redactor
from tests.unit.executor.test_batching import FOREVER, pieces, since

TOKEN = "tok/en+Of=ada:7"
KEY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"


def redacted(text: str | bytes, **secrets: str) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    (chunk,) = Redactor(secrets).redact((LogChunk(OUT, 1.0, data),), 0).chunks
    return chunk.data


def test_a_declared_value_is_replaced_by_its_name() -> None:
    assert redacted(f"login with {TOKEN}!\n", HF_TOKEN=TOKEN) == b"login with [redacted:HF_TOKEN]!\n"


@pytest.mark.parametrize(
    "encoded",
    [
        b64encode(TOKEN.encode()).decode().rstrip("="),
        b64encode(b"u:" + TOKEN.encode()).decode(),
        b64encode(b"me:" + TOKEN.encode()).decode(),
        urlsafe_b64encode(TOKEN.encode()).decode(),
        quote(TOKEN, safe=""),
        quote(TOKEN, safe="")
        .replace("%2F", "%2f")
        .replace("%2B", "%2b")
        .replace("%3D", "%3d")
        .replace("%3A", "%3a"),
    ],
)
def test_its_encoded_forms_are_hidden_too(encoded: str) -> None:
    line = redacted(f"x {encoded} y\n", HF_TOKEN=TOKEN)
    assert b"[redacted:HF_TOKEN]" in line
    assert len(line) < len("x [redacted:HF_TOKEN] y\n") + 8  # what stays depends on its neighbours as well


def test_its_json_form_is_hidden_too() -> None:
    secret = 'quo"te\\größe'
    for is_ascii in (True, False):
        line = redacted(f"{dumps({'key': secret}, ensure_ascii=is_ascii)}\n", S=secret)
        assert line == b'{"key": "[redacted:S]"}\n'


def test_a_value_of_several_lines_is_hidden_line_by_line() -> None:
    assert redacted("a first-line b\nsecond-line\nx\n", S="first-line\nsecond-line\r\nx") == (
        b"a [redacted:S] b\n[redacted:S]\nx\n"
    )


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("id AKIAIOSFODNN7EXAMPLE", "aws-key"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "aws-secret"),
        ("ghp_" + "a1B2" * 9, "github"),
        ("github_pat_" + "a1B2" * 9, "github"),
        ("glpat-" + "a1B2" * 5, "gitlab"),
        ("OPENAI_API_KEY: sk-" + "a1B2" * 12, "openai"),
        ("sk-proj-" + "a1B_" * 12, "openai"),
        ("key=sk-ant-api03-" + "a1B-" * 12, "anthropic"),
        ("'hf_" + "aBcD" * 8 + "ab'", "huggingface"),
        ("xoxb-1234567890-abcdefghij", "slack"),
        ("AIza" + "a1B2C" * 7, "google"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P", "jwt"),
        ("Authorization: Bearer abcdef123456", "authorization"),
        ('"authorization": "Basic dXNlcjpwYXNz"', "authorization"),
        ("bearer " + "a1B2" * 8, "authorization"),
        ("git clone https://ada:hunter2@example.org/x", "url-password"),
        ("redis://:hunter2@db:6379/0", "url-password"),
    ],
)
def test_keys_of_known_shapes_are_hidden(line: str, name: str) -> None:
    assert f"[redacted:{name}]".encode() in redacted(f"{line}\n{line} and on\n")
    assert redacted(f"{line}\n").count(b"[redacted:") == 1


@pytest.mark.parametrize(
    "line",
    [
        "AKIA is a prefix",
        "xAKIAIOSFODNN7EXAMPLE",
        "risk-adjusted-returns-of-many-long-words-in-a-row",
        "sk-learn-contrib-imbalanced-ensemble-methods",
        "hf_hub_download hf_transfer",
        "eyJ is how base64 of JSON begins",
        "the bearer of bad news",
        "https://example.org:8080/path@v1",
        "tcp://10.0.0.1:29500",
        "user@host:/path",
        "ssh://git@example.org:22/x",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "-----BEGIN CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----",
        "authorization: none",
        "tokens/s: 12345.6 pad_token=<|endoftext|>",
        "github_pat_ is a prefix, ghp_ too",
    ],
)
def test_what_only_looks_like_a_key_is_not_touched(line: str) -> None:
    assert redacted(f"{line}\n") == f"{line}\n".encode()


PEM = [
    "-----BEGIN RSA PRIVATE KEY-----",
    "Proc-Type: 4,ENCRYPTED",
    "",
    KEY,
    KEY,
    "c2hvcnQ=",
    "-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("cut", range(len(PEM) + 3))
def test_a_private_key_is_hidden_wherever_batches_are_cut(cut: int) -> None:
    printed = ["before", *PEM, "after"]
    redactor, inside, seen = Redactor({}), 0, b""
    for part in (printed[:cut], printed[cut:]):
        chunks: tuple[LogChunk, ...] = (
            (LogChunk(ERR, 1.0, "".join(f"{line}\n" for line in part).encode()),) if part else ()
        )
        chunks, inside = redactor.redact(chunks, inside)
        seen += b"".join(chunk.data for chunk in chunks)
    assert (
        seen
        == b"before\n"
        + b"[redacted:private-key]\n" * 2
        + b"\n"
        + b"[redacted:private-key]\n" * 4
        + b"after\n"
    )
    assert not inside


def test_a_private_key_on_one_line_is_hidden() -> None:
    line = (
        f'{{"private_key": "-----BEGIN PRIVATE KEY-----\\n{KEY}\\n-----END PRIVATE KEY-----\\n", "a": 1}}\n'
    )
    assert redacted(line) == b'{"private_key": "[redacted:private-key]\\n", "a": 1}\n'


def test_lines_behind_log_prefixes_are_hidden_too() -> None:
    lines = [f"12:00:01 INFO | {line}" for line in PEM if line.startswith("-") or line == KEY]
    assert KEY.encode() not in redacted("".join(f"{line}\n" for line in lines))


def test_a_stray_first_line_hides_nothing_else() -> None:
    text = "looking for -----BEGIN PRIVATE KEY----- in files\nEpoch 1: loss 0.5\nEpoch 2: loss 0.4\n"
    assert redacted(text).endswith(b"\nEpoch 1: loss 0.5\nEpoch 2: loss 0.4\n")


def test_one_streams_key_does_not_hide_the_other_stream() -> None:
    chunks = (LogChunk(OUT, 1.0, b"-----BEGIN PRIVATE KEY-----\n"), LogChunk(ERR, 1.0, KEY.encode() + b"\n"))
    hidden, inside = Redactor({}).redact(chunks, 0)
    assert hidden[1] == chunks[1]
    assert inside == 1


def test_output_that_is_nothing_but_secrets_grows_only_so_far() -> None:
    text = b"abcd " * 60_000 + b"\n"
    assert len(redacted(text, A_RATHER_LONG_NAME="abcd")) <= len(text) + 65_536


def test_a_very_long_secret_costs_no_more_than_time() -> None:
    secret = "k3y" * 40_000
    assert redacted(f"a {secret} b\n", S=secret) == b"a [redacted:S] b\n"


ALPHABET = "ab01"
SECRETS = st.lists(st.text(ALPHABET, min_size=4, max_size=8), min_size=1, max_size=3, unique=True)
TEXT = st.lists(
    st.one_of(st.text(ALPHABET + " \n", max_size=12), st.sampled_from(["\n", "\r\n", " x "])),
    max_size=30,
)


@settings(deadline=None, max_examples=100)
@given(
    secrets=SECRETS,
    text=TEXT,
    places=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2)), max_size=6),
    cuts=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    waits_s=st.lists(st.sampled_from([0.0, 2.0, 10.0]), min_size=1, max_size=4),
)
def test_no_secret_survives_however_output_is_cut(
    secrets: list[str],
    text: list[str],
    places: list[tuple[int, int]],
    cuts: list[int],
    waits_s: list[float],
) -> None:
    for place, number in places:
        text.insert(place, secrets[number % len(secrets)])
    redactor = Redactor({f"S{number}X": secret for number, secret in enumerate(secrets)})
    shown = b"".join(
        chunk.data for chunks in _batches(redactor, "".join(text).encode(), cuts, waits_s) for chunk in chunks
    )
    assert not any(secret.encode() in _without_marks(shown) for secret in secrets)
    whole = redacted("".join(text), **{f"S{number}X": secret for number, secret in enumerate(secrets)})
    assert _without_marks(shown) == _without_marks(whole)


def _without_marks(shown: bytes) -> bytes:
    """A run of secrets has one mark, or two where a batch ended in it."""
    return re.sub(rb"(?:\[redacted:S\dX\])+", b"\0", shown)


def _batches(
    redactor: Redactor, text: bytes, cuts: list[int], waits_s: list[float]
) -> list[tuple[LogChunk, ...]]:
    """Text as batches of a rank that prints it in pieces and waits in between; each is made twice."""
    parts: list[tuple[int, bytes]] = []
    at = 0
    while at < len(text):
        size = cuts[len(parts) % len(cuts)]
        parts.append((OUT, text[at : at + size]))
        at += size
    printed = pieces(*parts)
    batcher, position, now_s = Batcher(Position(), redactor.parts_secret), Position(), 0.0
    sent: list[tuple[LogChunk, ...]] = []
    for number, piece in enumerate([*printed, None]):
        if piece:
            batcher.add(piece, now_s)
        now_s = now_s + waits_s[number % len(waits_s)] if piece else FOREVER
        while cut := batcher.cut(now_s):
            chunks, inside_key = redactor.redact(cut.chunks, position.inside_key)
            after = cut.after._replace(inside_key=inside_key)
            assert covers(after, since(printed, position))
            again = rebuild(position, after, since(printed, position), redactor.parts_secret)
            assert redactor.redact(again, position.inside_key).chunks == chunks
            assert [chunk.line_count for chunk in chunks] == [chunk.line_count for chunk in cut.chunks]
            sent.append(chunks)
            position = after
    return sent


@settings(deadline=None, max_examples=30)
@given(before=st.integers(-40, 40), cut=st.integers(0, 40))
def test_a_line_that_is_too_long_is_not_parted_inside_a_secret(before: int, cut: int) -> None:
    secret = "s3cret-" * 5
    text = b"." * (MAX_LINE_BYTES + before - len(secret)) + secret.encode() + b"." * 70_000 + b"\n"
    sizes = [MAX_LINE_BYTES + before - cut, 10, 65_536, 65_536]
    redactor = Redactor({"S": secret})
    shown = b"".join(chunk.data for chunks in _batches(redactor, text, sizes, [0.0]) for chunk in chunks)
    assert b"s3cret" not in shown
    assert shown.count(b"[redacted:S]") == 1
    assert len(shown) == len(text) - len(secret) + len("[redacted:S]")


@given(st.binary(max_size=2000).filter(lambda data: b"://" not in data))
def test_bytes_without_secrets_stay_as_they_are(data: bytes) -> None:
    chunks = (LogChunk(OUT, 1.0, data),)
    assert Redactor({"S": "not-to-be-found-anywhere"}).redact(chunks, 0).chunks is chunks
