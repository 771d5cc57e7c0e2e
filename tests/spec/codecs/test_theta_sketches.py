"""Theta sketches and their hash: known values, another implementation, exact below 4,096, bounds above, broken bytes.

What Apache DataSketches itself makes of the same bytes is compared in tests/spark/test_statistics.py.
"""

import struct

import mmh3
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from floe.errors import CorruptFile, FloeError, UnsupportedFeature
from floe.spec.codecs.theta_sketches import SEED, ThetaSketch, hash_fixed_bytes, hash_var_bytes, value_hashes_of

LONG_MAX = 2**63 - 1
VALUES = st.lists(st.binary(min_size=1, max_size=12), max_size=40)


def hashed(values, seed):
    offsets = np.cumsum([0, *map(len, values)])
    return hash_var_bytes(np.frombuffer(b"".join(values), np.uint8), offsets, seed).tolist()


def sketch_of(values):
    return ThetaSketch.of(value_hashes_of(values))


def numbers(begin, end):
    return [struct.pack("<q", n) for n in range(begin, end)]


# the hash ---------------------------------------------------------------------------------------------------------


def test_the_hash_has_the_published_values() -> None:
    fox = b"The quick brown fox jumps over the lazy dog"
    assert hashed([b"", fox], 0) == [0, 0xE34BBC7BBC071B6C]


@given(st.lists(st.binary(max_size=70) | st.binary(min_size=250, max_size=300), max_size=20), st.integers(0, 2**32 - 1))
def test_byte_strings_of_any_length_are_hashed_as_by_mmh3(values, seed) -> None:
    assert hashed(values, seed) == [mmh3.hash64(value, seed, signed=False)[0] for value in values]


@given(st.integers(0, 40).flatmap(lambda n: st.lists(st.binary(min_size=n, max_size=n), min_size=1, max_size=9)))
def test_byte_strings_of_one_length_are_hashed_as_by_mmh3(values) -> None:
    rows = np.frombuffer(b"".join(values), np.uint8).reshape(len(values), -1)
    expected = [mmh3.hash64(value, SEED, signed=False)[0] for value in values]
    assert hash_fixed_bytes(rows, SEED).tolist() == expected


def test_many_rows_are_hashed_in_pieces() -> None:
    values = numbers(0, 40_000)
    expected = [mmh3.hash64(value, SEED, signed=False)[0] for value in values]
    assert hashed(values, SEED) == expected
    assert hash_fixed_bytes(np.frombuffer(b"".join(values), np.uint8).reshape(-1, 8), SEED).tolist() == expected


# counting ---------------------------------------------------------------------------------------------------------


@given(VALUES)
def test_few_values_are_counted_exactly(values) -> None:
    sketch = sketch_of(values)
    assert sketch.estimate == len(set(values))
    assert sketch.theta == LONG_MAX


def test_empty_values_are_not_counted_as_in_datasketches() -> None:
    assert sketch_of([b"", b"a", b""]).estimate == 1


def test_4096_values_are_exact_and_one_more_is_not() -> None:
    assert sketch_of(numbers(0, 4096)).estimate == 4096
    above = sketch_of(numbers(0, 4097))
    assert (len(above.hashes), above.theta < LONG_MAX) == (4096, True)


@pytest.mark.parametrize("count", [5_000, 20_000, 200_000])
def test_many_values_are_counted_within_bounds(count) -> None:
    # of a sketch of k hashes the error is within 3 / sqrt(k) in 997 of 1,000 cases; hashes are the same in each run
    assert abs(sketch_of(numbers(0, count)).estimate - count) < count * 3 / 64


def test_a_sketch_has_the_smallest_hashes_and_theta_is_the_next() -> None:
    hashes = sorted(mmh3.hash64(value, SEED, signed=False)[0] >> 1 for value in numbers(0, 10_000))
    sketch = sketch_of(numbers(0, 10_000))
    assert sketch.hashes.tolist() == hashes[:4096]
    assert sketch.theta == hashes[4096]
    assert sketch.estimate == int(4096 / (hashes[4096] / float(LONG_MAX)))


@given(st.lists(VALUES, max_size=5))
def test_a_union_is_the_sketch_of_all_values(parts) -> None:
    assert ThetaSketch.union(map(sketch_of, parts)) == sketch_of([value for part in parts for value in part])


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 9_000)), max_size=4))
def test_a_union_of_large_sketches_is_the_sketch_of_all_values(ranges) -> None:
    parts = [numbers(begin, begin + count) for begin, count in ranges]
    assert ThetaSketch.union(map(sketch_of, parts)) == sketch_of([value for part in parts for value in part])


def test_values_that_come_in_batches_are_those_that_come_at_once() -> None:
    sketch = ThetaSketch()
    for begin in range(0, 30_000, 1_000):
        sketch = sketch.add_hashes(value_hashes_of(numbers(begin, begin + 1_500)))
    assert sketch == sketch_of(numbers(0, 30_500))


# bytes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 4096, 10_000])
def test_what_is_written_is_read(count) -> None:
    sketch = sketch_of(numbers(0, count))
    assert ThetaSketch.deserialize(sketch.serialize()) == sketch


def test_sizes_of_written_sketches() -> None:
    sizes = [len(sketch_of(numbers(0, count)).serialize()) for count in (0, 1, 2, 10_000)]
    assert sizes == [8, 16, 16 + 2 * 8, 24 + 4096 * 8]


def test_a_sketch_that_is_not_in_order_is_read() -> None:
    sketch = sketch_of(numbers(0, 3))
    data = bytearray(sketch.serialize())
    data[5] &= ~16  # the flag that says so
    data[16:] = sketch.hashes[::-1].astype("<u8").tobytes()
    assert ThetaSketch.deserialize(bytes(data)) == sketch


def changed(place, value, count=3):
    data = bytearray(sketch_of(numbers(0, count)).serialize())
    data[place] = value
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        pytest.param(changed(1, 4), UnsupportedFeature, id="later version"),
        pytest.param(changed(2, 1), UnsupportedFeature, id="not compact"),
        pytest.param(changed(5, 0x1B), UnsupportedFeature, id="big-endian"),
        pytest.param(changed(6, 0), UnsupportedFeature, id="other seed"),
        pytest.param(changed(0, 7), CorruptFile, id="head too long"),
        pytest.param(changed(8, 4), CorruptFile, id="more hashes than bytes"),
        pytest.param(changed(23, 0xFF), CorruptFile, id="hash above theta"),
        pytest.param(changed(0, 3, 1)[:12], CorruptFile, id="cut off"),
        pytest.param(changed(23, 0xFF, 5_000), CorruptFile, id="negative theta"),
    ],
)
def test_broken_bytes_are_told(data, error) -> None:
    with pytest.raises(error):
        ThetaSketch.deserialize(data)


@given(st.binary(max_size=64), st.booleans())
def test_no_bytes_bring_down_the_reader(data, plausible) -> None:
    if plausible and len(data) > 8:
        data = data[:1] + b"\x03\x03\x00\x00\x1a\xcc\x93" + data[8:]
    try:
        found = ThetaSketch.deserialize(data)
    except FloeError:
        return
    assert found.estimate >= 0
