"""A real OpenID provider (npm `oidc-provider`), for tests of OAUTHBEARER.

with OpenIdProvider() as provider:
    provider.token_url, provider.jwks_url
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Self

from interop.clients.builds import npm_package
from support.issuer import CLIENT, SECRET
from support.processes import free_ports

HERE = Path(__file__).parent
STOP_TIMEOUT_S = 20


class OpenIdProvider:
    """See the module's head."""

    def __init__(self) -> None:
        (port,) = free_ports(1)
        self.issuer = f"http://localhost:{port}"
        self.token_url, self.jwks_url = f"{self.issuer}/token", f"{self.issuer}/jwks"
        program = npm_package("oidc", HERE) / "server.js"
        self._command = ["node", str(program), str(port), CLIENT, SECRET]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                if line.strip() == "listening":
                    return self
            raise AssertionError("the provider did not start")
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        process = self._process
        if process is not None:
            process.terminate()
            assert process.stdout is not None
            process.stdout.close()
            process.wait(STOP_TIMEOUT_S)
