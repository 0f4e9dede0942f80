"""The guard of conftest.py: tests reach this machine only."""

from __future__ import annotations

import socket

import pytest


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("2001:db8::1", 80), ("example.org", 443)])
@pytest.mark.parametrize("method", ["connect", "connect_ex"])
def test_another_host_is_refused(address: tuple[str, int], method: str) -> None:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family) as client, pytest.raises(pytest.fail.Exception, match="no network"):
        getattr(client, method)(address)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_this_machine_is_reachable(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.connect((host, server.getsockname()[1]))
        assert client.getpeername() == server.getsockname()
