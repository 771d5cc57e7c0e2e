"""Default values (spec: Default values; Schema Evolution, rules for default values)."""

from dataclasses import replace

import pytest

from floe.errors import InvalidSchema, InvalidValue
from floe.spec import types as t
from floe.spec.schemas.schema import Schema, initial_value, write_value
from floe.spec.types import Field, GeographyType, GeometryType, ListType, MapType, StructType


def point(default):
    """The spec's example: a struct of x and y, whose fields default to 0."""
    children = tuple(Field(n, name, t.INT, initial_default=0, write_default=0) for n, name in ((2, "x"), (3, "y")))
    return Field(1, "point", StructType(children), initial_default=default, write_default=default)


def check(field, version=3):
    Schema((field,)).check_for_table(version)


# what may be stored ------------------------------------------------------------------------------------------------


def test_initial_default_needs_v3():
    field = Field(1, "a", t.INT, initial_default=1)
    check(field)
    for version in (1, 2):
        with pytest.raises(InvalidSchema, match=rf"'a' has an initial-default, .* version 3; the table has {version}"):
            check(field, version)


def test_write_default_is_a_forward_compatible_change():
    """Spec, Appendix E: it is only used at write time, so older tables that have one stay readable."""
    check(Field(1, "a", t.INT, write_default=1), 2)


@pytest.mark.parametrize("type_", [t.UNKNOWN, t.VARIANT, GeometryType(), GeographyType()], ids=str)
@pytest.mark.parametrize("label", ["initial_default", "write_default"])
def test_unknown_variant_and_geo_default_to_null_only(type_, label):
    check(Field(1, "a", type_))
    with pytest.raises(InvalidSchema, match=f"whose {label.replace('_', '-')} can only be null"):
        check(Field(1, "a", type_, **{label: b"\x00"}))


def test_struct_defaults_are_null_or_empty():
    check(point(None))
    check(point({}))
    with pytest.raises(InvalidSchema, match="the initial-default of struct 'point' can only be null or an empty"):
        check(point({"x": 1}))


def test_defaults_must_be_values_of_the_type():
    with pytest.raises(InvalidSchema, match=r"the write-default of 'st\.a' is not"):
        check(Field(1, "st", StructType((Field(2, "a", t.INT, write_default="1"),))))
    with pytest.raises(InvalidSchema, match="the initial-default of 'a' is not"):
        check(Field(1, "a", t.INT, initial_default=2**31))
    check(Field(1, "a", ListType(2, t.INT), initial_default=[1, None]))


# what they amount to -----------------------------------------------------------------------------------------------


def test_missing_point_with_null_default_is_null():
    assert initial_value(point(None)) is None
    assert write_value(point(None)) is None


def test_missing_point_with_empty_default_is_made_from_its_fields_defaults():
    assert initial_value(point({})) == {"x": 0, "y": 0}
    assert write_value(point({})) == {"x": 0, "y": 0}


def test_initial_and_write_default_are_kept_apart():
    field = Field(1, "a", t.INT, required=True, initial_default=1, write_default=2)
    assert (initial_value(field), write_value(field)) == (1, 2)


def test_an_unset_default_of_an_optional_field_is_null():
    assert initial_value(Field(1, "a", t.INT)) is None
    assert write_value(Field(1, "a", t.INT)) is None


def test_a_writer_fails_when_a_required_field_has_no_write_default():
    with pytest.raises(InvalidValue, match="'a' is required and has no write-default"):
        write_value(Field(1, "a", t.INT, required=True, initial_default=1))


def test_struct_defaults_nest():
    inner = replace(point({}), id=5, name="inner")
    outer = Field(4, "outer", StructType((inner, Field(6, "n", t.STRING))), initial_default={})
    assert initial_value(outer) == {"inner": {"x": 0, "y": 0}, "n": None}


def test_an_empty_struct_default_needs_defaults_of_its_required_fields():
    struct = StructType((Field(2, "x", t.INT, required=True),))
    with pytest.raises(InvalidValue, match="'x' is required and has no initial-default"):
        initial_value(Field(1, "st", struct, initial_default={}))
    assert initial_value(Field(1, "st", struct)) is None


def test_structs_in_lists_and_maps_are_filled_too():
    struct = point(None).type
    field = Field(10, "l", ListType(11, struct), initial_default=[{}, None, {"x": 7}])
    assert initial_value(field) == [{"x": 0, "y": 0}, None, {"x": 7, "y": 0}]
    field = Field(10, "m", MapType(11, t.STRING, 12, struct), initial_default={"k": {}, "n": None})
    assert initial_value(field) == {"k": {"x": 0, "y": 0}, "n": None}
    field = Field(10, "m", MapType(11, ListType(13, t.INT), 12, struct), initial_default=[([1], {})])
    assert initial_value(field) == [([1], {"x": 0, "y": 0})]
