"""Which lines are found: true ones of many programs, and none that only look alike."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.contracts.log import ERR, OUT, LogBatch, LogChunk
from gpuyard.contracts.log_rule import LogAction, LogRule
from gpuyard_logger.core.pattern_rules import SHIPPED, joined
from gpuyard_logger.core.patterns import _SHORT_BYTES, Found, Patterns

PAGE = Path(__file__).parents[3] / "docs" / "concepts" / "log-rules.md"
FILLING = b"step 12/1000 loss=0.1234 lr=1e-4 tokens/s=12345.6\n"
TRUE_LINES = [
    (
        "cuda-oom",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total",
    ),
    ("cuda-oom", "RuntimeError: CUDA out of memory. Tried to allocate 1.17 GiB (GPU 0; 23.69 GiB total)"),
    ("cuda-oom", "failed to allocate 10.76G bytes from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
    ("cuda-assert", "RuntimeError: CUDA error: device-side assert triggered"),
    ("cuda-memory", "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"),
    ("gpu-ecc", "RuntimeError: CUDA error: uncorrectable ECC error encountered"),
    (
        "gpu-ecc",
        "RuntimeError: cuda runtime error (39) : uncorrectable ECC error encountered at /pytorch/a.cpp:265",
    ),
    ("gpu-ecc", "CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered"),
    ("gpu-lost", "NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus."),
    ("gpu-xid", "[1843.3] NVRM: Xid (PCI:0000:b3:00): 31, pid=4711, name=python, Ch 00000008"),
    (
        "nccl-timeout",
        "[rank0]:[E321 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout:",
    ),
    (
        "nccl-error",
        "RuntimeError: NCCL error in: /pytorch/torch/lib/c10d/ProcessGroupNCCL.cpp:410, unhandled system",
    ),
    ("nccl-error", "RuntimeError: NCCL Error 2: unhandled system error"),
    (
        "nccl-warning",
        "tj1-v100-13:941227:943077 [0] include/socket.h:390 NCCL WARN Connect to 10.38.10.112<21724>",
    ),
    (
        "rendezvous",
        "[E521 15:43 socket.cpp:1023] [c10d] The client socket has timed out after 600000ms while trying",
    ),
    (
        "rendezvous",
        "[E socket.cpp:753] [c10d] The client socket has failed to connect to any network address of (1)",
    ),
    ("loss-nan", "{'loss': nan, 'reward': 5.7646, 'learning_rate': 5e-05}"),
    ("loss-nan", "333 154 Loss=nan Time=0.040"),
    ("loss-nan", "iter: 200  loss: nan (nan)  loss_classifier: nan (nan)"),
    ("loss-nan", "E6 iter[ 14/ 15] | [Loss] nan | [exp] ./exp"),
    ("loss-nan", "epoch 3 train_loss inf"),
    ("loss-nan", "Throughput is 408.40378 records/second. Loss is Infinity. Current learning rate is 0.04"),
    ("loss-nan", "loss=NaN"),
    ("disk-full", "OSError: [Errno 28] No space left on device"),
    (
        "disk-full",
        "RuntimeError: unable to write to file </torch_722_783672312_1>: No space left on device (28)",
    ),
    (
        "shm-full",
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared",
    ),
    (
        "shm-full",
        "RuntimeError: DataLoader worker (pid 11011) is killed by signal: Bus error. It is possible that",
    ),
    ("host-oom", "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0. Some of the step tasks"),
    ("host-oom", "Out of memory: Killed process 14750 (python) total-vm:1kB"),
    ("killed", "  traceback : Signal 9 (SIGKILL) received by PID 14750"),
    ("segfault", "Fatal Python error: Segmentation fault"),
    ("segfault", "  traceback : Signal 11 (SIGSEGV) received by PID 6421"),
    ("module-missing", "ModuleNotFoundError: No module named 'flash_attn'"),
]
HARMLESS = [
    "the job may run out of memory on smaller GPUs",
    "n1:1:1 [0] NCCL INFO Call to connect returned Connection refused, retrying",
    "NCCL version 2.21.5+cuda12.4",
    "memory usage: 0 uncorrectable ECC errors",
    "ECC errors: none",
    "loss=0.1 nan_to_num applied",
    "loss: 0.3 inference took 2 s",
    "loss info: smooth",
    "Loss is infinitesimal",
    "weight_loss nanometres",
    "number of nan iterations: 0",
    "disk has no space limits",
    "Killed 3 idle workers",
    "Detected 8 GPUs",
    "Kill the process with Ctrl-C",
    "module named ModuleNotFoundError",
    "[W socket.cpp:697] [c10d] The client socket has failed to connect to [::]:47389 (errno: 110)",
]


def found(*data: bytes, own: tuple[LogRule, ...] = (), met: frozenset[str] = frozenset()) -> list[Found]:
    chunks = tuple(LogChunk(OUT, float(number), each) for number, each in enumerate(data))
    return Patterns(*joined(own)).find([LogBatch("j", 1, 3, 0, 0, chunks)], met)


@pytest.mark.parametrize(("rule", "line"), TRUE_LINES)
@pytest.mark.parametrize("lines_around", [0, 2 * _SHORT_BYTES // len(FILLING)])
def test_true_lines_are_found(rule: str, line: str, lines_around: int) -> None:
    data = FILLING * lines_around + line.encode() + b"\n" + FILLING * (lines_around and 3)
    hits = {hit.rule.name: hit for hit in found(data)}
    assert hits[rule].line == line.strip()
    assert hits[rule].rank == 3
    assert hits.keys() <= {rule, "gpu-xid", "host-oom"}


def test_each_shipped_rule_has_a_true_line() -> None:
    assert {rule for rule, _ in TRUE_LINES} == {wanted.rule.name for wanted in SHIPPED}


@pytest.mark.parametrize("line", HARMLESS)
def test_harmless_lines_are_not(line: str) -> None:
    assert found(line.encode() + b"\n") == []
    assert found(FILLING * (2 * _SHORT_BYTES // len(FILLING)) + line.encode() + b"\n") == []


def test_a_met_rule_is_not_looked_for() -> None:
    assert found(b"Segmentation fault\n", met=frozenset({"segfault"})) == []


def test_the_first_line_counts_with_its_time() -> None:
    (hit,) = found(b"x\n", b"y\na Segmentation fault\n", b"b Segmentation fault\n")
    assert (hit.line, hit.at_s) == ("a Segmentation fault", 1.0)


def test_a_match_never_spans_lines_or_pieces() -> None:
    assert found(b"Segmentation \nfault\n") == []
    assert found(b"Segmentation ", b"fault\n") == []


def test_several_batches_are_looked_at_together() -> None:
    batches = [
        LogBatch("j", 1, rank, 0, 1, (LogChunk(ERR, 10.0 + rank, b"rank %d: Segmentation fault\n" % rank),))
        for rank in (5, 2)
    ]
    (hit,) = Patterns(*joined()).find(batches, set())
    assert (hit.rank, hit.at_s, hit.line) == (5, 15.0, "rank 5: Segmentation fault")


def test_only_a_part_of_a_very_long_line_is_shown() -> None:
    (hit,) = found(b"x" * 5000 + b" Segmentation fault " + b"y" * 5000 + b"\n")
    assert "Segmentation fault" in hit.line
    assert len(hit.line) <= 500


def test_what_is_shown_steers_no_terminal() -> None:
    (hit,) = found(b"  3%\r 50%\r\x1b[31mSegmentation fault\x1b[0m\x07 \xff\x00\n")
    assert hit.line == "Segmentation fault \ufffd"


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_any_bytes_can_be_shown(data: list[bytes]) -> None:
    for hit in found(*data, own=(LogRule("any", "[^ab]"),)):
        assert hit.line.isprintable()
        hit.line.encode()


def test_own_rules_join_and_replace_shipped_ones() -> None:
    own = (
        LogRule("segfault", "Segmentation fault", LogAction.IGNORE),
        LogRule("mine", r"grad_norm[:=] ?[0-9]{5,}", LogAction.NO_RETRY),
    )
    hits = found(b"Segmentation fault\ngrad_norm: 123456\nNo space left on device\n", own=own)
    assert {hit.rule.name for hit in hits} == {"mine", "disk-full"}
    later = (LogRule("mine", "no match"),)
    assert joined(own, later)[1][-1].rule.pattern == "no match"


def test_rules_that_are_too_large_together_are_looked_for_one_by_one() -> None:
    long = ".{900}" * 25
    own = tuple(LogRule(f"r{number}", f"x{long}|hit{number}$") for number in range(32))
    assert {hit.rule.name for hit in found(b"a hit7\nb hit31\n", own=own)} == {"r7", "r31"}


@pytest.mark.parametrize("pattern", ["(", "a*", "(?=x)y", r"(a)\1", ""])
def test_a_pattern_that_can_not_be_used_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        LogRule("x", pattern)


def test_the_page_lists_every_shipped_rule() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    listed = {tuple(cell.strip().strip("`") for cell in row.strip("|").split("|"))[:3] for row in rows}
    assert {(each.rule.name, each.rule.message, str(each.rule.action)) for each in SHIPPED} <= listed
