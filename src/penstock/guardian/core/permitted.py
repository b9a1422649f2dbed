"""The one place where it is decided what a requester may ask, whatever it came by: between the calls and the answers.

`guardian.core.answering` answers from the knowledge that it is given; here that is what the requester may see (reads),
or may change (changes), by the table in `guardian.core.roles`.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from penstock.guardian.core import answering
from penstock.guardian.core.answering import Change
from penstock.guardian.core.calls import BAD_REQUEST, CONFLICT, NOT_FOUND, Call, Known, Refused, Reply
from penstock.guardian.core.roles import VIEW, forbidden, need_of, view


def read(known: Known, call: Call) -> Reply:
    """The answer to a call that changes nothing, as its requester may have it."""
    try:
        resource, _ = answering.resource_at(call)
        seen = view(known, call, need_of(resource.path, call.method))
    except Refused as error:
        return error.reply
    return answering.read(seen, call)


def decide(known: Known, call: Call, new_id: Callable[[], UUID]) -> Change:
    """What a change comes to, if its requester may make it.

    What she may see and not change is refused as forbidden; what she may not see is answered like what is not there.
    What she may change is decided twice: on what she may change, where it must not be refused, and then on everything
    that is known, since new numbers, and what there is room for, hang on what she may not see, too. One that was made
    before changes nothing, and is answered from what she may change now.
    """
    made = known.state.commands.get(call.request_id)
    try:
        resource, _ = answering.resource_at(call)
        need = need_of(resource.path, call.method)
        changeable = view(known, call, need)
        if made is not None and made.principal != call.principal:
            raise Refused(CONFLICT, "the request id was that of another change before")
        if changeable is not known:
            tried = answering.decide(changeable, call, new_id)
            if tried.reply.status == NOT_FOUND and need != VIEW:
                visible = view(known, call, VIEW)
                if answering.decide(visible, call, new_id).reply.status != NOT_FOUND:
                    raise forbidden(call, need)
            if made is not None or tried.reply.status >= BAD_REQUEST:
                return tried
    except Refused as error:
        return Change((), error.reply)
    return answering.decide(known, call, new_id)
