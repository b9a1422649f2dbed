"""Bad requests about logins, users, ACLs and tokens, to brokers without an authorizer, on a listener without SASL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from interop.bad_input.case import Case, of
from interop.clients.valid_security_requests import ACL, ANY_ACL, USER, VALID_OF_SECURITY

from penstock.protocol.api import ApiKey
from penstock.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from penstock.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from penstock.protocol.messages.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from penstock.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from penstock.protocol.messages.describe_acls_request import DescribeAclsRequest
from penstock.protocol.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from penstock.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from penstock.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from penstock.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake_request import SaslHandshakeRequest

UNKNOWN_CODE = 99
WRONG_USERS: dict[str, dict[str, Any]] = {
    "too few iterations": {"iterations": 4095},
    "too many iterations": {"iterations": 16_385},
    "unknown mechanism": {"mechanism": UNKNOWN_CODE},
    "no name": {"name": ""},
}


def security_cases() -> Iterator[Case]:
    yield from login_cases()
    yield from acl_cases()
    yield from user_cases()
    yield from token_cases()


def login_cases() -> Iterator[Case]:
    handshake, token = of(ApiKey.SASL_HANDSHAKE), of(ApiKey.SASL_AUTHENTICATE)
    yield handshake("no mechanism", lambda world, version: SaslHandshakeRequest(mechanism=""))
    yield handshake("where nobody logs in", lambda world, version: VALID_OF_SECURITY[ApiKey.SASL_HANDSHAKE]())
    yield token("no bytes", lambda world, version: SaslAuthenticateRequest(auth_bytes=b""))


def acl_cases() -> Iterator[Case]:
    describe, create, delete = of(ApiKey.DESCRIBE_ACLS), of(ApiKey.CREATE_ACLS), of(ApiKey.DELETE_ACLS)
    yield describe("without an authorizer", lambda world, version: DescribeAclsRequest(**ANY_ACL))
    yield create(
        "without an authorizer",
        lambda world, version: CreateAclsRequest(creations=[AclCreation(**ACL), AclCreation(**ACL)]),
    )
    yield create("nothing", lambda world, version: CreateAclsRequest(creations=[]))
    yield delete(
        "without an authorizer", lambda world, version: DeleteAclsRequest(filters=[DeleteAclsFilter(**ANY_ACL)])
    )


def user_cases() -> Iterator[Case]:
    describe, alter = of(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS), of(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
    for name, users in {"an unknown user": ["nobody"], "a user twice": ["a", "a"], "no name": [""]}.items():
        wanted = [UserName(name=each) for each in users]
        yield describe(name, lambda world, version, w=wanted: DescribeUserScramCredentialsRequest(users=w))  # type: ignore[misc]  # its default
    for name, wrong in WRONG_USERS.items():
        upsertion = ScramCredentialUpsertion(**{**USER, **wrong})
        yield alter(
            name,
            lambda world, version, u=upsertion: AlterUserScramCredentialsRequest(deletions=[], upsertions=[u]),  # type: ignore[misc]  # its default
        )
    for name, (user, mechanism) in {"an unknown user": ("nobody", 1), "of no mechanism": ("nobody", 0)}.items():
        deletion = ScramCredentialDeletion(name=user, mechanism=mechanism)
        yield alter(
            f"deletion: {name}",
            lambda world, version, d=deletion: AlterUserScramCredentialsRequest(deletions=[d], upsertions=[]),  # type: ignore[misc]  # its default
        )
    twice = [ScramCredentialUpsertion(**USER)] * 2
    yield alter("a user twice", lambda world, version: AlterUserScramCredentialsRequest(deletions=[], upsertions=twice))


def token_cases() -> Iterator[Case]:
    """Who has no credentials is told that first, whatever is wrong beside it."""
    create, renew = of(ApiKey.CREATE_DELEGATION_TOKEN), of(ApiKey.RENEW_DELEGATION_TOKEN)
    expire, describe = of(ApiKey.EXPIRE_DELEGATION_TOKEN), of(ApiKey.DESCRIBE_DELEGATION_TOKEN)
    group = [CreatableRenewers(principal_type="Group", principal_name="")]
    yield create(
        "a group as renewer",
        lambda world, version: CreateDelegationTokenRequest(renewers=group, max_lifetime_ms=-(2**63)),
    )
    yield create(
        "a lifetime without end",
        lambda world, version: CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=2**62),
    )
    yield renew("no HMAC", lambda world, version: RenewDelegationTokenRequest(hmac=b"", renew_period_ms=-(2**63)))
    yield renew("a long HMAC", lambda world, version: RenewDelegationTokenRequest(hmac=b"x" * 100_000))
    yield expire("no HMAC", lambda world, version: ExpireDelegationTokenRequest(hmac=b"", expiry_time_period_ms=2**62))
    nobody = [DescribeDelegationTokenOwner(principal_type="", principal_name="")]
    yield describe("no owners", lambda world, version: DescribeDelegationTokenRequest(owners=[]))
    yield describe("an owner without a name", lambda world, version: DescribeDelegationTokenRequest(owners=nobody))
