"""Valid requests about logins, users and ACLs, by API, and the errors that they get of a broker without security."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.errors import ErrorCode
from penstock.protocol.acls import AclOperation, PatternType, PermissionType, ResourceType
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages import alter_client_quotas_request, describe_client_quotas_request
from penstock.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from penstock.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from penstock.protocol.messages.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from penstock.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from penstock.protocol.messages.describe_acls_request import DescribeAclsRequest
from penstock.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from penstock.protocol.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from penstock.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from penstock.protocol.messages.own.describe_quota_usage_request import DescribeQuotaUsageRequest
from penstock.protocol.messages.own.describe_telemetry_request import DescribeTelemetryRequest
from penstock.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake_request import SaslHandshakeRequest

SHA_256 = 1
ANY_ACL: dict[str, Any] = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "principal_filter": None,
    "host_filter": None,
    "operation": AclOperation.ANY,
    "permission_type": PermissionType.ANY,
}
ACL: dict[str, Any] = {
    "resource_type": ResourceType.TOPIC,
    "resource_name": "t",
    "principal": "User:alice",
    "host": "*",
    "operation": AclOperation.READ,
    "permission_type": PermissionType.ALLOW,
}
USER: dict[str, Any] = {
    "name": "alice",
    "mechanism": SHA_256,
    "iterations": 4096,
    "salt": b"salt",
    "salted_password": b"p" * 32,
}


def quota_entry(entity: Mapping[str, str | None], **limits: float | None) -> alter_client_quotas_request.EntryData:
    """The change of an entity's quotas; a limit of None is deleted."""
    return alter_client_quotas_request.EntryData(
        entity=[
            alter_client_quotas_request.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()
        ],
        ops=[
            alter_client_quotas_request.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in limits.items()
        ],
    )


HMAC = b"h" * 64

VALID_OF_SECURITY: Mapping[ApiKey, Callable[[], Message]] = {
    ApiKey.SASL_HANDSHAKE: lambda: SaslHandshakeRequest(mechanism="PLAIN"),
    ApiKey.SASL_AUTHENTICATE: lambda: SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"),
    ApiKey.DESCRIBE_ACLS: lambda: DescribeAclsRequest(**ANY_ACL, pattern_type_filter=PatternType.LITERAL),
    ApiKey.CREATE_ACLS: lambda: CreateAclsRequest(creations=[AclCreation(**ACL)]),
    ApiKey.DELETE_ACLS: lambda: DeleteAclsRequest(filters=[DeleteAclsFilter(**ANY_ACL)]),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: lambda: describe_client_quotas_request.DescribeClientQuotasRequest(
        components=[describe_client_quotas_request.ComponentData(entity_type="user", match_type=0, match="quiet")]
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: lambda: alter_client_quotas_request.AlterClientQuotasRequest(
        entries=[quota_entry({"user": "quiet", "client-id": None}, request_percentage=5000.0)]
    ),
    ApiKey.DESCRIBE_QUOTA_USAGE: lambda: DescribeQuotaUsageRequest(components=[]),
    ApiKey.DESCRIBE_TELEMETRY: DescribeTelemetryRequest,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda: DescribeUserScramCredentialsRequest(users=None),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda: AlterUserScramCredentialsRequest(
        deletions=[], upsertions=[ScramCredentialUpsertion(**USER)]
    ),
    ApiKey.CREATE_DELEGATION_TOKEN: lambda: CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type="User", principal_name="bob")], max_lifetime_ms=-1
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: lambda: RenewDelegationTokenRequest(hmac=HMAC, renew_period_ms=-1),
    ApiKey.EXPIRE_DELEGATION_TOKEN: lambda: ExpireDelegationTokenRequest(hmac=HMAC, expiry_time_period_ms=-1),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: lambda: DescribeDelegationTokenRequest(owners=None),
}
"""What each version of an API takes."""

ERRORS_WITHOUT_SECURITY = {
    ApiKey.SASL_HANDSHAKE: [ErrorCode.ILLEGAL_SASL_STATE],
    ApiKey.SASL_AUTHENTICATE: [ErrorCode.ILLEGAL_SASL_STATE],
    ApiKey.DESCRIBE_ACLS: [ErrorCode.SECURITY_DISABLED],
    ApiKey.CREATE_ACLS: [ErrorCode.SECURITY_DISABLED],
    ApiKey.DELETE_ACLS: [ErrorCode.SECURITY_DISABLED],
    ApiKey.CREATE_DELEGATION_TOKEN: [ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED],
    ApiKey.RENEW_DELEGATION_TOKEN: [ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED],
    ApiKey.EXPIRE_DELEGATION_TOKEN: [ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED],
    ApiKey.DESCRIBE_DELEGATION_TOKEN: [ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED],
}
"""Where there is no authorizer, on a listener without SASL."""
