"""Java Iceberg and Floe change schemas and partition specs alike: equal results, or both refuse.

Where one of the two refuses and the other does not, the refusal must be among the differences listed here, each with
its reason. Results are never different, but for one listed case.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from floe.errors import FloeError
from floe.spec import types as t
from floe.spec.codecs.single_value_json import to_json
from floe.spec.metadata.creation import new_table_metadata
from floe.spec.metadata.metadata_builder import apply
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.table_metadata_json import parse, serialize
from floe.spec.metadata.updates import AddPartitionSpec, SetDefaultSpec
from floe.spec.partitioning.spec_evolution import SpecUpdate
from floe.spec.partitioning.transform_terms import build_spec
from floe.spec.partitioning.transforms import parse_transform
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_evolution import SchemaUpdate
from floe.spec.schemas.schema_json import schema_from_json, schema_to_json, type_to_json
from floe.spec.types import DecimalType, Field, ListType, MapType, StructType, Type
from helpers.java_oracle import Answer, Difference, ask, ask_all, explained, java_values
from helpers.schema_strategies import LEAVES_V3, schemas, with_names
from helpers.value_strategies import PRIMITIVES

pytestmark = pytest.mark.interop

AskJava = Callable[..., str]
Change = tuple[Any, ...]
"""The name of an operation and its arguments, as FloeOracle.java takes them but for types and schemas."""

SEEDS = st.integers(0, 2**32)

# schemas ----------------------------------------------------------------------------------------------------------

NEW_TYPES = [
    t.INT,
    MapType(1, t.STRING, 2, ListType(3, t.DATE)),
    StructType((Field(1, "a", t.INT, True, "doc"), Field(2, "b", ListType(3, StructType((Field(4, "a", t.LONG),)))))),
]
NEW_NAMES = ["a", "b", "value", "new"]
TARGETS = [t.LONG, t.DOUBLE, DecimalType(12, 2), DecimalType(9, 3), DecimalType(8, 2), t.STRING, t.INT, t.TIMESTAMP]


def single_changes(schema: Schema) -> Iterator[Change]:
    """Every change there is of a schema, as far as new names and types come from small pools."""
    names = [*(entry.name for entry in schema.by_id.values()), "nope"]
    for name in [None, *names]:
        for type_ in NEW_TYPES:
            for new in NEW_NAMES:
                yield (
                    "add",
                    new,
                    type_,
                    name,
                    {"doc": "why"} if new == "a" else {"required": True} if new == "b" else {},
                )
    for name in names:
        yield from (("promote", name, type_) for type_ in TARGETS)
        yield from (("rename", name, new) for new in NEW_NAMES)
        yield from ((op, name) for op in ("drop", "optional", "require", "first"))
        yield from (("doc", name, text) for text in ("changed", ""))
        yield from ((op, name, other) for op in ("before", "after") for other in names)
        yield from (("identifiers", which) for which in ([name], [name, names[0]]))
    yield "identifiers", []


def some_changes(schema: Schema, chance: random.Random, count: int) -> list[Change]:
    pool = list(single_changes(schema))
    return chance.sample(pool, min(count, len(pool)))


def for_java(change: Change) -> list[Any]:
    written = {Type: type_to_json, Schema: schema_to_json}
    return [next((write(p) for cls, write in written.items() if isinstance(p, cls)), p) for p in change]


def make(update: SchemaUpdate, change: Change) -> None:
    match change:
        case "add", name, type_, parent, options:
            update.add_column(name if parent is None else f"{parent}.{name}", type_, **options)
        case "drop", name:
            update.drop_column(name)
        case "rename", name, new:
            update.rename_column(name, new)
        case "promote", name, type_:
            update.promote(name, type_)
        case "doc", name, text:
            update.set_doc(name, text)
        case "default", name, _, value:
            update.set_default(name, value)
        case "optional", name:
            update.make_optional(name)
        case "require", name:
            update.require(name)
        case "first", name:
            update.move_column(name, first=True)
        case "before", name, other:
            update.move_column(name, before=other)
        case "after", name, other:
            update.move_column(name, after=other)
        case "identifiers", names:
            update.set_identifier_fields(*names)
        case "union", other:
            update.union_by_name(other)


def evolved(schema: Schema, last: int, changes: list[Change], *, case_sensitive: bool = True) -> Schema | FloeError:
    update = SchemaUpdate(
        schema, format_version=3, last_column_id=last, allow_incompatible=True, case_sensitive=case_sensitive
    )
    try:
        for change in changes:
            make(update, change)
        return update.apply()
    except FloeError as error:
        return error


SCHEMA_DIFFERENCES = [
    Difference("Java", "date -> timestamp", "format version 3 promotes dates; Java does not yet"),
    Difference("Java", "to a different struct$", "Floe also takes a sibling's own name, as Spark's SQL gives it"),
    Difference(
        "Java", "Cannot add column, name already exists: .*value$",
        "Java takes the value of a map for a column in the way of one in that value",
    ),
    Difference(
        "Java", "Cannot add field .* as an identifier field: not (found|a primitive type field)",
        "Java keeps identifier fields by name and loses nested ones when they, or what holds them, are renamed",
    ),
]  # fmt: skip
JAVA_DOES_NOTHING = [
    Difference("Floe", "cannot be (renamed|documented)", "elements, keys and values have no name and no doc"),
    Difference("Floe", "map keys", "Java forgets most changes in keys"),
]
"""Floe says no where Java says yes and leaves the schema as it is."""


def comparable(schema: Schema) -> Schema:
    """Schemas as they are compared: Java does not keep the order of identifier fields, and numbers schemas later."""
    return replace(schema, schema_id=0, identifier_field_ids=tuple(sorted(schema.identifier_field_ids)))


def check_schema(
    schema: Schema, changes: list[Change], ours: Schema | FloeError, answer: Answer, differences: list[Difference]
) -> None:
    differences = SCHEMA_DIFFERENCES + differences
    if answer.refused:
        words = f"{answer.error}: {answer.message}"
        meant = isinstance(ours, FloeError) or explained(differences, "Java", words)
        assert meant, f"{schema}\n{changes}\nFloe: {ours}\nJava: {words}"
        return
    theirs = comparable(schema_from_json(answer.json()))
    if isinstance(ours, FloeError):
        meant = explained(differences, "Floe", str(ours)) or (
            theirs == comparable(schema) and explained(JAVA_DOES_NOTHING, "Floe", str(ours))
        )
    else:
        meant = comparable(ours) == theirs
    assert meant, f"{schema}\n{changes}\nFloe: {ours}\nJava: {theirs}"


@settings(max_examples=200)
@given(schema=schemas(LEAVES_V3), seed=SEEDS, gap=st.integers(0, 3))
def test_single_changes(ask_java: AskJava, schema: Schema, seed: int, gap: int) -> None:
    last = schema.highest_field_id + gap
    changes = some_changes(schema, random.Random(seed), 80)
    answers = ask_all(ask_java, [("evolve", schema_to_json(schema), last, [for_java(c)]) for c in changes])
    for change, answer in zip(changes, answers, strict=True):
        check_schema(schema, [change], evolved(schema, last, [change]), answer, [])


ANY_CASE_DIFFERENCES = [
    Difference("Java", "collide$|Multiple entries with same key", "two names alike do not hinder changes of others"),
]


@settings(max_examples=200)
@given(schema=schemas(LEAVES_V3), other=schemas(LEAVES_V3), seed=SEEDS)
def test_single_changes_without_regard_to_case(ask_java: AskJava, schema: Schema, other: Schema, seed: int) -> None:
    chance = random.Random(seed)
    schema, other = (with_names(s, lambda n: n.upper() if chance.random() < 0.5 else n) for s in (schema, other))
    last = schema.highest_field_id
    changes: list[Change] = [("union", other)]
    for change in some_changes(schema, chance, 50):
        swapped = change[0] in ("drop", "rename", "promote", "doc", "optional") and chance.random() < 0.5
        changes.append((change[0], change[1].swapcase(), *change[2:]) if swapped else change)
    calls = [("evolve", schema_to_json(schema), last, [["any-case"], for_java(c)]) for c in changes]
    for change, answer in zip(changes, ask_all(ask_java, calls), strict=True):
        ours = evolved(schema, last, [change], case_sensitive=False)
        check_schema(schema, [change], ours, answer, ANY_CASE_DIFFERENCES)


@settings(max_examples=150)
@given(schema=schemas(LEAVES_V3), others=st.lists(schemas(LEAVES_V3), min_size=1, max_size=3))
def test_union_by_name(ask_java: AskJava, schema: Schema, others: list[Schema]) -> None:
    last = schema.highest_field_id
    changes = [("union", other) for other in others]
    answers = ask_all(ask_java, [("evolve", schema_to_json(schema), last, [for_java(c)]) for c in changes])
    for change, answer in zip(changes, answers, strict=True):
        check_schema(schema, [change], evolved(schema, last, [change]), answer, [])


IN_STEPS_DIFFERENCES = [
    Difference("Java", "Multiple entries|name already exists", "names are checked when all changes are made"),
    Difference("Java", "Cannot delete", "identifier fields are checked when all changes are made"),
    *JAVA_DOES_NOTHING,
]


@settings(max_examples=200)
@given(schema=schemas(LEAVES_V3), seed=SEEDS)
def test_changes_one_after_the_other(ask_java: AskJava, schema: Schema, seed: int) -> None:
    """Floe's changes in one update are those of Java in as many updates: each sees what the earlier ones left."""
    chance, last = random.Random(seed), schema.highest_field_id
    cases: list[list[Change]] = []
    for _ in range(12):
        changes: list[Change] = []
        now: Schema | FloeError = schema
        while len(changes) < 4 and isinstance(now, Schema):
            changes += some_changes(now, chance, 1)
            now = evolved(schema, last, changes)
        cases.append(changes)
    calls = [("evolveInSteps", schema_to_json(schema), last, list(map(for_java, changes))) for changes in cases]
    for changes, answer in zip(cases, ask_all(ask_java, calls), strict=True):
        ours = evolved(schema, last, changes)
        check_schema(schema, changes, ours, answer, IN_STEPS_DIFFERENCES)


