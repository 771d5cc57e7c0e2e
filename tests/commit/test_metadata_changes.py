"""Changes of a table's layout and settings: what each does, and what it makes of what others did meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from floe.commit.change import Attempt, Change
from floe.commit.loop import commit
from floe.commit.operations.create import CreateTable, ReplaceTable, TableDefinition
from floe.commit.operations.evolution import (
    EvolveSchema,
    UpdateSchema,
    UpdateSortOrder,
    UpdateSpec,
    schema_update_of,
    spec_update_of,
)
from floe.commit.operations.expire import apply_expire, plan_expire
from floe.commit.operations.metadata_changes import UpdateLocation, UpdateProperties, UpdateStatistics, UpgradeTable
from floe.commit.operations.refs import CreateRef, SetCurrentSnapshot
from floe.commit.outcomes import CommitStatus
from floe.commit.pointer import Pointer
from floe.errors import ConflictingChange, InvalidSchema, InvalidUpdate, TableAlreadyExists, UnsupportedFeature
from floe.spec.metadata.table_metadata import PartitionStatisticsFile, StatisticsFile, TableMetadata
from floe.spec.metadata.updates import TableUpdate
from floe.spec.partitioning.transform_terms import build_spec
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import build_order
from floe.spec.types import INT, LONG, Field
from helpers.pointers import LOCATION, SCHEMA, create, loaded, memory_catalog, new_table, properties_of
from helpers.small_snapshots import PutFiles, check_readable, data_file, files_of, live_files


def put(pointer: Pointer, name: str) -> int:
    change = PutFiles(pointer.environment, [data_file(f"{LOCATION}/data/{name}.parquet")])
    commit(pointer, [change])
    return change.snapshot_id


def table_of(pointer: Pointer) -> TableMetadata:
    return loaded(pointer).metadata


def adding(table: TableMetadata, column: str) -> UpdateSchema:
    return UpdateSchema.from_update(schema_update_of(table).add_column(column, "int"), table)


def partitioning(table: TableMetadata, term: str) -> UpdateSpec:
    return UpdateSpec.from_update(spec_update_of(table).add_field(term), table)


# schemas ----------------------------------------------------------------------------------------------------------


def test_a_column_is_added() -> None:
    pointer = new_table()
    commit(pointer, [adding(table_of(pointer), "x")])
    table = table_of(pointer)
    assert table.schema.field("x").id == 3
    assert table.last_column_id == 3
    assert [schema.schema_id for schema in table.schemas] == [0, 1]


def test_data_that_others_add_is_no_matter() -> None:
    pointer = new_table()
    change = adding(table_of(pointer), "x")
    put(pointer, "a")
    commit(pointer, [UpdateProperties({"owner": "you"})])
    commit(pointer, [change])
    assert table_of(pointer).schema.has("x")
    assert len(table_of(pointer).snapshots) == 1


def test_a_schema_that_somebody_else_changed() -> None:
    pointer = new_table()
    change = adding(table_of(pointer), "x")
    commit(pointer, [adding(table_of(pointer), "y")])
    with pytest.raises(ConflictingChange, match=r"schema 0 with column ids up to 2, .* schema 1 with ids up to 3"):
        commit(pointer, [change])


def test_ids_that_somebody_else_gave() -> None:
    """A column was added and dropped again: the schema is as it was, the id is taken."""
    pointer = new_table()
    change = adding(table_of(pointer), "x")
    commit(pointer, [adding(table_of(pointer), "y")])
    table = table_of(pointer)
    commit(pointer, [UpdateSchema.from_update(schema_update_of(table).drop_column("y"), table)])
    assert table_of(pointer).current_schema_id == 0
    with pytest.raises(ConflictingChange, match="ids up to 3 now"):
        commit(pointer, [change])


def test_a_column_that_somebody_partitions_by_meanwhile_is_not_dropped() -> None:
    pointer = new_table()
    table = table_of(pointer)
    change = UpdateSchema.from_update(schema_update_of(table).drop_column("note"), table)
    commit(pointer, [partitioning(table, "note")])
    with pytest.raises(InvalidUpdate):
        commit(pointer, [change])


def test_evolution_that_is_made_again_takes_what_is_there() -> None:
    pointer = new_table()
    change = EvolveSchema(lambda update: update.union_by_name(Schema((Field(1, "x", INT),))))
    commit(pointer, [adding(table_of(pointer), "y")])
    commit(pointer, [change])
    assert {field.name for field in table_of(pointer).schema} == {"id", "note", "y", "x"}
    assert commit(pointer, [change]).status is CommitStatus.UNCHANGED
    with pytest.raises(InvalidSchema):
        commit(pointer, [EvolveSchema(lambda update: update.add_column("x", "string"))])


def test_two_schema_changes_in_one_transaction() -> None:
    pointer = new_table()
    steps = [EvolveSchema(lambda u: u.add_column("x", "int")), EvolveSchema(lambda u: u.add_column("y", "int"))]
    done = commit(pointer, steps)
    assert [field.id for field in done.metadata.schema] == [1, 2, 3, 4]
    assert len(done.metadata.metadata_log) == 1


# partition specs and sort orders ----------------------------------------------------------------------------------


def test_partitioning_is_changed() -> None:
    pointer = new_table()
    commit(pointer, [partitioning(table_of(pointer), "bucket(4, id)")])
    table = table_of(pointer)
    assert str(table.spec) == "[1000: id_bucket_4: bucket[4](1)]"
    assert (table.default_spec_id, table.last_partition_id) == (1, 1000)


@pytest.mark.parametrize("other", ["spec", "schema"])
def test_partitioning_that_rests_on_something_older(other: str) -> None:
    pointer = new_table()
    change = partitioning(table_of(pointer), "bucket(4, id)")
    table = table_of(pointer)
    commit(pointer, [partitioning(table, "note") if other == "spec" else adding(table, "x")])
    with pytest.raises(ConflictingChange, match="was made for spec 0 with field ids up to 999 and schema 0"):
        commit(pointer, [change])


def test_partitioning_beside_appends() -> None:
    pointer = new_table()
    change = partitioning(table_of(pointer), "bucket(4, id)")
    put(pointer, "a")
    commit(pointer, [change])
    assert not table_of(pointer).spec.is_unpartitioned


def test_a_sort_order_is_set() -> None:
    pointer = new_table()
    table = table_of(pointer)
    change = UpdateSortOrder.of(build_order(SCHEMA, ["id"]), table)
    put(pointer, "a")
    commit(pointer, [change])
    assert table_of(pointer).default_sort_order_id == 1
    with pytest.raises(ConflictingChange, match="order 0 and schema 0, and the table has order 1 and schema 0"):
        commit(pointer, [UpdateSortOrder.of(build_order(SCHEMA, ["note"]), table)])


# properties, location, version ------------------------------------------------------------------------------------


def test_properties_are_set_and_removed_key_by_key() -> None:
    pointer = new_table(properties={"a": "1", "b": "2"})
    commit(pointer, [UpdateProperties({"c": "3", "a": "4"}, remove=["b", "none"])])
    assert properties_of(pointer) == {"a": "4", "c": "3"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UpdateProperties({"current-snapshot-id": "7"}), "is not a property that can be set"),
        (lambda: UpdateProperties({"a": 1}), "must be text, found 1"),  # type: ignore[dict-item]
        (lambda: UpdateProperties({"": "x"}), "the name of a property"),
        (lambda: UpdateProperties({"a": "1"}, remove=["a"]), "both set and removed"),
        (lambda: UpdateProperties(remove=["format-version"]), "cannot be removed|can be removed"),
    ],
)
def test_properties_that_cannot_be(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidUpdate, match=message):
        make()


def test_the_format_version_is_a_property_too() -> None:
    pointer = new_table()
    commit(pointer, [UpdateProperties({"format-version": "3"})])
    assert table_of(pointer).format_version == 3
    assert "format-version" not in table_of(pointer).properties


def test_the_format_version_only_rises() -> None:
    pointer = new_table(format_version=1)
    commit(pointer, [UpgradeTable(3)])
    table = table_of(pointer)
    assert (table.format_version, table.next_row_id) == (3, 0)
    assert commit(pointer, [UpgradeTable(3)]).status is CommitStatus.UNCHANGED
    with pytest.raises(InvalidUpdate, match="cannot go back from format version 3 to 2"):
        commit(pointer, [UpgradeTable(2)])
    with pytest.raises(UnsupportedFeature):
        UpgradeTable(4)


def test_an_upgrade_that_somebody_else_made_meanwhile_does_for_both() -> None:
    pointer = new_table(format_version=1)

    class Beside:
        def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
            if attempt.number == 1:
                commit(pointer, [UpgradeTable(3)])
            return ()

    done = commit(pointer, [UpgradeTable(2), Beside()])
    assert done.metadata.format_version == 3
    assert done.status is CommitStatus.UNCHANGED


def test_the_location_is_moved() -> None:
    pointer = new_table()
    commit(pointer, [UpdateLocation("memory:elsewhere/t/", expected=LOCATION)])
    assert table_of(pointer).location == "memory:elsewhere/t"
    assert loaded(pointer).location.startswith("memory:elsewhere/t/metadata/")
    with pytest.raises(ConflictingChange, match=f"it was {LOCATION}, and another commit set it to memory:elsewhere/t"):
        commit(pointer, [UpdateLocation("memory:third", expected=LOCATION)])
    assert commit(pointer, [UpdateLocation("memory:elsewhere/t", expected=LOCATION)]).status is CommitStatus.UNCHANGED
    commit(pointer, [UpdateLocation("memory:third")])
    with pytest.raises(InvalidUpdate):
        UpdateLocation("")


# statistics -------------------------------------------------------------------------------------------------------


def statistics(snapshot_id: int, name: str = "one") -> StatisticsFile:
    return StatisticsFile(
        snapshot_id=snapshot_id,
        statistics_path=f"{LOCATION}/metadata/{name}.stats",
        file_size_in_bytes=9,
        file_footer_size_in_bytes=3,
        blob_metadata=(),
    )


def test_statistics_are_registered_replaced_and_forgotten() -> None:
    pointer = new_table()
    first, second = put(pointer, "a"), put(pointer, "b")
    of_partitions = PartitionStatisticsFile(snapshot_id=first, statistics_path="p", file_size_in_bytes=1)
    commit(pointer, [UpdateStatistics([statistics(first), statistics(second)], [of_partitions])])
    commit(pointer, [UpdateStatistics([statistics(second, "new")])])
    assert [file.statistics_path for file in table_of(pointer).statistics] == [
        f"{LOCATION}/metadata/one.stats",
        f"{LOCATION}/metadata/new.stats",
    ]
    assert commit(pointer, [UpdateStatistics([statistics(second, "new")])]).status is CommitStatus.UNCHANGED
    commit(pointer, [UpdateStatistics(forget=[first, 99], forget_partition=[first, 99])])
    assert [file.snapshot_id for file in table_of(pointer).statistics] == [second]
    assert table_of(pointer).partition_statistics == ()


def test_statistics_of_a_snapshot_that_expired_meanwhile() -> None:
    pointer = new_table()
    first = put(pointer, "a")
    put(pointer, "b")
    apply_expire(pointer, plan_expire(pointer, older_than_ms=pointer.environment.clock.now_ms() + 1))
    with pytest.raises(ConflictingChange, match="may have expired"):
        commit(pointer, [UpdateStatistics([statistics(first)])])
    assert commit(pointer, [UpdateStatistics(forget=[first])]).status is CommitStatus.UNCHANGED


# creating and replacing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_new_table(version: int) -> None:
    pointer = memory_catalog().pointer(("db", "t"))
    schema = Schema((Field(40, "id", LONG, required=True), Field(7, "n", INT)))
    definition = TableDefinition(
        schema,
        build_spec(schema, ["bucket(4, id)"]),
        build_order(schema, ["n"]),
        {"owner": "me", "format-version": str(version)},
    )
    create(pointer, definition)
    table = table_of(pointer)
    assert table.format_version == version
    assert [(field.id, field.name) for field in table.schema] == [(1, "id"), (2, "n")]
    assert str(table.spec) == "[1000: id_bucket: bucket[4](1)]"
    assert dict(table.properties) == {"owner": "me", "write.parquet.compression-codec": "zstd"}
    assert table.location == LOCATION
    assert table.snapshots == ()


def test_defaults_give_way_to_what_is_asked_for() -> None:
    pointer = memory_catalog().pointer(("db", "t"))
    create(pointer, TableDefinition(SCHEMA, properties={"write.parquet.compression-codec": "snappy"}))
    assert table_of(pointer).properties["write.parquet.compression-codec"] == "snappy"


def test_a_table_that_is_there_is_not_created_again() -> None:
    pointer = new_table()
    with pytest.raises(TableAlreadyExists, match="replace the table"):
        create(pointer)


REPLACEMENT = TableDefinition(Schema((Field(1, "note", INT), Field(2, "n", LONG))), properties={"new": "yes"})


def test_a_replaced_table_keeps_its_identity_and_history() -> None:
    pointer = new_table(properties={"old": "yes"})
    first = put(pointer, "a")
    before = table_of(pointer)
    commit(pointer, [ReplaceTable(REPLACEMENT)])
    table = table_of(pointer)
    assert table.table_uuid == before.table_uuid
    assert table.current_snapshot_id is None
    assert first in table.snapshots_by_id
    assert [(field.id, field.name) for field in table.schema] == [(2, "note"), (3, "n")]
    assert properties_of(pointer) == {"old": "yes", "new": "yes"}
    commit(pointer, [SetCurrentSnapshot(first)])
    assert live_files(table_of(pointer), pointer.storage) == {f"{LOCATION}/data/a.parquet"}


class Meanwhile:
    """Something that happens while the first attempt is being made."""

    def __init__(self, act) -> None:  # type: ignore[no-untyped-def]
        self.act = act

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        act, self.act = self.act, lambda: None
        act()
        return ()


def test_a2_snapshots_that_others_commit_stay_in_the_history_of_a_replaced_table() -> None:
    pointer = new_table()
    put(pointer, "a")
    made: list[int] = []
    done = commit(pointer, [ReplaceTable(REPLACEMENT), Meanwhile(lambda: made.append(put(pointer, "b")))])
    assert done.attempts == 2
    table = table_of(pointer)
    assert made[0] in table.snapshots_by_id
    assert table.last_sequence_number == 2
    names = files_of(table.snapshot(made[0]), pointer.storage)
    assert names == {f"{LOCATION}/data/a.parquet", f"{LOCATION}/data/b.parquet"}
    assert table.schema.has("n")
    check_readable(table, pointer.storage)


def test_a2_a_replacement_brings_no_expired_snapshot_back() -> None:
    pointer = new_table()
    first = put(pointer, "a")
    put(pointer, "b")

    def expire() -> None:
        apply_expire(pointer, plan_expire(pointer, older_than_ms=pointer.environment.clock.now_ms() + 1))

    commit(pointer, [ReplaceTable(REPLACEMENT), Meanwhile(expire)])
    assert first not in table_of(pointer).snapshots_by_id
    check_readable(table_of(pointer), pointer.storage)


@pytest.mark.parametrize(
    "other",
    [
        lambda table: adding(table, "x"),
        lambda table: partitioning(table, "bucket(4, id)"),
        lambda table: UpdateSortOrder.of(build_order(SCHEMA, ["id"]), table),
        lambda table: UpdateLocation("memory:elsewhere"),
        lambda table: UpgradeTable(3),
        lambda table: ReplaceTable(REPLACEMENT),
    ],
    ids=["schema", "spec", "order", "location", "version", "replace"],
)
def test_a_replacement_of_a_table_that_looks_different_now(other) -> None:  # type: ignore[no-untyped-def]
    pointer = new_table()
    act = Meanwhile(lambda: commit(pointer, [other(table_of(pointer))]))
    with pytest.raises(ConflictingChange, match="the table cannot be replaced: another commit changed its"):
        commit(pointer, [ReplaceTable(REPLACEMENT), act])


def test_what_the_user_saw_counts_from_then_on() -> None:
    pointer = new_table()
    seen = table_of(pointer)
    commit(pointer, [adding(seen, "x")])
    with pytest.raises(ConflictingChange, match="changed its current schema id from 0 to 1"):
        commit(pointer, [ReplaceTable(REPLACEMENT, expected=seen)])
    commit(pointer, [ReplaceTable(REPLACEMENT)])


def test_a_table_is_replaced_with_its_new_rows() -> None:
    pointer = new_table()
    put(pointer, "a")
    change = PutFiles(pointer.environment, [data_file(f"{LOCATION}/data/new.parquet")])
    done = commit(pointer, [ReplaceTable(REPLACEMENT), change])
    assert live_files(done.metadata, pointer.storage) == {f"{LOCATION}/data/new.parquet"}
    assert done.metadata.snapshot(change.snapshot_id).parent_snapshot_id is None
    assert [entry.snapshot_id for entry in done.metadata.snapshot_log][-1] == change.snapshot_id


@pytest.mark.parametrize(
    "change",
    [
        UpdateProperties({"a": "1"}),
        UpgradeTable(3),
        CreateRef("a", "tag"),
        CreateTable(TableDefinition(SCHEMA), LOCATION, "9c12d441-03fe-4693-9a96-a0705ddf69c1"),
        ReplaceTable(REPLACEMENT),
    ],
    ids=lambda change: type(change).__name__,
)
def test_all_are_changes(change: object) -> None:
    assert isinstance(change, Change)
