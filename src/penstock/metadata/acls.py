"""ACLs: the controller's side of CreateAcls and DeleteAcls, as Kafka's AclControlManager.

An ACL that exists already is created again with success and without a record. Each has an id of its own, by which it is
removed: so the removal of one touches no other. Who the principal is, and whether a host is one, is not checked, as in
Kafka; but the principal must have a type, since Kafka's authorizer stops at one that has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.limits import ACLS_PER_REQUEST_MAX
from penstock.metadata.records import acl_record
from penstock.metadata.result import ApiError, MetadataMessage, Result
from penstock.protocol.acls import CLUSTER_NAME, Acl, ResourceType, unknown_code
from penstock.protocol.messages.metadata.remove_access_control_entry_record import RemoveAccessControlEntryRecord

if TYPE_CHECKING:
    from penstock.metadata.controller import Controller

TOO_MANY = f"At most {ACLS_PER_REQUEST_MAX} ACLs can be changed in one request."


def create_acls(controller: Controller, wanted: Sequence[Acl]) -> Result[list[ApiError]]:
    """Creates ACLs, each by itself: one that cannot be keeps no other from being created."""
    answers: list[ApiError] = []
    records: list[MetadataMessage] = []
    new: dict[Acl, None] = {}
    for acl in wanted:
        try:
            check_acl(acl)
            if acl not in new and not controller.image.acls.has(acl):
                if len(records) >= ACLS_PER_REQUEST_MAX:
                    raise RequestError(ErrorCode.POLICY_VIOLATION, TOO_MANY)
                new[acl] = None
                records.append(acl_record(random_id(controller), acl))
        except RequestError as error:
            answers.append(ApiError.of(error))
        else:
            answers.append(ApiError())
    return Result(answers, records)


def check_acl(acl: Acl) -> None:
    """Raises RequestError INVALID_REQUEST for an ACL that cannot be."""
    wrong = unknown_code(acl)
    if wrong:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Invalid {wrong}")
    if not acl.name:
        raise RequestError(ErrorCode.INVALID_REQUEST, "Resource name should not be empty")
    if acl.resource_type == ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        sentence = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
        raise RequestError(ErrorCode.INVALID_REQUEST, sentence)
    kind, colon, name = acl.principal.partition(":")
    if not kind or not colon or not name:
        sentence = f"The principal {acl.principal!r} must have a type and a name, such as User:alice"
        raise RequestError(ErrorCode.INVALID_REQUEST, sentence)


def random_id(controller: Controller) -> UUID:
    """A new id for an ACL, from the generator that topics' ids come from."""
    while True:
        new = controller.random_id()
        if controller.image.acls.get(new) is None:
            return new


def remove_acls(controller: Controller, found: Iterable[Mapping[UUID, Acl]]) -> Result[list[dict[UUID, Acl]]]:
    """Removes ACLs that filters have found, one mapping a filter. Those that are gone meanwhile are left out.

    Raises RequestError POLICY_VIOLATION for too many of them.
    """
    answers = [
        {acl_id: acl for acl_id, acl in each.items() if controller.image.acls.get(acl_id) is not None} for each in found
    ]
    ids = list(dict.fromkeys(acl_id for answer in answers for acl_id in answer))
    if len(ids) > ACLS_PER_REQUEST_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, TOO_MANY)
    return Result(answers, [RemoveAccessControlEntryRecord(id=acl_id) for acl_id in ids])
