"""Trains a small CNN on handwritten digits, data-parallel: an ordinary torchrun-style script.

    python train.py                            # alone
    torchrun --nproc-per-node 2 train.py       # two ranks on this machine
    gpuyard submit -f job.toml                 # two ranks, placed by Gpuyard

It reads RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and nothing of Gpuyard.
"""

import os

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS = 15
BATCH = 64  # images per step of all ranks together, so that every world size learns alike
LEARNING_RATE = 3e-3


def join_gang() -> torch.device:
    """Meets the other ranks, if there are any, and returns this rank's device."""
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    neighbours = int(os.environ.get("LOCAL_WORLD_SIZE") or os.environ.get("WORLD_SIZE", "1"))
    gpus = torch.cuda.device_count()
    # NCCL refuses two ranks on one GPU; gloo does not mind. All ranks must choose alike.
    backend = "nccl" if gpus >= neighbours else "gloo"
    device = torch.device("cuda", local_rank % gpus) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    if "RANK" in os.environ:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    return device


def load_data() -> tuple[TensorDataset, Tensor, Tensor]:
    """Training set, then images and labels of the test set: 8x8 grey values and digits."""
    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 1, 8, 8) / 16
    train_x, test_x, train_y, test_y = train_test_split(
        torch.tensor(images, dtype=torch.float32),
        torch.tensor(labels),
        test_size=0.2,
        stratify=labels,
        random_state=0,
    )
    return TensorDataset(train_x, train_y), test_x, test_y


def build_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(64 * 4 * 4, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def train(model: DistributedDataParallel, data: TensorDataset, device: torch.device) -> None:
    sampler = DistributedSampler(data, seed=0)
    loader = DataLoader(data, batch_size=max(BATCH // dist.get_world_size(), 1), sampler=sampler)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    step = 0
    for epoch in range(1, EPOCHS + 1):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            loss = cross_entropy(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
        schedule.step()
        print(f"rank {dist.get_rank()} epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor, device: torch.device) -> float:
    model.eval()
    return (model(images.to(device)).argmax(dim=1) == labels.to(device)).float().mean().item()


def main() -> None:
    torch.set_num_threads(1)  # several ranks share one machine's cores
    torch.manual_seed(0)
    device = join_gang()
    print(f"rank {dist.get_rank()} of {dist.get_world_size()} on {device}", flush=True)
    data, test_images, test_labels = load_data()
    model = DistributedDataParallel(build_model().to(device))
    train(model, data, device)
    if dist.get_rank() == 0:
        print(f"test accuracy: {accuracy(model.module, test_images, test_labels, device):.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
