"""What can be typed after `everyword`, and the help that teaches it."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any

from .. import __version__

__all__ = ["make_parser"]

SUMMARY = "AI chat agents that do not lose a word."

COMMANDS = """\
start here:
  everyword new mychat            a project that works: an agent, its test, and how to go on
  everyword dev                   try agents in a page: app.py of this folder, or a demo that needs no key
  everyword serve app.py          your app, for production; plain `uvicorn app:app` does as well

look, also while a server runs:
  everyword ls                    every conversation: running, stuck, failed, asking, waiting, idle
  everyword show chat/ann         one of them: its messages, its turns, how each ended
  everyword tail chat/ann         the same, live
  everyword replay chat/ann       a turn once more, frame by frame, as any client saw it
  everyword doctor                is everything that is stored as it should be?
  everyword export chat/ann       one agent as one file

change, while no server runs:
  everyword fork chat/ann ann-2   a copy up to a message, as a new agent
  everyword import FILE           an agent from its file
  everyword rebuild               everything beside the log, computed anew from it
  everyword gc                    delete what retention may, now
  everyword destroy chat ann      delete an agent for good

exit codes: 0 done; 1 done, and something is not as it should be; 2 not done, and why; 3 a server uses the file.
`everyword COMMAND --help` says more about one of them."""

Commands = Any
"""What argparse adds commands to; it has no public name."""


class _Layout(argparse.HelpFormatter):
    """Fills paragraphs to the width that there is, and leaves lists and examples as they were written."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.strip("\n").split("\n\n")
        return "\n\n".join(each if "\n  " in each else textwrap.fill(each, width) for each in paragraphs)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line; `run` says which module has the command."""
    parser = argparse.ArgumentParser("everyword", description=SUMMARY, epilog=COMMANDS, formatter_class=_Layout)
    parser.add_argument("--version", action="version", version=f"everyword {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="one of", help=argparse.SUPPRESS)
    for add in (
        _new,
        _dev,
        _serve,
        _ls,
        _show,
        _tail,
        _replay,
        _fork,
        _export,
        _import,
        _rebuild,
        _gc,
        _doctor,
        _destroy,
    ):
        add(commands)
    return parser


# -- start here --------------------------------------------------------------------------------------------------------


def _new(commands: Commands) -> None:
    new = commands.add_parser("new", **_help("a project that works", NEW))
    new.add_argument("folder", metavar="FOLDER", help="where to put it; its last part is the project's name")
    new.set_defaults(run="creating")


NEW = """\
Make a folder with an agent that needs no key, a test that passes, and a README that says how to go on. The folder must
be empty, or not be there yet.

examples:
  everyword new mychat && cd mychat && everyword dev
  everyword new .                     in the folder that you are in
"""


def _dev(commands: Commands) -> None:
    dev = commands.add_parser("dev", **_help("a page to try agents in", DEV))
    dev.add_argument("app", nargs="?", metavar="APP", help="file.py, file.py:name or module:name")
    _add_address(dev)
    dev.add_argument("--db", metavar="PATH", help="where the demo keeps its log (default: everyword.db)")
    dev.add_argument("--demo", action="store_true", help="the demo, although there is an app.py")
    dev.add_argument("--no-reload", dest="reload", action="store_false", help="do not start anew when a file changes")
    dev.set_defaults(run="serving:run_dev")


DEV = """\
Start a server with a page to try it in, and start it anew whenever a Python file changes: answers that were being
given go on. Without APP it serves the app.py of this folder, or a scripted demo agent that needs no key.

Then ask for a long story, kill the server in the middle of it (the command is printed), start it again, and watch the
page finish the sentence.

examples:
  everyword dev
  everyword dev app.py
  everyword dev my.package:app --port 0
"""


def _serve(commands: Commands) -> None:
    serve = commands.add_parser("serve", **_help("agents in production", SERVE))
    serve.add_argument("app", metavar="APP", help="file.py, file.py:name or module:name")
    _add_address(serve)
    serve.add_argument("--log-format", choices=("text", "json"), default="text", help="how log lines are written")
    serve.set_defaults(run="serving:run_serve")


SERVE = """\
Serve the agents of APP over HTTP and WebSockets, with the settings that we measured to be the fastest. APP is a
file (app.py), a file and a name in it (app.py:chat_app), or a module and a name (my.package:app). One process:
a database file has one owner.

