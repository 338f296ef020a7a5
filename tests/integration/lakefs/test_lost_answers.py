"""Requests and answers of merge and reset that are lost, late or both, on a real server.

Invariant 4: an outcome that cannot be known is revoked, read back, and then decided; never repeated blindly.
"""

from __future__ import annotations

import pytest
from tests.integration.lakefs.conftest import Place
from tools.servers.proxy import Fault, FaultProxy

from headgate.errors import AccessDenied, Contention, ExpectedHeadMismatch, OutcomeUnknown, Transient
from headgate.lake.interface import MAIN
from headgate.lake.lakefs import LakeFSLake
from headgate.publication import NotPublished, Published, Ref

pytestmark = pytest.mark.real

MERGE = r"/refs/headgate-staging-[^/]+/merge/main"
RESET = r"/branches/main/hard_reset"
SOON = 0.5


def lose_merge(place: Place, faulty: LakeFSLake, branch: str) -> OutcomeUnknown:
    with pytest.raises(OutcomeUnknown) as unknown:
        place.publish(branch, expected=place.first, lake=faulty, timeout=SOON)
    return unknown.value


def abandoned(place: Place) -> Ref:
    return place.publish(place.stage(b"abandoned"), expected=place.first)


# --------------------------------------------------------------------------------------------------------------- merge
def test_a_merge_that_never_arrived_is_not_published(place: Place, proxy: FaultProxy, faulty: LakeFSLake) -> None:
    branch = place.stage(b"a2")
    proxy.next("POST", MERGE, Fault.DROP_REQUEST)
    assert lose_merge(place, faulty, branch).publish_id == branch
    assert isinstance(place.read_back(branch, input_ref=place.first), NotPublished)
    assert place.head() == place.first
    assert proxy.count("POST", MERGE) == 1


@pytest.mark.parametrize("fault", [Fault.DROP_ANSWER, Fault.HOLD_ANSWER])
def test_a_merge_whose_answer_is_lost_is_found(
    place: Place, proxy: FaultProxy, faulty: LakeFSLake, fault: Fault
) -> None:
    branch = place.stage(b"a2")
    armed = proxy.next("POST", MERGE, fault)
    lose_merge(place, faulty, branch)
    outcome = place.read_back(branch, input_ref=place.first)
    assert isinstance(outcome, Published)
    assert outcome.ref == place.head()
    assert place.text(outcome.ref) == b"a2"
    assert armed.statuses == [200]
    assert proxy.count("POST", MERGE) == 1


def test_a_merge_that_arrives_after_its_revoke_changes_nothing(
    place: Place, proxy: FaultProxy, faulty: LakeFSLake
) -> None:
    branch = place.stage(b"late")
    armed = proxy.next("POST", MERGE, Fault.HOLD_REQUEST)
    lose_merge(place, faulty, branch)
    assert isinstance(place.read_back(branch, input_ref=place.first), NotPublished)
    retried = place.publish(place.stage(b"retry"), expected=place.first)
    armed.release()
    assert armed.over.wait(30)
    assert armed.statuses == [404]
    assert place.head() == retried


def test_a_merge_answered_with_a_fault_of_the_server_is_unknown(
    place: Place, proxy: FaultProxy, faulty: LakeFSLake
) -> None:
    branch = place.stage(b"a2")
    proxy.next("POST", MERGE, Fault.ANSWER, status=502)
    lose_merge(place, faulty, branch)
    assert proxy.count("POST", MERGE) == 1
    assert isinstance(place.read_back(branch, input_ref=place.first), NotPublished)


def test_a_merge_that_lost_all_its_tries_on_the_server_may_be_tried_again(
    place: Place, proxy: FaultProxy, faulty: LakeFSLake
) -> None:
    branch = place.stage(b"a2")
    proxy.next("POST", MERGE, Fault.ANSWER, status=429)
    with pytest.raises(Contention):
        place.publish(branch, expected=place.first, lake=faulty)
    assert place.text(place.publish(branch, expected=place.first, lake=faulty)) == b"a2"


# --------------------------------------------------------------------------------------------------------------- reset
def test_a_reset_that_never_arrived_leaves_head_and_gate_as_they_were(
    place: Place, proxy: FaultProxy, faulty: LakeFSLake
) -> None:
    head = abandoned(place)
    branch = place.stage(b"a2")
    proxy.next("PUT", RESET, Fault.DROP_REQUEST)
    with pytest.raises(Transient, match="revoked before it took effect"):
        faulty.move_head(place.repository, MAIN, to_branch=branch, expected_head=head, timeout=SOON)
    assert place.head() == head
    assert not place.gate().state().shut
    assert proxy.count("PUT", RESET) == 1


@pytest.mark.parametrize("fault", [Fault.DROP_ANSWER, Fault.HOLD_ANSWER])
def test_a_reset_whose_answer_is_lost_is_found(
    place: Place, proxy: FaultProxy, faulty: LakeFSLake, fault: Fault
) -> None:
    head = abandoned(place)
    branch = place.stage(b"a2")
    staged = place.lake.head(place.repository, branch).ref
    armed = proxy.next("PUT", RESET, fault)
    moved = faulty.move_head(place.repository, MAIN, to_branch=branch, expected_head=head, timeout=SOON)
    assert moved == staged == place.head()
    assert armed.statuses == [204]
    assert not place.gate().state().shut
    assert proxy.count("PUT", RESET) == 1


