"""The `floe` command: its sub-commands, and what becomes of errors.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | an error, told in one message on standard error; `--debug` adds the traceback |
| 2 | the command was not understood |
| 130 | stopped with Ctrl-C |
| 141 | whoever read the output went away, as `head` does |
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from difflib import get_close_matches
from importlib.abc import MetaPathFinder
from textwrap import indent
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperGroup

import floe
from floe.cli.advice import to_type
from floe.cli.commands import demo, doctor, head, history, load, ls, scan, show
from floe.cli.output import complaints
from floe.errors import FloeError

__all__ = ["app", "main", "run"]

STOPPED: Final = 130
NOBODY_READS: Final = 141


_ELSEWHERE: Final = {
    "sql": "SQL runs on Spark: floe.spark(lake=…).sql(…).",
    "query": "Rows are read with scan --where; SQL runs on Spark.",
    "select": "Rows are read with scan --where; SQL runs on Spark.",
    "cat": "Rows are read with scan.",
    "create": "load FILES TABLE --create makes a table; an empty one is made from Python: lake.create_table(…).",
    "expire": "Snapshots are expired from Python: table.expire(older_than='7d').apply().",
    "rollback": "A table is rolled back from Python: table.rollback(snapshot).",
    "tag": "Tags are made from Python: table.create_tag('v1').",
    "branch": "Branches are made from Python: table.create_branch('audit').",
    "diff": "Changes are read from Python: table.changes(since=snapshot).",
    "drop": "Tables are dropped from Python: lake.drop_table('db.orders').",
}
"""What others have as commands, and where it is."""


class _NoPandas(MetaPathFinder):
    """Hides pandas: pyarrow imports it, if it is there, to make arrays; no command needs it, and it is slow."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


class _Commands(TyperGroup):
    """The sub-commands; errors of Floe end in a message, not in a traceback."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was typed; a name that is none is told with those there are."""
        names = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in names:
            near = [f"Did you mean {one}?" for one in get_close_matches(args[0], names, n=1)]
            told = [_ELSEWHERE[args[0]]] if args[0] in _ELSEWHERE else near
            ctx.fail(" ".join([f"There is no command {args[0]!r}.", *told, f"Commands are {', '.join(names)}."]))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was typed."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except FloeError as error:
            _complain(ctx, error)
        except KeyboardInterrupt:
            complaints().line("stopped")
            raise typer.Exit(STOPPED) from None
        except BrokenPipeError:
            _read_no_more()
            raise typer.Exit(NOBODY_READS) from None
        except Exception as error:
            if type(error).__module__.startswith(("typer.", "click.")):
                raise  # a command line that was not understood, or a way to end
            _complain(ctx, _defect(error))
        else:
            return result
        raise typer.Exit(1)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Apache Iceberg tables from the command line.",
    epilog="A table is named as warehouse/db/orders, as lake.db.orders with lake from floe.toml, or with --catalog.",
)
COMMANDS: Final = (
    (ls, ls.ls),
    (show, show.show),
    (history, history.history),
    (head, head.head),
    (scan, scan.scan),
    (load, load.load),
    (doctor, doctor.doctor),
    (demo, demo.demo),
)
for module, command in COMMANDS:
    app.command(epilog=f"\b\nExamples:\n{indent(module.EXAMPLES.strip(), '  ')}")(command)


def _version(value: bool) -> None:
    if value:
        sys.stdout.write(f"floe {floe.__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="FLOE_DEBUG", help="Show the traceback of an error.")
    ] = False,
) -> None:
    context.obj = {"debug": debug}


def main() -> NoReturn:
    """What the script `floe` runs.

    The process ends without the interpreter's own end: threads of Arrow may still be reading ahead in a Python stream,
    and would bring down an interpreter that is going away.
    """
    code = run()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads, or it is closed
            stream.flush()
    os._exit(code)


def run() -> int:
    """Run the command that was typed, and give its exit code."""
    sys.meta_path.insert(0, _NoPandas())
    try:
        app(prog_name="floe")
    except KeyboardInterrupt:  # before or after a command's own time
        return STOPPED
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _complain(context: typer.Context, error: FloeError) -> None:
    out = complaints()
    if (context.obj or {}).get("debug"):
        out.line("".join(traceback.format_exception(error)).rstrip())
        return
    hint, error.hint = error.hint, None
    out.line(f"{out.paint('error:', 'red bold')} {error}")
    for note in getattr(error, "__notes__", ()):
        out.line(note)
    if hint:
        out.line(f"{out.paint('hint:', 'cyan bold')} {to_type(hint)}")


def _defect(error: Exception) -> FloeError:
    """An error that nobody expected, as one that says so."""
    told = FloeError(
        f"unexpected {type(error).__name__}: {error}", hint="this is a defect of Floe; --debug shows where it happened"
    )
    told.__cause__ = error
    return told


def _read_no_more() -> None:
    """Let the interpreter's last flush go nowhere, for nobody reads it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    main()