AT_ONCE_DIFFERENCES = [
    Difference("Java", "name already exists", "a column that was renamed before is no longer in the way"),
    Difference(
        "Java", "Cannot delete a column that has|NoSuchElement", "what was changed or moved may still be dropped"
    ),
    Difference("Java", "missing column|Cannot find parent", "columns just added or renamed are there like others"),
    Difference("Floe", "an earlier step of this update", "Java goes by the names of the old schema till the end"),
    *JAVA_DOES_NOTHING,
]


@settings(max_examples=200)
@given(schema=schemas(LEAVES_V3), seed=SEEDS)
def test_several_changes_at_once(ask_java: AskJava, schema: Schema, seed: int) -> None:
    chance, last = random.Random(seed), schema.highest_field_id
    cases = [some_changes(schema, chance, chance.randint(2, 4)) for _ in range(25)]
    calls = [("evolve", schema_to_json(schema), last, list(map(for_java, changes))) for changes in cases]
    for changes, answer in zip(cases, ask_all(ask_java, calls), strict=True):
        check_schema(schema, changes, evolved(schema, last, changes), answer, AT_ONCE_DIFFERENCES)


PROMOTIONS = {t.INT: t.LONG, t.FLOAT: t.DOUBLE, DecimalType(9, 2): DecimalType(12, 2)}


