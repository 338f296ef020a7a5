from tools.servers.fixtures import conductor, lakefs, lakefs_on_s3, lakefs_without_actions, s3, spark_master

__all__ = ["conductor", "lakefs", "lakefs_on_s3", "lakefs_without_actions", "s3", "spark_master"]
