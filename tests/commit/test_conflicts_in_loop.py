"""The pairs of operations as they really are: Floe's own changes, through the commit loop, racing each other.

The second change is made and about to be published when the first one is: its swap fails, and the loop makes it anew on
top of the other. The table's manifests are then read back, and its rows must be what the model says.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from floe.avro.manifest_reader import read_manifest, read_snapshot_manifests
from floe.catalog.memory import MemoryCatalog
from floe.commit.change import Isolation
from floe.commit.loop import commit
from floe.commit.operations.data_changes import DeleteFiles, FastAppend, Overwrite, ReplacePartitions, RowDelta
from floe.commit.operations.rewrite import RewriteFiles, RewriteManifests
from floe.commit.operations.snapshot_change import SnapshotChange
from floe.commit.pointer import Pointer, Proposal
from floe.errors import ConflictingChange
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.table_metadata_json import serialize
from helpers.conflict_bench import Bench, Matrix, Pair
from helpers.conflict_plans import Plan
from helpers.conflict_table import ROOT, Broken, Live, place, scan
from helpers.pointers import WrappedPointer, loaded
from helpers.row_model import KINDS, Rows, same, serializable, snapshot_isolated

CORE = (
    "append",
    "MoR delete",
    "MoR update",
    "MoR move",
    "CoW update",
    "drop file",
    "overwrite by filter",
    "blind overwrite",
    "replace partitions",
    "delete by filter",
    "compaction",
    "rewrite deletes",
    "rewrite manifests",
    "upsert",
)
QUICK = ("append", "MoR delete", "MoR update", "CoW update", "overwrite by filter", "compaction", "upsert")


def as_change(plan: Plan, isolation: Isolation) -> SnapshotChange:
    """The operation as a change of Floe's."""
    writes, reads = plan.footprint.writes, plan.footprint.reads
    data = [file for file in writes.added if file.is_data]
    if plan.kind.name == "rewrite manifests":
        return RewriteManifests(cluster_by=lambda file: file.file_path)
    if writes.same_rows:
        return RewriteFiles(
            reads=reads,
            removed=writes.removed,
            added=writes.added,
            data_sequence_number=writes.data_sequence_number,
            isolation=isolation,
        )
    if writes.partitions:
        return ReplacePartitions(data, reads=reads, isolation=isolation)
    if writes.filter is not None and not data:
        return DeleteFiles(where=writes.filter, reads=reads, isolation=isolation)
    if len(data) < len(writes.added) or writes.referenced:
        return RowDelta(
            writes.added,
            reads=reads,
            removed=writes.removed,
            referenced=writes.referenced,
            positions=writes.positions,
            isolation=isolation,
        )
    if writes.filter is not None or (data and writes.removed):
        return Overwrite(added=data, removed=writes.removed, where=writes.filter, reads=reads, isolation=isolation)
    if writes.removed:
        return DeleteFiles(files=writes.removed, reads=reads, isolation=isolation)
    return FastAppend(data, reads=reads, isolation=isolation)


class Racing(WrappedPointer):
    """A pointer whose first swap comes too late: somebody else's commit is published just before."""

    def __init__(self, inner: Pointer, rival: Callable[[], object]) -> None:
        super().__init__(inner)
        self._rival: Callable[[], object] | None = rival

    def swap(self, proposal: Proposal) -> None:
        if self._rival is not None:
            rival, self._rival = self._rival, None
            rival()
        super().swap(proposal)


