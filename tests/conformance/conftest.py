from tools.servers.fixtures import lakefs, lakefs_without_actions

__all__ = ["lakefs", "lakefs_without_actions"]
