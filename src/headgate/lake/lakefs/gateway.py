"""How Hadoop, and Spark with it, reaches a repository through lakeFS's S3 gateway."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from headgate.lake.lakefs.client import Endpoint

_REGION = "us-east-1"
"""The gateway has none; without any, the client library asks the network for one."""


def s3a_options(endpoint: Endpoint, repository: str) -> Mapping[str, str]:
    """Options of Hadoop for `s3a://REPOSITORY/REF/PATH`. They hold for this repository alone: other buckets of a job
    stay where they are."""
    parts = urlsplit(endpoint.name)
    of_bucket = {
        "endpoint": f"{parts.scheme}://{parts.netloc}",
        "endpoint.region": _REGION,
        "path.style.access": "true",
        "connection.ssl.enabled": str(parts.scheme == "https").lower(),
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "access.key": endpoint.access_key_id,
        "secret.key": endpoint.secret_access_key,
    }
    return {f"fs.s3a.bucket.{repository}.{name}": value for name, value in of_bucket.items()}