class Race:
    """The table of a bench in a catalog, ready for two writers."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.name = ("db", "t")
        catalog = MemoryCatalog(environment=bench.environment, storage=bench.storage)
        catalog.create_namespace(("db",))
        start = f"{ROOT}/metadata/start-{bench.table.replace(' ', '-')}.metadata.json"
        bench.storage.write(start, serialize(bench.start.metadata), overwrite=True)
        catalog.register_table(self.name, start)
        self.pointer = catalog.pointer(self.name)

    def run(self, one: Plan, two: Plan, isolation: Isolation) -> str | None:
        """Lets the second writer lose the first swap; gives the rule if it may not be published at all."""
        racing = Racing(self.pointer, lambda: commit(self.pointer, [as_change(one, isolation)]))
        try:
            commit(racing, [as_change(two, isolation)])
        except ConflictingChange as error:
            return str(error.context.get("rule", error.message))
        return None

    def rows(self) -> Rows:
        """The rows that the table has now."""
        return scan(live_files(loaded(self.pointer).metadata, self.bench), self.bench.contents)


def live_files(metadata: TableMetadata, bench: Bench) -> list[Live]:
    snapshot = metadata.current_snapshot
    assert snapshot is not None
    found = {}
    for manifest in read_snapshot_manifests(snapshot, bench.storage):
        spec = metadata.spec_by_id(manifest.partition_spec_id)
        type_ = spec.partition_type(metadata.schema, metadata.schemas)
        columns = read_manifest(bench.storage.read(manifest.manifest_path), manifest, partition_type=type_)
        for entry in columns.entries(columns.live):
            assert place(entry.data_file) not in found, "a file is in the table twice"
            found[place(entry.data_file)] = Live(entry.data_file, entry.sequence_number or 0, entry.snapshot_id or 0)
    return list(found.values())


def raced(matrix: Matrix, pair: Pair) -> tuple[str | None, str]:
    """The rule that stops the second of a pair, and what is wrong with the table afterwards."""
    bench = matrix.benches[pair.table]
    one, two = bench.plan(KINDS[pair.first], 0, "one"), matrix.second(pair)
    race = Race(bench)
    rule = race.run(one, two, pair.isolation)
    try:
        final = race.rows()
    except Broken as broken:
        return rule, str(broken)
    if rule is not None:
        expected = one.kind.effect(bench.rows, one.aim).on(bench.rows)
        return rule, "" if same(final, expected) else "the first change, and that alone, is not there"
    explains = serializable if pair.isolation is Isolation.SERIALIZABLE else snapshot_isolated
    right = explains(bench.rows, (one.kind, one.aim), (two.kind, two.aim), final)
    return rule, "" if right else f"the table has {sorted(row[1:] for row in final.values())}"


def judge(table: str, overlap: str, isolation: Isolation, kinds: tuple[str, ...] = CORE) -> int:
    """Races every pair; gives how many there were."""
    matrix = Matrix([table], kinds)
    wrong, tried = [], 0
    for pair in matrix.pairs():
        if (pair.overlap, pair.isolation) != (overlap, isolation):
            continue
        tried += 1
        rule, problem = raced(matrix, pair)
        if problem:
            wrong.append(f"{pair}: {problem}")
        alone = by_rules(matrix, pair)
        if (rule is None) != (alone is None):
            wrong.append(f"{pair}: {rule} through the loop, {alone} by the rules alone")
    assert not wrong, f"{len(wrong)} wrong: {wrong[:8]}"
    return tried


def by_rules(matrix: Matrix, pair: Pair) -> str | None:
    """The rule that stops the second of a pair, found without any change or loop."""
    _, state = matrix.first(pair)
    plan = matrix.second(pair)
    merges = isinstance(as_change(plan, pair.isolation), RowDelta)
    try:
        matrix.benches[pair.table].check(state, plan, pair.isolation, can_merge=merges)
    except ConflictingChange as error:
        return str(error.context["rule"])
    return None


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("table", ["v2", "v3"])
def test_racing_changes_of_a_row(table: str, isolation: Isolation) -> None:
    assert judge(table, "same row", isolation, QUICK) == len(QUICK) ** 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "overlap", "isolation"),
    [
        ("v2", "same row", Isolation.SNAPSHOT),
        ("v3", "same row", Isolation.SNAPSHOT),
        ("v3", "same file", Isolation.SNAPSHOT),
        ("v3", "same partition", Isolation.SERIALIZABLE),
        ("v3 from v2", "same row", Isolation.SERIALIZABLE),
    ],
)
def test_all_racing_changes(table: str, overlap: str, isolation: Isolation) -> None:
    assert judge(table, overlap, isolation) == len(CORE) ** 2
