"""Start an executor: `python -m gpuyard_executor --config FILE`."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gpuyard.contracts.fact import ExecutorInfo
from gpuyard.runtime.config import environment
from gpuyard.runtime.launch import launch
from gpuyard.runtime.service import Context, Service
from gpuyard_executor.config import ExecutorConfig
from gpuyard_executor.core.environment import inherited
from gpuyard_executor.engine import Engine
from gpuyard_executor.node import Node, NodePlace
from gpuyard_executor.ports import Ports
from gpuyard_executor.process_engine import ProcessEngine
from gpuyard_executor.rank_directory import Limits
from gpuyard_executor.service import ExecutorService
from gpuyard_executor.spawner_handle import SpawnerHandle

Owner = tuple[int, int]
OpenEngine = Callable[[Path], AbstractAsyncContextManager[Engine]]


class Executor:
    """All nodes of one process: they share the spawner, and the connection to a container engine."""

    def __init__(self, config: ExecutorConfig, context: Context) -> None:
        self._config = config
        self._context = context

    async def run(self) -> None:
        config, context = self._config, self._context
        ports = Ports(config.first_port, config.last_port)
        async with AsyncExitStack() as stack:
            spawner = SpawnerHandle()
            stack.callback(spawner.close)
            spawner.start()
            open_engine, owner = self._engines(spawner, stack)
            base_env = {} if owner else inherited(environment())
            nodes = []
            for name, home in self._homes().items():
                engine = await stack.enter_async_context(open_engine(home))
                place = NodePlace(name, home, config.address, config.keep_workdirs, owner)
                nodes.append(Node(place, context, engine, ports, base_env))
            await ExecutorService(context, nodes, self._info).run()

    def _engines(self, spawner: SpawnerHandle, stack: AsyncExitStack) -> tuple[OpenEngine, Owner | None]:
        """How to open a node's engine, and whom its containers belong to if it has such."""
        if self._config.runtime == "process":
            limits = Limits(unshipped_bytes=self._config.unshipped_bytes)
            return (lambda home: ProcessEngine(home, spawner, limits)), None
        from gpuyard_executor.docker_runtime import DockerRuntime  # noqa: PLC0415 - a fifth of a second

        runtime = DockerRuntime(self._config, spawner, self._context.log)
        stack.callback(runtime.close)
        return runtime.engine, runtime.owner

    def _homes(self) -> dict[str, Path]:
        return {name: Path(self._config.dir).absolute() / name for name in self._config.nodes}

    def _info(self, node: str) -> ExecutorInfo:
        return ExecutorInfo(
            node, self._context.clock.now(), self._config.runtime, self._config.address, _version()
        )


def _version() -> str:
    try:
        return version("gpuyard")
    except PackageNotFoundError:
        return ""


def build(config: ExecutorConfig, context: Context) -> Service:
    return Executor(config, context)


def main(argv: Sequence[str] | None = None) -> int:
    return launch("executor", ExecutorConfig, build, argv)
