"""Whether one schema may follow another (spec: Schema Evolution), for schemas that come from elsewhere."""

import itertools
from dataclasses import replace

import pytest

from floe.errors import IncompatibleChange, InvalidSchema
from floe.spec import types as t
from floe.spec.partitioning.partition_spec import PartitionField
from floe.spec.partitioning.transforms import Bucket
from floe.spec.schemas.compatibility import check_evolution
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import schema_from_json
from floe.spec.types import Field, ListType, MapType, StructType
from helpers.corpus import metadata_files, read_metadata, table_names

A, B, C = Field(1, "a", t.INT), Field(2, "b", t.INT), Field(3, "c", t.INT)


def check(before, after, version=2, last=None, **options):
    before, after = Schema(tuple(before)), Schema(tuple(after))
    last = before.highest_field_id if last is None else last
    check_evolution(before, after, format_version=version, last_column_id=last, **options)


def refused(why, *args, **options):
    with pytest.raises(InvalidSchema, match=why):
        check(*args, **options)


def test_add_drop_rename_and_reorder():
    check([A, B], [replace(B, name="a"), Field(4, "new", t.STRING), replace(A, name="b", doc="d")], last=3)
    check([A, B], [])


def test_an_id_is_never_used_again():
    refused("'n' is new but has id 3, which the table has used before", [A, B], [A, B, Field(3, "n", t.INT)], last=3)


def test_grouping_fields_into_a_nested_struct_is_not_allowed():
    """struct<a, b, c> does not become struct<a, struct<b, c>>."""
    grouped = Field(4, "g", StructType((B, C)))
    refused(r"'g\.b' was 'b' before: a field cannot leave its struct", [A, B, C], [A, grouped])


def test_moving_fields_from_a_nested_struct_to_its_parent_is_not_allowed():
    """struct<a, struct<b, c>> does not become struct<a, b, c>."""
    grouped = Field(4, "g", StructType((B, C)))
    refused(r"'b' was 'g\.b' before: a field cannot leave its struct", [A, grouped], [A, B, C])


def test_evolving_a_primitive_to_a_struct_is_not_allowed():
    """map<string, int> does not become map<string, struct<int>>."""
    before = Field(1, "m", MapType(2, t.STRING, 3, t.INT))
    after = Field(1, "m", MapType(2, t.STRING, 3, StructType((Field(4, "x", t.INT),))))
    refused("do not turn into each other", [before], [after])


def test_evolving_a_single_field_struct_to_a_primitive_is_not_allowed():
    """map<string, struct<int>> does not become map<string, int>."""
    before = Field(1, "m", MapType(2, t.STRING, 3, StructType((Field(4, "x", t.INT),))))
    after = Field(1, "m", MapType(2, t.STRING, 3, t.INT))
    refused("do not turn into each other", [before], [after])


def test_promotions_follow_the_format_version():
    day, moment = Field(1, "d", t.DATE), Field(1, "d", t.TIMESTAMP)
    check([A], [replace(A, type=t.LONG)])
    check([day], [moment], version=3)
    refused("needs format version 3", [day], [moment])
    refused("no promotion leads there", [A], [replace(A, type=t.STRING)])


def test_promotions_look_at_partition_fields():
    fields = [PartitionField((1,), 1000, "p", Bucket(3))]
    day, moment = Field(1, "d", t.DATE), Field(1, "d", t.TIMESTAMP)
    refused("would get other values", [day], [moment], version=3, partition_fields=fields)


def test_unknown_may_become_a_struct_with_new_ids():
    after = Field(1, "u", StructType((Field(2, "x", t.INT, required=True),)))
    check([Field(1, "u", t.UNKNOWN)], [after], version=3)


def test_the_initial_default_cannot_change():
    before = Field(1, "a", t.INT, initial_default=1, write_default=1)
    check([before], [replace(before, write_default=2)], version=3)
    for after in (2, None):
        refused(
            "the initial-default of 'a' cannot change", [before], [replace(before, initial_default=after)], version=3
        )
    refused("the initial-default of 'a' cannot change", [A], [replace(A, initial_default=1)], version=3)
    check([before], [replace(before, type=t.LONG)], version=3)
    day = Field(1, "d", t.DATE, initial_default=1)
    check([day], [Field(1, "d", t.TIMESTAMP, initial_default=86_400_000_000)], version=3)
    refused("cannot change", [day], [Field(1, "d", t.TIMESTAMP, initial_default=1)], version=3)


def test_a_new_required_field_needs_both_defaults():
    both = Field(2, "n", t.INT, required=True, initial_default=1, write_default=1)
    check([A], [A, both], version=3)
    refused("required, but rows already written get no value", [A], [A, replace(both, initial_default=None)], version=3)
    refused("has no write-default", [A], [A, replace(both, write_default=None)], version=3)
    check([A], [A, Field(2, "n", t.INT, required=True)], allow_incompatible=True)


def test_required_fields_of_a_new_struct_need_none():
    check([A], [A, Field(2, "st", StructType((Field(3, "x", t.INT, required=True),)))])
    check([A], [A, Field(2, "l", ListType(3, t.INT, element_required=True))])


def test_optional_to_required_is_not_allowed():
    required = replace(A, required=True)
    check([required], [A])
    refused("was optional and cannot be required", [A], [required])
    check([A], [required], allow_incompatible=True)


def test_the_new_schema_must_suit_the_format_version():
    refused("needs format version 3", [A], [A, Field(2, "v", t.VARIANT)])


EVOLVED = table_names("evo_", without=("evo_partition",))


@pytest.mark.parametrize("name", EVOLVED)
def test_every_evolution_of_the_corpus_is_allowed(corpus_dir, name):
    """Java made them, one after the other."""
    metadata = read_metadata(metadata_files(corpus_dir, name)[-1])
    schemas = [schema_from_json(s) for s in metadata["schemas"]]
    last = 0
    for before, after in itertools.pairwise(schemas):
        last = max(last, before.highest_field_id)
        check_evolution(before, after, format_version=metadata["format-version"], last_column_id=last)


def test_incompatible_change_is_an_invalid_schema():
    with pytest.raises(IncompatibleChange):
        check([A], [replace(A, type=t.STRING)])


def test_a_default_of_nan_is_the_same_default():
    not_a_number = Field(1, "x", t.DOUBLE, initial_default=float("nan"), write_default=float("nan"))
    check([not_a_number], [replace(not_a_number, initial_default=float("nan"), doc="d")], version=3)
    refused(
        "the initial-default of 'x' cannot change",
        [not_a_number],
        [replace(not_a_number, initial_default=1.0)],
        version=3,
    )


def test_the_initial_default_of_a_list_follows_its_element():
    days = Field(1, "days", ListType(2, t.DATE), initial_default=[1])
    moments = replace(days, type=ListType(2, t.TIMESTAMP))
    check([days], [replace(moments, initial_default=[86_400_000_000])], version=3)
    refused("the initial-default of 'days' cannot change", [days], [moments], version=3)
