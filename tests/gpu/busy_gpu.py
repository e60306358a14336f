"""Keeps GPU 0 busy until its input ends. Prints a line once the first products are done."""

import sys
import threading

import torch


def main() -> None:
    ended = threading.Event()
    threading.Thread(target=_wait, args=(ended,), daemon=True).start()
    matrix = torch.randn(4096, 4096, device="cuda:0")
    matrix @ matrix
    torch.cuda.synchronize()
    print("busy", flush=True)
    while not ended.is_set():
        for _ in range(20):
            matrix @ matrix
        torch.cuda.synchronize()


def _wait(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


if __name__ == "__main__":
    main()
