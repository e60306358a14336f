"""Lines as training programs print them, and the numbers that are to be found in them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard_logger.core.number_rules import MAX_LINE_BYTES, MAX_NUMBERS, last_state, parse_line

# Expected: `name=value` or `name=value/total`, in any order.
REAL_LINES = [
    # The example of this repository.
    ("rank 0 epoch 1 step 10 loss 1.2345", "epoch=1 step=10 loss=1.2345"),
    ("test accuracy: 0.983", "test_accuracy=0.983"),
    # PyTorch: examples and tutorials.
    ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.206761", "epoch=1 step=640/60000 loss=2.206761"),
    ("Test set: Average loss: 0.0499, Accuracy: 9837/10000 (98%)", "average_loss=0.0499 accuracy=0.9837"),
    (
        (
            "Epoch: [0][  10/5005]\tTime  0.501 ( 0.6)\tData  0.010 ( 0.1)"
            "\tLoss 6.9e+00 (6.8e+00)\tAcc@1   0.00 (  0.31)"
        ),
        "epoch=0 step=10/5005 time=0.501 data=0.01 loss=6.9 acc@1=0",
    ),
    (
        (
            "Epoch: [0]  [  10/1251]  eta: 0:12:30  lr: 0.000100  loss: 6.9021 (6.8)"
            "  time: 0.5011  data: 0.1  max mem: 1000"
        ),
        "epoch=0 step=10/1251 lr=0.0001 loss=6.9021 time=0.5011 data=0.1 max_mem=1000",
    ),
    ("Epoch [1/5], Step [100/600], Loss: 2.2021", "epoch=1/5 step=100/600 loss=2.2021"),
    ("loss: 2.303494  [    0/60000]", "loss=2.303494 step=0/60000"),
    (" Accuracy: 48.2%, Avg loss: 2.158", "accuracy=48.2 avg_loss=2.158"),
    ("loss: tensor(0.1234, device='cuda:0', grad_fn=<NllLossBackward0>)", "loss=0.1234"),
    # Keras, old and new.
    (
        "45/100 [=====>........] - ETA: 3s - loss: 0.3012 - accuracy: 0.9101",
        "step=45/100 loss=0.3012 accuracy=0.9101",
    ),
    (
        (
            "\x1b[1m45/100\x1b[0m \x1b[32m━━━━\x1b[0m\x1b[37m━━━━\x1b[0m \x1b[1m1s\x1b[0m 12ms/step"
            " - accuracy: 0.91 - loss: 0.30 - val_loss: 0.25"
        ),
        "step=45/100 accuracy=0.91 loss=0.3 val_loss=0.25",
    ),
    ("Epoch 3/10", "epoch=3/10"),
    # tqdm, bare and as Lightning, datasets and the HF Trainer use it.
    ("45%|####5     | 45/100 [00:10<00:12, 4.5it/s, loss=0.1]", "step=45/100 it/s=4.5 loss=0.1"),
    ("  8%|█████             | 1999/24128 [1:52:09<20:27:23,  4.00s/it]", "step=1999/24128 it/s=0.25"),
    (
        "Epoch 0:  22%|██▏       | 4/18 [00:17<01:02,  5.00s/it, loss=10.072, v_num=193315]",
        "epoch=0 step=4/18 it/s=0.2 loss=10.072",
    ),
    (
        "Epoch 0:  97% 1651/1702 [13:00<00:24,  2.11it/s, loss=0.158, v_num=0, train_loss=0.149]",
        "epoch=0 step=1651/1702 it/s=2.11 loss=0.158 train_loss=0.149",
    ),
    ("Validation DataLoader 0:  50%|█████     | 1/2 [00:00<00:00,  1.39it/s]", ""),
    ("Downloading data: 100%|██████████| 10/10 [00:00<00:00, 33.1it/s]", ""),
    ("Training: 0it [00:00, ?it/s]", ""),
    (
        "{'loss': 0.5, 'grad_norm': 1.25, 'learning_rate': 1e-05, 'epoch': 0.1}",
        "loss=0.5 grad_norm=1.25 learning_rate=1e-05 epoch=0.1",
    ),
    # DeepSpeed, Megatron.
    (
        (
            "[2022-03-11 02:06:58,985] [INFO] [logging.py:69:log_dist] [Rank 0]"
            " step=40, skipped=2, lr=[5e-05], mom=[[0.9, 0.999]]"
        ),
        "step=40 skipped=2 lr=5e-05 mom=0.9",
    ),
    (
        (
            "[2023-07-25 21:03:17,269] [INFO] [timer.py:215:stop] epoch=0/micro_step=34/global_step=34,"
            " RunningAvgSamplesPerSec=7.5, MemAllocated=59.65GB"
        ),
        "epoch=0 micro_step=34 step=34 runningavgsamplespersec=7.5 memallocated=59.65",
    ),
    (
        "rank=0 time (ms) | forward: 652.41 | backward: 2164.52 | step: 1172.13",
        "forward=652.41 backward=2164.52",
    ),
    (
        (
            " iteration      122/  250000 | consumed samples:       124928 | elapsed time per iteration (ms):"
            " 86545.2 | learning rate: 9.150E-06 | global batch size:  1024 | lm loss: 2.504220E+00 |"
            " loss scale: 1.0 | grad norm: 0.231 | number of skipped iterations:   0 |"
            " number of nan iterations:   0 |"
        ),
        (
            "step=122/250000 consumed_samples=124928 time_per_iteration=86545.2 learning_rate=9.15e-06"
            " global_batch_size=1024 lm_loss=2.50422 loss_scale=1 grad_norm=0.231"
        ),
    ),
    # fairseq, as text and as JSON.
    (
        (
            "| epoch 001:    450 / 1891 loss=11.521, nll_loss=10.881, ppl=1886.05, wps=52922,"
            " lr=8.90889e-05, clip=0%"
        ),
        "epoch=1 step=450/1891 loss=11.521 nll_loss=10.881 ppl=1886.05 wps=52922 lr=8.90889e-05 clip=0",
    ),
    (
        "| epoch 001 | valid on 'valid' subset | valid_loss 8.11425 | valid_ppl 118.06 | num_updates 600",
        "epoch=1 valid_loss=8.11425 valid_ppl=118.06 step=600",
    ),
    (
        '{"epoch": 10, "loss": "3.180", "num_updates": "21497", "clip": "100%"}',
        "epoch=10 loss=3.18 step=21497 clip=100",
    ),
    # nanoGPT, YOLOX, hand-made.
    ("iter 100: loss 2.1234, time 135.12ms, mfu 10.00%", "step=100 loss=2.1234 time=135.12 mfu=10"),
    ("step 0: train loss 4.2874, val loss 4.2823", "step=0 train_loss=4.2874 val_loss=4.2823"),
    (
        (
            "2022-10-29 09:05:23 | INFO     | yolox.core.trainer:261 - epoch: 1/300, iter: 10/102, "
            "mem: 12977Mb, iter_time: 8.438s, total_loss: 10.9, lr: 3.845e-06, size: 416, ETA: 2 days, 23:42"
        ),
        "epoch=1/300 step=10/102 mem=12977 iter_time=8.438 total_loss=10.9 lr=3.845e-06 size=416",
    ),
    ("loss1:232.186, loss2: 1401.5", "loss1=232.186 loss2=1401.5"),
    ("************epoch: 18 ***************", "epoch=18"),
    ("Overflow! Attempted loss scale: 65536, but hysteresis is 2.", "loss_scale=65536"),
    ("loss=nan step=5", "loss=nan step=5"),
    ("train/loss: inf", "train/loss=inf"),
    ("INFO: train loss is 0.5, after a loss of 3 and error 0.1", "train_loss=0.5 error=0.1"),
    ("progress: 45%", "progress=45/100"),
    ("reward: -1.5e+02 | fps: 1,234", "reward=-150 fps=1234"),
    ("lr .5 loss +1. acc -2.", "lr=0.5 loss=1 acc=-2"),
]
NO_NUMBERS = [
    "",
    "rank 0 of 2 on cpu",
    "2024-01-01 12:30:45,123 INFO Listening on 10.0.0.1:8080",
    "version: 1.2.3 ip: 10.0.0.1 time: 12:30:45 date: 2024-01-01",
    "torch 2.1.0+cu118, cuda 11.8",
    "connected to node-1:29500 id=0x7f3a, commit=12ab34f",
    "Saved /data/run=3/model-00010.pt in 12.3s",
    "[1/3] /usr/bin/nvcc -D__CUDA_NO_HALF=1 -std=c++17 -c x.cu",
    "python train.py --lr=0.1 --epochs 10 --batch_size=64",
    'File "/usr/lib/python3.11/site-packages/x.py", line 12, in run',
    "Note: 5 warnings were found",
    "GPU 0: 45C, 120W / 300W",
    "Training info: nan_policy",
    "batch: 64",
    "step: 1.5",
    "loss: none",
    "see https://example.org/loss=1x2",
]


def render(line: str) -> dict[str, str]:
    return {
        number.name: f"{number.value:.12g}" + ("" if number.total is None else f"/{number.total:g}")
        for number in parse_line(last_state(line.encode()))
    }


@pytest.mark.parametrize(("line", "expected"), REAL_LINES, ids=[line[:40] for line, _ in REAL_LINES])
def test_real_lines(line: str, expected: str) -> None:
    assert render(line) == dict(map(_read, expected.split()))


def _read(field: str) -> tuple[str, str]:
    name, _, value = field.rpartition("=")
    return name, "/".join(f"{float(part):.12g}" for part in value.split("/"))


@pytest.mark.parametrize("line", NO_NUMBERS)
def test_numbers_that_measure_nothing_are_left(line: str) -> None:
    assert render(line) == {}


def test_a_name_counts_once_and_a_step_with_its_total_counts_more() -> None:
    assert render("loss=1 loss=2 step 3 step 4/10") == {"loss": "1", "step": "4/10"}


def test_a_line_gives_no_more_than_so_many_numbers() -> None:
    assert len(parse_line(b" ".join(b"a%d=1" % n for n in range(MAX_NUMBERS + 9)))) == MAX_NUMBERS
    assert parse_line(b"loss=1 " + b"x" * MAX_LINE_BYTES) == []


@pytest.mark.parametrize(
    ("line", "whole", "cut"),
    [
        (b"loss=1", b"loss=1", b"loss=1"),
        (b" 10%|#\r 20%|##\r 30%|###", b" 30%|###", b" 20%|##"),
        (b"a\r\r  \r", b"a", b"a"),
        (b"1/3\x08\x08\x082/3", b"2/3", b"1/3"),
        (b"\r", b"", b""),
        (b"\x1b[31mloss=1\x1b[0m\r\n".rstrip(b"\n"), b"loss=1", b"loss=1"),
    ],
)
def test_the_last_state_of_a_line_counts(line: bytes, whole: bytes, cut: bytes) -> None:
    assert last_state(line) == whole
    assert last_state(line, is_whole=False) == cut


@given(st.binary(max_size=300) | st.text("aloss=:1.e-/[]%|<> \t,'\"()", max_size=200).map(str.encode))
def test_any_line_can_be_read(line: bytes) -> None:
    for number in parse_line(last_state(line)):
        assert number.name
        assert set(number.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_./@-")
        assert number.total is None or math.isfinite(number.total)


@pytest.mark.parametrize(
    "piece",
    [b"aa ", b"a=", b"1", b"1/", b"%<|", b"1%|", b" ", b"1.", b"a: ", b"1,111", b"Epoch ", b"a1=1 ", b"a("],
)
def test_no_line_takes_long(piece: bytes) -> None:
    """Regular expressions that go back and forth would take minutes here."""
    parse_line((piece * MAX_LINE_BYTES)[: MAX_LINE_BYTES - 3] + b"%<\x00")
