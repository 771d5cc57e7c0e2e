"""Random commits, with rivals in between, against a plain model of which files a table has."""

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from floe.commit.change import BLIND, Change, Reads
from floe.commit.operations.cherry_pick import CherryPick
from floe.commit.operations.data_changes import (
    DeleteFiles,
    FastAppend,
    MergeAppend,
    Overwrite,
    ReplacePartitions,
    RowDelta,
)
from floe.commit.operations.rewrite import RewriteFiles, RewriteManifests
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.updates import UpgradeFormatVersion
from floe.sql.filters import parse_filter
from helpers.snapshot_invariants import check_all
from helpers.tables import Box, data_file, equality_deletes, name_of, new_table, position_deletes, vector

days = st.integers(0, 3)
rivals = st.lists(days, max_size=2)


@dataclass
class Known:
    """What the model knows of a file: its age, once it is known, and its row ids."""

    file: DataFile
    number: int | None = None
    first_row_id: int | None = None


class Commits(RuleBasedStateMachine):
    """A table, and a dictionary of the files it should have."""

    def __init__(self) -> None:
        super().__init__()
        self.box = Box(new_table(2))
        self.data: dict[str, Known] = {}
        self.deletes: dict[str, Known] = {}
        self.names = 0

    @initialize(version=st.integers(1, 3), count=st.integers(2, 5), enabled=st.booleans(), bits=st.integers(12, 20))
    def begin(self, version: int, count: int, enabled: bool, bits: int) -> None:
        properties = {
            "commit.manifest.min-count-to-merge": str(count),
            "commit.manifest-merge.enabled": str(enabled).lower(),
            "commit.manifest.target-size-bytes": str(2**bits),
        }
        self.box = Box(new_table(version, properties=properties))

    # helpers ------------------------------------------------------------------------------------------------------

    def name(self) -> str:
        self.names += 1
        return f"memory:wh/t/{self.names:04}"

    def new(self, day: int, rows: int = 10) -> DataFile:
        return data_file(self.name(), day, rows=rows, ids=(self.names * 100, self.names * 100 + rows - 1))

    def some(self, draw: Any, *, least: int = 1) -> list[DataFile]:
        names = draw.draw(st.lists(st.sampled_from(sorted(self.data)), min_size=least, max_size=4, unique=True))
        return [self.data[name].file for name in names]

    def reads(self, files: list[DataFile]) -> Reads:
        return Reads(self.box.head().snapshot_id, files=frozenset(file.file_path for file in files))

    def commit(self, change: Change, added: list[DataFile], removed: list[DataFile], others: list[int]) -> None:
        """Commits a change after attempts that lost to appends of others."""
        other_files = [self.new(day) for day in others]
        self.box.commit(change, *(FastAppend([file]) for file in other_files))
        for file in (*other_files, *added):
            (self.data if file.is_data else self.deletes)[name_of(file)] = Known(file)
        for file in removed:
            (self.data if file.is_data else self.deletes).pop(name_of(file), None)

    def of_day(self, day: int) -> list[DataFile]:
        return [known.file for known in (*self.data.values(), *self.deletes.values()) if known.file.partition == (day,)]

    # rules --------------------------------------------------------------------------------------------------------

    @rule(fast=st.booleans(), where=st.lists(days, min_size=1, max_size=3), others=rivals)
    def append(self, fast: bool, where: list[int], others: list[int]) -> None:
        files = [self.new(day) for day in where]
        self.commit((FastAppend if fast else MergeAppend)(files), files, [], others)

    @rule(day=days, others=rivals)
    def delete_a_day(self, day: int, others: list[int]) -> None:
        change = DeleteFiles(where=parse_filter(f"day = {day}"))
        self.commit(change, [], [], others)
        for file in self.of_day(day):
            (self.data if file.is_data else self.deletes).pop(name_of(file))

    @precondition(lambda self: self.data)
    @rule(draw=st.data(), others=rivals, by_path=st.booleans())
    def delete_files(self, draw: Any, others: list[int], by_path: bool) -> None:
        files = self.some(draw)
        how = {"paths": [file.file_path for file in files]} if by_path else {"files": files}
        self.commit(DeleteFiles(**how), [], files, others)

    @precondition(lambda self: self.data)
    @rule(draw=st.data(), others=rivals)
    def copy_on_write(self, draw: Any, others: list[int]) -> None:
        files = self.some(draw)
        new = [self.new(file.partition[0], rows=9) for file in files]
        self.commit(Overwrite(removed=files, added=new, reads=self.reads(files)), new, files, others)

    @rule(day=days, others=rivals, count=st.integers(0, 2))
    def overwrite_a_day(self, day: int, others: list[int], count: int) -> None:
        new = [self.new(day) for _ in range(count)]
        self.commit(Overwrite(where=parse_filter(f"day = {day}"), added=new, reads=BLIND), [], [], others)
        for file in self.of_day(day):
            (self.data if file.is_data else self.deletes).pop(name_of(file))
        self.data |= {name_of(file): Known(file) for file in new}

    @rule(where=st.lists(days, min_size=1, max_size=2), others=rivals)
    def replace_partitions(self, where: list[int], others: list[int]) -> None:
        new = [self.new(day) for day in where]
        self.commit(ReplacePartitions(new), [], [], others)
        for day in where:
            for file in self.of_day(day):
                (self.data if file.is_data else self.deletes).pop(name_of(file))
        self.data |= {name_of(file): Known(file) for file in new}

    @precondition(lambda self: self.data)
    @rule(draw=st.data(), others=rivals, old=st.booleans())
    def compact(self, draw: Any, others: list[int], old: bool) -> None:
        day = draw.draw(st.sampled_from(sorted({known.file.partition[0] for known in self.data.values()})))
        files = [known.file for known in self.data.values() if known.file.partition == (day,)]
        new = self.new(day, rows=sum(file.record_count for file in files))
        number = self.box.head().sequence_number if old and self.box.metadata.format_version > 1 else None
        change = RewriteFiles(removed=files, added=[new], reads=self.reads(files), data_sequence_number=number)
        before = self.rows()
        self.commit(change, [new], files, others)
        assert self.rows() == before + 10 * len(others)

    @rule(others=rivals)
    def rewrite_manifests(self, others: list[int]) -> None:
        self.commit(RewriteManifests(), [], [], others)

    @precondition(lambda self: self.data and self.box.metadata.format_version > 1)
    @rule(draw=st.data(), others=rivals, also_rows=st.booleans())
    def delete_rows(self, draw: Any, others: list[int], also_rows: bool) -> None:
        files = self.some(draw)
        new, old = [], []
        for file in files:
            if self.box.metadata.format_version == 2:
                new.append(position_deletes(self.name(), file.partition, target=file.file_path))
                continue
            new.append(vector(file.file_path, file.partition, puffin=self.name() + ".puffin"))
            old += [k.file for k in self.deletes.values() if k.file.target_path == file.file_path]
        new += [self.new(files[0].partition[0])] if also_rows else []
        self.commit(RowDelta(new, removed=old, reads=self.reads([])), new, old, others)

    @precondition(lambda self: self.box.metadata.format_version > 1)
    @rule(day=days, others=rivals, also_rows=st.booleans())
    def upsert(self, day: int, others: list[int], also_rows: bool) -> None:
        new = [equality_deletes(self.name(), day), *([self.new(day)] if also_rows else [])]
        self.commit(RowDelta(new, reads=BLIND), new, [], others)

    @rule(day=days, others=rivals)
    def stage_and_pick(self, day: int, others: list[int]) -> None:
        new = [self.new(day)]
        staged = self.box.commit(FastAppend(new, staged=True))
        assert staged is not None
        self.commit(FastAppend([between := self.new(day)]), [between], [], [])
        self.commit(CherryPick(staged.snapshot_id), new, [], others)

    @precondition(lambda self: self.box.metadata.format_version < 3)
    @rule()
    def upgrade(self) -> None:
        self.box.apply(UpgradeFormatVersion(self.box.metadata.format_version + 1))

    def rows(self) -> int:
        return sum(e.data_file.record_count for e in self.box.live().values() if e.data_file.is_data)

    # what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def the_table_is_sound(self) -> None:
        check_all(self.box)

    @invariant()
    def the_files_are_those_of_the_model(self) -> None:
        live = self.box.live() if self.box.metadata.current_snapshot else {}
        found = {name: entry for name, entry in live.items() if entry.data_file.is_data}
        assert found.keys() == self.data.keys()
        for name, entry in found.items():
            known = self.data[name]
            assert replace(entry.data_file, first_row_id=None) == known.file
            if known.number is not None:
                assert entry.sequence_number == known.number
            known.number = entry.sequence_number
            if known.first_row_id is not None:
                assert entry.data_file.first_row_id == known.first_row_id
            known.first_row_id = entry.data_file.first_row_id

    @invariant()
    def deletes_are_there_as_long_as_they_apply(self) -> None:
        live = self.box.live() if self.box.metadata.current_snapshot else {}
        numbers = [entry.sequence_number for entry in live.values() if entry.data_file.is_data]
        found = {name for name, entry in live.items() if not entry.data_file.is_data}
        assert found <= self.deletes.keys()
        for name in self.deletes.keys() - found:
            known = self.deletes[name]
            target = known.file.target_path
            lost = target is not None and target not in self.data
            outdated = known.number is not None and all(known.number < number for number in numbers)
            assert lost or outdated, name
            del self.deletes[name]
        for name in found:
            self.deletes[name].number = live[name].sequence_number


Commits.TestCase.settings = settings(max_examples=20, stateful_step_count=10)
TestCommits = Commits.TestCase
