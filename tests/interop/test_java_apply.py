"""Java Iceberg and Floe apply the same updates to the same metadata with the same outcome, or both refuse."""

import random
import time
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from floe.errors import FloeError
from floe.spec import types as t
from floe.spec.metadata import updates as u
from floe.spec.metadata.creation import new_table_metadata, replace_table
from floe.spec.metadata.metadata_builder import apply
from floe.spec.metadata.snapshots import Snapshot, SnapshotRef
from floe.spec.metadata.table_metadata import (
    BlobMetadata,
    EncryptionKey,
    PartitionStatisticsFile,
    SnapshotLogEntry,
    StatisticsFile,
    TableMetadata,
)
from floe.spec.metadata.table_metadata_json import parse, serialize
from floe.spec.metadata.updates import updates_to_json
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec, spec_to_json
from floe.spec.partitioning.transforms import DAY, IDENTITY, VOID, YEAR, Bucket
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import schema_to_json
from floe.spec.sort_order import NullOrder, SortDirection, SortField, SortOrder, order_to_json
from floe.spec.types import DecimalType, Field, StructType
from helpers.java_oracle import Answer, Difference, ask, ask_all, explained
from helpers.metadata_samples import LOCATION, MINUTE_MS, OTHER_UUID, START_MS, UUID, commit, table
from helpers.schema_strategies import LEAVES, schemas, with_names

pytestmark = pytest.mark.interop

AskJava = Callable[..., str]

SNAPSHOT_IDS = range(1, 9)
REF_NAMES = ["main", "main", "audit", "v1"]


