"""Random schema changes: what always holds, and PyIceberg making the same schema of the same changes."""

import contextlib
import itertools
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import assume, given, settings, strategies as st
from pyiceberg.table.update.schema import UpdateSchema

from floe.errors import FloeError
from floe.spec import types as t
from floe.spec.schemas.column_projection import FromFile, resolve_columns
from floe.spec.schemas.name_mapping import FileField
from floe.spec.schemas.promotion import can_promote
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_evolution import SchemaUpdate
from floe.spec.schemas.schema_json import schema_from_json, schema_to_json
from floe.spec.types import DecimalType, StructType
from helpers.corpus import metadata_files, read_metadata, table_names
from helpers.schema_rules import check_evolution
from helpers.schema_strategies import LEAVES_V3, NAMES, schemas, to_pyiceberg, types

WIDER = {"int": t.LONG, "float": t.DOUBLE, "decimal": DecimalType(20, 2), "date": t.TIMESTAMP}


@st.composite
def steps(draw, schema):
    """One change as (method, arguments, options); often one that is refused."""
    known = [entry.path for entry in schema.by_id.values()] or [("a",)]
    paths = st.sampled_from(known)
    method = draw(
        st.sampled_from(
            ["add_column", "add_column", "drop_column", "rename_column", "move_column", "make_optional", "require",
             "set_doc", "promote", "set_identifier_fields"]
        )
    )  # fmt: skip
    path = draw(paths)
    args, options = (path,), {}
    if method == "add_column":
        args = ((*draw(st.sampled_from([(), path])), draw(NAMES)), draw(types(LEAVES_V3, 1)))
        options = draw(_places(paths)) | {"required": draw(st.booleans())}
    elif method == "rename_column":
        args = (path, draw(NAMES))
    elif method == "move_column":
        options = draw(_places(paths))
    elif method == "set_doc":
        args = (path, "new")
    elif method == "promote":
        args = (path, draw(st.sampled_from([*WIDER.values(), t.STRING])))
    return method, args, options


@st.composite
def _places(draw, paths):
    other = draw(paths)
    return draw(st.sampled_from([{}, {"first": True}, {"before": other}, {"after": other}, {"after": other[-1]}]))


def make(update, changes):
    """Make the changes that are allowed, and pass over the others."""
    for method, args, options in changes:
        with contextlib.suppress(FloeError):
            getattr(update, method)(*args, **options)
    return update


def evolve(schema, last_column_id, changes, version=3):
    update = make(SchemaUpdate(schema, format_version=version, last_column_id=last_column_id), changes)
    try:
        return update.apply(), update.last_column_id
    except FloeError:
        return None


@st.composite
def evolutions(draw):
    schema = draw(schemas(LEAVES_V3))
    return schema, draw(st.lists(steps(schema), min_size=1, max_size=6))


@settings(max_examples=100)
@given(evolutions(), st.integers(0, 50))
def test_what_any_update_keeps(evolution, gap):
    schema, changes = evolution
    last = schema.highest_field_id + gap
    result = evolve(schema, last, changes)
    assume(result is not None)
    after, last_after = result
    # field identity is by id: what stays has its id, place and a type that the old one may become
    check_evolution(schema, after, format_version=3, last_column_id=last)
    # ids are unique (or there would be no schema), new ones are above all that were ever used, and counted
    assert all(last < i <= last_after for i in set(after.by_id) - set(schema.by_id))
    # names are unique without regard to what the names were before
    assert all(after.resolve(entry.path).field.id == i for i, entry in after.by_id.items())
    # the same from a schema that was written and read, and written and read afterwards
    assert evolve(schema_from_json(schema_to_json(schema)), last, changes) == result
    assert schema_from_json(schema_to_json(after)) == after


@settings(max_examples=60)
@given(evolutions())
def test_old_files_stay_readable(evolution):
    """Every column that stays is found in a file written before, and every other one has a value."""
    schema, changes = evolution
    result = evolve(schema, schema.highest_field_id, changes)
    assume(result is not None)
    after, _ = result
    for source in resolve_columns(after, map(FileField.of, schema.fields)):
        assert isinstance(source, FromFile) == (source.field.id in schema.by_id)


@settings(max_examples=40)
@given(schemas(), st.data())
def test_ids_are_never_used_again_over_many_updates(schema, data):
    last, seen = schema.highest_field_id, {i: entry.field.type.kind for i, entry in schema.by_id.items()}
    for _ in range(4):
        result = evolve(schema, last, data.draw(st.lists(steps(schema), max_size=3)))
        if result is None:
            continue
        after, new_last = result
        assert new_last >= last
        fresh = set(after.by_id) - set(schema.by_id)
        assert not fresh & set(seen)
        seen.update({i: after.find(i).type.kind for i in fresh})
        schema, last = after, new_last


@settings(max_examples=40)
@given(evolutions())
def test_a_step_that_is_refused_changes_nothing(evolution):
    schema, changes = evolution
    update = SchemaUpdate(schema, format_version=3, last_column_id=schema.highest_field_id)

    def state():
        try:
            return update.apply(), update.last_column_id
        except FloeError as error:
            return str(error), update.last_column_id

    for method, args, options in changes:
        before = state()
        try:
            getattr(update, method)(*args, **options)
        except FloeError:
            assert state() == before


