"""Commands about transactions: what they refuse, and what doctor says of those that hold back a last stable offset."""

from __future__ import annotations

import pytest

from penstock.cli.doctor_transactions import USUAL_MS, findings_of
from penstock.cli.finding import State
from penstock.cli.main import main
from penstock.cli.times import duration_ms, duration_text
from penstock.client.transactions import OpenTransaction, OwnedTransaction, TransactionState
from penstock.errors import UsageError

NOW_MS = 1_800_000_000_000
NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("transactions abort --topic clicks --partition 0", "which transaction?"),
        ("transactions abort --topic clicks --partition 0 --producer-id 3 --producer-epoch 0", "which transaction?"),
        ("transactions abort --topic clicks --partition 0 --start-offset 3 --producer-id 1", "do not go with it"),
        ("transactions abort --topic clicks --start-offset 3", "which partition of --topic?"),
        ("transactions abort --transactional-id a --partition 0", "nothing else goes with it"),
        ("transactions abort --transactional-id a --start-offset 3", "nothing else goes with it"),
        ("transactions list --longer-than 5", "--longer-than 5: it must be a duration such as"),
        ("transactions list --state open", "open is not one of empty, ongoing"),
        ("transactions hanging --longer-than -5m", "expected one argument"),
        ("produce clicks --transactional-id a --acks 1", "--acks 1: a transaction needs all"),
        ("produce clicks --transactional-id=", "--transactional-id is empty"),
        ("produce clicks --transaction-records 5", "--transactional-id is missing"),
        ("produce clicks --transactional-id a --transaction-records 0", "it must be 1 or more"),
        ("produce clicks --transactional-id a --transaction-timeout soon", "--transaction-timeout soon: it must be"),
        ("consume clicks --isolation committed", "did you mean read_committed"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_asked(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main([*words.split(), "--bootstrap", NOBODY])
    except SystemExit as error:
        code = int(error.code or 0)
    assert (code, said in capsys.readouterr().err) == (2, True)


def test_durations_are_read_and_said() -> None:
    assert [duration_ms(text, "--x") for text in ("0s", "250ms", "15m", "2h", "1d")] == [
        0,
        250,
        900_000,
        7_200_000,
        86_400_000,
    ]
    for text in ("", "5", "m", "-5m", "5 m", "1.5h", "٣m"):
        with pytest.raises(UsageError, match=r"^--x "):
            duration_ms(text, "--x")
    spoken = [duration_text(each) for each in (-1, 0, 59_949, 60_000, 61_000, 7_500_000, 93_600_000)]
    assert spoken == ["-", "0.0 s", "59.9 s", "1 min", "1 min 1 s", "2 h 5 min", "1 d 2 h"]


def holding(
    *, silent_ms: int, state: str | None = None, began_ms_ago: int = 0, elsewhere: bool = False
) -> OwnedTransaction:
    """A transaction in clicks-0 whose coordinator has it in this state, or knows it not at all, or elsewhere."""
    opened = OpenTransaction(("clicks", 0), 7, 2, -1, 4711, NOW_MS - silent_ms)
    if state is None:
        return OwnedTransaction(opened, None)
    places = (("clicks", 1 if elsewhere else 0),)
    return OwnedTransaction(opened, TransactionState("copier", state, 7, 2, 60_000, NOW_MS - began_ms_ago, 1, places))


def test_doctor_names_who_holds_back_a_last_stable_offset_and_since_when() -> None:
    (hanging,) = findings_of([holding(silent_ms=7_500_000)], NOW_MS)
    assert hanging.state is State.WRONG
    assert hanging.found == (
        "clicks-0 is held back at 4711 by producer 7, hanging: silent for 2 h 5 min, since 2027-01-15T05:55:00.000Z"
    )
    assert hanging.remedy == "penstock transactions abort --topic clicks --partition 0 --start-offset 4711"
    (slow,) = findings_of([holding(silent_ms=0, state="Ongoing", began_ms_ago=USUAL_MS + 1)], NOW_MS)
    assert slow.state is State.ODD
    assert "by transactional id copier (producer 7), Ongoing for 1 min, since" in slow.found
    assert "aborts it after 1 min; at once: penstock transactions abort --transactional-id copier" in slow.remedy


def test_doctor_is_content_with_transactions_that_are_young() -> None:
    (none,) = findings_of([], NOW_MS)
    (young,) = findings_of([holding(silent_ms=USUAL_MS), holding(silent_ms=0, state="Ongoing")], NOW_MS)
    assert (none.state, none.found) == (State.FINE, "none holds back a last stable offset")
    assert (young.state, young.found) == (State.FINE, "under way in 2 partitions, none for long")


def test_a_transaction_hangs_whose_coordinator_is_done_with_the_partition() -> None:
    left_behind = holding(silent_ms=USUAL_MS + 1, state="CompleteCommit", elsewhere=True)
    assert left_behind.hanging
    (found,) = findings_of([left_behind], NOW_MS)
    assert found.state is State.WRONG
    assert not holding(silent_ms=0, state="PrepareAbort").hanging


def test_doctor_says_that_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--bootstrap", NOBODY]) == 1
    assert f"cannot reach {NOBODY}" in capsys.readouterr().out
