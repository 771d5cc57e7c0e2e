"""One sample of every change that is not an operation on data: what it is made for, and how it shows in the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from floe.commit.change import Change
from floe.commit.loop import commit
from floe.commit.operations.create import ReplaceTable, TableDefinition
from floe.commit.operations.evolution import UpdateSchema, UpdateSortOrder, UpdateSpec, schema_update_of, spec_update_of
from floe.commit.operations.expire import ExpireSnapshots, plan_for
from floe.commit.operations.metadata_changes import UpdateLocation, UpdateProperties, UpdateStatistics, UpgradeTable
from floe.commit.operations.refs import (
    CreateRef,
    FastForward,
    MoveRef,
    RemoveRef,
    RenameRef,
    RollbackToSnapshot,
    RollbackToTime,
    SetCurrentSnapshot,
    SetRetention,
)
from floe.commit.pointer import Pointer, TableState
from floe.spec.metadata.table_metadata import StatisticsFile, TableMetadata
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import build_order
from floe.spec.types import LONG, Field
from helpers.pointers import LOCATION, loaded
from helpers.small_snapshots import PutFiles, data_file

STATISTICS = f"{LOCATION}/metadata/one.stats"


def path(name: str) -> str:
    """A data file of the sample table."""
    return f"{LOCATION}/data/{name}.parquet"


def fill(pointer: Pointer) -> list[int]:
    """Gives a new table a history: main with four snapshots, `ahead` one further, a tag and a branch on its way.

    Ids: where the tag `old`, the branch `gone`, `main` and `ahead` are, and the first one, which only main has.
    """
    env = pointer.environment
    ids = []
    for name in ("first", "a", "b", "c"):
        change = PutFiles(env, [data_file(path(name))])
        commit(pointer, [change])
        ids.append(change.snapshot_id)
    first, *ids = ids
    commit(
        pointer, [CreateRef("ahead", "branch"), CreateRef("old", "tag", ids[0]), CreateRef("gone", "branch", ids[1])]
    )
    ahead = PutFiles(env, [data_file(path("d"))], branch="ahead")
    commit(pointer, [ahead])
    return [*ids, ahead.snapshot_id, first]


@dataclass(frozen=True)
class Sample:
    """A change, made for the state of a table that `fill` made, and how to see that it was made."""

    name: str
    make: Callable[[TableState, Pointer], Change]
    shows: Callable[[TableMetadata, list[int]], bool]


def _statistics(state: TableState, pointer: Pointer) -> Change:
    if not pointer.storage.exists(STATISTICS):
        pointer.storage.write(STATISTICS, b"puffin")
    file = StatisticsFile(
        snapshot_id=state.metadata.refs["old"].snapshot_id,
        statistics_path=STATISTICS,
        file_size_in_bytes=6,
        file_footer_size_in_bytes=3,
        blob_metadata=(),
    )
    return UpdateStatistics([file])


def _expire(state: TableState, pointer: Pointer) -> Change:
    now = pointer.environment.clock.now_ms()
    return ExpireSnapshots(plan_for(state, "db.t", now, older_than_ms=now + 1, retain_last=1))


SAMPLES = [
    Sample(
        "append",
        lambda state, pointer: PutFiles(pointer.environment, [data_file(path("new"))], label="sample"),
        lambda table, ids: any((s.summary or {}).get("label") == "sample" for s in table.snapshots),
    ),
    Sample(
        "properties",
        lambda state, pointer: UpdateProperties({"owner": "me"}),
        lambda table, ids: table.properties.get("owner") == "me",
    ),
    Sample(
        "schema",
        lambda state, pointer: UpdateSchema.from_update(
            schema_update_of(state.metadata).add_column("x", "int"), state.metadata
        ),
        lambda table, ids: table.schema.has("x"),
    ),
    Sample(
        "spec",
        lambda state, pointer: UpdateSpec.from_update(
            spec_update_of(state.metadata).add_field("bucket(4, id)"), state.metadata
        ),
        lambda table, ids: not table.spec.is_unpartitioned,
    ),
    Sample(
        "sort order",
        lambda state, pointer: UpdateSortOrder.of(build_order(state.metadata.schema, ["id"]), state.metadata),
        lambda table, ids: not table.sort_order.is_unsorted,
    ),
    Sample(
        "location",
        lambda state, pointer: UpdateLocation(f"{LOCATION}/moved", expected=state.metadata.location),
        lambda table, ids: table.location.endswith("/moved"),
    ),
    Sample("format version", lambda state, pointer: UpgradeTable(3), lambda table, ids: table.format_version == 3),
    Sample("statistics", _statistics, lambda table, ids: len(table.statistics) == 1),
    Sample("create tag", lambda state, pointer: CreateRef("v1", "tag"), lambda table, ids: "v1" in table.refs),
    Sample(
        "move ref",
        lambda state, pointer: MoveRef("gone", state.metadata.refs["old"].snapshot_id),
        lambda table, ids: table.refs["gone"].snapshot_id == ids[0],
    ),
    Sample("remove ref", lambda state, pointer: RemoveRef("gone"), lambda table, ids: "gone" not in table.refs),
    Sample("rename ref", lambda state, pointer: RenameRef("gone", "here"), lambda table, ids: "here" in table.refs),
    Sample(
        "retention",
        lambda state, pointer: SetRetention("gone", min_snapshots_to_keep=3),
        lambda table, ids: table.refs["gone"].min_snapshots_to_keep == 3,
    ),
    Sample(
        "fast-forward",
        lambda state, pointer: FastForward("gone", "main"),
        lambda table, ids: table.refs["gone"].snapshot_id not in (ids[0], ids[1]),
    ),
    Sample(
        "rollback",
        lambda state, pointer: RollbackToSnapshot(state.metadata.refs["old"].snapshot_id, branch="ahead"),
        lambda table, ids: table.refs["ahead"].snapshot_id == ids[0],
    ),
    Sample(
        "rollback to time",
        lambda state, pointer: RollbackToTime(state.metadata.snapshot_of_ref("gone").timestamp_ms, branch="ahead"),
        lambda table, ids: table.refs["ahead"].snapshot_id == ids[0],
    ),
    Sample(
        "set current",
        lambda state, pointer: SetCurrentSnapshot("old", branch="ahead"),
        lambda table, ids: table.refs["ahead"].snapshot_id == ids[0],
    ),
    Sample("expire", _expire, lambda table, ids: ids[4] not in table.snapshots_by_id),
    Sample(
        "replace",
        lambda state, pointer: ReplaceTable(TableDefinition(Schema((Field(1, "n", LONG),))), expected=state.metadata),
        lambda table, ids: table.schema.has("n"),
    ),
]
"""Every change, by name; those that move a branch move one that rivals leave alone."""


def rival_commit(pointer: Pointer) -> int:
    """Somebody else's append to main; the id of his snapshot."""
    change = PutFiles(pointer.environment, [data_file(path(f"rival-{loaded(pointer).metadata.last_sequence_number}"))])
    commit(pointer, [change])
    return change.snapshot_id
