"""Residuals in columns beside the rules for one partition tuple."""

from hypothesis import given, settings, strategies as st

from floe.plan.file_selection import Residuals
from floe.spec.expressions.nodes import BoundPredicate, BoundReference, Op, or_
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec, partition_value_fn
from floe.spec.partitioning.transforms import IDENTITY, Bucket, Truncate
from floe.spec.pruning.column_evaluation import make_column
from helpers.filter_strategies import SCHEMA, filters, pool, predicates, references, safe_rows
from helpers.random_tables import IDS, SPECS
from helpers.residuals import compile_residual


def codes_of(bound, spec, tuples):
    fields = spec.partition_type(SCHEMA).fields
    columns = {field.id: make_column(field.type, [t[n] for t in tuples]) for n, field in enumerate(fields)}
    residuals = Residuals(bound)
    codes = residuals.under(spec, SCHEMA).codes(columns.__getitem__, len(tuples))
    found = [0] * len(tuples) if codes is None else codes.tolist()
    return [residuals.expressions[code] for code in found], residuals


@settings(max_examples=300)
@given(
    bound=filters(predicates(references(IDS), transformed=True)),
    spec=st.sampled_from(SPECS),
    picks=st.lists(st.integers(0, 10**6), min_size=1, max_size=8),
)
def test_residuals_are_those_of_each_tuple(bound, spec, picks):
    columns = [(SCHEMA.entry(i).field.name, [*pool(SCHEMA.entry(i).field.type), None]) for i in IDS]
    rows = [{name: values[pick % len(values)] for name, values in columns} for pick in picks]
    tuple_of = partition_value_fn(spec, SCHEMA)
    tuples = [tuple_of(row) for row in safe_rows(rows, IDS)]
    found, _ = codes_of(bound, spec, tuples)
    expected = compile_residual(bound, spec, SCHEMA)
    assert found == [expected(one) for one in tuples]


def test_many_partitions_have_few_residuals():
    spec = PartitionSpec((PartitionField((2,), 1000, "n", Truncate(10)),))
    bound = BoundPredicate(Op.GT, BoundReference(SCHEMA.entry(2)), (4995,))
    found, residuals = codes_of(bound, spec, [(n * 10,) for n in range(1000)])
    assert len(residuals.expressions) == 3
    assert [str(one) for one in (found[0], found[499], found[500])] == ["false", "c2 > 4995", "true"]


def test_many_tests_do_not_overflow():
    """3 states to the power of 60 tests are more than 64 bits hold."""
    spec = PartitionSpec((PartitionField((2,), 1000, "n", Bucket(16)), PartitionField((15,), 1001, "s", IDENTITY)))
    number = BoundReference(SCHEMA.entry(2))
    bound = or_(*(BoundPredicate(Op.EQ, number, (n,)) for n in range(60)))
    tuples = [(n % 16, "a") for n in range(50)]
    found, _ = codes_of(bound, spec, tuples)
    expected = compile_residual(bound, spec, SCHEMA)
    assert found == [expected(one) for one in tuples]
