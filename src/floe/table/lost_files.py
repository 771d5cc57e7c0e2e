"""What to do about a file that a table's metadata names and that is not there, or must not be touched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from floe.commit.pointer import TableState
from floe.errors import NoSuchFile, PathNotAllowed
from floe.storage.locations import is_below

__all__ = ["explaining_lost_files"]


@contextmanager
def explaining_lost_files(state: TableState, table: str) -> Iterator[None]:
    """Errors of missing files name the table, and say what is most likely behind it: it was moved, or it is gone.

    >>> from floe.commit.pointer import TableState
    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> moved = TableState(lake.create_table("db.t", "id bigint").metadata, "/new/t/metadata/v1.metadata.json")
    >>> with explaining_lost_files(moved, "db.t"):
    ...     raise NoSuchFile("no such file")
    Traceback (most recent call last):
    floe.errors.NoSuchFile: no such file (table: db.t); the table was moved: open it with
    prefixes={'memory:warehouse/db/t': '/new/t'}
    """
    try:
        yield
    except NoSuchFile as error:
        error.hint = error.hint or _advice(state)
        error.with_context(table=table)
        raise
    except PathNotAllowed as error:
        named = str(error.context.get("location", ""))
        if error.hint and (moved := _moved(state)) and is_below(named, state.metadata.location):
            error.hint = f"{moved}; {error.hint}"
        error.with_context(table=table)
        raise


def _advice(state: TableState) -> str:
    return _moved(state) or (
        "the snapshot may have expired, or the table may have been dropped, since it was loaded: refresh() it"
    )


def _moved(state: TableState) -> str | None:
    folder, inside, _ = state.location.rpartition("/metadata/")
    recorded = state.metadata.location
    if not inside or is_below(state.location, recorded):
        return None
    return f"the table was moved: open it with prefixes={{{recorded!r}: {folder!r}}}"