class Walk:
    """Random updates of a table, likely ones and mistakes, made for the state that those before left it in."""

    def __init__(self, metadata: TableMetadata, chance: random.Random) -> None:
        self.metadata = metadata
        self.chance = chance

    def updates(self) -> list[u.TableUpdate]:
        """A few updates as one commit has them, now and then with one that is wrong."""
        makers = self.chance.choices(
            [maker for maker, _ in MAKERS], [weight for _, weight in MAKERS], k=self.chance.choice([1, 1, 2, 3])
        )
        return [update for maker in makers for update in maker(self)]

    def rarely(self, share: float = 0.1) -> bool:
        return self.chance.random() < share

    # what a table looks like --------------------------------------------------------------------------------------

    def uuid(self) -> list[u.TableUpdate]:
        return [u.AssignUuid(OTHER_UUID if self.rarely() else UUID)]

    def upgrade(self) -> list[u.TableUpdate]:
        return [u.UpgradeFormatVersion(self.chance.choice([1, 2, 2, 3, 3, 5]))]

    def schema(self) -> list[u.TableUpdate]:
        new = self.chance.choice([self.wider_schema, self.narrower_schema, self.known_schema, self.renamed_schema])()
        last = self.chance.choice([None, None, None, new.highest_field_id + 3])
        return [
            u.AddSchema(new.with_id(self.chance.choice([0, 1, 7])), last),
            *([] if self.rarely(0.3) else [u.SetCurrentSchema()]),
        ]

    def known_schema(self) -> Schema:
        return self.chance.choice(self.metadata.schemas)

    def wider_schema(self) -> Schema:
        schema, new_id = self.metadata.schema, self.metadata.last_column_id + self.chance.choice([1, 1, 1, 3])
        name = "s.x" if self.rarely() and not schema.has("s.x") else f"c{new_id}"
        type_ = self.chance.choice(
            [t.INT, t.STRING, DecimalType(9, 2), t.TIMESTAMP_NS, StructType((Field(new_id + 1, "x", t.INT),))]
        )
        default = 5 if type_ == t.INT and self.rarely(0.3) else None
        return replace(
            schema, fields=(*schema.fields, Field(new_id, name, type_, initial_default=default, write_default=default))
        )

    def narrower_schema(self) -> Schema:
        fields = self.metadata.schema.fields
        gone = self.chance.randrange(len(fields))
        kept = tuple(f for n, f in enumerate(fields) if n != gone)
        ids = tuple(i for i in self.metadata.schema.identifier_field_ids if i in {f.id for f in kept})
        return replace(self.metadata.schema, fields=kept, identifier_field_ids=ids)

    def renamed_schema(self) -> Schema:
        first, *rest = self.metadata.schema.fields
        return replace(
            self.metadata.schema, fields=(replace(first, name=self.chance.choice(["id", "key", "ts_day"])), *rest)
        )

    def set_schema(self) -> list[u.TableUpdate]:
        return [u.SetCurrentSchema(self.one_of([s.schema_id for s in self.metadata.schemas]))]

    def remove_schemas(self) -> list[u.TableUpdate]:
        return [u.RemoveSchemas((self.one_of([s.schema_id for s in self.metadata.schemas]),))]

    def spec(self) -> list[u.TableUpdate]:
        last = self.metadata.last_partition_id
        known = self.chance.choice(self.metadata.partition_specs)
        start = 1000 if self.metadata.format_version == 1 else self.chance.choice([1000, last + 1, last + 1, last + 1])
        pool = [
            ((1,), "id", IDENTITY),
            ((1,), "id_bucket", Bucket(4)),
            ((1,), "b", Bucket(8)),
            ((2,), "ts_day", DAY),
            ((2,), "ts_year", YEAR),
            ((3,), "name", IDENTITY),
            ((3,), "gone", VOID),
            ((77,), "odd", IDENTITY),
            ((3,), "id", Bucket(2)),
        ]
        parts = self.chance.sample(pool, self.chance.choice([0, 1, 1, 2]))
        new = PartitionSpec(tuple(PartitionField(s, start + n, name, tr) for n, (s, name, tr) in enumerate(parts)))
        spec = known if self.rarely(0.3) else new
        return [u.AddPartitionSpec(spec), *([] if self.rarely(0.3) else [u.SetDefaultSpec()])]

    def set_spec(self) -> list[u.TableUpdate]:
        return [u.SetDefaultSpec(self.one_of([s.spec_id for s in self.metadata.partition_specs]))]

    def remove_specs(self) -> list[u.TableUpdate]:
        return [u.RemovePartitionSpecs((self.one_of([s.spec_id for s in self.metadata.partition_specs]),))]

    def order(self) -> list[u.TableUpdate]:
        source, transform = self.chance.choice(
            [(1, IDENTITY), (2, DAY), (3, IDENTITY), (1, Bucket(4)), (1, DAY), (77, IDENTITY)]
        )
        field = SortField(
            (source,), transform, self.chance.choice(list(SortDirection)), self.chance.choice(list(NullOrder))
        )
        order = SortOrder() if self.rarely(0.2) else SortOrder((field,), self.chance.choice([1, 5]))
        return [u.AddSortOrder(order), *([] if self.rarely(0.3) else [u.SetDefaultSortOrder()])]

    def set_order(self) -> list[u.TableUpdate]:
        return [u.SetDefaultSortOrder(self.one_of([o.order_id for o in self.metadata.sort_orders]))]

    def one_of(self, ids: list[int]) -> int:
        """An id that is there, or the last added one, or one that is not there."""
        return self.chance.choice([-1, 99]) if self.rarely(0.15) else self.chance.choice(ids)

    # what it holds ------------------------------------------------------------------------------------------------

    def commit(self) -> list[u.TableUpdate]:
        """A snapshot and the branch that moves to it."""
        metadata, name = self.metadata, self.chance.choice(REF_NAMES[:3])
        snapshot_id = self.chance.choice(SNAPSHOT_IDS)
        head = metadata.refs.get(name)
        parent = head.snapshot_id if head else metadata.current_snapshot_id
        v1 = metadata.format_version == 1
        snapshot = Snapshot(
            snapshot_id=snapshot_id,
            parent_snapshot_id=self.chance.choice([None, 8]) if self.rarely() else parent,
            sequence_number=0 if v1 else max(0, metadata.next_sequence_number - self.rarely(0.05) + self.rarely(0.1)),
            timestamp_ms=metadata.last_updated_ms + self.chance.choice([1000, 1000, 1000, -1000, -3 * MINUTE_MS]),
            manifest_list=f"{LOCATION}/metadata/snap-{snapshot_id}.avro",
            summary={"operation": self.chance.choice(["append", "overwrite"]), "added-records": "5"},
            schema_id=None if self.rarely() else 99 if self.rarely(0.03) else metadata.current_schema_id,
            first_row_id=None
            if metadata.next_row_id is None
            else metadata.next_row_id + self.chance.choice([0, 0, 0, 0, -1, 3]),
            added_rows=None if metadata.next_row_id is None else self.chance.choice([0, 5]),
        )
        added: list[u.TableUpdate] = [u.AddSnapshot(snapshot)]
        if self.rarely(0.15):
            return added
        return [*added, u.SetSnapshotRef(name, SnapshotRef(snapshot_id=snapshot_id, type="branch"))]

    def ref(self) -> list[u.TableUpdate]:
        branch = self.rarely(0.5)
        retention: dict[str, Any] = {"max_ref_age_ms": self.chance.choice([None, 1000, 0])}
        if branch or self.rarely():
            retention |= {
                "min_snapshots_to_keep": self.chance.choice([None, 3]),
                "max_snapshot_age_ms": self.chance.choice([None, 50]),
            }
        ref = SnapshotRef(snapshot_id=self.snapshot_id(), type="branch" if branch else "tag", **retention)
        return [u.SetSnapshotRef(self.chance.choice(REF_NAMES), ref)]

    def remove_ref(self) -> list[u.TableUpdate]:
        return [u.RemoveSnapshotRef(self.chance.choice([*REF_NAMES, "nope"]))]

    def remove_snapshots(self) -> list[u.TableUpdate]:
        return [u.RemoveSnapshots(tuple(dict.fromkeys(self.snapshot_id() for _ in range(self.chance.choice([1, 2])))))]

    def snapshot_id(self) -> int:
        known = list(self.metadata.snapshots_by_id)
        return self.chance.choice(SNAPSHOT_IDS) if not known or self.rarely() else self.chance.choice(known)

    def statistics(self) -> list[u.TableUpdate]:
        snapshot_id = self.snapshot_id()
        file = StatisticsFile(
            snapshot_id=snapshot_id,
            statistics_path=f"{LOCATION}/metadata/{self.chance.randrange(99)}.stats",
            file_size_in_bytes=413,
            file_footer_size_in_bytes=42,
            blob_metadata=(
                BlobMetadata(
                    type="ndv", snapshot_id=snapshot_id, sequence_number=1, fields=(1,), properties={"ndv": "9"}
                ),
            ),
        )
        return [u.SetStatistics(file)]

    def remove_statistics(self) -> list[u.TableUpdate]:
        return [u.RemoveStatistics(self.snapshot_id()), u.RemovePartitionStatistics(self.snapshot_id())]

    def partition_statistics(self) -> list[u.TableUpdate]:
        path = f"{LOCATION}/metadata/{self.chance.randrange(99)}.parquet"
        return [
            u.SetPartitionStatistics(
                PartitionStatisticsFile(snapshot_id=self.snapshot_id(), statistics_path=path, file_size_in_bytes=43)
            )
        ]

    # the rest -----------------------------------------------------------------------------------------------------

    def location(self) -> list[u.TableUpdate]:
        return [u.SetLocation(self.chance.choice([LOCATION, f"{LOCATION}-2"]))]

    def properties(self) -> list[u.TableUpdate]:
        return [
            u.SetProperties(
                {self.chance.choice(["owner", "write.metadata.previous-versions-max"]): self.chance.choice(["1", "2"])}
            )
        ]

    def remove_properties(self) -> list[u.TableUpdate]:
        return [u.RemoveProperties((self.chance.choice(["owner", "write.metadata.previous-versions-max", "nope"]),))]

    def key(self) -> list[u.TableUpdate]:
        return [
            u.AddEncryptionKey(
                EncryptionKey(
                    key_id=self.chance.choice(["k1", "k2"]), encrypted_key_metadata="aWNl", encrypted_by_id=None
                )
            )
        ]

    def remove_key(self) -> list[u.TableUpdate]:
        return [u.RemoveEncryptionKey(self.chance.choice(["k1", "k2"]))]


