"""A process that commits to one table for ever, and writes down what it means to do and what was acknowledged.

Everything it does is told by rows: each append has ids of its own, so that a reader can say of every append and every
delete whether it is in the table, and how often. The journal is on disk before the commit is begun and before anybody
hears that it is done, so that it is right whenever the process is killed.

Run as a program, this starts such processes: each line of its input (`number generation`) starts one, and its output
tells `pid number generation` of each, and `number outcome` of each commit. Ended processes are left as they are until
the program ends, so that no process id means another one meanwhile.
"""

import os
import random
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import floe
from floe import Lake, Table
from floe.errors import CommitStateUnknown, FloeError
from floe.spec.manifests.entries import DataFile
from floe.storage.local import LocalStorage
from helpers.fault_files import DAY, put_data, put_positions, put_vector

TABLE = "db.soak"
PROPERTIES = {
    "commit.retry.num-retries": 100,
    "commit.retry.min-wait-ms": 5,
    "commit.retry.max-wait-ms": 400,
    "commit.manifest.min-count-to-merge": 20,
}
_GENERATION = 1_000_000
_NUMBER = 1_000 * _GENERATION


def connect(uri: str, folder: str) -> Lake:
    """The lake, as every process opens it."""
    if uri == "files":
        return floe.connect(f"{folder}/warehouse")
    return floe.connect(uri, warehouse=f"{folder}/warehouse", durable=False)


@dataclass
class Own:
    """A file that this process has appended: two rows, of which it may have deleted the second."""

    file: DataFile
    ids: tuple[int, ...]
    whole: bool = True


class Journal:
    """Lines that are on disk when the call returns."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, *words: object) -> None:
        os.write(self._file, (" ".join(str(word) for word in words) + "\n").encode())
        os.fdatasync(self._file)


class Worker:
    """One process: `number` is its place, `generation` how often it was started there."""

    def __init__(self, uri: str, folder: str, number: int, generation: int) -> None:
        self.number, self.generation = number, generation
        self.chance = random.Random(f"{number}.{generation}")
        self.journal = Journal(f"{folder}/journal-{number}-{generation}.txt")
        self.reasons = Journal(f"{folder}/reasons-{number}-{generation}.txt")
        self.storage = LocalStorage(durable=False)
        self.lake = connect(uri, folder)
        self.table = self.lake.table(TABLE)
        self.data = f"{self.table.location}/data"
        self.count = 0
        self.own: list[Own] = []

    def run(self) -> None:
        """Works until it is killed."""
        actions: list[tuple[Callable[[], None], int]] = [
            (self.append, 60),
            (self.delete_rows, 10),
            (self.rewrite, 8),
            (self.set_property, 6),
            (self.tag, 6),
            (self.expire, 5),
            (self.add_column, 2),
            (self.rewrite_manifests, 3),
        ]
        while True:
            (action,) = self.chance.choices([a for a, _ in actions], [weight for _, weight in actions])
            self.count += 1
            action()

    def tried(self, what: str, detail: object, action: Callable[[Table], object]) -> bool:
        """Does something, and writes down how it went."""
        self.journal.write("intent", what, detail)
        outcome = "ack"
        try:
            action(self.table)
        except CommitStateUnknown:
            outcome = "unknown"
        except FloeError as error:
            outcome = f"failed-{type(error).__name__}"
            self.reasons.write(what, detail, error)
        except Exception:
            outcome = "broken-" + "|".join(traceback.format_exc().splitlines()[-6:]).replace(" ", "_")
        self.journal.write(outcome, what, detail)
        _tell(self.number, outcome[:200])
        return outcome == "ack"

    def append(self) -> None:
        first = self.number * _NUMBER + self.generation * _GENERATION + 2 * self.count
        ids = (first, first + 1)
        file = put_data(self.storage, f"{self.data}/{first}.parquet", ids, DAY + self.number % 4)
        if self.tried("append", first, lambda t: t.append_files([file], fast=self.chance.random() < 0.5)):
            self.own.append(Own(file, ids))

    def delete_rows(self) -> None:
        whole = [one for one in self.own if one.whole]
        if not whole:
            return self.append()
        one = self.chance.choice(whole)
        put, end = (put_vector, "puffin") if self.table.format_version > 2 else (put_positions, "parquet")
        deletes = put(self.storage, f"{self.data}/{one.ids[0]}-{self.count}-gone.{end}", one.file, (1,))
        one.whole = False
        self.table.refresh()
        self.tried("delete", one.ids[1], lambda t: t.row_delta(deletes=[deletes], read=f"id = {one.ids[1]}"))
        return None

    def rewrite(self) -> None:
        whole = [one for one in self.own if one.whole and len(one.ids) == 2]
        if len(whole) < 2:
            return self.append()
        pair = self.chance.sample(whole, 2)
        ids = tuple(sorted(id_ for one in pair for id_ in one.ids))
        path = f"{self.data}/{self.number}-{self.generation}-{self.count}-rewritten.parquet"
        file = put_data(self.storage, path, ids, DAY + self.number % 4)
        for one in pair:
            one.whole = False  # whatever becomes of it, these files are not touched again
        self.table.refresh()
        self.tried("rewrite", path, lambda t: t.rewrite_files([one.file for one in pair], [file]))
        return None

    def set_property(self) -> None:
        self.tried("property", self.count, lambda t: t.set_properties({f"writer-{self.number}": self.count}))

    def tag(self) -> None:
        name = f"tag-{self.number}"
        self.table.refresh()
        if name in self.table.refs:
            self.tried("untag", name, lambda t: t.drop_tag(name))
        else:
            self.tried("tag", name, lambda t: t.create_tag(name))

    def expire(self) -> None:
        self.tried("expire", self.count, lambda t: t.expire(older_than="1ms", retain_last=30).apply())

    def add_column(self) -> None:
        name = f"c_{self.number}_{self.generation}_{self.count}"
        self.table.refresh()
        self.tried("column", name, lambda t: t.evolve().add_column(name, "string").commit())

    def rewrite_manifests(self) -> None:
        self.tried("manifests", self.count, lambda t: t.rewrite_manifests())


def _tell(*words: object) -> None:
    """One line of output; short ones are not mixed with those of others."""
    os.write(1, (" ".join(str(word) for word in words) + "\n").encode())


def _work(uri: str, folder: str, number: int, generation: int) -> None:
    """What a process does; whatever ends it but a kill is written down."""
    try:
        Worker(uri, folder, number, generation).run()
    except BaseException:
        Path(f"{folder}/broken-{number}-{generation}.txt").write_text(traceback.format_exc())
        _tell(number, "ended")


def _serve(uri: str, folder: str) -> None:
    for line in sys.stdin:
        number, generation = map(int, line.split())
        pid = os.fork()
        if not pid:
            _work(uri, folder, number, generation)
            os._exit(1)
        _tell(pid, number, generation)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
