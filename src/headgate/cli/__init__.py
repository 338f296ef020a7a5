"""The `headgate` command: one file a command group.

`main` runs a command line; `registry` names every command and the module it lives in; `invocation` holds what the
global options said; `console` prints for people and for programs. The groups are imported when one of their commands
is used, never before.
"""
