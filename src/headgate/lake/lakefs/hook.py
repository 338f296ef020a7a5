"""The fence on the server: a Lua hook that runs inside the compare-and-swap of every merge.

It refuses a merge whose expected head is not the head the server is about to build on, every merge while the gate of
the target is shut, and direct commits on targets. It answers at once and never waits.
"""

from __future__ import annotations

import hashlib
import re

PROTOCOL = 1
"""Raised when an older hook could let something through that a newer one refuses."""

ACTIONS_PREFIX = "_lakefs_actions/"
"""Where lakeFS looks for hooks, on the source of a merge. Never part of a workspace."""

PATH = f"{ACTIONS_PREFIX}headgate_fence.yaml"
GATES_BRANCH = "headgate-gates"
EXPECTED_HEAD = "headgate.expected_head"

FENCED = "headgate fenced:"
GATE_SHUT = "headgate gate shut:"
GATE_UNREADABLE = "headgate gate unreadable:"
DIRECT = "headgate refuses a direct write:"

_SCRIPT = f"""\
local lakefs = require("lakefs")
local target = action.branch_id

-- The last record under the target's name, and the status of the last answer.
local function last_record()
  local last, after, more = nil, "", true
  while more do
    local status, page = lakefs.list_objects(action.repository_id, "{GATES_BRANCH}", after, target .. "/", "", 1000)
    if status ~= 200 then return nil, status end
    for _, object in ipairs(page.results) do last = object.path end
    more = page.pagination.has_more
    after = page.pagination.next_offset
  end
  return last, 200
end

if action.event_type == "pre-merge" then
  local expected = action.commit.metadata["{EXPECTED_HEAD}"]
  local head = action.commit.parents[1]
  if expected and expected ~= head then
    error("{FENCED} the head of " .. target .. " is " .. head .. ", not " .. expected)
  end
  local last, status = last_record()
  if status ~= 200 then error("{GATE_UNREADABLE} HTTP " .. status) end
  if last and string.sub(last, -5) ~= ".done" then error("{GATE_SHUT} " .. last) end
elseif string.sub(target, 1, 9) ~= "headgate-" then
  local last, status = last_record()
  if status ~= 200 and status ~= 404 then error("{GATE_UNREADABLE} HTTP " .. status) end
  if last then error("{DIRECT} write to " .. target .. " through a branch and a merge") end
end
"""

_ACTION = f"""\
# headgate-fence-protocol: {PROTOCOL}
# Written by `headgate fence install`; taken away by `headgate fence remove`. Do not edit: publishers compare its bytes.
name: headgate fence
description: One publisher wins, and nobody writes past it
on:
  pre-merge:
  pre-commit:
  pre-cherry-pick:
  pre-revert:
hooks:
  - id: headgate_fence
    type: lua
    properties:
      script: |
"""

BYTES = (_ACTION + "".join(f"        {line}".rstrip() + "\n" for line in _SCRIPT.splitlines())).encode()
CHECKSUM = hashlib.md5(BYTES, usedforsecurity=False).hexdigest()
"""As lakeFS tells it: the MD5 of the object."""


def protocol_of(found: bytes) -> int | None:
    """The protocol number a hook says it speaks; None if it is none of ours."""
    match = re.match(rb"# headgate-fence-protocol: (\d+)\n", found)
    return int(match[1]) if match else None