@pytest.mark.parametrize("type_", PRIMITIVES, ids=str)
@settings(max_examples=20)
@given(data=st.data())
def test_defaults(ask_java: AskJava, type_: Type, data: st.DataObject) -> None:
    """A column with an initial default, which gets another write default and may then be promoted."""
    schema = Schema((Field(1, "a", t.INT),))
    first, second = data.draw(java_values(type_)), data.draw(java_values(type_))
    wider = PROMOTIONS.get(type_, type_)
    ours: list[Change] = [
        ("add", "n", type_, None, {"default": first, "required": True}),
        ("default", "n", type_, second),
        ("promote", "n", wider),
    ]
    java = [
        ["add", "n", type_to_json(type_), None, {"default": to_json(type_, first), "required": True}],
        ["default", "n", type_to_json(type_), to_json(type_, second)],
        ["promote", "n", str(wider)],
    ]
    answer = ask(ask_java, "evolve", schema_to_json(schema), 1, java)
    check_schema(schema, ours, evolved(schema, 1, ours), answer, [])


# partition specs --------------------------------------------------------------------------------------------------

TABLE = Schema(
    (
        Field(1, "id", t.LONG, required=True),
        Field(2, "ts", t.TIMESTAMP),
        Field(3, "name", t.STRING),
        Field(4, "s", StructType((Field(5, "x", t.INT), Field(6, "d", t.DATE)))),
        Field(7, "l", ListType(8, t.INT)),
        Field(9, "ts_day", t.INT),
    )
)
FIRST_SPECS = [
    [], ["id"], ["day(ts) as d"], ["bucket(4, id)", "truncate(3, name)"], ["id", "hour(ts) as x"],
    ["s.x as p", "year(s.d)", "bucket(8, name) as q"], ["bucket(4, id) as p", "bucket(8, id) as q", "void(name)"],
]  # fmt: skip
LIKELY_TERMS = [
    ("identity", "id"), ("bucket[4]", "id"), ("bucket[8]", "id"), ("truncate[3]", "name"), ("truncate[5]", "name"),
    ("year", "ts"), ("day", "ts"), ("hour", "ts"), ("year", "s.d"), ("identity", "s.x"), ("void", "id"),
    ("bucket[8]", "name"), ("identity", "ts_day"),
]  # fmt: skip
TRANSFORMS = ["identity", "bucket[4]", "truncate[3]", "year", "month", "day", "hour", "void"]
SOURCES = ["id", "ts", "name", "s", "s.x", "s.d", "l.element", "ts_day"]
FIELD_NAMES = [None, None, None, "p", "q", "x", "z", "id", "ts_day", "id_bucket_4", "name_trunc_3"]

