"""Branches, merges and the feed on S3, as on a folder: a few of each."""

from __future__ import annotations

import pytest
from tests.unit.graph.branches.test_branches import (
    test_a_branch_deleted_under_a_writer,
    test_a_deleted_branch_is_gone_and_its_name_is_free,
)
from tests.unit.graph.changes.test_feed import test_a_copy_follows_a_branch
from tests.unit.graph.merge.test_merge import (
    side,
    test_merges_in_both_directions_again_and_again,
    test_rows_and_columns_of_both_sides_are_put_together,
)
from tests.unit.graph.write.test_rewind import test_what_was_shown_then_is_shown_again

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("disarmed")]
__all__ = [
    "side",
    "test_a_branch_deleted_under_a_writer",
    "test_a_copy_follows_a_branch",
    "test_a_deleted_branch_is_gone_and_its_name_is_free",
    "test_merges_in_both_directions_again_and_again",
    "test_rows_and_columns_of_both_sides_are_put_together",
    "test_what_was_shown_then_is_shown_again",
]
