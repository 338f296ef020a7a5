"""What the type checkers must accept, with the types they must see."""

from __future__ import annotations

from typing import assert_type

from headgate.publication import Abandonment, Decision, Head, HeadStatus, Ref, decide

head = Head(branch="main", ref=Ref("c1"), parents=(Ref("c0"),))
nobody = Abandonment(status=HeadStatus.FOREIGN, reason="a person's")
assert_type(head.only_parent, Ref | None)
assert_type(decide(head, input_ref=Ref("c0"), abandonment=nobody, changed=True), Decision)