@pytest.mark.parametrize("fault", [Fault.DROP_ANSWER, Fault.HOLD_ANSWER])
def test_a_relocation_whose_answer_is_lost_is_found_by_the_head(
    place: Place, proxy: FaultProxy, faulty: LakeFSLake, fault: Fault
) -> None:
    head = abandoned(place)
    back = f"headgate-staging-back-{place.repository}"
    place.lake.create_branch(place.repository, back, at=place.first)
    proxy.next("PUT", RESET, fault)
    moved = faulty.move_head(place.repository, MAIN, to_branch=back, expected_head=head, timeout=SOON)
    assert moved == place.first == place.head()


def test_a_reset_that_arrives_late_cannot_erase_what_was_accepted_since(
    place: Place, proxy: FaultProxy, faulty: LakeFSLake
) -> None:
    head = abandoned(place)
    late = place.stage(b"late")
    armed = proxy.next("PUT", RESET, Fault.HOLD_REQUEST)
    with pytest.raises(Transient):
        faulty.move_head(place.repository, MAIN, to_branch=late, expected_head=head, timeout=SOON)
    winner = place.stage(b"winner")
    accepted = place.lake.move_head(place.repository, MAIN, to_branch=winner, expected_head=head)
    armed.release()
    assert armed.over.wait(30)
    assert armed.statuses == [404]
    assert place.head() == accepted
    assert place.text(accepted) == b"winner"


def test_a_reset_that_arrives_late_cannot_pass_a_gate_that_was_taken_over(
    place: Place, proxy: FaultProxy, faulty: LakeFSLake
) -> None:
    """The owner is gone, its request is on the way, and nobody has revoked it yet but the next replacer."""
    head = abandoned(place)
    late = place.stage(b"late")
    armed = proxy.next("PUT", RESET, Fault.HOLD_REQUEST)
    proxy.next("DELETE", r"/branches/headgate-staging-", Fault.DROP_REQUEST, times=4)
    with pytest.raises(OutcomeUnknown):
        faulty.move_head(place.repository, MAIN, to_branch=late, expected_head=head, timeout=SOON)
    assert place.gate().state().shut
    accepted = place.lake.move_head(place.repository, MAIN, to_branch=place.stage(b"winner"), expected_head=head)
    assert not place.exists(late)
    armed.release()
    assert armed.over.wait(30)
    assert armed.statuses == [404]
    assert place.head() == accepted


# -------------------------------------------------------------------------------------------------- the smaller calls
def test_lost_answers_of_gate_records_are_recognised_as_our_own(
    place: Place, proxy: FaultProxy, faulty: LakeFSLake
) -> None:
    head = abandoned(place)
    branch = place.stage(b"a2")
    proxy.next("POST", r"/branches/headgate-gates/objects\?path=main%2F000000000001$", Fault.DROP_ANSWER)
    proxy.next("POST", r"/branches/headgate-gates/objects\?path=main%2F000000000001\.done$", Fault.DROP_ANSWER)
    proxy.next("POST", r"/refs/headgate-poke-", Fault.DROP_ANSWER)
    moved = faulty.move_head(place.repository, MAIN, to_branch=branch, expected_head=head)
    assert moved == place.head()
    assert not place.gate().state().shut


def test_a_lost_answer_to_our_own_branch_is_success(place: Place, proxy: FaultProxy, faulty: LakeFSLake) -> None:
    proxy.next("POST", r"/branches$", Fault.DROP_ANSWER)
    faulty.create_branch(place.repository, "headgate-staging-lost", at=place.first)
    assert place.exists("headgate-staging-lost")


def test_reads_survive_a_burst_of_faults(place: Place, proxy: FaultProxy, faulty: LakeFSLake) -> None:
    for status in (429, 503, 500):
        proxy.next("GET", r"/branches/main$", Fault.ANSWER, status=status)
    assert faulty.head(place.repository, MAIN).ref == place.first


def test_a_fault_that_lasts_is_transient(place: Place, proxy: FaultProxy, faulty: LakeFSLake) -> None:
    proxy.next("GET", r"/branches/main$", Fault.ANSWER, status=503, times=10)
    with pytest.raises(Transient):
        faulty.head(place.repository, MAIN)
    assert proxy.count("GET", r"/branches/main$") == 4


def test_keys_that_were_revoked_are_told(place: Place, proxy: FaultProxy, faulty: LakeFSLake) -> None:
    branch = place.stage(b"a2")
    proxy.next("POST", MERGE, Fault.ANSWER, status=401)
    with pytest.raises(AccessDenied, match="does not know these keys"):
        place.publish(branch, expected=place.first, lake=faulty)
    assert place.head() == place.first


def test_the_loser_of_a_race_is_fenced(place: Place) -> None:
    winner, loser = place.stage(b"winner"), place.stage(b"loser")
    published = place.publish(winner, expected=place.first)
    with pytest.raises(ExpectedHeadMismatch) as fenced:
        place.publish(loser, expected=place.first)
    assert (fenced.value.expected, fenced.value.actual) == (place.first, published)
    assert place.head() == published
