"""Each server of tools.servers comes up and answers."""

import pytest
import urllib3
from tools.servers import Server

pytestmark = pytest.mark.real


def get(url: str, **headers: str) -> int:
    with urllib3.PoolManager(retries=False, timeout=10.0) as pool:
        return pool.request("GET", url, headers=headers).status


def test_lakefs_takes_the_keys_it_was_given(lakefs: Server) -> None:
    keys = urllib3.make_headers(basic_auth=f"{lakefs.access_key}:{lakefs.secret_key}")
    assert get(f"{lakefs.url}/api/v1/repositories", **keys) == 200
    assert get(f"{lakefs.url}/api/v1/repositories") == 401


def test_lakefs_keeps_its_data_over_a_crash(lakefs: Server) -> None:
    lakefs.kill()
    assert not lakefs.running
    lakefs.start()
    assert get(f"{lakefs.url}/_health") == 200


def test_conductor_lists_its_task_definitions(conductor: Server) -> None:
    assert get(f"{conductor.facts['api']}/metadata/taskdefs") == 200


def test_s3_refuses_a_request_without_keys(s3: Server) -> None:
    assert get(s3.url) == 403


@pytest.mark.spark
def test_spark_has_a_worker(spark_master: Server) -> None:
    with urllib3.PoolManager(retries=False, timeout=10.0) as pool:
        seen = pool.request("GET", f"{spark_master.facts['pages']}/json/").json()
    assert seen["url"] == spark_master.url
