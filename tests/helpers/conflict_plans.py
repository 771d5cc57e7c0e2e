"""Operations made ready for the small table: what each kind declares, and the files that it would add and remove."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyroaring import BitMap64

from floe.commit.change import BLIND, Footprint, Reads, Writes
from floe.spec.expressions.dsl import col
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.manifests.entries import DataFile, FileContent
from helpers.conflict_table import DELETED_BY_VALUE, FILES, PARTS, ROOT, TableBench, path_of
from helpers.row_model import Aim, Effect, Kind


@dataclass(frozen=True)
class Plan:
    """An operation made ready: what it declares, and the partition that it clears wherever the files are."""

    kind: Kind
    aim: Aim
    footprint: Footprint
    label: str
    clears: int | None = None


class Planner:
    """Makes one operation ready."""

    def __init__(self, bench: TableBench, kind: Kind, aim: Aim, name: str) -> None:
        self.bench, self.kind, self.aim, self.name = bench, kind, aim, name
        self.make = bench.contents
        self.files = bench.start.files
        self.path = path_of(name)
        self.part = aim.row.part
        self.effect: Effect = kind.effect(bench.rows, aim)
        self.keyed = col("key") == aim.row.key
        self.in_part = col("part") == self.part

    def plan(self) -> Plan:
        return getattr(self, "_" + self.kind.name.lower().replace(" ", "_").replace(",", ""))()

    def _planned(
        self,
        writes: Writes,
        label: str,
        *,
        rows: Expression | None = None,
        row_wise: bool = False,
        copied: Iterable[str] = (),
        blind: bool = False,
        clears: int | None = None,
    ) -> Plan:
        reads = BLIND
        if not blind:
            reads = Reads(self.bench.start.head, rows, frozenset(copied), row_wise=row_wise)
        return Plan(self.kind, self.aim, Footprint(reads, writes), label, clears)

    # parts --------------------------------------------------------------------------------------------------------

    def _file(self, name: str) -> DataFile:
        return self.files[(path_of(name), None)].file

    def _new_rows(self) -> tuple[DataFile, ...]:
        """New and changed rows in new files, one for each partition."""
        rows = (*self.effect.changed, *self.effect.new)
        return tuple(
            self.make.data(
                f"{'AC'[part]}-{self.aim.tag}-{self._mark}-{part}", [row for row in rows if row.part == part]
            )
            for part in sorted({row.part for row in rows})
        )

    @property
    def _mark(self) -> str:
        return f"{self.kind.name}-{self.aim.row.id}".replace(" ", "-").replace(",", "")

    def _deletes(self, ids: Iterable[int], *, named: bool = True) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
        """Position deletes of some rows, and what these take the place of."""
        positions: dict[str, set[int]] = {}
        for id_ in ids:
            name = next(name for name, held in FILES.items() if id_ in held)
            positions.setdefault(path_of(name), set()).add(id_ - FILES[name].start)
        name = f"{self.aim.tag}-{self._mark}"
        if self.bench.version < 3:
            return tuple(
                self.make.position_deletes(
                    f"{name}-{n}", PARTS[path.removeprefix(f"{ROOT}/data/")[0]], {path: some}, named=named
                )
                for n, (path, some) in enumerate(positions.items())
            ), ()
        if not positions:
            return (), ()
        replaced = [one.file for one in self.files.values() if one.file.referenced_data_file in positions]
        return tuple(self.make.vectors(name, {p: some | self._before(p) for p, some in positions.items()})), tuple(
            replaced
        )

    def _before(self, path: str) -> frozenset[int]:
        """The positions that are deleted from the start."""
        deletes = [one.file for one in self.files.values() if one.file.content is FileContent.POSITION_DELETES]
        return frozenset().union(*(self.make.deleted_positions(delete, path) for delete in deletes))

    def _merge_on_read(self, rows: Expression, *, row_wise: bool, named: bool = True) -> Plan:
        deletes, replaced = self._deletes(self.effect.touched, named=named)
        added = (*self._new_rows(), *deletes)
        targets = {path_of(name) for name, ids in FILES.items() if self.effect.touched & set(ids)}
        label = "overwrite" if any(f.is_data for f in added) else "delete"
        positions = None
        if self.bench.table == "v3 from v2":  # where the vectors repeat what the files of the partition say
            positions = {path: self._positions(path) for path in targets}
        writes = Writes(added=added, removed=replaced, referenced=frozenset(targets), positions=positions)
        return self._planned(writes, label, rows=rows, row_wise=row_wise)

    def _positions(self, path: str) -> BitMap64:
        first = min(row.id for row in self.make.rows[path])
        return BitMap64(row.id - first for row in self.make.rows[path] if row.id in self.effect.touched)

    def _copied_rows(self) -> tuple[DataFile, ...]:
        """The rows of the file that stay as they are."""
        live = [self.bench.rows[id_] for id_ in FILES[self.name] if id_ in self.bench.rows]
        stay = [row for row in live if row.id not in self.effect.touched]
        return (self.make.data(f"{self.name}-{self.aim.tag}-{self._mark}-rest", stay),) if stay else ()

    def _copy_on_write(self, rows: Expression, *, row_wise: bool) -> Plan:
        if not self.effect.touched:
            return self._planned(Writes(), "overwrite", rows=rows, row_wise=row_wise)
        writes = Writes(added=(*self._copied_rows(), *self._new_rows()), removed=(self._file(self.name),))
        return self._planned(writes, "overwrite", rows=rows, row_wise=row_wise, copied=[self.path])

    # kinds --------------------------------------------------------------------------------------------------------

    def _append(self) -> Plan:
        return self._planned(Writes(added=self._new_rows()), "append", blind=True)

    def _insert_select(self) -> Plan:
        return self._planned(Writes(added=self._new_rows()), "append", rows=self.in_part)

    def _mor_delete(self) -> Plan:
        return self._merge_on_read(self.keyed, row_wise=True)

    def _mor_delete_coarse_file(self) -> Plan:
        return self._merge_on_read(self.keyed, row_wise=True, named=False)

    def _mor_delete_if_partner(self) -> Plan:
        return self._merge_on_read(TRUE, row_wise=False)

    def _mor_update(self) -> Plan:
        return self._merge_on_read(self.keyed, row_wise=True)

    def _mor_update_coarse_file(self) -> Plan:
        return self._merge_on_read(self.keyed, row_wise=True, named=False)

    def _mor_move(self) -> Plan:
        return self._merge_on_read(self.keyed, row_wise=True)

    def _mor_merge(self) -> Plan:
        return self._merge_on_read(self.keyed, row_wise=False)

    def _cow_update(self) -> Plan:
        return self._copy_on_write(self.keyed, row_wise=True)

    def _cow_delete(self) -> Plan:
        return self._copy_on_write(self.keyed, row_wise=True)

    def _cow_delete_if_partner(self) -> Plan:
        return self._copy_on_write(TRUE, row_wise=False)

    def _cow_move_of_a_file(self) -> Plan:
        return self._copy_on_write(self._in_file, row_wise=True)

    @property
    def _in_file(self) -> Expression:
        keys = self.aim.file_keys
        return (col("key") >= keys.start) & (col("key") < keys.stop)

    def _drop_file(self) -> Plan:
        return self._planned(Writes(removed=(self._file(self.name),)), "delete", rows=self._in_file, row_wise=True)

    def _drop_file_if_partner(self) -> Plan:
        return self._planned(Writes(removed=(self._file(self.name),)), "delete", rows=TRUE)

    def _overwrite_by_filter(self) -> Plan:
        writes = Writes(added=self._new_rows(), filter=self.in_part)
        return self._planned(writes, "overwrite", rows=self.in_part, clears=self.part)

    def _blind_overwrite(self) -> Plan:
        writes = Writes(added=self._new_rows(), filter=self.in_part)
        return self._planned(writes, "overwrite", blind=True, clears=self.part)

    def _replace_partitions(self) -> Plan:
        writes = Writes(added=self._new_rows(), partitions=frozenset({(0, (self.part,))}))
        return self._planned(writes, "overwrite", rows=self.in_part, clears=self.part)

    def _blind_replace_partitions(self) -> Plan:
        writes = Writes(added=self._new_rows(), partitions=frozenset({(0, (self.part,))}))
        return self._planned(writes, "overwrite", blind=True, clears=self.part)

    def _delete_by_filter_after_reading(self) -> Plan:
        return self._planned(Writes(filter=self.in_part), "delete", rows=TRUE, clears=self.part)

    def _delete_by_filter(self) -> Plan:
        return self._planned(Writes(filter=self.in_part), "delete", blind=True, clears=self.part)

    def _compaction(self) -> Plan:
        start = self.bench.start.metadata.current_snapshot
        assert start is not None
        return self._compacted(start.sequence_number)

    def _compaction_new_sequence_number(self) -> Plan:
        return self._compacted(None)

    def _compacted(self, number: int | None) -> Plan:
        vectors = [one.file for one in self.files.values() if one.file.referenced_data_file == self.path]
        writes = Writes(
            added=self._copied_rows(),
            removed=(self._file(self.name), *vectors),
            same_rows=True,
            data_sequence_number=number,
        )
        return self._planned(writes, "replace", copied=[self.path])

    def _rewrite_deletes(self) -> Plan:
        """Position deletes of the partition written anew: as one file, or as vectors."""
        old = [
            one.file
            for one in self.files.values()
            if one.file.content is FileContent.POSITION_DELETES and one.file.partition == (self.part,)
        ]
        paths = [path_of(name) for name, part in PARTS.items() if part == self.part]
        positions = {path: self._before(path) for path in paths}
        name = f"{self.aim.tag}-{self._mark}"
        if self.bench.version < 3:
            new = [self.make.position_deletes(name, self.part, positions, named=False)]
        else:
            new = self.make.vectors(name, positions)
        writes = Writes(added=tuple(new), removed=tuple(old), referenced=frozenset(paths), same_rows=True)
        return self._planned(writes, "replace")

    def _convert_deletes(self) -> Plan:
        """The equality deletes of the partition made into positions."""
        key = DELETED_BY_VALUE[self.part]
        deletes, replaced = self._deletes([key])
        old = self.files[(path_of(f"E{self.part}"), None)].file
        (path,) = {path_of(name) for name, ids in FILES.items() if key in ids}
        writes = Writes(added=deletes, removed=(old, *replaced), referenced=frozenset({path}), same_rows=True)
        return self._planned(writes, "replace")

    def _rewrite_manifests(self) -> Plan:
        return self._planned(Writes(same_rows=True), "replace", blind=True)

    def _upsert(self) -> Plan:
        deletes = self.make.equality_deletes(f"{self.aim.tag}-{self._mark}", self.part, [self.aim.row.key])
        return self._planned(Writes(added=(*self._new_rows(), deletes)), "overwrite", blind=True)

    def _delete_by_value(self) -> Plan:
        deletes = self.make.equality_deletes(f"{self.aim.tag}-{self._mark}", self.part, [self.aim.row.key])
        return self._planned(Writes(added=(deletes,)), "delete", blind=True)

    def _delete_by_value_if_partner(self) -> Plan:
        deletes = self.make.equality_deletes(f"{self.aim.tag}-{self._mark}", self.part, [self.aim.row.key])
        return self._planned(Writes(added=(deletes,)), "delete", rows=TRUE)
