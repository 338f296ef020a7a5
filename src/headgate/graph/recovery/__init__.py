"""What becomes of a write that did not end: sidecars, their classification, roll forward, roll back.

`writers` names every kind of write, `sidecar` is the record and the branch's lock, `owner` says whose it is, `classify`
decides, `roll` acts, `heal` finds the ones that need it. `aside` looks at those that cannot be read, `staging` records
who has staged files.
"""