MAKERS: list[tuple[Callable[[Walk], list[u.TableUpdate]], int]] = [
    (Walk.uuid, 1), (Walk.upgrade, 1), (Walk.schema, 5), (Walk.set_schema, 2), (Walk.remove_schemas, 2), (Walk.spec, 5),
    (Walk.set_spec, 2), (Walk.remove_specs, 2), (Walk.order, 3), (Walk.set_order, 2), (Walk.commit, 12), (Walk.ref, 5),
    (Walk.remove_ref, 2), (Walk.remove_snapshots, 3), (Walk.statistics, 2), (Walk.remove_statistics, 2),
    (Walk.partition_statistics, 2), (Walk.location, 1), (Walk.properties, 2), (Walk.remove_properties, 1),
    (Walk.key, 1), (Walk.remove_key, 1),
]  # fmt: skip

BASE_FILE = "/base.metadata.json"
"""Where FloeOracle.java says that the metadata came from."""

REFUSALS = [
    Difference("Java", "Cannot set last added", "one that was there already is found, and is the one meant"),
    Difference("Java", "arraySize cannot be negative", "snapshots that are gone already are no matter; Java stumbles"),
    Difference("Java", "Invalid snapshot with sequence number", "Java sets the last number back to that of a new root"),
    Difference("Java", "Cannot create identity partition sourced", "names are checked when all updates are applied"),
    Difference(
        "Java", "Expected sorted snapshot log", "Java logs main's new retention like a new snapshot, out of order"
    ),
    Difference("Floe", "the table has no (partition spec|sort order)", "Java looks when all updates are applied"),
    Difference("Floe", "encryption keys need format version 3", "they came with it (spec: Encryption)"),
    Difference("Floe", "the id of a snapshot's parent|removed by the same updates", "two histories would become one"),
    Difference("Floe", "main must be a branch", "spec, Snapshot References; newer versions of Java refuse it too"),
    Difference("Floe", "partition field id .* means", "manifests tell what they hold by that id"),
    Difference("Floe", "schema .* cannot be removed: snapshot", "the snapshot could not be read by its own schema"),
    Difference("Floe", "was written with schema .* unknown", "the snapshot could not be read by its own schema"),
    Difference("Floe", "the table has uuid", "readers refuse a table whose identity changes"),
    Difference("Floe", "statistics cannot be set for snapshot", "nothing would ever remove them"),
    Difference("Floe", "but the table's next row id", "Java counts rows, not ids, and would give some ids twice"),
]


