"""MIT's KDC on loopback, with a realm of its own that lasts as long as the test, and principals by name.

    with Kdc(directory) as kdc:
        keytab = kdc.keytab("kafka/localhost", "alice")
        kdc.environment          # for processes that are to know the realm

Needs Debian's krb5-kdc, krb5-admin-server and krb5-user; without them tests are skipped with the reason.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
from pathlib import Path
from time import monotonic, sleep

import pytest
from support.processes import free_ports

REALM = "PENSTOCK.TEST"
SBIN = "/usr/sbin"
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
TIMEOUT_S = 60


def program(name: str) -> str | None:
    """Where a program is: those of a KDC are not on everybody's path."""
    return shutil.which(name) or shutil.which(name, path=SBIN)


def missing() -> str | None:
    """Why there is no KDC here; None if there can be one."""
    lacking = [name for name in PROGRAMS if program(name) is None]
    if lacking:
        return f"no {', '.join(lacking)}: apt install krb5-kdc krb5-admin-server krb5-user"
    if importlib.util.find_spec("gssapi") is None:
        return "no gssapi: pip install 'penstock[gssapi]'"
    return None


def require_kdc() -> None:
    """Skips the test, or fails it in CI, where nothing may be missing."""
    reason = missing()
    if reason is not None:
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


class Kdc:
    """See the module's head. `clockskew_s`: how far clocks may be apart."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (self.port,) = free_ports(1)
        self.configuration = directory / "krb5.conf"
        self.environment = {
            "KRB5_CONFIG": str(self.configuration),
            "KRB5_KDC_PROFILE": str(directory / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{directory / 'tickets'}",
            "KRB5RCACHEDIR": str(directory),
            "KRB5RCACHENAME": f"file2:{directory / 'replays'}",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Kdc:
        self.configuration.write_text(self.krb5_conf())
        (self.directory / "kdc.conf").write_text(
            f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{self.port}\n kdc_tcp_listen = 127.0.0.1:{self.port}\n"
            f"[realms]\n {REALM} = {{\n  database_name = {self.directory}/principals\n"
            f"  key_stash_file = {self.directory}/stash\n  acl_file = {self.directory}/none\n"
            "  max_life = 1d\n  supported_enctypes = aes256-cts-hmac-sha1-96:normal\n }\n"
        )
        self.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        command = program("krb5kdc")
        assert command is not None
        with (self.directory / "kdc.log").open("wb") as log:
            self._process = subprocess.Popen(
                [command, "-n", "-r", REALM], env=self.whole_environment, stdout=log, stderr=log
            )
        deadline = monotonic() + TIMEOUT_S
        while not self._answers():
            assert self._process.poll() is None, (self.directory / "kdc.log").read_text()
            assert monotonic() < deadline, "the KDC does not answer"
            sleep(0.02)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(TIMEOUT_S)

    def krb5_conf(self, more: str = "") -> str:
        """The configuration of who is to know the realm, with more lines about everything."""
        return (
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            f" dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n{more}"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{self.port}\n }}\n"
        )

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1):
                return True
        except OSError:
            return False

    @property
    def whole_environment(self) -> dict[str, str]:
        return {**os.environ, **self.environment}

    def run(self, name: str, *arguments: str) -> str:
        """Runs a program of Kerberos; returns what it says."""
        command = program(name)
        assert command is not None
        done = subprocess.run(
            [command, *arguments],
            env=self.whole_environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, (name, arguments, done.stdout, done.stderr)
        return done.stdout

    def keytab(self, *names: str) -> Path:
        """New principals, and a file of their keys."""
        path = self.directory / f"{names[0].replace('/', '-')}.keytab"
        for name in names:
            self.run("kadmin.local", "-r", REALM, "addprinc", "-randkey", name)
            self.run("kadmin.local", "-r", REALM, "ktadd", "-k", str(path), "-norandkey", name)
        return path

    def kinit(self, name: str, keytab: Path, *options: str) -> None:
        """Gets a ticket into the ticket cache of `environment`."""
        self.run("kinit", "-k", "-t", str(keytab), *options, name)
