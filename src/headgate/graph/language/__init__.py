"""What both languages share: source positions, problems with a caret, the nearest name, literals.

`diagnostics` finds and tells what is wrong with a text; `grammar` turns a lark failure into such a problem.
"""
