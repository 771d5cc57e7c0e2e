"""Java Iceberg and Floe read the same filters, and skip the same partitions and files by them.

Floe keeps to SQL: null passes no comparison, NaN is greater than every number, `-0.0` equals `0.0`, and text, binary
and uuids compare by their bytes. Where that, or a proof that Java does not try, makes an answer differ, the case is in
a list here with its reason. *Tighter* is an answer that skips, or selects whole, where Java does not; *looser* the
opposite. Whatever Java says, Floe's own answer must be right for the values at hand.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from floe.errors import InvalidValue
from floe.spec import types as t
from floe.spec.codecs.single_value_json import to_json
from floe.spec.expressions.binder import bind
from floe.spec.expressions.expression_json import expression_from_json, expression_to_json
from floe.spec.expressions.nodes import And, BoundPredicate, BoundReference, BoundTransform, Expression, Not, Op, Or
from floe.spec.expressions.row_evaluation import compile_row_filter, compile_tuple_filter
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec, spec_to_json
from floe.spec.partitioning.transforms import (
    DAY,
    HOUR,
    IDENTITY,
    MONTH,
    VOID,
    YEAR,
    Bucket,
    Day,
    Identity,
    TimeTransform,
    Transform,
    Truncate,
    Void,
)
from floe.spec.pruning.metrics_evaluation import file_might_match as might_match, file_must_match as must_match
from floe.spec.pruning.projection import inclusive_projection, partition_schema, strict_projection
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import schema_to_json
from floe.spec.types import DecimalType, Field, Type
from helpers.filter_strategies import (
    COLUMNS,
    SCHEMA,
    TYPES,
    Metrics,
    allowed,
    literal_pool,
    metrics_of,
    pool,
    rows,
    transform_terms,
    value_in,
)
from helpers.java_oracle import ask_all

pytestmark = pytest.mark.interop

AskJava = Callable[..., str]

FLOATS = ("float", "double")
ORDER_TESTS = {Op.LT, Op.LT_EQ, Op.GT, Op.GT_EQ}
NEGATIVE_TESTS = {Op.NOT_EQ, Op.NOT_IN, Op.NOT_STARTS_WITH}
PREFIX_TESTS = {Op.STARTS_WITH, Op.NOT_STARTS_WITH}

# values and predicates --------------------------------------------------------------------------------------------

YEAR_1, YEAR_10000 = -719_162, 2_932_897


def java_can_carry(type_: Type, value: Any) -> bool:
    """Whether a value has a place in Java's JSON: no NaN, no infinity, years of four digits."""
    if type_.kind == "date":
        return YEAR_1 <= value < YEAR_10000
    return type_.kind not in FLOATS or math.isfinite(value)


def java_pool(type_: Type) -> list[Any]:
    return [value for value in pool(type_) if java_can_carry(type_, value)]


def java_literals(type_: Type) -> list[Any]:
    """As `java_pool`, but what filters hold: never -0.0."""
    return [value for value in java_pool(type_) if type_.kind not in FLOATS or math.copysign(1, value) > 0 or value]


def predicates_of(
    term: BoundReference | BoundTransform, literals: list[Any], chance: random.Random, each: int
) -> list[BoundPredicate]:
    """Every test of a term, with some of the literals."""
    found = []
    for op in Op:
        if not allowed(op, term.type):
            continue
        if op.is_unary:
            found.append(BoundPredicate(op, term))
        elif op.is_set:
            sets = [chance.sample(literals, min(len(literals), chance.choice([2, 3]))) for _ in range(each)]
            found += [BoundPredicate(op, term, tuple(sorted(set_))) for set_ in sets if len(set(set_)) > 1]
        else:
            usable = [value for value in literals if value or op not in PREFIX_TESTS]
            found += [BoundPredicate(op, term, (v,)) for v in chance.sample(usable, min(len(usable), each))]
    return found