examples:
  everyword serve app.py
  everyword serve my.package:app --host 0.0.0.0 --port 80
"""


# -- look --------------------------------------------------------------------------------------------------------------


def _ls(commands: Commands) -> None:
    ls = commands.add_parser("ls", **_help("every conversation, and how it stands", LS))
    ls.add_argument("pattern", nargs="*", metavar="PATTERN", help="a part of the name, or a pattern with * and ?")
    for word, meaning in STANDINGS.items():
        ls.add_argument(f"--{word}", action="store_true", help=meaning)
    ls.add_argument(
        "--sort", choices=["active", "name", "turns", "state"], default="active", help="(default: %(default)s)"
    )
    ls.add_argument("--reverse", action="store_true", help="the other way round")
    ls.add_argument("--limit", type=_count, default=50, metavar="N", help="so many, 0 for all (default: %(default)s)")
    ls.add_argument(
        "--stuck-after", default="5m", metavar="TIME", help="how long silence is no matter (default: %(default)s)"
    )
    _add_store(ls)
    ls.set_defaults(run="listing")


STANDINGS = {
    "running": "a turn is being answered",
    "stuck": "something should go on, and does not",
    "failed": "the last turn ended in error",
    "asking": "a call waits for a person or a page",
    "waiting": "something is put off until later",
    "idle": "none of these",
}

LS = """\
List the agents of a file, newest activity first. Works beside a running server.

  running   a turn is being answered
  stuck     something should go on and does not: no server runs, or nothing came for a while
  failed    the last turn ended in error
  asking    a tool call waits for a person's word or a page's answer
  waiting   a turn or a job is put off until later
  idle      nothing to do

examples:
  everyword ls
  everyword ls --failed --stuck
  everyword ls 'chat/*' --sort name --limit 0
  everyword ls --stuck --json | jq -r '.[].agent'
"""


def _show(commands: Commands) -> None:
    show = commands.add_parser("show", **_help("one conversation", SHOW))
    _add_agent(show)
    show.add_argument("-n", "--last", type=_count, metavar="N", help="only the last N messages")
    show.add_argument("--all", action="store_true", help="all versions and turns, and everything at full length")
    chosen = show.add_mutually_exclusive_group()
    chosen.add_argument("--turns", action="store_true", help="only the turns")
    chosen.add_argument("--messages", action="store_true", help="only the messages")
    chosen.add_argument("--state", action="store_true", help="only the agent's state, as JSON")
    _add_store(show)
    show.set_defaults(run="showing")


SHOW = """\
Show one conversation: how it stands, the messages that clients see, and its turns with how each of them ended. Works
beside a running server.

examples:
  everyword show chat/ann
  everyword show ann -n 4             the name alone will do when only one agent has it
  everyword show chat/ann --turns
  everyword show chat/ann --json | jq '.turns[] | select(.status == "error")'
"""


def _tail(commands: Commands) -> None:
    tail = commands.add_parser("tail", **_help("one conversation, live", TAIL))
    _add_agent(tail, "kind/name, or the agent's URL")
    tail.add_argument("--url", metavar="URL", help="read from this server, and not from a file")
    tail.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="sent to the server")
    tail.add_argument(
        "-n", "--lines", type=_count, default=4, metavar="N", help="messages before (default: %(default)s)"
    )
    tail.add_argument("--after", type=int, metavar="SEQ", help="begin behind this event; 0 tells the whole log")
    tail.add_argument("--until-idle", action="store_true", help="leave when no turn is open; 1 if the last one failed")
    _add_store(tail)
    tail.set_defaults(run="tailing")


TAIL = """\
Follow a conversation as it happens: text as it grows, tools as they run, how turns end. From the file beside a running
server, or from a server by its URL; Ctrl+C leaves. --json writes the events themselves, one per line.

examples:
  everyword tail chat/ann
  everyword tail chat/ann --url http://localhost:8787
  everyword tail https://example.org/agents/chat/ann --header 'authorization=Bearer …'
  everyword tail chat/ann --after 0 --until-idle --json > ann.jsonl
