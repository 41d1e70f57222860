"""The log in one SQLite file: the default store. `store` is its face, everything else is behind it.

`writer` is the one thread that writes; it gathers what waits into one transaction and lets `transaction` and
`retention` fill it. `reader_pool` runs `queries` on two threads of their own. `connection`, `migrations`, `lock`
and `statements` make the file usable; the SQL itself is in `sql/`.
"""
