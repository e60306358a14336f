from pathlib import Path

from gpuyard.bus.server_conf import render_conf


def test_what_must_be_in_it() -> None:
    conf = render_conf(port=4222, store_dir="/data", token="secret", max_store_bytes=10)
    for needed in (
        'listen: "127.0.0.1:4222"',
        'token: "secret"',
        'store_dir: "/data"',
        "max_file_store: 10",
        "sync_interval: always",
        "max_payload: 1048576",
        'write_deadline: "10s"',
        "default_max_consumers: 20000",
    ):
        assert needed in conf


def test_it_tells_how_it_is_only_where_wanted_and_on_loopback() -> None:
    wanted = render_conf(port=1, store_dir="/d", token="t", max_store_bytes=1, health_port=8222)
    assert 'http: "127.0.0.1:8222"\n' in wanted
    assert "http:" not in render_conf(port=1, store_dir="/d", token="t", max_store_bytes=1)


def test_a_directory_can_not_break_out_of_its_quotes(tmp_path: Path) -> None:
    conf = render_conf(port=1, store_dir='/a"b\\c\nlisten: "0.0.0.0"', token="t", max_store_bytes=1)
    assert 'store_dir: "/a\\"b\\\\c\\nlisten: \\"0.0.0.0\\""' in conf
