"""DescribeClientQuotas (key 48) and AlterClientQuotas (key 49): what users, client ids and addresses may use (KIP-546).

Versions 0-1, flexible from 1. Describing needs DESCRIBE_CONFIGS on the cluster, and answers from this broker's image; a
wrong filter is refused as a whole. Changing needs ALTER_CONFIGS on it, and the active controller: an entity is changed
as a whole or not at all, INVALID_REQUEST if it cannot be, and answered once, however often it is named. Nothing is said
of the order of answers; here it is that of the entities, and of the request. The rules are in
`penstock.metadata.client_quotas`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.client_quotas import Alteration, alter_client_quotas, entity_of, filter_of
from penstock.metadata.result import ApiError, Result
from penstock.node.decisions import decided, parts_of
from penstock.node.limits import CLIENT_QUOTAS_PER_STEP, QUOTA_CHANGES_PER_REQUEST_MAX
from penstock.node.request import FORWARD, Handler, Outcome, Request
from penstock.node.steps import Pace, Stepped, lazily
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages import alter_client_quotas_request as altering
from penstock.protocol.messages import alter_client_quotas_response as altered
from penstock.protocol.messages import describe_client_quotas_response as described
from penstock.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from penstock.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from penstock.protocol.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from penstock.protocol.messages.describe_client_quotas_response import DescribeClientQuotasResponse
from penstock.quota.levels import Entity, QuotaValues

if TYPE_CHECKING:
    from penstock.node.broker import Broker

SENTENCES = {ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed."}
"""What Kafka says of errors of a whole request."""
Answer = tuple[Entity, ApiError]


def describe(node: Broker, request: Request[DescribeClientQuotasRequest], now_ms: int) -> Stepped[Outcome]:
    wanted = filter_of(request.body.components, strict=request.body.strict)
    pace = Pace(CLIENT_QUOTAS_PER_STEP)
    found = []
    for entity, values in node.state.image.client_quotas.items():
        if pace.is_over():
            yield None
        if wanted.matches(entity):
            found.append((entity, values))
    return DescribeClientQuotasResponse(entries=lazily(description, found))


def description(of: tuple[Entity, QuotaValues]) -> described.EntryData:
    entity, values = of
    return described.EntryData(
        entity=lazily(lambda each: described.EntityData(entity_type=each[0], entity_name=each[1]), entity),
        values=lazily(lambda each: described.ValueData(key=each[0], value=each[1]), list(values.items())),
    )


def sentence_of(code: ErrorCode, message: str) -> str | None:
    """What is said of an error of a whole request: the sentence of the error, Kafka's, or none."""
    return SENTENCES.get(code, message or None) if message in ("", code.name) else message


def refuse_describe(request: Request[Any], code: ErrorCode, message: str) -> Message:
    """The error, and no entries."""
    return DescribeClientQuotasResponse(error_code=code, error_message=sentence_of(code, message), entries=None)


def alter(node: Broker, request: Request[AlterClientQuotasRequest], now_ms: int) -> Stepped[Outcome]:
    body = request.body
    check_size(body.entries)
    if not node.controller.active:
        return FORWARD
    controller = node.controller.state
    seen: set[Entity] = set()

    def decide(part: list[altering.EntryData]) -> Result[list[Answer]]:
        return alter_client_quotas(controller.image.client_quotas, [alteration_of(each) for each in part], seen)

    def change_of(part: list[altering.EntryData], answers: list[Answer]) -> tuple[Any, Message]:
        return AlterClientQuotasRequest(entries=part), response_of(answers)

    parts = parts_of(body.entries, lambda each: 1 + len(each.ops))
    plan = yield from decided(node, request, parts, decide, change_of, validate_only=body.validate_only)
    # Of an entity that is altered twice the second answer counts: the error.
    response = response_of(dict(plan.answers).items())
    return response if body.validate_only else plan.outcome(response)


def check_size(entries: list[altering.EntryData]) -> None:
    most = QUOTA_CHANGES_PER_REQUEST_MAX
    if len(entries) > most or sum([len(each.ops) for each in entries]) > most:
        raise RequestError(ErrorCode.POLICY_VIOLATION, f"At most {most} entities and {most} changes in one request.")


def alteration_of(entry: altering.EntryData) -> Alteration:
    return Alteration(entity_of(entry.entity), [(op.key, None if op.remove else op.value) for op in entry.ops])


def response_of(answers: Iterable[Answer]) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(entries=lazily(answer_of, list(answers)))


def answer_of(answer: Answer) -> altered.EntryData:
    entity, error = answer
    return altered.EntryData(
        error_code=error.code,
        error_message=error.message,
        entity=lazily(lambda each: altered.EntityData(entity_type=each[0], entity_name=each[1]), entity),
    )


def refuse_alter(request: Request[Any], code: ErrorCode, message: str) -> Message:
    """Every entity answered with the error."""

    def answer(entry: altering.EntryData) -> altered.EntryData:
        return altered.EntryData(
            error_code=code,
            error_message=sentence_of(code, message),
            entity=lazily(
                lambda each: altered.EntityData(entity_type=each.entity_type, entity_name=each.entity_name),
                entry.entity,
            ),
        )

    entries = () if request.body is None else request.body.entries
    return AlterClientQuotasResponse(entries=lazily(answer, entries))


HANDLERS = (
    Handler(ApiKey.DESCRIBE_CLIENT_QUOTAS, describe, refuse_describe),
    Handler(ApiKey.ALTER_CLIENT_QUOTAS, alter, refuse_alter),
)
