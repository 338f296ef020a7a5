"""Who hands out attempts.

`local` hands them out from a SQLite file on this machine; `machine` opens it together with the lakes and the records
that the settings name.
"""