"""


def _replay(commands: Commands) -> None:
    replay = commands.add_parser("replay", **_help("a turn, as any client saw it", REPLAY))
    _add_agent(replay)
    replay.add_argument("turn", nargs="?", metavar="TURN", help="its number or its request id (default: the newest)")
    roles = ["live", "watching", "late", "reconnecting"]
    replay.add_argument("--as", dest="role", choices=roles, default="live", help="which client (default: %(default)s)")
    replay.add_argument("--at", type=_count, metavar="N", help="after how many chunks it comes, or is cut off")
    replay.add_argument("--back", type=_count, metavar="N", help="after how many chunks it is back (default: at once)")
    replay.add_argument("--speed", type=float, metavar="X", help="1 is as it was, 10 is faster (default: do not wait)")
    replay.add_argument("--text", action="store_true", help="tell it as `tail` does, not as frames")
    _add_store(replay)
    replay.set_defaults(run="replaying")


REPLAY = """\
Play a stored turn once more, to a client of our own, and print every frame that passes between the two, in short; with
--json as it is on the wire.

  live          who asked, and stayed
  watching      another tab, open all the time
  late          one that comes after --at chunks, or when all is over
  reconnecting  who asked, lost the connection after --at chunks, and came back after --back of them

It ends with whether the client shows the message that was stored; if not, the exit code is 1.

examples:
  everyword replay chat/ann
  everyword replay chat/ann 3 --as reconnecting --at 10 --back 40
  everyword replay chat/ann --text --speed 1
  everyword replay chat/ann --as late --json | jq -c .frame
"""


def _doctor(commands: Commands) -> None:
    doctor = commands.add_parser("doctor", **_help("is everything as it should be?", DOCTOR))
    doctor.add_argument("agents", nargs="*", metavar="AGENT", help="kind/name (default: all)")
    doctor.add_argument("--fix", action="store_true", help="compute anew what can be; no server may run")
    app = doctor.add_mutually_exclusive_group()
    app.add_argument("--app", metavar="APP", help="import this app as well (default: app.py, if there is one)")
    app.add_argument("--no-app", dest="app", action="store_const", const="", help="import no app")
    _add_store(doctor)
    doctor.set_defaults(run="doctoring")


DOCTOR = """\
Check a file: that SQLite finds no damage; and of every agent that each event can be read and fits behind those before
it, that nothing is missing but what retention took, that each turn's chunks fold to the message that it left, that
turns, messages and state are what the log says, and that work which is due will be looked at. Works beside a running
server.

Check an app: that it can be imported, that the models of its agents have their packages and keys, and that no agent is
stored under two kinds of one class, its own and one of its aliases. Run it with the environment variables that the
server has.

The exit code is 1 when something is wrong. What is computed from the log is mended by --fix; the log itself is not.

examples:
  everyword doctor
  everyword doctor chat/ann --json
  everyword doctor --fix
  everyword doctor --app my.package:app
"""


def _export(commands: Commands) -> None:
    export = commands.add_parser("export", **_help("one agent as one file", EXPORT))
    _add_agent(export)
    export.add_argument(
        "-o", "--output", metavar="FILE", help="(default: kind-name.everyword.gz; - is standard output)"
    )
    export.add_argument("--force", action="store_true", help="replace FILE")
    export.add_argument("--with-details", action="store_true", help="keep the texts of exceptions")
    _add_store(export)
    export.set_defaults(run="exporting:run_export")


EXPORT = """\
Write an agent, with all its sub-agents, to one file: lines of JSON with a digest, compressed when the name ends in .gz.
Works beside a running server. The texts of exceptions may hold secrets, and are left out unless you ask for them.

examples:
  everyword export chat/ann
  everyword export chat/ann -o - | head -1
  everyword export chat/ann -o ann.jsonl --force
"""


# -- change ------------------------------------------------------------------------------------------------------------


def _import(commands: Commands) -> None:
    importing = commands.add_parser("import", **_help("an agent from its file", IMPORT))
    importing.add_argument("file", metavar="FILE", help="what `everyword export` wrote")
    importing.add_argument("--as", dest="new", metavar="KIND/NAME", help="under another name")
    _add_store(importing)
    importing.set_defaults(run="exporting:run_import")


IMPORT = """\
Read an agent, with its sub-agents, into a store. The file is checked first: its digest, its version, and that every
log in it folds. An agent of the same name must not be there; importing the same file twice changes nothing, and an
import that was interrupted is finished. A turn that had not ended goes on when a server is started.

