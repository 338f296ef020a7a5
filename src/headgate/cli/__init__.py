"""The `headgate` command: one file a command group."""