def differing_fields(base: TableMetadata, ours: TableMetadata, updates: list[u.TableUpdate]) -> set[str]:
    """The fields that may differ although both accept, with the reason."""
    fields = set()
    # Java counts from the schema alone; Floe takes the caller's word for ids that were given and are gone.
    if any(isinstance(update, u.AddSchema) and update.last_column_id is not None for update in updates):
        fields.add("last_column_id")
    # Java adds the number of new rows; Floe starts after the snapshot's last row, should there be a gap before it.
    if any(isinstance(update, u.AddSnapshot) for update in updates):
        gap = ours.next_row_id != (base.next_row_id or 0) + sum(
            update.snapshot.added_rows or 0 for update in updates if isinstance(update, u.AddSnapshot)
        )
        fields |= {"next_row_id"} if gap else set()
    # The log holds what readers saw: Java also logs snapshots that main left in the same commit, and new retention.
    heads = [
        update.ref.snapshot_id for update in updates if isinstance(update, u.SetSnapshotRef) and update.name == "main"
    ]
    current = ours.current_snapshot_id
    if len(heads) > 1 or (heads and (heads != [current] or current == base.current_snapshot_id)):
        fields.add("snapshot_log")
    # Updates that change nothing make no new metadata; to Java some of them are changes.
    if ours is base or "last_column_id" in fields:
        fields.add("metadata_log")
    return fields


def applied(metadata: TableMetadata, updates: list[u.TableUpdate]) -> TableMetadata | FloeError:
    try:
        return apply(metadata, updates, now_ms=metadata.last_updated_ms + 2000, metadata_location=BASE_FILE)
    except FloeError as error:
        return error


