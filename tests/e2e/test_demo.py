"""The main job as a person runs it: `penstock demo` ends with a proof and a report, and with Ctrl-C leaves nothing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import psutil
import pytest

pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")

from penstock.errors import PenstockError
from penstock.spark.java import find_java

pytestmark = pytest.mark.spark

TIMEOUT_S = 400
ENDED_BY = (signal.SIGINT, signal.SIGTERM)
FETCHING_ATTRIBUTES = {"src", "srcset", "poster", "data", "background"}


@pytest.fixture(autouse=True)
def java() -> None:
    try:
        find_java()
    except PenstockError as error:
        pytest.skip(str(error))


def demo(directory: Path, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "penstock", "demo", "--directory", str(directory)]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env=os.environ | {"DEMO_SECONDS": str(seconds)},
    )


class Page(HTMLParser):
    """What a report fetches, and how many plots with data it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.marks = {"polyline": 0, "rect": 0}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.marks:
            self.marks[tag] += 1
        for name, value in attrs:
            is_link = name == "href" and tag in ("link", "use", "image")
            if (name in FETCHING_ATTRIBUTES or is_link) and not (value or "").startswith("data:"):
                self.fetched.append(f"{tag} {name}={value}")


@pytest.mark.slow
def test_the_demo_loads_verifies_and_reports(tmp_path: Path) -> None:
    with demo(tmp_path / "demo", 8) as process:
        said, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, said
    assert re.search(r"clean: [\d,]+ rows in \d partitions, no offset missing, none twice", said), said
    published, loaded = re.search(r"published +([\d,]+) records; in the lake: ([\d,]+)", said).groups()  # type: ignore[union-attr]
    assert published == loaded != "0"
    counted, clicks = re.search(r"activity +([\d,]+) of ([\d,]+) clicks counted", said).groups()  # type: ignore[union-attr]
    assert counted == clicks != "0"
    found, planted = re.search(r"security +(\d+) of (\d+) planted addresses found", said).groups()  # type: ignore[union-attr]
    assert int(found) >= 0.8 * int(planted) > 0
    report = Path(re.search(r"report +(\S+)", said).group(1))  # type: ignore[union-attr]
    text = report.read_text(encoding="utf-8")
    page = Page(text)
    assert page.fetched == []
    assert not re.search(r"https?://|@import|url\(|<script", text)
    assert page.marks["polyline"] >= 8, "a plot is empty"
    assert page.marks["rect"] >= 4
    assert "nothing was recorded" not in text
    assert "NOT CLEAN" not in text
    again = [sys.executable, "-m", "penstock", "verify", str(tmp_path / "demo" / "lake" / "operations")]
    assert subprocess.run(again, capture_output=True, timeout=TIMEOUT_S, check=False).returncode == 0


def interrupted(tmp_path: Path, after: str, number: signal.Signals, delay_s: float = 0.0, seconds: float = 20) -> str:
    """Runs the demo, sends it the signal once it has said `after`, and checks that nothing of it stays behind."""
    children: list[psutil.Process] = []
    with demo(tmp_path / "demo", seconds) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if line.startswith(after):
                break
        time.sleep(delay_s)  # not to wait for something: to strike in the middle of it
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        said.append(process.stdout.read())
        assert process.wait(TIMEOUT_S) == 130, "".join(said)
    assert children
    _, alive = psutil.wait_procs(children, timeout=20)
    assert alive == [], [each.cmdline() for each in alive]
    assert "Traceback" not in "".join(said)
    return "".join(said)


@pytest.mark.long
def test_ctrl_c_in_the_middle_leaves_no_process(tmp_path: Path) -> None:
    assert "nothing is half done" in interrupted(tmp_path, "spark ", signal.SIGINT, 2.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("after", "delay_s", "number"),
    [
        *(("broker", 0.0, number) for number in ENDED_BY),
        ("publishing", 1.5, signal.SIGTERM),
        pytest.param("publishing", 1.5, signal.SIGINT, marks=pytest.mark.long),
        *(pytest.param("spark ", 0.5, number, marks=pytest.mark.long) for number in ENDED_BY),
        *(pytest.param("published", 0.5, number, marks=pytest.mark.long) for number in ENDED_BY),
    ],
)
def test_it_can_be_stopped_at_any_time(tmp_path: Path, after: str, delay_s: float, number: signal.Signals) -> None:
    seconds = 2 if after == "published" else 20  # it is to be there soon, and what comes before it to last
    assert "nothing is half done" in interrupted(tmp_path, after, number, delay_s, seconds)


def test_a_directory_of_something_else_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with demo(tmp_path, 1) as process:
        said, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert said.count("\n") == 1
    assert "is not empty and no earlier demo's" in said
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_without_a_java_it_says_so_in_one_line(tmp_path: Path) -> None:
    hidden = (
        "import sys, penstock.spark.java as java; java._candidates = list; java._packaged_runtime = lambda: None; "
        "from penstock.cli.main import main; sys.exit(main(['demo', '--directory', sys.argv[1]]))"
    )
    command = [sys.executable, "-c", hidden, str(tmp_path / "demo")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 1
    assert done.stderr == "error: Spark needs Java 17 or newer (no Java found): pip install 'penstock[java]'\n"
    assert not (tmp_path / "demo").exists()