SPEC_DIFFERENCES = [
    Difference("Java", "Cannot add duplicate partition field name", "a field that was renamed is no longer in the way"),
    Difference("Java", "Cannot use partition name more than once", "void fields step aside for the names of others"),
    Difference(
        "Java", "Cannot create identity partition sourced from different|Cannot (rename and delete|delete and rename)",
        "void fields step aside for the names of others",
    ),
    Difference(
        "Floe", "would have the name of a column that it does not copy",
        "as in new tables, where Java refuses it too: `id` would mean one thing in rows, another in partitions",
    ),
    Difference(
        "Floe", "two partition fields are named", "Java takes a removal back under a name that nobody asked for"
    ),
]  # fmt: skip


def spec_change(spec_names: list[str], chance: random.Random) -> list[Any]:
    op = chance.choice(["add", "add", "add", "remove", "rename"])
    if op == "add":
        likely = chance.random() < 0.9
        term = chance.choice(LIKELY_TERMS) if likely else (chance.choice(TRANSFORMS), chance.choice(SOURCES))
        return [op, *term, chance.choice(FIELD_NAMES)]
    name = chance.choice(spec_names) if spec_names and chance.random() < 0.9 else chance.choice(["nope", "p"])
    return [op, name] if op == "remove" else [op, name, chance.choice([n for n in FIELD_NAMES if n])]