def differences(
    ours: TableMetadata, theirs: TableMetadata, base: TableMetadata | None = None
) -> dict[str, tuple[Any, Any]]:
    """The fields in which two tables differ, but for the clock of each and for orders that mean nothing."""
    log = base.snapshot_log if base else ()
    ours, theirs = comparable(ours, log), comparable(theirs, log)
    pairs = {f.name: (getattr(ours, f.name), getattr(theirs, f.name)) for f in fields(TableMetadata) if f.compare}
    return {name: (a, b) for name, (a, b) in pairs.items() if a != b}


def comparable(metadata: TableMetadata, old_log: tuple[SnapshotLogEntry, ...]) -> TableMetadata:
    now = SnapshotLogEntry(timestamp_ms=metadata.last_updated_ms, snapshot_id=metadata.current_snapshot_id or 0)
    log = tuple("now" if entry == now and entry not in old_log else entry for entry in metadata.snapshot_log)
    by_snapshot = {
        name: tuple(sorted(getattr(metadata, name), key=lambda file: file.snapshot_id))
        for name in ("statistics", "partition_statistics")
    }
    schemas = tuple(replace(s, identifier_field_ids=tuple(sorted(s.identifier_field_ids))) for s in metadata.schemas)
    return replace(metadata, last_updated_ms=0, snapshot_log=log, schemas=schemas, **by_snapshot)


@pytest.mark.parametrize("format_version", [1, 2, 3])
@settings(max_examples=120)
@given(seed=st.integers(0, 2**32))
def test_updates(ask_java: AskJava, format_version: int, seed: int) -> None:
    """Commits one after the other, each applied by both to what Floe made of the table before."""
    chance = random.Random(seed)
    # Java takes the time from its clock, so the table must be of today; logs may step back by a minute
    metadata = replace(table(format_version), last_updated_ms=int(time.time() * 1000) - 30_000)
    cases: list[tuple[TableMetadata, list[u.TableUpdate], TableMetadata | FloeError]] = []
    for _ in range(12):
        updates = Walk(metadata, chance).updates()
        ours = applied(metadata, updates)
        cases.append((metadata, updates, ours))
        metadata = metadata if isinstance(ours, FloeError) else ours
    calls = [("apply", serialize(base).decode(), updates_to_json(updates)) for base, updates, _ in cases]
    for (base, updates, ours), answer in zip(cases, ask_all(ask_java, calls), strict=True):
        check(base, updates, ours, answer)


def java_is_lost(updates: list[u.TableUpdate]) -> bool:
    """Java goes on finding schemas and specs by id that were removed in the same commit, and gives their ids again."""
    for kind in ((u.RemoveSchemas, u.AddSchema, u.SetCurrentSchema), (u.RemovePartitionSpecs, u.AddPartitionSpec)):
        actions = [type(update) for update in updates if isinstance(update, kind)]
        if kind[0] in actions and actions[-1] is not kind[0]:
            return True
    return False


def finds_old_ones(base: TableMetadata, updates: list[u.TableUpdate]) -> bool:
    """Whether a spec or order is added that the table has: Floe finds it, Java first binds it to the current schema."""
    return any(
        (isinstance(update, u.AddPartitionSpec) and any(update.spec.compatible_with(s) for s in base.partition_specs))
        or (isinstance(update, u.AddSortOrder) and any(update.sort_order.same_order(o) for o in base.sort_orders))
        for update in updates
    )


def check(base: TableMetadata, updates: list[u.TableUpdate], ours: TableMetadata | FloeError, answer: Answer) -> None:
    shown = f"{serialize(base).decode()}\n{updates_to_json(updates)}"
    if java_is_lost(updates):
        return
    if answer.refused:
        meant = isinstance(ours, FloeError) or explained(REFUSALS, "Java", str(answer.message))
        meant = meant or ("Cannot find source column" in str(answer.message) and finds_old_ones(base, updates))
        assert meant, f"{shown}\nJava: {answer.error} {answer.message}"
    elif isinstance(ours, FloeError):
        assert explained(REFUSALS, "Floe", str(ours)), f"{shown}\nFloe: {ours}"
    else:
        found = differences(ours, parse(str(answer.value).encode()), base)
        assert found.keys() <= differing_fields(base, ours, updates), f"{shown}\n{found}"


