"""Lake tables in Azure's store, as its emulator Azurite is one: az:// goes through delta-rs's client."""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from interop import kafka_peer
from interop.clients.builds import npm_package

pytest.importorskip("deltalake", reason="needs penstock[spark]")

from support.lake_tables import load, raced, rows, verdict_of, written

from penstock.spark.lake.destination import Destination
from penstock.spark.lake.maintenance import Maintenance
from penstock.spark.lake.open import open_table

pytestmark = pytest.mark.long
STORES = Path(kafka_peer.__file__).with_name("stores")
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The emulator's, the same everywhere."""
RACERS = 4


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    """Storage options of an emulator with the container `lake`."""
    program = npm_package("azurite", STORES) / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    words = ["node", str(program), "--blobPort", "0", "--inMemoryPersistence", "--silent", "--skipApiVersionCheck"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            found = (re.search(r"successfully listens on (http://\S+)", line) for line in process.stdout)
            address = next((match[1] for match in found if match), None)
            assert address is not None, "the emulator did not start"
            make_container(address, "lake")
            yield {
                "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
                "AZURE_STORAGE_ACCOUNT_KEY": KEY,
                "AZURE_STORAGE_ENDPOINT": f"{address}/{ACCOUNT}",
                "AZURE_ALLOW_HTTP": "true",
            }
        finally:
            process.kill()


def make_container(address: str, name: str) -> None:
    """Makes a container by a request that is signed with the account's key."""
    headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    said = "".join(f"{key}:{value}\n" for key, value in sorted(headers.items()))
    text = "PUT" + "\n" * 12 + said + f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    signature = base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()
    headers |= {"Authorization": f"SharedKey {ACCOUNT}:{signature}", "Content-Length": "0"}
    url = f"{address}/{ACCOUNT}/{name}?restype=container"
    urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers)).close()


def test_a_table_in_azure_is_loaded_proven_and_maintained(options: dict[str, str]) -> None:
    lake = open_table("az://lake/clicks", "test", storage_options=options)
    for start in range(0, 60, 20):
        load(lake, start, start + 20, [(start, start + 1, "control")])
    assert (verdict_of(lake).clean, verdict_of(lake).rows, verdict_of(lake).gaps) == (True, 57, {"control": 3})
    assert Maintenance(lake, target_bytes=1 << 20, keep_hours=0).run()["compact"]["files_merged"] == 3
    assert (verdict_of(lake).clean, verdict_of(lake).rows) == (True, 57)


def test_of_writers_that_race_in_azure_one_commits(options: dict[str, str]) -> None:
    copies = [open_table("az://lake/raced", "test", storage_options=options) for _ in range(RACERS)]
    files = [written(copy, rows(range(10))) for copy in copies]
    assert raced(copies, files) == 1


def test_a_destination_in_azure_writes_reads_lists_and_deletes(options: dict[str, str]) -> None:
    there = Destination("az://lake/files", options)
    with there.open("a/one.bin") as file:
        file.write(b"12345")
    assert there.read("a/one.bin") == b"12345"
    assert [(each.path, each.size_bytes) for each in there.list("")] == [("a/one.bin", 5)]
    there.delete("a/one.bin")
    assert there.read("a/one.bin") is None