def changed_spec(metadata: TableMetadata, changes: list[list[Any]]) -> TableMetadata | FloeError:
    update = SpecUpdate(
        metadata.partition_specs,
        metadata.schema,
        metadata.format_version,
        metadata.last_partition_id,
        default_spec_id=metadata.default_spec_id,
    )
    try:
        for change in changes:
            match change:
                case "add", transform, source, name:
                    update.add_field(source, parse_transform(transform), name)
                case "remove", name:
                    update.remove_field(name)
                case "rename", name, new:
                    update.rename_field(name, new)
        updates = [AddPartitionSpec(update.apply()), SetDefaultSpec()]
        return apply(metadata, updates, now_ms=metadata.last_updated_ms + 1)
    except FloeError as error:
        return error


def spec_facts(metadata: TableMetadata) -> tuple[Any, ...]:
    specs = [(spec.spec_id, [str(f) for f in spec.fields]) for spec in metadata.partition_specs]
    return specs, metadata.default_spec_id, metadata.last_partition_id


def readded_under_another_name(metadata: TableMetadata, changes: list[list[Any]]) -> bool:
    """The one case of different results: Floe gives such a field its old id again, Java gives it a new one.

    The spec asks for the old one (Partition Evolution: ids must be reused for equivalent fields). Of several old ids
    Java takes any.
    """
    old = {(f.source_id, str(f.transform)): f.name for spec in metadata.partition_specs for f in spec.fields}
    return metadata.format_version > 1 and any(
        (TABLE_IDS.get(change[2]), change[1]) in old for change in changes if change[0] == "add"
    )


def renamed_void(metadata: TableMetadata, changes: list[list[Any]]) -> bool:
    """Java forgets a new name of a void field where something else takes the old one; Floe keeps and checks it."""
    voids = {f.name for f in metadata.spec.fields if str(f.transform) == "void"}
    return any(change[0] == "rename" and change[1] in voids for change in changes)


TABLE_IDS = {"id": 1, "ts": 2, "name": 3, "s.x": 7, "s.d": 8, "ts_day": 6}
"""The ids of the columns in a new table."""


@pytest.mark.parametrize("format_version", [1, 2, 3])
@settings(max_examples=100)
@given(terms=st.sampled_from(FIRST_SPECS), seed=SEEDS)
def test_partition_specs(ask_java: AskJava, format_version: int, terms: list[str], seed: int) -> None:
    """Changes of a table's partitioning one after the other, so that there are old specs to take ids from."""
    chance = random.Random(seed)
    metadata = new_table_metadata(
        TABLE,
        build_spec(TABLE, terms),
        location="s3://bucket/t",
        uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
        now_ms=1_700_000_000_000,
        format_version=format_version,
    )
    cases: list[tuple[TableMetadata, list[list[Any]], TableMetadata | FloeError]] = []
    for _ in range(8):
        names = [f.name for f in metadata.spec.fields]
        changes = [spec_change(names, chance) for _ in range(chance.choice([1, 1, 2, 3]))]
        ours = changed_spec(metadata, changes)
        cases.append((metadata, changes, ours))
        metadata = metadata if isinstance(ours, FloeError) else ours
    answers = ask_all(ask_java, [("evolveSpecs", serialize(base).decode(), [changes]) for base, changes, _ in cases])
    for (base, changes, ours), answer in zip(cases, answers, strict=True):
        if renamed_void(base, changes):
            continue
        shown = f"{spec_facts(base)}\n{changes}\nFloe: {ours if isinstance(ours, FloeError) else spec_facts(ours)}\n"
        if answer.refused:
            meant = isinstance(ours, FloeError) or explained(SPEC_DIFFERENCES, "Java", str(answer.message))
            assert meant, f"{shown}Java: {answer.message}"
            continue
        theirs = spec_facts(parse(str(answer.value).encode()))
        if isinstance(ours, FloeError):
            assert explained(SPEC_DIFFERENCES, "Floe", str(ours)), f"{shown}Java: {theirs}"
        else:
            same = spec_facts(ours) == theirs or readded_under_another_name(base, changes)
            assert same, f"{shown}Java: {theirs}"
