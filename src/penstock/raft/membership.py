"""Changes of the voters, one at a time (KIP-853): AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter.

A change is a KRaftVoters record, which counts from the moment it is in the log. So that any two majorities overlap,
there is one change at a time, and the first of an epoch waits until a record of that epoch is committed. A voter that
is added must have caught up first, and support the quorum's kraft.version. A leader that removes itself continues until
that is committed, without counting itself, and then resigns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.errors import ErrorCode, RequestError
from penstock.protocol.api import SOFTWARE_NAME
from penstock.protocol.message import ZERO_UUID, Message
from penstock.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from penstock.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.kraft_version_record import KRaftVersionRecord
from penstock.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from penstock.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from penstock.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest
from penstock.protocol.messages.update_raft_voter_response import CurrentLeader, UpdateRaftVoterResponse
from penstock.raft.core import Core
from penstock.raft.effects import Target
from penstock.raft.leading import Leading
from penstock.raft.limits import RAFT_VOTERS_MAX
from penstock.raft.states import Arrival, Leader
from penstock.raft.voters import SUPPORTED_KRAFT_VERSIONS, ReplicaKey, Voter, VoterEndpoint, VoterSet

FEATURE = "kraft.version"
CAUGHT_UP_WITHIN_MS = 3_600_000
"""A replica that was last caught up longer ago is lagging, as in Kafka."""


@dataclass(slots=True)
class Change:
    """A change under way. `last_offset` is that of its record, None until that is appended; `answered` early."""

    token: object
    response: type[AddRaftVoterResponse] | type[RemoveRaftVoterResponse]
    deadline_ms: int
    voter: Voter | None = None
    answer_when_committed: bool = True
    last_offset: int | None = None


class Membership:
    """The leader's changes of the voters."""

    def __init__(self, core: Core, leading: Leading) -> None:
        self._core = core
        self._leading = leading
        self._change: Change | None = None

    # Adding

    def on_add(self, request: AddRaftVoterRequest, now_ms: int, token: object) -> None:
        """AddRaftVoter, versions 0-1."""
        core = self._core
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        endpoints = tuple(VoterEndpoint(each.name, each.host, each.port) for each in request.listeners)
        voter = Voter(key, endpoints)
        error, text = self._refusal(request.cluster_id)
        endpoint = voter.endpoint(core.identity.listener)
        if error == ErrorCode.NONE and (key.id < 0 or key.directory_id == ZERO_UUID):
            error, text = ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter"
        if error == ErrorCode.NONE and endpoint is None:
            error = ErrorCode.INVALID_REQUEST
            text = f"Add voter request didn't include the endpoint for the default listener {core.identity.listener}"
        if error == ErrorCode.NONE and key.id in core.voters.voters:
            error = ErrorCode.DUPLICATE_VOTER
            text = f"The voter id for {key} is already part of the set of voters {core.voters}."
        if error == ErrorCode.NONE and len(core.voters.voters) >= RAFT_VOTERS_MAX:
            error, text = ErrorCode.INVALID_REQUEST, f"A quorum has at most {RAFT_VOTERS_MAX} voters."
        if error == ErrorCode.NONE and core.channels.wait_ms(key.id, now_ms) != 0:
            error, text = ErrorCode.REQUEST_TIMED_OUT, f"New voter {key.id} is not ready to receive requests"
        if error != ErrorCode.NONE or endpoint is None:
            core.answer(token, AddRaftVoterResponse(error_code=error, error_message=text))
            return
        deadline_ms = now_ms + core.config.request_timeout_ms
        self._change = Change(token, AddRaftVoterResponse, deadline_ms, voter, request.ack_when_committed)
        target = Target(key.id, endpoint.host, endpoint.port, endpoint.name)
        core.call(target, ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version="1"))

    def versions_answered(self, node_id: int, response: Any, *, current: bool, now_ms: int) -> None:
        """A new voter has reported what it supports, or nothing (None). It may be one that is no longer waited for."""
        change = self._change
        if not current or change is None or change.voter is None or change.last_offset is not None:
            return
        voter = change.voter
        if voter.key.id != node_id:
            return
        if response is None or response.error_code != ErrorCode.NONE:
            reason = "no answer" if response is None else f"error {response.error_code}"
            self._end(ErrorCode.REQUEST_TIMED_OUT, f"Aborted add voter operation since API_VERSIONS returned {reason}")
            return
        ranges = {each.name: (each.min_version, each.max_version) for each in response.supported_features}
        lowest, highest = ranges.get(FEATURE, (0, 0))
        finalized = self._core.history.kraft_version
        if not lowest <= finalized <= highest:
            self._end(
                ErrorCode.INVALID_REQUEST,
                f"Aborted add voter operation for {voter.key.id} since the {FEATURE} range (min: {lowest}, "
                f"max: {highest}) doesn't support the finalized version {finalized}",
            )
        elif not self._is_caught_up(voter.key, now_ms):
            self._end(
                ErrorCode.REQUEST_TIMED_OUT,
                f"Aborted add voter operation for {voter.key.id} since it is lagging behind",
            )
        else:
            added = Voter(voter.key, voter.endpoints, (lowest, highest))
            alone = self._core.voters.majority == 1
            self._append(change, self._core.voters.with_voter(added))
            if alone:  # nobody had to fetch so far; check-quorum begins here
                self._leader.quorum_deadline_ms = now_ms + self._core.config.check_quorum_timeout_ms

    def _is_caught_up(self, key: ReplicaKey, now_ms: int) -> bool:
        leader = self._core.role
        assert isinstance(leader, Leader), "changes end with the leadership"
        progress = leader.observers.get(key)
        return progress is not None and progress.last_caught_up_ms > now_ms - CAUGHT_UP_WITHIN_MS

    # Removing

    def on_remove(self, request: RemoveRaftVoterRequest, now_ms: int, token: object) -> None:
        """RemoveRaftVoter, version 0."""
        core = self._core
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        error, text = self._refusal(request.cluster_id)
        if error == ErrorCode.NONE and (key.id < 0 or key.directory_id == ZERO_UUID):
            error, text = ErrorCode.INVALID_REQUEST, "Remove voter request didn't include a valid voter"
        elif error == ErrorCode.NONE and (key not in core.voters or len(core.voters.voters) == 1):
            error = ErrorCode.VOTER_NOT_FOUND
            text = f"Cannot remove voter {key} from the set of voters {core.voters}"
        if error != ErrorCode.NONE:
            core.answer(token, RemoveRaftVoterResponse(error_code=error, error_message=text))
            return
        change = Change(token, RemoveRaftVoterResponse, now_ms + core.config.request_timeout_ms)
        self._change = change
        self._append(change, core.voters.without(key.id))

    # Updating

    def on_update(self, request: UpdateRaftVoterRequest, arrival: Arrival, now_ms: int, token: object) -> None:
        """UpdateRaftVoter, version 0: a voter reports its present addresses, and what it supports."""
        core = self._core
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        endpoints = tuple(VoterEndpoint(each.name, each.host, each.port) for each in request.listeners)
        feature = request.kraft_version_feature
        versions = (feature.min_supported_version, feature.max_supported_version)
        voter = Voter(key, endpoints, versions)
        error, _ = self._foreign(request.cluster_id)
        if error == ErrorCode.NONE:
            error = self._leading.leader_error(request.current_leader_epoch)
        valid = key.id >= 0 and key.directory_id != ZERO_UUID and voter.endpoint(core.identity.listener) is not None
        if error == ErrorCode.NONE and not (valid and 0 <= versions[0] <= versions[1]):
            error = ErrorCode.INVALID_REQUEST
        if error == ErrorCode.NONE:
            error = self._update(voter, now_ms)
        view = core.view_for(UpdateRaftVoterRequest, arrival)
        leader = CurrentLeader(leader_id=view.leader_id, leader_epoch=view.epoch)
        if view.target is not None:
            leader.host, leader.port = view.target.host, view.target.port
        core.answer(token, UpdateRaftVoterResponse(error_code=error, current_leader=leader))

    def _update(self, voter: Voter, now_ms: int) -> ErrorCode:
        """Records what a voter reports about itself; with kraft.version 0 in memory only, for the upgrade to 1."""
        core, leader = self._core, self._leader
        kraft_version = core.history.kraft_version
        error, _ = self._refusal(None)
        if error != ErrorCode.NONE and not (error == ErrorCode.UNSUPPORTED_VERSION and leader.reported is not None):
            return error
        if not voter.kraft_versions[0] <= kraft_version <= voter.kraft_versions[1]:
            return ErrorCode.INVALID_REQUEST
        if voter.key not in core.voters:
            return ErrorCode.VOTER_NOT_FOUND
        if leader.reported is not None:
            leader.reported = leader.reported.with_voter(voter)
        elif core.voters.voters[voter.key.id] != voter:
            self._leading.append_control([core.voters.with_voter(voter).to_record()])
        self._leading.heard(voter.key, now_ms)
        return ErrorCode.NONE

    # Upgrading

    def upgrade(self, version: int, *, validate_only: bool = False) -> None:
        """As the leader, finalizes kraft.version 1: the version and the voters go into the log (KIP-853).

        Each voter has told the leader which versions it supports, and its directory. Raises RequestError
        INVALID_UPDATE_VERSION, which says what is in the way. `validate_only` appends nothing.
        """
        core, leader = self._core, self._leader
        present = core.history.kraft_version
        if version == present:
            return
        change = f"Invalid upgrade of {FEATURE} from version {present} to {version}"
        if version < present:
            raise RequestError(ErrorCode.INVALID_UPDATE_VERSION, f"{change} because the new version is a downgrade")
        reported = leader.reported
        if reported is None or version > SUPPORTED_KRAFT_VERSIONS[1]:
            raise RequestError(ErrorCode.INVALID_UPDATE_VERSION, change)
        silent = [voter_id for voter_id, voter in reported.voters.items() if voter.key.directory_id == ZERO_UUID]
        if silent:
            raise RequestError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"{change}: voters {silent} have not yet told the leader which versions they support. Are they up?",
            )
        lacking = [voter_id for voter_id, voter in reported.voters.items() if voter.kraft_versions[1] < version]
        if lacking:
            raise RequestError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"{change} because not all of the voters support it: voters {lacking} do not",
            )
        if not validate_only:
            leader.reported = None
            self._leading.append_control([KRaftVersionRecord(kraft_version=version), reported.to_record()])

    # All changes

    @property
    def _leader(self) -> Leader:
        role = self._core.role
        assert isinstance(role, Leader), "only the leader does this"
        return role

    def _foreign(self, cluster_id: str | None) -> tuple[ErrorCode, str]:
        own_id = self._core.identity.cluster_id
        if cluster_id is None or own_id in (None, cluster_id):
            return ErrorCode.NONE, ""
        text = f'The given id "{cluster_id}" doesn\'t match the cluster id "{own_id}"'
        return ErrorCode.INCONSISTENT_CLUSTER_ID, text

    def _refusal(self, cluster_id: str | None) -> tuple[ErrorCode, str]:
        """Why no voter can be changed now; NONE if one can."""
        core = self._core
        leader = core.role
        error, text = self._foreign(cluster_id)
        if error != ErrorCode.NONE:
            return error, text
        if not isinstance(leader, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, "This replica does not lead the metadata quorum."
        waiting = "Request timed out waiting for "
        if self._change is not None:
            return ErrorCode.REQUEST_TIMED_OUT, waiting + "leader to handle previous voter change request"
        if leader.high_watermark is None:
            return ErrorCode.REQUEST_TIMED_OUT, waiting + "leader to establish HWM and fence previous voter changes"
        if core.history.kraft_version == 0:
            return ErrorCode.UNSUPPORTED_VERSION, f"Cluster doesn't support changing voters because {FEATURE} is 0"
        offset = core.history.voters_offset
        if offset is None or offset >= leader.high_watermark:
            return ErrorCode.REQUEST_TIMED_OUT, waiting + f"voters to commit the latest voter change at {offset}"
        return ErrorCode.NONE, ""

    def _append(self, change: Change, voters: VoterSet) -> None:
        change.last_offset = self._leading.append_control([voters.to_record()])
        if not change.answer_when_committed:
            self._core.answer(change.token, self._response(change, ErrorCode.NONE, None))

    @staticmethod
    def _response(change: Change, error: ErrorCode, text: str | None) -> Message:
        return change.response(error_code=error, error_message=text)

    def _end(self, error: ErrorCode, text: str | None) -> None:
        change, self._change = self._change, None
        assert change is not None, "only a change ends"
        if change.answer_when_committed or change.last_offset is None:
            self._core.answer(change.token, self._response(change, error, text))

    def committed(self, now_ms: int) -> None:
        """The leader's high watermark has moved: its change may be committed, also its own removal."""
        core = self._core
        leader = core.role
        assert isinstance(leader, Leader), "only a leader commits"
        assert leader.high_watermark is not None
        change = self._change
        if change is not None and change.last_offset is not None and leader.high_watermark > change.last_offset:
            self._end(ErrorCode.NONE, None)
        offset = core.history.voters_offset
        if core.local not in core.voters and offset is not None and leader.high_watermark > offset:
            core.become_resigned(now_ms)

    def poll(self, now_ms: int) -> int | None:
        """Ends a change that takes too long, or whose leader no longer leads. Returns when to be called again."""
        if self._change is None:
            return None
        if not isinstance(self._core.role, Leader):
            self._end(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The leader of the metadata quorum has changed.")
        elif now_ms >= self._change.deadline_ms:
            self._end(ErrorCode.REQUEST_TIMED_OUT, None)
        else:
            return self._change.deadline_ms
        return None
