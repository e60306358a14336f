"""What comes in the stream: batches, checked against themselves and their subject."""

from gpuyard.bus.port import Message
from gpuyard.contracts.codec import decode
from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.log import LogBatch, partition_of
from gpuyard.contracts.subjects import LOG
from gpuyard_logger.core.sequence import check


def parse_batch(message: Message) -> LogBatch:
    """Read a batch and check it against itself and its subject.

    Raises:
        InvalidSpec: it can't be stored; says why.

    """
    batch = decode(message.payload, LogBatch)
    if message.subject != LOG(
        partition=partition_of(batch.job), job=batch.job, attempt=batch.attempt, rank=batch.rank
    ):
        raise InvalidSpec(f"a batch of {batch.job}, attempt {batch.attempt}, rank {batch.rank} came there")
    check(batch)
    return batch
