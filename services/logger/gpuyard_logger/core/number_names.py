"""What the numbers in lines are called: one name for each thing, and none for what is no measurement."""

import re
from functools import lru_cache
from typing import NamedTuple

from gpuyard.contracts.series import EPOCH, PROGRESS, STEP


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STEPS = _words(
    "step iter iteration it global_step globalstep train_step training_step update num_updates batch"
)
_EPOCHS = _words("epoch train_epoch current_epoch")
_PROGRESS = _words("progress percent completed complete")
_COUNTERS = frozenset({STEP, EPOCH})
_NO_MEASUREMENTS = _words(
    """
    rank local_rank node_rank world_size pid tid uid gid port seed id ids v_num job node nodes device
    devices gpu gpus cuda line version year code exit status errno commit hash sha sha256 eta remaining
    elapsed left epochs steps iters iterations num_epochs max_steps max_iters num_workers workers
    threads python torch
    """
)
_MEASUREMENTS = _words(
    """
    loss acc accuracy top1 top5 lr learning_rate ppl perplexity bleu rouge f1 auc map iou miou dice mse
    mae rmse psnr ssim fid kl nll cer wer bpb bpc reward return score entropy precision recall norm
    gnorm mfu flops tflops throughput speed wps ups time data memory mem error err
    """
)
_MEASUREMENT = re.compile(rf"(?:^|[_/.-])(?:{'|'.join(sorted(_MEASUREMENTS))})(?:$|[_/.@\d-])|loss$|^acc@")
_MODIFIERS = _words(
    """
    train training val valid validation test testing eval evaluation avg average mean total running
    global lm mlm grad gradient learning max min best final current smoothed step epoch
    """
)
_LEADING_TO_COUNTERS = _MODIFIERS - {"max", "min", "total"}
_LEVELS = _words("info warning warn debug error critical trace")
_BE = _words("is was")
_PROSE = _words("a the of in at on to for by with after from than and or over every about only last next")
_CODE = re.compile(
    r"\.(?:py|cc?|cpp|cu|h|hpp|go|rs|js|sh|so|json|yaml|yml|toml|txt|pt|pth|ckpt|com|org|net)$"
)


class Name(NamedTuple):
    """What a series is called, and what its name tells."""

    text: str
    is_known: bool
    """Training programs use it, so that a space before the number is enough."""

    @property
    def is_counter(self) -> bool:
        """Whether it counts how far the training is."""
        return self.text in _COUNTERS

    @property
    def is_quotient(self) -> bool:
        """Whether `90/100` behind it is a quotient."""
        return "acc" in self.text or "correct" in self.text


@lru_cache(maxsize=8192)
def name_of(words: bytes) -> Name | None:
    """The name behind which a number is stored; None if it is not to be stored.

    Args:
        words: One to four words before the number.

    """
    parts = [part for part in words.decode(errors="replace").lower().split(" ") if part not in _BE]
    if not parts or parts[-1] in _PROSE or _CODE.search(parts[-1]):
        return None
    parts = [*(part for part in parts[:-1] if part not in _LEVELS), parts[-1]]
    last = parts[-1].strip("./-")
    text = _counter(last, parts[:-1]) or "_".join(_from_first_telling(parts)).strip("./-")
    if not text or last in _NO_MEASUREMENTS or len(text) > 64:
        return None
    if text in _PROGRESS:
        text = PROGRESS
    known = text in _COUNTERS or text == PROGRESS or _MEASUREMENT.search(text) is not None
    return Name(text, known)


def _counter(last: str, before: list[str]) -> str:
    """`train step` counts steps; `skipped iteration` and `time per step` do not."""
    if not all(part in _LEADING_TO_COUNTERS for part in before):
        return ""
    return STEP if last in _STEPS else EPOCH if last in _EPOCHS else ""


def _from_first_telling(parts: list[str]) -> list[str]:
    """Leave out what only leads up to the name: `Attempted loss scale` is the loss scale."""
    for index, part in enumerate(parts):
        if part in _MODIFIERS or _MEASUREMENT.search(part):
            return parts[index:]
    return parts