# the JSON of filters ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_java_reads_the_filters_that_floe_writes(ask_java: AskJava, type_: Type) -> None:
    """What Java writes after reading is, read again by Floe, the filter that Floe wrote."""
    schema = Schema((Field(1, "c", type_),))
    reference = BoundReference(schema.entry(1))
    filters: list[Expression] = [*predicates_of(reference, java_literals(type_), random.Random(1), 12)]
    for term in transform_terms(reference):
        literals = [v for v in literal_pool(term) if java_can_carry(term.type, v)]
        filters += predicates_of(term, literals, random.Random(2), 4)
    pairs = zip(filters[::2], filters[1::2], strict=False)
    filters += [Not(And((a, Or((b, Not(a)))))) for a, b in pairs]
    calls = [("filter", schema_to_json(schema), expression_to_json(filter_)) for filter_ in filters]
    for filter_, answer in zip(filters, ask_all(ask_java, calls), strict=True):
        theirs = expression_from_json(answer.json(), schema)
        assert bind(theirs, schema) == bind(filter_, schema), f"{filter_}\n{answer.value}"


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_rows_that_pass(ask_java: AskJava, type_: Type) -> None:
    """Rows without null: of null, Java says that it is less than anything, and not equal to it."""
    schema = Schema((Field(1, "c", type_),))
    reference, values = BoundReference(schema.entry(1)), java_pool(type_)
    tests = predicates_of(reference, java_literals(type_), random.Random(3), 12)
    sent = [[to_json(type_, value)] for value in values]
    calls = [("rows", schema_to_json(schema), expression_to_json(test), sent) for test in tests]
    for test, answer in zip(tests, ask_all(ask_java, calls), strict=True):
        if nanos_in_set(test) or (type_.kind == "uuid" and test.op in ORDER_TESTS):
            continue
        passes = compile_row_filter(test)
        for value, theirs in zip(values, answer.json(), strict=True):
            assert passes({"c": value}) == theirs or zeros_meet(test, value), f"{test} of {value!r}: Java says {theirs}"


def nanos_in_set(test: BoundPredicate) -> bool:
    """Java takes the numbers of a set for microseconds, even where it should not."""
    return test.op.is_set and test.term.type.kind.endswith("_ns")


def zeros_meet(test: BoundPredicate, value: Any) -> bool:
    return test.term.type.kind in FLOATS and value == 0 and 0 in test.literals


# projections ------------------------------------------------------------------------------------------------------

TRANSFORMS: list[Transform] = [
    IDENTITY, VOID, Bucket(4), Truncate(1), Truncate(2), Truncate(3), Truncate(10), YEAR, MONTH, DAY, HOUR,
]  # fmt: skip
PARTITIONED = [(transform, type_) for transform in TRANSFORMS for type_ in TYPES if transform.can_transform(type_)]


@dataclass
class Partition:
    """One partition value, asked for by one test of its column."""

    transform: Transform
    test: BoundPredicate
    value: Any

    @cached_property
    def source(self) -> Type:
        term = self.test.term
        return term.type if isinstance(term, BoundReference) else term.ref.type

    @cached_property
    def is_plain(self) -> bool:
        return isinstance(self.test.term, BoundReference)

    @cached_property
    def at_an_end(self) -> bool:
        """Whether a literal or the value is one of the last few of a number's type, where arithmetic wraps around."""
        if isinstance(self.source, DecimalType):
            scale, last = self.source.scale, 10**self.source.precision
            numbers = [int(number.scaleb(scale)) for number in (*self.test.literals, self.value)]
        else:
            last = {"int": 2**31, "long": 2**63}.get(self.source.kind, 0)
            numbers = [*self.test.literals, self.value] if last else []
        return (
            any(abs(number) > last - 20 for number in numbers) or 2**31 - 20 < self.value < 2**31 if numbers else False
        )


