"""DescribeAcls (key 29), CreateAcls (30), DeleteAcls (31): the ACLs of the cluster (KIP-140, prefixes KIP-290).

Versions 1-3, flexible from 2, on both kinds of listeners. Describing needs DESCRIBE on the cluster, and answers from
this node's image; the others need ALTER on it, and the active controller. Without an authorizer each of them is
SECURITY_DISABLED. A code of 0 (UNKNOWN) breaks the connection, as in Kafka.

Each ACL of CreateAcls is created or refused by itself (INVALID_REQUEST); one that exists is a success. DeleteAcls
answers each filter with the ACLs that it removes; a code that no ACL can have is INVALID_REQUEST for that filter.
Looking through many ACLs takes steps. Where Kafka answers ANY in an ACL that is to be created with
UNKNOWN_SERVER_ERROR for the whole request, it is INVALID_REQUEST for that ACL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from penstock.errors import ErrorCode, ProtocolError, RequestError
from penstock.metadata import acls as acl_control
from penstock.metadata.image import AclsImage
from penstock.metadata.limits import ACLS_PER_REQUEST_MAX
from penstock.metadata.result import ApiError, Result
from penstock.node.decisions import decided, parts_of
from penstock.node.limits import ACL_FILTERS_PER_REQUEST_MAX, ACLS_PER_STEP
from penstock.node.request import FORWARD, Append, Handler, Outcome, Request
from penstock.node.steps import Pace, Stepped, lazily
from penstock.protocol.acls import Acl, AclFilter, AclOperation, PatternType, PermissionType, ResourceType
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from penstock.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from penstock.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from penstock.protocol.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from penstock.protocol.messages.describe_acls_request import DescribeAclsRequest
from penstock.protocol.messages.describe_acls_response import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from penstock.node.broker import Broker

NO_AUTHORIZER = RequestError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
Found = dict[UUID, Acl]


def describe(node: Broker, request: Request[DescribeAclsRequest], now_ms: int) -> Stepped[Outcome]:
    body = request.body
    check_codes(body.resource_type_filter, body.pattern_type_filter, body.operation, body.permission_type)
    if not node.gate.authorizer.has_acls:
        raise RequestError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    found = yield from matching(node.state.image.acls, filter_of(body), Pace(ACLS_PER_STEP))
    resources: dict[tuple[int, str, int], dict[Acl, None]] = {}
    for acl in found.values():
        resources.setdefault((acl.resource_type, acl.name, acl.pattern_type), {})[acl] = None
    return DescribeAclsResponse(error_message=None, resources=lazily(resource_of, list(resources.values())))


def resource_of(acls: dict[Acl, None]) -> DescribeAclsResource:
    """The ACLs of one resource pattern."""
    first = next(iter(acls))
    return DescribeAclsResource(
        resource_type=first.resource_type,
        resource_name=first.name,
        pattern_type=first.pattern_type,
        acls=[
            AclDescription(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
            )
            for acl in acls
        ],
    )


def matching(acls: AclsImage, wanted: AclFilter, pace: Pace, *, at_most: int | None = None) -> Stepped[Found]:
    """The ACLs that a filter means, by id, in steps. Raises RequestError POLICY_VIOLATION as soon as they are too many:
    a thousand filters may mean all of a hundred thousand ACLs each.
    """
    found: Found = {}
    for each in acls.matching(wanted):
        if pace.is_over():
            yield None
        if each is not None:
            if len(found) == at_most:
                raise RequestError(ErrorCode.POLICY_VIOLATION, acl_control.TOO_MANY)
            found[each[0]] = each[1]
    return found


def filter_of(wanted: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        resource_type=wanted.resource_type_filter,
        name=wanted.resource_name_filter,
        pattern_type=wanted.pattern_type_filter,
        principal=wanted.principal_filter,
        host=wanted.host_filter,
        operation=wanted.operation,
        permission=wanted.permission_type,
    )


def check_codes(*codes: int) -> None:
    """Raises ProtocolError for a code of 0, which no client may send."""
    if 0 in codes:
        raise ProtocolError("the request has ACLs or filters with UNKNOWN elements")


def create(node: Broker, request: Request[CreateAclsRequest], now_ms: int) -> Stepped[Outcome]:
    if len(request.body.creations) > ACLS_PER_REQUEST_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, acl_control.TOO_MANY)
    for each in request.body.creations:
        check_codes(each.resource_type, each.resource_pattern_type, each.operation, each.permission_type)
    if not node.controller.active:
        return FORWARD
    if not node.gate.authorizer.has_acls:
        raise NO_AUTHORIZER
    controller = node.controller.state

    def decide(part: list[AclCreation]) -> Result[list[ApiError]]:
        return acl_control.create_acls(controller, [acl_of(each) for each in part])

    def change_of(part: list[AclCreation], answers: list[ApiError]) -> tuple[Any, Message]:
        return CreateAclsRequest(creations=part), created(answers)

    plan = yield from decided(node, request, parts_of(request.body.creations), decide, change_of)
    return plan.outcome(created(plan.answers))


def acl_of(each: AclCreation) -> Acl:
    return Acl(
        each.resource_type,
        each.resource_name,
        each.resource_pattern_type,
        each.principal,
        each.host,
        each.operation,
        each.permission_type,
    )


def created(answers: Sequence[ApiError]) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=lazily(lambda each: AclCreationResult(error_code=each.code, error_message=each.message), answers)
    )


def delete(node: Broker, request: Request[DeleteAclsRequest], now_ms: int) -> Stepped[Outcome]:
    filters = request.body.filters
    if len(filters) > ACL_FILTERS_PER_REQUEST_MAX:
        sentence = f"At most {ACL_FILTERS_PER_REQUEST_MAX} filters in one request."
        raise RequestError(ErrorCode.POLICY_VIOLATION, sentence)
    for each in filters:
        check_codes(each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type)
    if not node.controller.active:
        return FORWARD
    if not node.gate.authorizer.has_acls:
        raise NO_AUTHORIZER
    controller, pace = node.controller.state, Pace(ACLS_PER_STEP)
    found: list[Found] = []
    left = ACLS_PER_REQUEST_MAX
    for each in filters:
        acls = controller.image.acls
        found.append({} if has_unknown(each) else (yield from matching(acls, filter_of(each), pace, at_most=left)))
        left -= len(found[-1])
    if not node.controller.active or node.controller.state is not controller:
        raise RequestError(ErrorCode.NOT_CONTROLLER)
    result = acl_control.remove_acls(controller, found)
    answers = zip(filters, result.response, strict=True)
    return Append(result.records, DeleteAclsResponse(filter_results=[removed(*each) for each in answers]))


def removed(wanted: DeleteAclsFilter, acls: Found) -> DeleteAclsFilterResult:
    """A filter's answer: the ACLs that it removes."""
    if has_unknown(wanted):
        return refused(ErrorCode.INVALID_REQUEST, "The filter has unknown elements.")
    return DeleteAclsFilterResult(error_message=None, matching_acls=lazily(matched, list(acls.values())))


def has_unknown(wanted: DeleteAclsFilter) -> bool:
    """Whether a filter has a code that is not known here."""
    return (
        wanted.resource_type_filter not in set(ResourceType)
        or wanted.pattern_type_filter not in set(PatternType)
        or wanted.operation not in set(AclOperation)
        or wanted.permission_type not in set(PermissionType)
    )


def matched(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def refused(code: ErrorCode, message: str) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=code, error_message=message, matching_acls=[])


def refuse_creations(request: Request[CreateAclsRequest], code: ErrorCode, message: str) -> Message:
    """Every ACL answered with the error."""
    creations = () if request.body is None else request.body.creations
    return created([ApiError(code, message or None)] * len(creations))


def refuse_filters(request: Request[DeleteAclsRequest], code: ErrorCode, message: str) -> Message:
    """Every filter answered with the error."""
    filters = () if request.body is None else request.body.filters
    return DeleteAclsResponse(filter_results=lazily(lambda each: refused(code, message), filters))


HANDLERS = (
    Handler(ApiKey.DESCRIBE_ACLS, describe),
    Handler(ApiKey.CREATE_ACLS, create, refuse_creations),
    Handler(ApiKey.DELETE_ACLS, delete, refuse_filters),
)
