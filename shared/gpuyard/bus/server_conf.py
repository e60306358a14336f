"""The configuration file of the nats-server that `gpuyard up` runs. Pure: text out.

Every value has a reason: `sync_interval: always`, because the server's default loses acknowledged data when
the power fails; loopback only, because the token is the sole guard; explicit limits, because a stream that
meets a full disk stays stuck until the server is restarted; health on loopback, so that `up` sees that.
"""

import json

_TEMPLATE = """\
server_name: {name}
listen: {listen}
{http}max_payload: 1048576
ping_interval: "10s"
ping_max: 2
write_deadline: "10s"
lame_duck_duration: "30s"
authorization {{ token: {token} }}
jetstream {{
  store_dir: {store_dir}
  max_file_store: {max_store_bytes}
  max_memory_store: {max_memory_bytes}
  sync_interval: always
  limits {{ default_max_consumers: {max_consumers} }}
}}
"""


def render_conf(
    *,
    port: int,
    store_dir: str,
    token: str,
    max_store_bytes: int,
    name: str = "gpuyard",
    max_memory_bytes: int = 256 * 1024 * 1024,
    max_consumers: int = 20_000,
    health_port: int | None = None,
) -> str:
    """Write a nats-server configuration.

    Args:
        port: Port on the loopback interface.
        store_dir: Where JetStream keeps its files.
        token: What clients must show: `nats://TOKEN@127.0.0.1:PORT`.
        max_store_bytes: Bound of all streams together; the `max_bytes` of each are reserved in it.
        name: Name of the server.
        max_memory_bytes: Bound of what JetStream keeps in memory.
        max_consumers: Readers and queues of one stream.
        health_port: Where, on loopback and without a token, the server tells how it is; None: nowhere.

    """
    return _TEMPLATE.format(
        name=_quoted(name),
        listen=_quoted(f"127.0.0.1:{port}"),
        http="" if health_port is None else f"http: {_quoted(f'127.0.0.1:{health_port}')}\n",
        token=_quoted(token),
        store_dir=_quoted(store_dir),
        max_store_bytes=max_store_bytes,
        max_memory_bytes=max_memory_bytes,
        max_consumers=max_consumers,
    )


def _quoted(text: str) -> str:
    """A string of the configuration language; JSON's escapes are understood there, except for non-ASCII."""
    return json.dumps(text, ensure_ascii=False)
