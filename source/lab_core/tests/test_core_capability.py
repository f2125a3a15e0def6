"""What can, what cannot, and why a whole cannot."""

from __future__ import annotations

from lab_core.capability import CAPABLE, Capability, all_capable


def test_a_whole_can_if_all_its_parts_can_and_else_says_what_the_first_says():
    first, second = Capability(False, "it waits"), Capability(False, "it prints")
    assert not first
    assert all_capable([]) == all_capable([CAPABLE, CAPABLE]) == CAPABLE
    assert all_capable([CAPABLE, first, second]) == first