PARTITION_DIFFERENCES: dict[str, tuple[str, Callable[[Partition], bool]]] = {
    "null passes no comparison; to Java it is less than anything": ("any", lambda p: p.value is None),
    "comparisons with short text and binary stay exact behind a prefix": (
        "tighter", lambda p: isinstance(p.transform, Truncate) and p.source.kind in ("string", "binary") and p.is_plain,
    ),
    "a prefix is as long as it has code points; Java counts UTF-16 units, and skips rows that pass": (
        "looser", lambda p: p.test.op in PREFIX_TESTS and max(p.test.literals[0]) > "\uffff",
    ),
    "days of dates are the dates": ("tighter", lambda p: isinstance(p.transform, Day) and p.source.kind == "date"),
    "-0.0 equals 0.0": ("any", lambda p: p.value is not None and zeros_meet(p.test, p.value)),
    "uuids compare unsigned": ("any", lambda p: p.source.kind == "uuid" and p.test.op in ORDER_TESTS),
    "old writers are allowed for in transformed terms too": (
        "looser", lambda p: isinstance(p.transform, TimeTransform) and not p.is_plain and p.value <= 0,
    ),
    "after 1970-01-01 needs no allowance for old writers": (
        "tighter", lambda p: isinstance(p.transform, TimeTransform) and p.value == 1 and p.test.op in ORDER_TESTS,
    ),
    "Java's arithmetic wraps around, in rows and in literals": (
        "any", lambda p: isinstance(p.transform, Truncate) and p.value is not None and p.at_an_end,
    ),
    "Java takes nanoseconds in sets for microseconds": ("any", lambda p: nanos_in_set(p.test)),
}  # fmt: skip


def is_meant(table: dict[str, tuple[str, Callable[[Any], bool]]], case: Any, direction: str) -> bool:
    return any(way in (direction, "any") and applies(case) for way, applies in table.values())


def partition_values(transform: Transform, type_: Type) -> list[Any]:
    """Values that partitions have, and their neighbours."""
    cut, result = transform.bind(type_), transform.result_type(type_)
    values = []
    for value in java_pool(type_):
        try:
            values.append(cut(value))
        except InvalidValue:
            continue  # too low to be truncated
    limits = {"int": range(-(2**31), 2**31), "long": range(-(2**63), 2**63), "date": range(YEAR_1, YEAR_10000)}
    if result.kind in limits and not isinstance(transform, Void):
        values += [value + step for value in values for step in (-1, 1) if value + step in limits[result.kind]]
    return list(dict.fromkeys(value for value in values if value is not None))


@pytest.mark.parametrize(("transform", "type_"), PARTITIONED, ids=str)
def test_projections(ask_java: AskJava, transform: Transform, type_: Type) -> None:
    """Every test of a column through every transform, for many partition values."""
    schema = Schema((Field(1, "c", type_),))
    spec = PartitionSpec((PartitionField((1,), 1000, "p", transform),))
    values, result = partition_values(transform, type_), transform.result_type(type_)
    reference, chance = BoundReference(schema.entry(1)), random.Random(4)
    tests = predicates_of(reference, java_literals(type_), chance, 30)
    if not isinstance(transform, Identity | Void):
        tests += predicates_of(BoundTransform(transform, reference, result), values, chance, 10)
    sent = [[to_json(result, value)] for value in values]
    calls = [
        ("partitions", schema_to_json(schema), spec_to_json(spec), expression_to_json(test), is_strict, sent + nulls)
        for test in tests
        # Java cannot look up null in a set of text
        for nulls in ([[[None]]] if not (test.op.is_set and type_.kind == "string") else [[]])
        for is_strict in (False, True)
    ]
    answers = iter(ask_all(ask_java, calls))
    for test in tests:
        for project in (inclusive_projection, strict_projection):
            answer = next(answers)
            if answer.refused:
                assert nanos_in_set(test), f"{test}: {answer}"
                continue
            projected = project(test, spec, schema)
            ours = compile_tuple_filter(projected, partition_schema(spec, schema))
            check_soundness(test, transform, ours, project is strict_projection)
            for value, theirs in zip([*values, None], answer.json(), strict=False):
                if ours((value,)) != theirs:
                    way = "tighter" if theirs == (project is inclusive_projection) else "looser"
                    meant = is_meant(PARTITION_DIFFERENCES, Partition(transform, test, value), way)
                    assert meant, f"{test} became {projected}: {way} than Java for {value!r}"


