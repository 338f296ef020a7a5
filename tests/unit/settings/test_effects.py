"""Every setting does something: the test that shows what, for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.settings import StoreSettings
from headgate.settings.fields import scalars

TESTS = Path(__file__).parents[2]

LOAD = "unit/settings/test_load.py"
SETUP = "unit/cli/test_setup.py"
WORK = "unit/cli/test_work.py"
SPARK = "unit/spark/test_session.py"
MACHINE = "unit/orchestrators/test_machine.py"
METRICS = "unit/telemetry/test_metrics.py"

EFFECTS = {
    "state": f"{LOAD}::test_the_file_is_found_from_a_folder_below_and_paths_are_meant_from_it",
    "orchestrator": f"{SETUP}::test_doctor_asks_the_servers_of_the_profile",
    "owner_email": f"{WORK}::test_the_owner_of_the_settings_is_used_where_a_task_names_none",
    "lakefs.endpoint": f"{SETUP}::test_doctor_asks_the_servers_of_the_profile",
    "lakefs.access_key_id": f"{SETUP}::test_credentials_that_a_server_refuses_are_broken",
    "lakefs.secret_access_key": f"{SETUP}::test_credentials_that_a_server_refuses_are_broken",
    "lakefs.fence": "integration/lakefs/test_fence.py::test_the_fence_setting_takes_effect",
    "lakefs.cache_gb": "unit/lake/test_cache.py::test_the_cap_is_a_setting",
    "conductor.server_url": f"{SETUP}::test_doctor_asks_the_servers_of_the_profile",
    "conductor.auth_key": f"{SETUP}::test_credentials_that_a_server_refuses_are_broken",
    "conductor.auth_secret": f"{SETUP}::test_credentials_that_a_server_refuses_are_broken",
    "log.level": f"{SETUP}::test_the_log_settings_take_effect",
    "log.file": f"{SETUP}::test_the_log_settings_take_effect",
    "log.max_mb": f"{SETUP}::test_the_log_settings_take_effect",
    "log.keep": f"{SETUP}::test_the_log_settings_take_effect",
    "workspace.root": f"{MACHINE}::test_workspaces_are_made_where_the_settings_say",
    "workspace.keep_failed": f"{MACHINE}::test_how_much_is_kept_of_failed_attempts_is_a_setting",
    "workspace.keep_failed_mb": f"{MACHINE}::test_how_much_is_kept_of_failed_attempts_is_a_setting",
    "workspace.keep_failed_days": f"{MACHINE}::test_how_much_is_kept_of_failed_attempts_is_a_setting",
    "gc.unknown_after_hours": f"{MACHINE}::test_how_long_an_unknown_branch_is_left_alone_is_a_setting",
    "graph.publish_ids_days": "unit/cli/test_graph_repair.py::test_how_long_a_publish_id_is_known_is_a_setting",
    "telemetry.address": f"{METRICS}::test_the_address_is_a_setting",
    "telemetry.traces": "unit/telemetry/test_traces.py::test_traces_are_a_setting",
    "replace": f"{MACHINE}::test_the_rule_for_replacing_is_a_setting",
    "spark.master": f"{SPARK}::test_the_session_runs_where_and_as_the_settings_say",
    "spark.s3a": f"{SPARK}::test_hadoop_aws_is_fetched_for_stores_on_lakefs_unless_it_is_installed",
    "stores.*.lake": f"{LOAD}::test_a_profile_that_names_a_stores_kind_replaces_the_store",
    "stores.*.graph": f"{LOAD}::test_an_address_with_a_scheme_is_no_path",
    "stores.*.root": f"{LOAD}::test_a_profile_that_names_a_stores_kind_replaces_the_store",
    "stores.*.repository": f"{LOAD}::test_a_store_without_a_repository_of_its_own_uses_its_name",
}


def test_every_setting_names_the_test_of_its_effect() -> None:
    declared = {".".join(path) for path, _ in scalars()}
    declared |= {".".join(("stores", "*", *path)) for path, _ in scalars(StoreSettings)}
    assert set(EFFECTS) == declared


@pytest.mark.parametrize("test", sorted(set(EFFECTS.values())))
def test_the_named_test_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"def {name}(" in (TESTS / file).read_text()
