"""What the numbers in lines are called: one name for each thing, and none for what is no measurement."""

import re
from functools import lru_cache

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
_LEVELS = _words("info warning warn debug error critical trace")
_CODE = re.compile(
    r"\.(?:py|cc?|cpp|cu|h|hpp|go|rs|js|sh|so|json|yaml|yml|toml|txt|pt|pth|ckpt|com|org|net)$"
)


@lru_cache(maxsize=4096)
def name_of(words: str) -> str:
    """The name behind which a number is stored; empty if it is not to be stored.

    Args:
        words: One to four words before the number.

    """
    parts = [part for part in words.lower().split(" ") if part not in _LEVELS]
    if not parts or _CODE.search(parts[-1]):
        return ""
    name = "_".join(_from_first_telling(parts)).strip("./-")
    bare = parts[-1].strip("./-")
    if name in _NO_MEASUREMENTS or bare in _NO_MEASUREMENTS or len(name) > 64:
        return ""
    return _canonical(name, bare, parts)


@lru_cache(maxsize=4096)
def is_known(name: str) -> bool:
    """Whether this is a name that numbers in training are known by."""
    return name in _COUNTERS or name == PROGRESS or _MEASUREMENT.search(name) is not None


def is_counter(name: str) -> bool:
    """Whether it counts how far the training is."""
    return name in _COUNTERS


def is_accuracy(name: str) -> bool:
    """Whether `90/100` behind it is a quotient."""
    return "acc" in name or "correct" in name


def _canonical(name: str, bare: str, parts: list[str]) -> str:
    leads_on = all(part in _MODIFIERS for part in parts[:-1])
    if bare in _STEPS and (leads_on or not is_known(name)) and _counts(parts):
        return STEP
    if bare in _EPOCHS and _counts(parts):
        return EPOCH
    return PROGRESS if name in _PROGRESS else name


def _counts(parts: list[str]) -> bool:
    """`train step` counts steps; `skipped iterations` and `time per step` do not."""
    return all(part in _MODIFIERS - {"max", "total"} for part in parts[:-1])


def _from_first_telling(parts: list[str]) -> list[str]:
    """Leave out what only leads up to the name: `Attempted loss scale` is the loss scale."""
    for index, part in enumerate(parts):
        if part in _MODIFIERS or _MEASUREMENT.search(part):
            return parts[index:]
    return parts
