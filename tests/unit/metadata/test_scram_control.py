"""SCRAM credentials in the image, and the controller's rules about them."""

from __future__ import annotations

import pytest

from penstock.errors import ErrorCode
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.difference import difference
from penstock.metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.metadata.records import image_records
from penstock.metadata.result import MetadataMessage
from penstock.metadata.scram import Deletion, ScramMechanism, Upsertion, alter_credentials, credential_of, described

SHA_256, SHA_512 = 1, 2
KEY = b"k" * 32


def upsertion(user: str = "alice", mechanism: int = SHA_256, iterations: int = 4096, **other: bytes) -> Upsertion:
    return Upsertion(user, mechanism, iterations, other.get("salt", b"salt"), other.get("key", KEY))


def image_of(*records: MetadataMessage, base: MetadataImage = EMPTY_IMAGE) -> MetadataImage:
    delta = MetadataDelta(base)
    for record in records:
        delta.replay(record)
    return delta.apply(base.offset + len(records), 1, 0)


def with_credentials(*changes: Upsertion, base: MetadataImage = EMPTY_IMAGE) -> MetadataImage:
    for change in changes:
        base = image_of(*alter_credentials(base.scram_credentials, [], [change]).records, base=base)
    return base


def codes(image: MetadataImage, *changes: Deletion | Upsertion) -> dict[str, ErrorCode]:
    result = alter_credentials(
        image.scram_credentials,
        [each for each in changes if isinstance(each, Deletion)],
        [each for each in changes if isinstance(each, Upsertion)],
    )
    fine = [user for user, error in result.response if not error.failed]
    assert sorted(record.name for record in result.records) == sorted(fine)
    return {user: error.code for user, error in result.response}


def test_a_credential_is_set_changed_and_deleted() -> None:
    image = with_credentials(upsertion(), upsertion(mechanism=SHA_512), upsertion(iterations=8192))
    stored = image.scram_credentials[SHA_256, "alice"]
    assert stored == credential_of(ScramMechanism.SCRAM_SHA_256, b"salt", KEY, 8192)
    assert len(image.scram_credentials) == 2
    gone = image_of(*alter_credentials(image.scram_credentials, [Deletion("alice", SHA_256)], []).records, base=image)
    assert list(gone.scram_credentials) == [(SHA_512, "alice")]


def test_nothing_of_the_password_is_kept() -> None:
    (record,) = alter_credentials(EMPTY_IMAGE.scram_credentials, [], [upsertion()]).records
    assert KEY not in (record.stored_key, record.server_key, record.salt)
    assert "kkkk" not in repr(upsertion())


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(mechanism=-1), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=-1), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(key=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salt=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16384), ErrorCode.NONE),
        (Deletion("", SHA_256), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (Deletion("alice", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (Deletion("alice", SHA_256), ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_what_cannot_be_stored_is_refused_in_kafkas_codes(change: Deletion | Upsertion, code: ErrorCode) -> None:
    assert codes(EMPTY_IMAGE, change, upsertion("bob")) == {change.user: code, "bob": ErrorCode.NONE}


def test_a_user_is_changed_once_in_a_request_or_not_at_all() -> None:
    image = with_credentials(upsertion())
    deletion = Deletion("alice", SHA_256)
    for changes in (
        (deletion, deletion),
        (deletion, upsertion()),
        (upsertion(), upsertion(mechanism=SHA_512)),
        (upsertion(), upsertion(), upsertion()),
    ):
        assert codes(image, *changes) == {"alice": ErrorCode.DUPLICATE_RESOURCE}
    assert codes(image, upsertion(iterations=1), upsertion()) == {"alice": ErrorCode.UNACCEPTABLE_CREDENTIAL}


def test_describing_tells_mechanisms_and_no_keys() -> None:
    image = with_credentials(upsertion(), upsertion(mechanism=SHA_512, iterations=5000), upsertion("bob"))
    alice = [(SHA_256, 4096), (SHA_512, 5000)]
    for nobody in (described(image.scram_credentials, None), described(image.scram_credentials, [])):
        assert [(user, infos) for user, _, infos in nobody] == [
            ("alice", alice),
            ("bob", [(SHA_256, 4096)]),
        ]
    found = {
        user: (error.code, infos)
        for user, error, infos in described(image.scram_credentials, ["bob", "bob", "alice", "eve"])
    }
    assert found == {
        "bob": (ErrorCode.DUPLICATE_RESOURCE, []),
        "alice": (ErrorCode.NONE, alice),
        "eve": (ErrorCode.RESOURCE_NOT_FOUND, []),
    }


def test_a_snapshot_has_them_and_a_difference_finds_them() -> None:
    old = with_credentials(upsertion(), upsertion("bob"))
    assert image_of(*image_records(old)).scram_credentials == old.scram_credentials
    new = with_credentials(upsertion(iterations=8192), upsertion("eve"), base=old)
    new = image_of(*alter_credentials(new.scram_credentials, [Deletion("bob", SHA_256)], []).records, base=new)
    delta = difference(old, new)
    assert delta.apply(new.offset, 1, 0).scram_credentials == new.scram_credentials
    assert delta.scram_credentials[SHA_256, "bob"] is None
    assert len(delta.scram_credentials) == 3