def check_soundness(
    test: BoundPredicate, transform: Transform, selects: Callable[[Any], bool], is_strict: bool
) -> None:
    passes, source = (
        compile_row_filter(test),
        test.term.type if isinstance(test.term, BoundReference) else test.term.ref.type,
    )
    cut = transform.bind(source)
    for value in [None, *pool(source)]:
        try:
            row_passes, selected = passes({"c": value}), selects((cut(value),))
        except InvalidValue:
            continue  # too low to be truncated
        assert (row_passes or not selected) if is_strict else (selected or not row_passes), f"{test} of {value!r}"


PLAIN = Schema((Field(1, "n", t.LONG), Field(2, "d", t.DATE), Field(3, "ts", t.TIMESTAMPTZ), Field(4, "s", t.STRING)))
PLAIN_VALUES: dict[int, list[Any]] = {
    1: [-25, -10, -1, 0, 3, 9, 10, 11, 500],
    2: [400, 700, 731, 19_000, 19_001, 19_031, 20_000],
    3: [n * 3_600_000_000 + 5 for n in (9_000, 9_001, 20_000, 400_000, 400_020, 401_000)],
    4: ["a", "b", "north", "south"],
}
PLAIN_TRANSFORMS: dict[int, list[Transform]] = {
    1: [IDENTITY, Bucket(3), Truncate(10), VOID],
    2: [IDENTITY, Bucket(3), YEAR, MONTH],
    3: [YEAR, MONTH, DAY, HOUR],
    4: [IDENTITY, Bucket(3)],
}
"""Nothing here is in any list of differences."""


def plain_filter(chance: random.Random, depth: int) -> Expression:
    kind = chance.choice(["and", "or", "not"]) if depth and chance.random() < 0.7 else "test"
    if kind == "not":
        return Not(plain_filter(chance, depth - 1))
    if kind != "test":
        parts = tuple(plain_filter(chance, depth - 1) for _ in range(2))
        return And(parts) if kind == "and" else Or(parts)
    column = chance.choice(list(PLAIN_VALUES))
    return chance.choice(predicates_of(BoundReference(PLAIN.entry(column)), PLAIN_VALUES[column], chance, 2))


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32))
def test_projections_of_whole_filters(ask_java: AskJava, seed: int) -> None:
    """Filters with AND, OR and NOT on several columns through specs of several fields: equal answers throughout."""
    chance = random.Random(seed)
    sources = [chance.choice(list(PLAIN_VALUES)) for _ in range(chance.randint(1, 3))]
    fields = tuple(
        PartitionField((source,), 1000 + n, f"p{n}", chance.choice(PLAIN_TRANSFORMS[source]))
        for n, source in enumerate(sources)
    )
    spec = PartitionSpec(fields)
    types = [field.type for field in spec.partition_type(PLAIN).fields]
    tuples = []
    for _ in range(20):
        row = {source: chance.choice(values) for source, values in PLAIN_VALUES.items()}
        tuples.append(tuple(f.transform.apply(PLAIN.entry(f.source_id).field.type, row[f.source_id]) for f in fields))
    sent = [[None if v is None else to_json(ty, v) for ty, v in zip(types, values, strict=True)] for values in tuples]
    filters = [plain_filter(chance, 3) for _ in range(6)]
    calls = [
        ("partitions", schema_to_json(PLAIN), spec_to_json(spec), expression_to_json(filter_), is_strict, sent)
        for filter_ in filters
        for is_strict in (False, True)
    ]
    answers = iter(ask_all(ask_java, calls))
    for filter_ in filters:
        bound = bind(filter_, PLAIN)
        for project in (inclusive_projection, strict_projection):
            ours = compile_tuple_filter(project(bound, spec, PLAIN), partition_schema(spec, PLAIN))
            assert [ours(values) for values in tuples] == next(answers).json(), f"{filter_} by {spec}"


