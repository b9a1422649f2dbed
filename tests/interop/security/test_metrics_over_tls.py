"""/metrics over TLS, with the certificate of a listener and for those who know the token."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import pytest
from support.processes import free_ports
from support.tls import PASSWORD, Authority

from penstock.cli.disk_metrics import TOKEN_VARIABLE, read_metrics
from penstock.cli.main import main
from penstock.config.server import Settings
from penstock.errors import ConfigError, UnreachableError
from penstock.testing.broker import LocalBroker

TOKEN = "canary-token"
LISTENERS = {
    "listeners": "SECURED://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "SECURED:SSL,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "SECURED",
}


def test_disks_asks_over_tls_and_sends_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = Authority(tmp_path)
    store = authority.store("broker")
    (port,) = free_ports(1)
    endpoint = {
        "penstock.metrics.listener": f"127.0.0.1:{port}",
        "penstock.metrics.tls.listener": "secured",
        "penstock.metrics.token": TOKEN,
    }
    properties = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": str(store.trust)}
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    with LocalBroker({**LISTENERS, **store.properties(), **endpoint}) as broker:
        url = f"https://127.0.0.1:{port}/metrics"
        trusting = ssl.create_default_context(cafile=str(store.trust))
        with pytest.raises(UnreachableError, match="Unauthorized"):
            read_metrics(url, trusting)
        with pytest.raises(UnreachableError, match="certificate"):
            read_metrics(url)
        with pytest.raises(UnreachableError):
            read_metrics(url.replace("https", "http"))
        monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
        words = ["disks", "--bootstrap", broker.bootstrap, "--command-config", str(config), "--metrics", url, "--json"]
        assert main(words) == 0
        out, err = capsys.readouterr()
        (directory,) = json.loads(out)["directories"]
        assert directory["write_rate_bytes"] is not None
        assert (TOKEN in out + err, PASSWORD in out + err) == (False, False)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"penstock.metrics.tls.listener": "CONTROLLER"}, "which must be a listener of this node with TLS"),
        ({"penstock.metrics.token": "x", "penstock.metrics.listener": "0.0.0.0:9644"}, "would be sent in clear"),
    ],
)
def test_what_would_not_protect_is_refused(given: dict[str, str], why: str) -> None:
    node = {"node.id": "1", "process.roles": "broker,controller", "controller.listener.names": "CONTROLLER"}
    quorum = {"controller.quorum.bootstrap.servers": "127.0.0.1:9093", "log.dirs": "/d"}
    plain = {"listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"}
    with pytest.raises(ConfigError, match=why):
        Settings.from_properties({**node, **quorum, **plain, **given})
