"""The controller's decisions about ACLs: what is created, what is refused, what a filter removes."""

from __future__ import annotations

from uuid import UUID

import pytest
from unit.metadata.controller_state import State

from penstock.errors import ErrorCode, RequestError
from penstock.metadata import acls
from penstock.protocol.acls import Acl, AclFilter, PatternType

ACL = Acl(2, "t", 3, "User:alice", "*", 3, 3)


def created(state: State, *wanted: Acl) -> list[ErrorCode]:
    result = acls.create_acls(state.controller, wanted)
    state.replay(result.records)
    return [each.code for each in result.response]


def test_an_acl_is_created_once_and_again_with_success() -> None:
    state = State()
    assert created(state, ACL, ACL, ACL._replace(name="u")) == [ErrorCode.NONE] * 3
    assert created(state, ACL) == [ErrorCode.NONE]
    assert len(state.controller.image.acls) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"resource_type": 1},
        {"resource_type": 99},
        {"pattern_type": 1},
        {"pattern_type": 2},
        {"operation": 1},
        {"operation": 99},
        {"permission": 1},
        {"resource_type": 4, "name": "my-cluster"},
        {"principal": "alice"},
        {"principal": ":alice"},
        {"principal": "User:"},
    ],
)
def test_an_acl_that_cannot_be_is_refused_and_no_other(wrong: dict[str, object]) -> None:
    state = State()
    other = ACL._replace(name="other")
    codes = created(state, ACL._replace(**wrong), other)  # type: ignore[arg-type]  # one field each
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert [acl for found in state.controller.image.acls.matching(AclFilter()) if found for acl in found[1:]] == [other]


def test_the_cluster_has_one_name() -> None:
    assert created(State(), ACL._replace(resource_type=4, name="kafka-cluster")) == [ErrorCode.NONE]


def test_a_removal_touches_no_other_acl() -> None:
    state = State()
    others = [ACL._replace(host="10.0.0.1"), ACL._replace(operation=4), ACL._replace(pattern_type=4)]
    created(state, ACL, *others)
    (found,) = [each for each in state.controller.image.acls.matching(AclFilter(2, "t")) if each and each[1] == ACL]
    result = acls.remove_acls(state.controller, [dict([found])])
    state.replay(result.records)
    assert sorted(each[1] for each in state.controller.image.acls.matching(AclFilter()) if each) == sorted(others)


def test_filters_that_mean_the_same_acl_remove_it_once_and_both_say_so() -> None:
    state = State()
    created(state, ACL)
    found = dict(each for each in state.controller.image.acls.matching(AclFilter()) if each)
    result = acls.remove_acls(state.controller, [found, found, {UUID(int=9): ACL}])
    assert [list(each.values()) for each in result.response] == [[ACL], [ACL], []]
    assert len(result.records) == 1


def test_too_many_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    state = State()
    monkeypatch.setattr(acls, "ACLS_PER_REQUEST_MAX", 2)
    many = [ACL._replace(name=str(number)) for number in range(3)]
    assert created(state, *many) == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]
    created(state, many[2])
    found = dict(each for each in state.controller.image.acls.matching(AclFilter()) if each)
    with pytest.raises(RequestError, match="At most"):
        acls.remove_acls(state.controller, [found])


def test_what_is_not_committed_is_undone() -> None:
    state = State()
    state.commit()
    created(state, ACL)
    assert state.controller.image.acls.has(ACL)
    state.controller.revert()
    assert not state.controller.image.acls.has(ACL)


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (AclFilter(), True),
        (AclFilter(resource_type=3), False),
        (AclFilter(name="abc"), False),
        (AclFilter(name="ab"), True),
        (AclFilter(name="abc", pattern_type=PatternType.MATCH), True),
        (AclFilter(name="a", pattern_type=PatternType.MATCH), False),
        (AclFilter(name="ab", pattern_type=PatternType.LITERAL), False),
        (AclFilter(name="ab", pattern_type=PatternType.PREFIXED), True),
        (AclFilter(principal="User:bob"), False),
        (AclFilter(principal="User:alice", host="*", operation=3, permission=3), True),
        (AclFilter(operation=4), False),
        (AclFilter(permission=2), False),
        (AclFilter(host="10.0.0.1"), False),
    ],
)
def test_a_filter_means_what_it_names(wanted: AclFilter, matches: bool) -> None:
    assert wanted.matches(ACL._replace(name="ab", pattern_type=PatternType.PREFIXED)) is matches


def test_a_name_that_applies_matches_literal_acls_and_the_star() -> None:
    wanted = AclFilter(name="t", pattern_type=PatternType.MATCH)
    assert wanted.matches(ACL)
    assert wanted.matches(ACL._replace(name="*"))
    assert not AclFilter(name="t").matches(ACL._replace(name="*"))
