"""The `floe` command: the table of its commands, and the report of errors.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | an error, reported in one message on standard error; `--debug` adds the traceback |
| 2 | the command line is not valid |
| 130 | interrupted with Ctrl-C |
| 141 | the reader of the output closed it, as `head` does |
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from importlib.abc import MetaPathFinder
from textwrap import indent
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command

import floe
from floe.errors import FloeError
from floe.show.terminal import stderr

COMMANDS: Final = {
    "ls": "List the namespaces, tables and views of a catalog.",
    "show": "Show the columns, layout, snapshot and properties of a table.",
    "history": "Show the snapshots of a table, newest first.",
    "head": "Show the first rows of a table.",
    "scan": "Read the rows of a table.",
    "load": "Load files into a table, in one commit.",
    "doctor": "Check the installation, a catalog or a table.",
    "demo": "Show what Floe can do, on a new table.",
}
"""The commands with the first line of their help; `floe --help` prints it without loading their modules."""

_NOT_COMMANDS: Final = {
    "sql": "SQL runs on Spark: floe.spark(lake=…).sql(…).",
    "query": "Read rows with scan --where; SQL runs on Spark.",
    "select": "Read rows with scan --where; SQL runs on Spark.",
    "cat": "Read rows with scan.",
    "create": "load FILES TABLE --create creates a table; create an empty one from Python: lake.create_table(…).",
    "expire": "Expire snapshots from Python: table.expire(older_than='7d').apply().",
    "rollback": "Roll back from Python: table.rollback(snapshot).",
    "tag": "Create tags from Python: table.create_tag('v1').",
    "branch": "Create branches from Python: table.create_branch('audit').",
    "diff": "Read changes from Python: table.changes(since=snapshot).",
    "drop": "Drop tables from Python: lake.drop_table('db.orders').",
}
"""Names that other tools have as commands, and what to use instead."""

EXIT_INTERRUPTED: Final = 130
EXIT_CLOSED_PIPE: Final = 141
_SETTINGS: Final = {"help_option_names": ["-h", "--help"]}


class _Commands(TyperGroup):
    """The group of commands: imports the module of a command when it is used, and reports errors as one message."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name, made from the function of that name in the module of that name."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"floe.cli.{cmd_name}")
        command = typer.Typer(
            add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, context_settings=_SETTINGS
        )
        examples = f"\b\nExamples:\n{indent(module.EXAMPLES.strip(), '  ')}"
        command.command(cmd_name, epilog=examples)(getattr(module, cmd_name))
        return get_command(command)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands in the help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was typed; an unknown name fails with the names that exist."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            similar = [f"Did you mean {name}?" for name in get_close_matches(args[0], COMMANDS, n=1)]
            advice = [_NOT_COMMANDS[args[0]]] if args[0] in _NOT_COMMANDS else similar
            ctx.fail(" ".join([f"There is no command {args[0]!r}.", *advice, f"Commands are {', '.join(COMMANDS)}."]))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was typed."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except FloeError as error:
            _report(ctx, error)
        except KeyboardInterrupt:
            stderr().line("interrupted")
            raise typer.Exit(EXIT_INTERRUPTED) from None
        except BrokenPipeError:
            _discard_stdout()
            raise typer.Exit(EXIT_CLOSED_PIPE) from None
        except Exception as error:
            if type(error).__module__.startswith(("typer.", "click.")):
                raise  # a command line that is not valid, or an exit
            _report(ctx, _unexpected(error))
        else:
            return result
        raise typer.Exit(1)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=_SETTINGS,
    help="Apache Iceberg tables from the command line.",
    epilog="A table is named by its path (warehouse/db/orders), by a catalog of floe.toml (lake.db.orders), or by "
    "--catalog and its name.",
)


def _print_version(value: bool) -> None:
    if value:
        sys.stdout.write(f"floe {floe.__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="FLOE_DEBUG", help="Show the traceback of an error.")
    ] = False,
) -> None:
    context.obj = {"debug": debug}


class _NoPandas(MetaPathFinder):
    """Hides pandas, which pyarrow imports if it is installed: no command needs it, and its import is slow."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def main() -> NoReturn:
    """Run the command that was typed, and end the process; the entry point of the script `floe`.

    The process ends without finalizing the interpreter: Arrow threads may still read ahead in a Python stream, and
    would crash an interpreter that shuts down.
    """
    code = run()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the pipe or the stream is closed
            stream.flush()
    os._exit(code)


def run() -> int:
    """Run the command that was typed, and return its exit code."""
    sys.meta_path.insert(0, _NoPandas())
    try:
        app(prog_name="floe")
    except KeyboardInterrupt:  # before the command started, or after it ended
        return EXIT_INTERRUPTED
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


# Errors ---------------------------------------------------------------------------------------------------------------


def _report(context: typer.Context, error: FloeError) -> None:
    out = stderr()
    if (context.obj or {}).get("debug"):
        out.line("".join(traceback.format_exception(error)).rstrip())
        return
    hint, error.hint = error.hint, None
    out.line(f"{out.paint('error:', 'red bold')} {error}")
    for note in getattr(error, "__notes__", ()):
        out.line(note)
    if hint:
        out.line(f"{out.paint('hint:', 'cyan bold')} {command_line_hint(hint)}")


def _unexpected(error: Exception) -> FloeError:
    report = FloeError(
        f"unexpected {type(error).__name__}: {error}", hint="this is a defect of Floe; --debug shows where it happened"
    )
    report.__cause__ = error
    return report


def _discard_stdout() -> None:
    """Redirect standard output to nowhere, so that the interpreter's last flush does not fail on the closed pipe."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def _quoted_texts(texts: str) -> str:
    return ",".join(re.findall(r"'([^']*)'", texts))


_AS_OPTIONS: Final[tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...]] = (
    (r"pass merge_schema=True", "use --merge-schema"),
    (r", or pass only_matching=False", ""),
    (r"widen the filter, leave", "widen the filter, or leave"),
    (r'write on=\["(\w+)"\].*', r"name them with --on, as in --on \1"),
    (r", or pass case_sensitive=False", ""),
    (r"open it with prefixes=\{'([^']*)': '([^']*)'\}", r"open it with -O prefixes=\1=\2"),
    (r"open it with roots=\[([^\]]*)\]", lambda match: f"open it with -O roots={_quoted_texts(match[1])}"),
    (r"open the catalog with warehouse=….*", "name the folder with -O warehouse=FOLDER"),
    (r", since it was loaded: refresh\(\) it", ""),
    (r"make it first: create_namespace\(.*\)", "--create --yes creates it"),
    (r"it is a view: use view\(\)", "it is a view: floe show describes it"),
)


def command_line_hint(hint: str) -> str:
    """A hint that names arguments of Python functions, with the options of the command line instead.

    >>> command_line_hint("leave extra out, or pass merge_schema=True to add it")
    'leave extra out, or use --merge-schema to add it'
    >>> command_line_hint("the table was moved: open it with prefixes={'/old/t': '/new/t'}")
    'the table was moved: open it with -O prefixes=/old/t=/new/t'
    >>> command_line_hint("if you trust this table, open it with roots=['/wh', '/bulk']")
    'if you trust this table, open it with -O roots=/wh,/bulk'
    """
    for pattern, replacement in _AS_OPTIONS:
        hint = re.sub(pattern, replacement, hint)
    return hint


if __name__ == "__main__":
    main()
