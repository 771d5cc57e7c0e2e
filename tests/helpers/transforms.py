"""Transforms for tests: every allowed pair of transform and type, and PyIceberg's view of both."""

from pyiceberg import transforms as py, types as pt

from floe.spec import types as t
from floe.spec.partitioning.transforms import DAY, HOUR, IDENTITY, MONTH, VOID, YEAR, Bucket, Truncate
from floe.spec.types import DecimalType, FixedType

SOURCES = [
    t.BOOLEAN, t.INT, t.LONG, t.FLOAT, t.DOUBLE, DecimalType(9, 2), DecimalType(18, 0), DecimalType(38, 10), t.DATE,
    t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ, t.TIMESTAMP_NS, t.TIMESTAMPTZ_NS, t.STRING, t.UUID, FixedType(5), t.BINARY,
]  # fmt: skip
TRANSFORMS = [
    IDENTITY, VOID, YEAR, MONTH, DAY, HOUR, Bucket(1), Bucket(16), Bucket(2**31 - 1), Truncate(1), Truncate(7),
    Truncate(1000),
]  # fmt: skip
ALLOWED = [(transform, source) for transform in TRANSFORMS for source in SOURCES if transform.can_transform(source)]
COMPUTED = [(transform, source) for transform, source in ALLOWED if transform not in (IDENTITY, VOID)]


def allowed_id(value):
    """A short name of a transform or type for the id of a test."""
    return str(value)


def pyiceberg_transform(transform):
    """The same transform in PyIceberg."""
    return py.parse_transform(str(transform))


def pyiceberg_type(type_):
    """The same type in PyIceberg."""
    if isinstance(type_, DecimalType):
        return pt.DecimalType(type_.precision, type_.scale)
    if isinstance(type_, FixedType):
        return pt.FixedType(type_.length)
    return {
        "boolean": pt.BooleanType, "int": pt.IntegerType, "long": pt.LongType, "float": pt.FloatType,
        "double": pt.DoubleType, "date": pt.DateType, "time": pt.TimeType, "timestamp": pt.TimestampType,
        "timestamptz": pt.TimestamptzType, "timestamp_ns": pt.TimestampNanoType,
        "timestamptz_ns": pt.TimestamptzNanoType, "string": pt.StringType, "uuid": pt.UUIDType, "binary": pt.BinaryType,
        "unknown": pt.UnknownType,
    }[type_.kind]()  # fmt: skip