@settings(max_examples=60)
@given(schemas(), schemas())
def test_union_by_name_holds_both(ours, other):
    """Every column of the other schema is in the union, under its path and with a type that can hold its values."""
    update = SchemaUpdate(
        replace(ours, identifier_field_ids=()), format_version=3, last_column_id=ours.highest_field_id
    )
    try:
        union = update.union_by_name(other).apply()
    except FloeError:
        return
    check_evolution(ours, union, format_version=3, last_column_id=ours.highest_field_id)
    assert set(ours.by_id) <= set(union.by_id)
    for entry in other.by_id.values():
        found = union.resolve(entry.path)
        if not entry.field.type.is_nested:
            assert can_promote(entry.field.type, found.field.type, 3)
        if entry.field.optional and found.field.id in ours.by_id:
            assert found.field.optional
    again = SchemaUpdate(union, format_version=3, last_column_id=update.last_column_id)
    assert again.union_by_name(other).apply() is union


# PyIceberg ---------------------------------------------------------------------------------------------------------


def pyiceberg_update(schema, **options):
    theirs = to_pyiceberg(schema)
    metadata = SimpleNamespace(
        partition_specs=[], schemas=[theirs], last_column_id=schema.highest_field_id, schema=lambda: theirs
    )
    return UpdateSchema(SimpleNamespace(table_metadata=metadata), **options)


def same(ours, theirs):
    assert schema_from_json(theirs.model_dump(by_alias=True, mode="json")).fields == ours.fields


def changeable(schema):
    """Fields of structs that are in no map key, whose paths no other field could be meant by."""
    return [
        i
        for i, entry in schema.by_id.items()
        if entry.ancestor_types[-1].kind == "struct"
        and not any(
            holder.kind == "map" and name == "key"
            for holder, name in zip(entry.ancestor_types, entry.path, strict=True)
        )
    ]


@settings(max_examples=80)
@given(st.data())
def test_pyiceberg_makes_the_same_changes(data):
    """Names mean the old schema's columns to PyIceberg, and the current ones to us, so each column is changed once."""
    schema = replace(data.draw(schemas(fresh=True)), identifier_field_ids=())
    fields = data.draw(st.lists(st.sampled_from(changeable(schema)), unique=True, max_size=4))
    ours = SchemaUpdate(schema, format_version=2, last_column_id=schema.highest_field_id)
    theirs = pyiceberg_update(schema)
    touched: set[int] = set()
    for n, field_id in enumerate(fields):
        entry = schema.by_id[field_id]
        around = {a.id for a in entry.ancestors}
        within = {i for i, e in schema.by_id.items() if field_id in {a.id for a in e.ancestors}}
        if touched & (around | within | {field_id}):
            continue
        touched.add(field_id)
        old = entry.path
        kind = entry.field.type.kind
        choice = data.draw(st.sampled_from(["rename", "doc", "optional", "drop", "promote", "first", "add"]))
        if choice == "rename":
            ours.rename_column(old, f"renamed{n}")
            theirs.rename_column(old, f"renamed{n}")
        elif choice == "doc":
            ours.set_doc(old, "other")
            theirs.update_column(old, doc="other")
        elif choice == "optional":
            ours.make_optional(old)
            theirs.make_column_optional(old)
        elif choice == "drop":
            ours.drop_column(old)
            theirs.delete_column(old)
        elif choice == "promote" and kind in ("int", "float"):
            ours.promote(old, WIDER[kind])
            theirs.update_column(old, to_pyiceberg(Schema((t.Field(1, "a", WIDER[kind]),))).fields[0].field_type)
        elif choice == "first":
            ours.move_column(old, first=True)
            theirs.move_first(old)
        elif choice == "add" and kind == "struct":
            new = StructType((t.Field(1, "x", t.INT), t.Field(2, "l", t.ListType(3, t.INT))))
            ours.add_column((*old, f"added{n}"), new, doc="d")
            theirs.add_column(
                (*old, f"added{n}"), to_pyiceberg(Schema((t.Field(9, "a", new),))).fields[0].field_type, doc="d"
            )
    same(ours.apply(), theirs._apply())


def union(schema, other):
    """The union that we make, and PyIceberg's; None where one refuses."""
    ours, theirs = None, None
    with contextlib.suppress(FloeError):
        update = SchemaUpdate(schema, format_version=2, last_column_id=schema.highest_field_id)
        ours = update.union_by_name(other).apply()
    with contextlib.suppress(Exception):
        theirs = pyiceberg_update(schema).union_by_name(to_pyiceberg(other))._apply()
    return ours, theirs


@settings(max_examples=100)
@given(schemas(fresh=True), schemas(fresh=True))
def test_pyiceberg_makes_the_same_union(schema, other):
    """But for new columns that are required in the other schema: as Java we add them as optional, PyIceberg refuses."""
    schema, other = replace(schema, identifier_field_ids=()), replace(other, identifier_field_ids=())
    ours, theirs = union(schema, other)
    if ours is not None and theirs is not None:
        same(ours, theirs)
    elif ours is not None:
        known = {entry.path for entry in schema.by_id.values()}
        added = [e for e in other.by_id.values() if e.path not in known and e.ancestor_types[-1].kind == "struct"]
        assert any(entry.field.required for entry in added)
    else:
        assert theirs is None


@pytest.mark.parametrize("name", table_names("evo_", without=("evo_partition",)))
def test_every_evolution_of_the_corpus_is_allowed(corpus_dir, name):
    """Java made them, one after the other."""
    metadata = read_metadata(metadata_files(corpus_dir, name)[-1])
    last = 0
    for before, after in itertools.pairwise(map(schema_from_json, metadata["schemas"])):
        last = max(last, before.highest_field_id)
        check_evolution(before, after, format_version=metadata["format-version"], last_column_id=last)
