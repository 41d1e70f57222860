"""Run a PostgreSQL until SIGTERM or Ctrl-C, and print its URL."""

from __future__ import annotations

import argparse
import signal
import sys

from tests.postgres.server import OwnPostgres


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.postgres", description=__doc__)
    parser.add_argument("--durable", action="store_true", help="flush to the disk at every commit")
    parser.add_argument("--tcp", action="store_true", help="print the URL of its port, not that of its Unix socket")
    parser.add_argument("settings", nargs="*", metavar="NAME=VALUE", help="a setting of PostgreSQL: fsync=on")
    given = parser.parse_args(arguments)
    ends = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    settings = dict(each.split("=", 1) for each in given.settings)
    server = OwnPostgres.started(settings, durable=given.durable)
    sys.stdout.write(f"{server.tcp_url if given.tcp else server.url}\n")
    sys.stdout.flush()
    signal.sigwait(ends)
    server.close()


if __name__ == "__main__":
    main(sys.argv[1:])
