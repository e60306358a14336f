"""Which variables are secret without anybody having said so."""

import pytest

from gpuyard.contracts.job import TaskSpec
from gpuyard_executor.core.environment import rank_secrets
from gpuyard_executor.core.secret_values import secrets_of
from tests.unit.executor.orders import prepare


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "WANDB_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "github_token",
        "OPENAI_APIKEY",
        "SECRET",
        "AWS_ACCESS_KEY_ID",
        "TOKEN_2",
    ],
)
def test_a_telling_name_is_enough(name: str) -> None:
    assert secrets_of({name: "abcdefgh"}, ()) == {name: "abcdefgh"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "false-ish-value"),
        ("MAX_TOKENS", "100000000"),
        ("PAD_TOKEN", "<|endoftext|>"),
        ("HF_TOKEN", "short"),
        ("SECRET_FILE", "/run/secrets/x"),
        ("SSH_AUTH_SOCK", "/tmp/ssh-x/agent.1"),
        ("KEYBOARD", "qwertyuiop"),
    ],
)
def test_other_variables_are_not_secret(name: str, value: str) -> None:
    assert secrets_of({name: value}, ()) == {}
    assert secrets_of({name: value}, (name,)) == {name: value}


def test_values_come_from_the_task_or_from_what_it_inherits() -> None:
    task = TaskSpec(("x",), env={"OWN": "own-value"}, secrets=("OWN", "THEIRS", "MISSING"))
    order = prepare(tasks=(task,))
    base = {"THEIRS": "their-value", "OWN": "hidden by the task's", "PATH": "/bin"}
    assert rank_secrets(base, order, order.slots[0]) == {"OWN": "own-value", "THEIRS": "their-value"}
    assert rank_secrets({"HF_TOKEN": "hf_12345"}, None, order.slots[0]) == {"HF_TOKEN": "hf_12345"}