# new tables -------------------------------------------------------------------------------------------------------

COMPRESSION = "write.parquet.compression-codec"
"""A property that Java writes into every new table; Floe leaves properties to who creates the table."""


def layouts(schema: Schema, chance: random.Random) -> tuple[PartitionSpec, SortOrder]:
    """A partition spec and a sort order of some columns of a schema, whatever it is."""
    columns = [e for e in schema.by_id.values() if e.field.type.is_primitive and not e.in_collection]
    spec, order = PartitionSpec(), SortOrder()
    for entry in chance.sample(columns, min(len(columns), chance.choice([0, 1, 2]))):
        transform = chance.choice([tr for tr in (IDENTITY, Bucket(4), DAY, YEAR) if tr.can_transform(entry.field.type)])
        name = entry.name if transform == IDENTITY else f"{entry.name}_p"
        new = PartitionField((entry.field.id,), 1000 + len(spec.fields), name, transform)
        spec = replace(spec, fields=(*spec.fields, new))
        order = SortOrder((*order.fields, SortField((entry.field.id,), transform)), 1)
    return spec, order


def new_table(schema: Schema, chance: random.Random, format_version: int) -> tuple[tuple[Any, ...], TableMetadata]:
    """What Java is asked, and the table that Floe makes."""
    spec, order = layouts(schema, chance)
    question = ("newTable", format_version, schema_to_json(schema), spec_to_json(spec), order_to_json(order), LOCATION)
    ours = new_table_metadata(
        schema, spec, order, location=LOCATION, uuid=UUID, now_ms=START_MS, format_version=format_version
    )
    return question, ours


@settings(max_examples=150)
@given(schema=schemas(LEAVES), seed=st.integers(0, 2**32), format_version=st.sampled_from([1, 2, 3]))
def test_new_tables(ask_java: AskJava, schema: Schema, seed: int, format_version: int) -> None:
    question, ours = new_table(schema, random.Random(seed), format_version)
    theirs = parse(str(ask(ask_java, *question).value).encode())
    found = differences(ours, theirs)
    assert found.keys() == {"table_uuid", "properties"}, found
    assert theirs.properties.keys() == {COMPRESSION}


PLAIN_SCHEMAS = schemas(LEAVES).map(
    lambda schema: with_names(schema, lambda n: f"{n}_" if n in ("element", "value") else n)
)
"""Java takes a field named so for the element or value of a list or map, and gives its id to that."""


@settings(max_examples=150)
@given(old=PLAIN_SCHEMAS, new=PLAIN_SCHEMAS, seed=st.integers(0, 2**32), format_version=st.sampled_from([1, 2, 3]))
def test_replaced_tables(ask_java: AskJava, old: Schema, new: Schema, seed: int, format_version: int) -> None:
    chance = random.Random(seed)
    _, metadata = new_table(old, chance, format_version)
    metadata = commit(metadata, 7)
    spec, order = layouts(new, chance)
    properties = {"owner": "ana"} | ({"format-version": "3"} if chance.random() < 0.3 else {})
    answer = ask(
        ask_java, "replaceTable", serialize(metadata).decode(), schema_to_json(new), spec_to_json(spec),
        order_to_json(order), f"{LOCATION}-2", properties,
    )  # fmt: skip
    try:
        ours: TableMetadata | FloeError = replace_table(
            metadata, new, spec, order, now_ms=metadata.last_updated_ms + 1, location=f"{LOCATION}-2",
            properties=properties, metadata_location=BASE_FILE,
        )  # fmt: skip
    except FloeError as error:
        ours = error
    shown = f"{metadata.schema}\n{metadata.spec}\n{new}\n{spec}\nFloe: {ours}\nJava: {answer}"
    assert answer.refused == isinstance(ours, FloeError), shown
    if isinstance(ours, FloeError):
        return
    theirs = parse(str(answer.value).encode())
    theirs = replace(theirs, properties={k: v for k, v in theirs.properties.items() if k != COMPRESSION})
    assert differences(ours, theirs) == {}, shown