examples:
  everyword import chat-ann.everyword.gz
  everyword import chat-ann.everyword.gz --as chat/ann-copy --db other.db
"""


def _fork(commands: Commands) -> None:
    fork = commands.add_parser("fork", **_help("a copy up to a message, as a new agent", FORK))
    _add_agent(fork)
    fork.add_argument("new", metavar="NEW", help="a name, or kind/name")
    fork.add_argument("--at", metavar="MESSAGE", help="the id of the last message to copy (default: all)")
    _add_store(fork)
    fork.set_defaults(run="forking")


FORK = """\
Copy a conversation up to a message into an agent that is not there yet. The messages are copied, along the branch
that leads to that one; turns, state and jobs are not. `everyword show` has the ids.

examples:
  everyword fork chat/ann ann-2
  everyword fork chat/ann chat/retry --at msg-7
"""


def _rebuild(commands: Commands) -> None:
    rebuild = commands.add_parser("rebuild", **_help("recompute what is computed from the log", REBUILD))
    rebuild.add_argument("agents", nargs="*", metavar="AGENT", help="kind/name (default: all)")
    _add_store(rebuild)
    rebuild.set_defaults(run="rebuilding")


REBUILD = """\
Fold every agent's log and replace the tables that are computed from it: turns, messages, state and jobs. The log itself
is never changed. Also brings a file of an older everyword up to date.

examples:
  everyword rebuild
  everyword rebuild chat/ann chat/bob
"""


def _gc(commands: Commands) -> None:
    gc = commands.add_parser("gc", **_help("delete what retention may, now", GC))
    gc.add_argument(
        "--keep",
        default="24h",
        metavar="TIME",
        help="chunks of turns that ended since, states replaced since (default: %(default)s)",
    )
    gc.add_argument("--dry-run", action="store_true", help="only say what would be deleted")
    gc.add_argument("--shrink", action="store_true", help="give the freed space back to the disk")
    _add_store(gc)
    gc.set_defaults(run="collecting")


GC = """\
Delete the chunks of turns that ended more than --keep ago, and states that were replaced by then; say what that freed.
Messages, turns, how they ended and the last state stay: chunks are only there for who joins or replays a turn.
A running server does this by itself.

examples:
  everyword gc --dry-run
  everyword gc --keep 7d
  everyword gc --keep 0s --shrink
"""


def _destroy(commands: Commands) -> None:
    destroy = commands.add_parser("destroy", **_help("delete an agent for good", DESTROY))
    destroy.add_argument("agent", metavar="KIND", help="the agent's kind, or kind/name")
    destroy.add_argument("name", nargs="?", metavar="NAME", help="the agent's name")
    destroy.add_argument("--yes", action="store_true", help="do not ask")
    _add_store(destroy)
    destroy.set_defaults(run="destroying")


DESTROY = """\
Delete an agent with all that it stored, its own database and every agent below it. Asks first, unless --yes is given.
While a server runs, let it do that: `await app.destroy(Chat, "ann")`.

examples:
  everyword destroy chat ann
  everyword destroy chat/ann --yes
"""


# -- in common ---------------------------------------------------------------------------------------------------------


def _help(summary: str, text: str) -> dict[str, Any]:
    description, _, examples = text.partition("examples:\n")
    return {
        "help": summary,
        "description": description.strip(),
        "epilog": f"examples:\n{examples}",
        "formatter_class": _Layout,
    }


def _add_agent(parser: argparse.ArgumentParser, meaning: str = "kind/name, or the name alone") -> None:
    parser.add_argument("agent", metavar="AGENT", help=meaning)


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--db", metavar="PATH", default="everyword.db", help="the log (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="for scripts")


def _add_address(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8787, help="0 chooses a free one (default: %(default)s)")


def _count(given: str) -> int:
    number = int(given)
    if number < 0:
        raise ValueError
    return number
