from tools.servers.fixtures import lakefs, lakefs_on_s3, lakefs_without_actions, s3

__all__ = ["lakefs", "lakefs_on_s3", "lakefs_without_actions", "s3"]
