"""Keep a graph fast, small and right: beside its writers and readers, at any time.

`indices` and `optimize` change how rows are stored and never which; `leases` and `retention` say what readers can still
ask for, `cleanup` removes the rest; `verify` walks everything, `repair` explains what is wrong; `runs` lets one run of
upkeep at a time.
"""