# metrics ----------------------------------------------------------------------------------------------------------


@dataclass
class File:
    """The metrics of one column in a file, asked by one test."""

    test: BoundPredicate
    metrics: Metrics

    @cached_property
    def reference(self) -> BoundReference:
        term = self.test.term
        return term if isinstance(term, BoundReference) else term.ref

    def count(self, name: str) -> int | None:
        return (getattr(self.metrics, name) or {}).get(self.reference.field_id)

    @property
    def kind(self) -> str:
        return self.reference.type.kind

    @property
    def is_plain(self) -> bool:
        return isinstance(self.test.term, BoundReference)

    @property
    def is_nested(self) -> bool:
        return self.reference.field_id > 100

    @property
    def may_hold_null(self) -> bool:
        return self.count("null_value_counts") != 0

    @property
    def may_hold_nan(self) -> bool:
        return self.kind in FLOATS and self.count("nan_value_counts") != 0

    @property
    def bounds(self) -> tuple[bytes | None, bytes | None]:
        field_id = self.reference.field_id
        return tuple((bounds or {}).get(field_id) for bounds in (self.metrics.lower_bounds, self.metrics.upper_bounds))


def zero_is_near(file: File) -> bool:
    return file.kind in FLOATS and (
        0 in file.test.literals or any(b is not None and not any(b[:-1]) for b in file.bounds)
    )


def all_counted(file: File) -> bool:
    """Whether nulls and NaN are known to be all that a column holds."""
    nulls, nans = file.count("null_value_counts") or 0, file.count("nan_value_counts") or 0
    return nulls + nans == file.metrics.record_count


