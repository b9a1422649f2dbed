"""What `penstock guardian plans` and its companions say to words that are wrong, before anybody is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.guardian.plans import caps_of, rate_of
from penstock.cli.main import main
from penstock.errors import UsageError


@pytest.mark.parametrize(
    ("text", "rate"), [("0", 0), ("500", 500), ("20M", 20_000_000), ("5kb", 5_000), ("1G", 10**9), ("auto", "auto")]
)
def test_rates_are_bytes_a_second(text: str, rate: int | str) -> None:
    assert rate_of(text) == rate


@pytest.mark.parametrize("text", ["", "M", "-1", "1.5M", "fast", "1KM", "9" * 5_000])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="a rate is bytes a second, such as 20M"):
        rate_of(text)


def test_caps_are_names_with_numbers() -> None:
    assert caps_of(["broker_in=3", "cluster=40"]) == {"broker_in": 3, "cluster": 40}
    with pytest.raises(UsageError, match="it must be NAME=N, such as broker_in=3"):
        caps_of(["broker_in"])
    with pytest.raises(UsageError, match="it must be NAME=N"):
        caps_of(["broker_in=" + "9" * 5_000])


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (None, 1, "No such file"),
        ("{", 1, "is no JSON"),
        ("[" * 200_000, 1, "is no JSON"),
        ("[]", 2, "it must be a JSON object"),
    ],
)
def test_a_file_that_is_no_plan_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, code: int, said: str
) -> None:
    file = tmp_path / "plan.json"
    if content is not None:
        file.write_text(content)
    assert main(["guardian", "plans", "submit", str(file), "--cluster", "web"]) == code
    error = capsys.readouterr().err
    assert str(file) in error
    assert said in error


def test_a_bound_that_bounds_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["guardian", "rate", "1"]) == 2
    assert "give a rate, such as 20M, or --cap NAME=N" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["inf", "nan", "0", "-1", "1e308"])
def test_a_timeout_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], seconds: str) -> None:
    assert main(["guardian", "clusters", "list", f"--timeout={seconds}"]) == 2
    assert "it must be above 0 and at most 86,400 seconds" in capsys.readouterr().err