def may_be_microseconds(file: File) -> bool:
    """Whether all bounds of nanoseconds are so near to 1970 that they may be Java's microseconds of ORC."""
    known = [int.from_bytes(bound, "little", signed=True) for bound in file.bounds if bound is not None]
    return file.kind in ("timestamp_ns", "timestamptz_ns") and all(abs(bound) <= 2**63 // 1000 for bound in known)


MIGHT_DIFFERENCES: dict[str, tuple[str, Callable[[File], bool]]] = {
    "NaN is greater than every number, and differs from each": (
        "looser", lambda f: f.may_hold_nan and f.test.op in (Op.GT, Op.GT_EQ, Op.NOT_EQ, Op.NOT_IN),
    ),
    "bounds of nanoseconds that may be microseconds are not believed": ("looser", may_be_microseconds),
    "-0.0 equals 0.0": ("any", zero_is_near),
    "uuids compare unsigned, and Java's bounds of them tell less": ("any", lambda f: f.kind == "uuid"),
    "fields of null structs are not counted by all writers": (
        "looser", lambda f: f.is_nested and f.count("value_counts") != f.metrics.record_count,
    ),
    "null passes no comparison, and is not NOT NaN": (
        "tighter", lambda f: f.may_hold_null and f.test.op in {*NEGATIVE_TESTS, Op.NOT_NAN},
    ),
    "one bound may be enough": ("tighter", lambda f: f.test.op in (Op.IN, Op.STARTS_WITH) and None in f.bounds),
    "nulls and NaN together may be all there is": ("tighter", all_counted),
    "a set may hold all values between the bounds": ("tighter", lambda f: f.test.op is Op.NOT_IN),
    "a bucket is null for null alone": ("tighter", lambda f: not f.is_plain and f.test.op is Op.IS_NULL),
    "the lowest numbers have no truncated value; Java's arithmetic wraps around": (
        "looser", lambda f: not f.is_plain and f.kind in ("int", "long", "decimal"),
    ),
    "prefixes of prefixes": ("tighter", lambda f: not f.is_plain and f.test.op in PREFIX_TESTS),
}  # fmt: skip

MUST_DIFFERENCES: dict[str, tuple[str, Callable[[File], bool]]] = {
    "null passes no comparison, and is not NOT NaN": (
        "looser", lambda f: f.may_hold_null and f.test.op in {*NEGATIVE_TESTS, Op.NOT_NAN},
    ),
    "without a count there may be nulls": ("looser", lambda f: f.count("null_value_counts") is None),
    "without a count there may be NaN": ("looser", lambda f: f.kind in FLOATS and f.count("nan_value_counts") is None),
    "bounds of nanoseconds that may be microseconds are not believed": ("looser", may_be_microseconds),
    "-0.0 equals 0.0": ("any", zero_is_near),
    "uuids compare unsigned, and Java's bounds of them tell less": ("any", lambda f: f.kind == "uuid"),
    "fields of null structs are not counted by all writers": ("looser", lambda f: f.is_nested),
    "nulls and NaN together may be all there is": ("tighter", all_counted),
    "NaN is greater than every number, and differs from each": ("tighter", lambda f: f.may_hold_nan),
    "a required column has no nulls": ("tighter", lambda f: not f.reference.nullable),
    "transformed terms have bounds too": ("tighter", lambda f: not f.is_plain),
    "columns in structs have metrics too": ("tighter", lambda f: f.is_nested),
    "a set may hold all values between the bounds": ("tighter", lambda f: f.test.op is Op.IN),
}  # fmt: skip


def metrics_json(metrics: Metrics) -> tuple[dict[str, Any], dict[str, Any]]:
    counts = {"values": metrics.value_counts, "nulls": metrics.null_value_counts, "nans": metrics.nan_value_counts}
    bounds = {"lower": metrics.lower_bounds, "upper": metrics.upper_bounds}
    hexed = {name: None if b is None else {i: data.hex() for i, data in b.items()} for name, b in bounds.items()}
    return counts, hexed


@settings(max_examples=200)
@given(data=st.data(), field_id=st.sampled_from(COLUMNS), seed=st.integers(0, 2**32))
def test_metrics(ask_java: AskJava, data: st.DataObject, field_id: int, seed: int) -> None:
    """Every test of a column, and of its transforms, for files with right but often incomplete metrics."""
    held = data.draw(rows([field_id], max_size=3))
    metrics = data.draw(metrics_of(held, [field_id]))
    chance, reference = random.Random(seed), BoundReference(SCHEMA.entry(field_id))
    tests = []
    for term in (reference, *transform_terms(reference)):
        literals = [v for v in literal_pool(term) if v is not None and java_can_carry(term.type, v)]
        tests += predicates_of(term, literals, chance, 3)
    column = schema_to_json(Schema((SCHEMA.entry(field_id if field_id < 100 else 101).field,)))
    calls = [
        ("metrics", column, expression_to_json(test), is_strict, metrics.record_count, *metrics_json(metrics))
        for test in tests
        for is_strict in (False, True)
    ]
    answers = iter(ask_all(ask_java, calls))
    for test in tests:
        file, passing = File(test, metrics), passing_rows(test, field_id, held)
        for ours, differences, is_strict in (
            (might_match(test, metrics), MIGHT_DIFFERENCES, False),
            (must_match(test, metrics), MUST_DIFFERENCES, True),
        ):
            assert ours or is_strict or not any(passing), f"{test} skips {metrics} of {held}"
            assert not ours or not is_strict or all(passing), f"{test} selects {metrics} of {held}"
            answer = next(answers)
            if nanos_in_set(test):
                continue
            theirs = answer.json()
            way = "tighter" if theirs != is_strict else "looser"
            assert ours == theirs or is_meant(differences, file, way), f"{test}: {way} than Java for {metrics}"


def passing_rows(test: BoundPredicate, field_id: int, held: list[dict[str, Any]]) -> list[bool]:
    passes, found = compile_row_filter(test), []
    for row in held:
        try:
            found.append(passes(row))
        except InvalidValue:
            assert value_in(row, field_id) is not None  # too low to be truncated
    return found
