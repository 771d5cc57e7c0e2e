"""Hostile input: whatever the bytes are, the outcome is metadata or `InvalidMetadata`, soon and in little memory."""

import gzip
import json
import random
import subprocess
import sys
import textwrap
import time
import zlib

import msgspec
import pytest
from hypothesis import given, strategies as st
from pyiceberg.table.metadata import TableMetadataUtil

from floe.errors import FloeError, InvalidMetadata, UnsupportedFeature
from floe.spec.json_reader import Limits, decode_unknown, document_text, read_list
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.table_metadata_json import metadata_to_json, parse, serialize
from helpers.metadata_documents import NOW, history, read, snapshot, v1_document, v2_document, v3_document

VALID = json.dumps(v2_document(snapshots=history((1, None), (2, 1)))).encode()


def problem(data: bytes, limits: Limits | None = None) -> InvalidMetadata:
    started = time.process_time()
    with pytest.raises(InvalidMetadata) as caught:
        parse(data, limits=limits)
    assert time.process_time() - started < 2
    return caught.value


def problem_of(document: object, limits: Limits | None = None) -> InvalidMetadata:
    return problem(json.dumps(document).encode(), limits)


# bytes that are no document -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b" \n\t ", "is empty"),
        (b"\x00" * 100, "not JSON"),
        (b"\x80\x81\x82", "not UTF-8"),
        (b"PAR1", "not JSON"),
        (b"Obj\x01", "not JSON"),
        (b"{", "truncated"),
        (VALID[:-1], "truncated"),
        (VALID[:200], "truncated"),
        (VALID + b"}", "trailing"),
        (VALID + VALID, "trailing"),
        (b"[1,2,3]", "must be a JSON object, found a list"),
        (b"null", "must be a JSON object, found null"),
        (b"3", "must be a JSON object, found an integer"),
        (b'"text"', "must be a JSON object, found a string"),
        (b"{}", "is missing"),
        (b'{"format-version": NaN}', "not JSON"),
        (b'{"format-version": 02}', "not JSON"),
        (b"{'format-version': 2}", "not JSON"),
    ],
)
def test_bytes_that_are_no_document(data: bytes, words: str) -> None:
    assert words in str(problem(data))


def test_every_prefix_of_a_document_is_an_error() -> None:
    for end in range(0, len(VALID), 7):
        problem(VALID[:end])


def test_a_byte_order_mark_is_skipped_as_java_does() -> None:
    assert parse(b"\xef\xbb\xbf" + VALID) == parse(VALID)


def test_text_must_be_utf8_even_where_it_is_not_decoded() -> None:
    data = json.dumps(v2_document(snapshots=[snapshot(1, summary={"operation": "append", "who": "ana"})])).encode()
    assert problem(data.replace(b"ana", b"an\xff")).message.startswith("the text is not UTF-8")


def test_text_beyond_ascii_is_read_and_written_as_it_is() -> None:
    metadata = read(v2_document(location="s3://bücket/表/🙂", properties={"ключ": "値\u2028"}))
    assert metadata.location == "s3://bücket/表/🙂"
    assert "s3://bücket/表/🙂".encode() in serialize(metadata)
    assert parse(serialize(metadata)) == metadata


@pytest.mark.parametrize("escape", [rb"\ud800", rb"\udc00", rb"\ud800\u0041", rb"\u12", rb"\x41"])
def test_an_escape_that_is_no_character_is_an_error(escape: bytes) -> None:
    for document in (
        v2_document(properties={"a": "@"}, zz_unknown="some text that follows"),
        v2_document(snapshots=[snapshot(1, summary={"operation": "@"})], zz_unknown="some text that follows"),
    ):
        assert problem(json.dumps(document).encode().replace(b"@", escape)).message.startswith("not JSON: ")


# gzip -----------------------------------------------------------------------------------------------------------


def test_gzip_is_found_by_its_first_bytes() -> None:
    assert parse(gzip.compress(VALID)) == parse(VALID)


def test_gzip_of_several_members_is_read_whole() -> None:
    assert parse(gzip.compress(VALID[:100]) + gzip.compress(VALID[100:])) == parse(VALID)
    assert parse(gzip.compress(VALID) + b"\0" * 100) == parse(VALID)


def test_truncated_gzip_says_so() -> None:
    packed = gzip.compress(VALID)
    for end in (2, 5, 12, len(packed) // 2, len(packed) - 9, len(packed) - 1):
        assert "truncated" in problem(packed[:end]).message


def test_damaged_gzip_says_so() -> None:
    packed = bytearray(gzip.compress(VALID))
    packed[-6] ^= 0xFF
    assert "damaged" in problem(bytes(packed)).message
    assert "damaged" in problem(b"\x1f\x8bnot gzip at all").message
    assert "follow the end" in problem(gzip.compress(VALID) + b"more").message


def test_a_gzip_bomb_stops_at_the_ratio() -> None:
    bomb = gzip.compress(b'{"a":"' + b"x" * 20_000_000, 1)
    assert len(bomb) < 150_000
    assert "more than 100 times its size" in problem(bomb).message


def test_a_gzip_bomb_stops_at_the_size() -> None:
    packed = gzip.compress(VALID)
    assert "expands to more than the limit of 1000 bytes" in problem(packed, Limits(max_bytes=1000)).message


def test_gzip_of_healthy_metadata_is_far_from_the_ratio() -> None:
    document = v2_document(snapshots=history(*((i, i - 1 or None) for i in range(1, 35))))
    text = json.dumps(document).encode()
    assert len(text) / len(zlib.compress(text)) < 50
    assert len(parse(gzip.compress(text)).snapshots) == 34


# depth ----------------------------------------------------------------------------------------------------------

DEEP = 1_000_000


@pytest.mark.parametrize(
    "data",
    [
        b"[" * DEEP,
        b'{"a":' * DEEP,
        b'{"schemas":' + b"[" * DEEP,
        b'{"format-version":2,"unknown":' + b"[" * DEEP + b"]" * DEEP + b"}",
        b'{"format-version":2,"snapshots":[{"summary":' + b'{"a":' * DEEP,
        b'{"properties":{"a":' + b"[" * DEEP,
    ],
)
def test_a_million_levels_are_an_error_and_no_crash(data: bytes) -> None:
    problem(data)


def test_deep_nesting_names_the_key_it_lies_in() -> None:
    data = json.dumps(v2_document(unknown="@")).encode().replace(b'"@"', b"[" * 500 + b"]" * 500)
    assert (problem(data).path, problem(data).message) == ("$.unknown", "the JSON is nested deeper than 400 levels")
    data = json.dumps(v2_document(unknown="@")).encode().replace(b'"@"', b"[" * 5000 + b"]" * 5000)
    assert (problem(data).path, problem(data).message) == ("$.unknown", "the JSON is nested deeper than 400 levels")


def test_depth_within_the_limit_is_kept() -> None:
    nested: list[object] = []
    for _ in range(300):
        nested = [nested]
    assert metadata_to_json(read(v2_document(unknown=nested)))["unknown"] == nested


def test_types_nest_to_a_hundred_levels_and_no_further() -> None:
    def document(levels: int) -> dict[str, object]:
        type_: object = "int"
        for n in range(levels):
            type_ = {"type": "list", "element-id": 10 + n, "element": type_, "element-required": False}
        field = {"id": 1, "name": "x", "required": False, "type": type_}
        return v2_document(
            schemas=[{"type": "struct", "schema-id": 0, "fields": [field]}],
            partition_specs=[{"spec-id": 0, "fields": []}],
        )

    assert len(read(document(90)).schema.by_id) == 91
    error = problem_of(document(150))
    assert error.path.startswith("$.schemas[0].fields[0].type.element")


def run_limited(code: str, *, memory_mb: int) -> str:
    """Run code in a process of its own that dies above a total of memory, and return what it prints."""
    prelude = f"""
        import re, resource, sys, time
        import floe.spec.metadata.table_metadata_json as tmj
        from floe.errors import InvalidMetadata
        limit = {memory_mb} * 1024 * 1024
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        started = time.process_time()
        def attempt(data):
            try:
                tmj.parse(data)
            except InvalidMetadata as error:
                status = open("/proc/self/status").read()
                peak = re.search(r"VmHWM:\\s+(\\d+)", status)[1]
                print(f"{{time.process_time() - started:.3f}}", peak, error)
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(prelude) + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("raised", [9_000, 1_000_000])
def test_deep_nesting_is_no_crash_where_the_recursion_limit_was_raised(raised: int) -> None:
    """With a limit of a million the decoder alone would overflow the stack of a thread."""
    said = run_limited(
        f"""
        import threading
        sys.setrecursionlimit({raised})
        for data in (b'{{"a":' + b"[" * 1_000_000, b'{{"a":' * 1_000_000):
            thread = threading.Thread(target=attempt, args=(data,))
            thread.start()
            thread.join()
        """,
        memory_mb=800,
    )
    assert said.count("nested deeper than 400 levels") == 2


def test_the_scan_for_depth_is_not_fooled_by_strings() -> None:
    said = run_limited(
        r"""
        sys.setrecursionlimit(1_000_000)
        attempt(b'{"a":"]]]]]]","b":"\\"[[[[[[","c":' + b"[" * 600 + b'"' + b"]" * 600 + b'"')
        attempt(b'{"a":"' + b"[" * 600 + b'"}')
        attempt(b'{"a":"' + b'\\"' * 1_000_000 + b"[" * 500)
        attempt(b'{"a":"' + b'\\"' * 1_000_000 + b"[" * 500 + b"\\")
        """,
        memory_mb=800,
    )
    lines = said.splitlines()
    assert len(lines) == 4
    assert "$.c: the JSON is nested deeper than 400 levels" in lines[0]
    assert all("nested" not in line for line in lines[1:])
    assert float(lines[3].split()[0]) < 5


def test_a_parse_far_down_the_stack_is_an_error_and_no_recursion_error() -> None:
    def descend(levels: int) -> object:
        if levels:
            return descend(levels - 1)
        try:
            return parse(VALID)
        except FloeError as error:
            return error

    limit = sys.getrecursionlimit()
    outcomes = [descend(limit - spare) for spare in range(150, 260, 10)]
    assert all(isinstance(outcome, InvalidMetadata) or outcome == parse(VALID) for outcome in outcomes)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        ("b'[' * 5_000_000", "must be a JSON object"),
        ("b'{\"schemas\":' + b'[' * 5_000_000", "nested"),
        ("__import__('gzip').compress(b'{\"a\":\"' + b'x' * 20_000_000, 1)", "times its size"),
        ("b'{\"snapshots\":[' + b'{},' * 2_000_000", "truncated"),
        ("VALID[:-1] + b',\"x\":[' + b'[],' * 4_000_000 + b'0]}'", "$.x: has about 8000001 values"),
        ("VALID[:-1] + b',\"x\":' + b'[0,' * 4_000_000 + b'0' + b']' * 4_000_000 + b'}'", "$.x: the JSON is nested"),
        ("VALID[:-1] + b',\"schemas\":[' + b'{},' * 1_000_000 + b'0]}'", "$.schemas[0].fields"),
        ("b'{\"format-version\":2,\"x\":[' + b'[],' * 4_000_000 + b'0]}'", "is missing"),
        ("b'{\"format-version\":' + b'9' * 1_000_000 + b'}'", "does not fit"),
    ],
)
def test_hostile_documents_take_less_than_200_megabytes_and_a_second(make: str, words: str) -> None:
    said = run_limited(f"VALID = {VALID!r}\nattempt({make})", memory_mb=600)
    seconds, kilobytes, message = said.split(" ", 2)
    assert float(seconds) < 1.5
    assert int(kilobytes) < 200 * 1024
    assert words in message


# counts, sizes and strings --------------------------------------------------------------------------------------


def test_size_limit() -> None:
    error = problem(VALID, Limits(max_bytes=100))
    assert f"the document has {len(VALID)} bytes, more than the limit of 100" in str(error)
    assert "Limits.max_bytes" in str(error)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("properties", {"a": "1", "b": "2", "c": "3"}),
        ("snapshots", history((1, None), (2, 1), (3, 2))),
        ("snapshot_log", [{"snapshot-id": n, "timestamp-ms": n} for n in range(3)]),
        ("metadata_log", [{"metadata-file": "m", "timestamp-ms": n} for n in range(3)]),
        ("refs", {name: {"snapshot-id": 1, "type": "tag"} for name in "abc"}),
        (
            "statistics",
            [
                {
                    "snapshot-id": n,
                    "statistics-path": "p",
                    "file-size-in-bytes": 1,
                    "file-footer-size-in-bytes": 1,
                    "blob-metadata": [],
                }
                for n in range(3)
            ],
        ),
        (
            "partition_statistics",
            [{"snapshot-id": n, "statistics-path": "p", "file-size-in-bytes": 1} for n in range(3)],
        ),
        ("encryption_keys", [{"key-id": str(n), "encrypted-key-metadata": ""} for n in range(3)]),
    ],
)
def test_count_limit_of_each_list_and_map(key: str, value: object) -> None:
    document = v2_document(**{key: value})
    error = problem_of(document, Limits(max_items=2))
    assert error.path == f"$.{key.replace('_', '-')}"
    assert "has 3 items, more than the limit of 2" in error.message


def test_count_limit_of_lists_within_lists() -> None:
    document = v2_document(snapshots=[snapshot(1), snapshot(2, manifests=["m"] * 4)])
    assert problem_of(document, Limits(max_items=3)).path == "$.snapshots[1].manifests"
    blob = {"type": "t", "snapshot-id": 1, "sequence-number": 1, "fields": [1]}
    file = {"snapshot-id": 1, "statistics-path": "p", "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1}
    document = v2_document(statistics=[file | {"blob-metadata": [blob] * 4}])
    assert problem_of(document, Limits(max_items=3)).path == "$.statistics[0].blob-metadata"


def test_count_limit_of_fields_and_of_unknown_keys() -> None:
    fields = [{"id": n, "name": f"c{n}", "required": False, "type": "int"} for n in range(1, 6)]
    document = v2_document(schemas=[{"type": "struct", "schema-id": 0, "fields": fields}])
    assert problem_of(document, Limits(max_items=4)).path == "$.schemas[0]"
    assert problem_of(v2_document(unknown=[1, 2, 3, 4, 5]), Limits(max_items=4)).path == "$.unknown"


def test_value_limit_holds_before_decoding() -> None:
    with pytest.raises(InvalidMetadata, match=r"has about 101 values, more than the limit of 50"):
        decode_unknown(b"[" + b"0," * 100 + b"0]", Limits(max_values=50))
    assert len(decode_unknown(b"[" + b"0," * 100 + b"0]", Limits(max_values=500))) == 101
    with pytest.raises(InvalidMetadata, match="values"):
        read_list(msgspec.Raw(b"[" + b"0," * 100 + b"0]"), int, Limits(max_values=50))


@pytest.mark.parametrize(
    "document",
    [
        v2_document(location="s3://" + "x" * 5000),
        v2_document(properties={"k": "x" * 5000}),
        v2_document(properties={"x" * 5000: "v"}),
        v2_document(unknown='\\"' * 2500),
        v2_document(snapshots=[snapshot(1, summary={"operation": "append", "k": "x" * 5000})]),
    ],
)
def test_string_limit(document: dict[str, object]) -> None:
    assert "longer than the limit of 4000" in problem_of(document, Limits(max_string=4000)).message
    assert read(document, Limits(max_string=21_000))


def test_string_limit_does_not_count_many_short_strings() -> None:
    document = v2_document(properties={f"key {n}": "value\\" for n in range(1000)})
    assert len(read(document, Limits(max_string=500)).properties) == 1000


def test_a_string_of_any_length_up_to_the_document_is_fine_by_default() -> None:
    assert len(read(v2_document(properties={"k": "x" * 1_000_000})).properties["k"]) == 1_000_000


# numbers --------------------------------------------------------------------------------------------------------

INT_KEYS = [
    "format_version",
    "last_column_id",
    "current_schema_id",
    "default_spec_id",
    "last_partition_id",
    "default_sort_order_id",
]
LONG_KEYS = ["last_sequence_number", "last_updated_ms", "current_snapshot_id", "next_row_id"]


@pytest.mark.parametrize("key", INT_KEYS + LONG_KEYS)
@pytest.mark.parametrize(
    ("value", "found"),
    [
        (2.5, "a number with a fraction or an exponent"),
        (2.0, "a number with a fraction or an exponent"),
        (1e300, "a number with a fraction or an exponent"),
        ("2", "a string"),
        (True, "true or false"),
        ([2], "a list"),
        ({}, "a JSON object"),
    ],
)
def test_integers_are_integers(key: str, value: object, found: str) -> None:
    error = problem_of(v3_document(**{key: value}))
    assert error.path == f"$.{key.replace('_', '-')}"
    assert error.message == f"must be an integer, found {found}"


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**63, 2**64, 2**70, -(2**70), 10**400])
@pytest.mark.parametrize("key", INT_KEYS)
def test_ints_fit_32_bits(key: str, value: int) -> None:
    if key == "format_version" and 2**31 > value > 0:
        return
    error = problem_of(v3_document(**{key: value}))
    assert (error.path, "does not fit a" in error.message) == (f"$.{key.replace('_', '-')}", True)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**64, 2**70, 10**400])
@pytest.mark.parametrize("key", LONG_KEYS)
def test_longs_fit_64_bits(key: str, value: int) -> None:
    error = problem_of(v3_document(**{key: value}))
    assert (error.path, error.message) == (
        f"$.{key.replace('_', '-')}",
        "the number does not fit a 64-bit integer",
    )


def test_the_largest_numbers_are_exact() -> None:
    metadata = read(
        v3_document(
            last_updated_ms=2**63 - 1,
            next_row_id=2**63 - 2,
            last_column_id=2**31 - 1,
            current_snapshot_id=2**63 - 1,
            snapshots=[snapshot(1, snapshot_id=2**63 - 1)],
        )
    )
    assert (metadata.last_updated_ms, metadata.next_row_id) == (2**63 - 1, 2**63 - 2)
    assert parse(serialize(metadata)) == metadata


# the place of a mistake -----------------------------------------------------------------------------------------

LOG = {"snapshot-id": 1, "timestamp-ms": 5}


@pytest.mark.parametrize(
    ("document", "path", "words"),
    [
        (v2_document(location=...), "$.location", "is missing"),
        (v2_document(location=None), "$.location", "is missing"),
        (v2_document(location=5), "$.location", "must be a string, found an integer"),
        (v2_document(properties={"a": "1", "b": 2}), "$.properties.b", "must be a string, found an integer"),
        (v2_document(properties={"a.b c": None}), '$.properties["a.b c"]', "must be a string, found null"),
        (v2_document(properties=[]), "$.properties", "must be a JSON object, found a list"),
        (v2_document(snapshots={}), "$.snapshots", "must be a list, found a JSON object"),
        (v2_document(snapshots=[snapshot(1), 7]), "$.snapshots[1]", "must be a JSON object, found an integer"),
        (
            v2_document(snapshots=[snapshot(1), snapshot(2), snapshot(3, snapshot_id="3")]),
            "$.snapshots[2].snapshot-id",
            "must be an integer, found a string",
        ),
        (v2_document(snapshots=[snapshot(1, timestamp_ms=...)]), "$.snapshots[0].timestamp-ms", "is missing"),
        (v2_document(snapshots=[snapshot(1, timestamp_ms=None)]), "$.snapshots[0].timestamp-ms", "must be an integer"),
        (v2_document(snapshots=[snapshot(1, schema_id=2**40)]), "$.snapshots[0].schema-id", "32-bit"),
        (v2_document(snapshots=[snapshot(1, manifests=[1])]), "$.snapshots[0].manifests[0]", "must be a string"),
        (v2_document(snapshot_log=[LOG, {}]), "$.snapshot-log[1].timestamp-ms", "is missing"),
        (v2_document(snapshot_log=[LOG, LOG | {"snapshot-id": 1.5}]), "$.snapshot-log[1].snapshot-id", "an integer"),
        (v2_document(metadata_log=[LOG]), "$.metadata-log[0].metadata-file", "is missing"),
        (v2_document(refs={"main": {"type": "branch"}}), "$.refs.main.snapshot-id", "is missing"),
        (v2_document(refs={"a b": {"snapshot-id": 1, "type": "x"}}), '$.refs["a b"].type', "invalid enum value 'x'"),
        (v2_document(refs=[]), "$.refs", "must be a JSON object"),
        (v2_document(statistics=[{"snapshot-id": 1}]), "$.statistics[0].statistics-path", "is missing"),
        (v2_document(schemas=[{"type": "struct"}]), "$.schemas[0].fields", "is missing"),
        (v2_document(schemas={}), "$.schemas", "must be a list"),
        (v2_document(partition_specs=[{"spec-id": 0}]), "$.partition-specs[0].fields", "is missing"),
        (v2_document(sort_orders=[{"order-id": 0}]), "$.sort-orders[0].fields", "missing"),
        (v1_document(schema=[]), "$.schema", "must be"),
        (v1_document(partition_spec={}), "$.partition-spec", "must be a list"),
        (v1_document(partition_spec=[{"name": "x"}]), "$.partition-spec[0].source-id", "missing"),
    ],
)
def test_the_path_of_a_mistake(document: dict[str, object], path: str, words: str) -> None:
    error = problem_of(document)
    assert error.path == path
    assert words in error.message


def test_a_mistake_is_found_behind_unknown_keys() -> None:
    document = v2_document(snapshots=[snapshot(1, later_key=1), snapshot(2, later_key=1, timestamp_ms="x")])
    assert problem_of(document).path == "$.snapshots[1].timestamp-ms"


def test_messages_stay_short_whatever_the_document_holds() -> None:
    long = "x" * 100_000
    for document in (
        v2_document(table_uuid=long),
        v2_document(properties={long: 1}),
        v2_document(refs={long: {"snapshot-id": 1, "type": long}}),
        v2_document(refs={"a": {"snapshot-id": 1, "type": long}}),
        v2_document(
            schemas=[
                {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "x", "required": True, "type": long}]}
            ]
        ),
        v2_document(format_version=long),
        v2_document(snapshots=[long]),
    ):
        assert len(str(problem_of(document))) < 1000


# the same key twice ---------------------------------------------------------------------------------------------


TWICE: dict[str, tuple[str, str, str]] = {
    "a known key": ('"last-column-id":2', '"last-column-id":1,"last-column-id":2', "$.last-column-id"),
    "the version": ('"format-version":2', '"format-version":2,"format-version":2', "$.format-version"),
    "an unknown key": ('"last-column-id":2', '"last-column-id":2,"u":1,"u":2', "$.u"),
    "inside an unknown key": ('"last-column-id":2', '"last-column-id":2,"u":[{"a":1,"a":2}]', "$.u[0].a"),
    "another spelling": ('"last-column-id":2', r'"last-column-id":2,"\u006cast-column-id":2', "$.last-column-id"),
    "a field of a schema": ('"name":"x"', '"name":"y","name":"x"', "$.schemas[0].fields[0].name"),
    "a property": ('"properties":{', '"properties":{"a":"1","a":"2",', "$.properties.a"),
    "a ref": ('"refs":{', '"refs":{"a":{"snapshot-id":1,"type":"tag"},"a":{"snapshot-id":2,"type":"tag"},', "$.refs.a"),
    "in a ref": ('"type":"branch"', '"type":"tag","type":"branch"', "$.refs.main.type"),
    "a snapshot": ('"snapshot-id":2,"p', '"snapshot-id":1,"snapshot-id":2,"p', "$.snapshots[1].snapshot-id"),
    "the snapshots": ('"snapshots":[', '"snapshots":[],"snapshots":[', "$.snapshots"),
    "an entry of the log": ('"snapshot-log":[{', '"snapshot-log":[{"snapshot-id":5,', "$.snapshot-log[0].snapshot-id"),
    "a copy of the snapshots": (
        '"name":"x"',
        '"name":"x","snapshots":[{"a":1,"a":1}]',
        "$.schemas[0].fields[0].snapshots[0].a",
    ),
}  # fmt: skip


def twice_document(**changes: object) -> dict[str, object]:
    """A document with something of everything, in the order of keys in which it is written."""
    refs = {"main": {"snapshot-id": 2, "type": "branch"}}
    log = [{"timestamp-ms": NOW + number, "snapshot-id": number} for number in (1, 2)]
    snapshots = history((1, None), (2, 1))
    made = v2_document(
        snapshots=snapshots, current_snapshot_id=2, refs=refs, snapshot_log=log, properties={"b": "c"}, **changes
    )
    return metadata_to_json(read(made))


@pytest.mark.parametrize("case", TWICE)
@pytest.mark.parametrize("layout", ["compact", "indented", "with unknown keys"])
def test_a_key_given_twice_is_refused(case: str, layout: str) -> None:
    """Readers differ in which of the two they take: nobody may be shown another table than his neighbour."""
    once, twice, path = TWICE[case]
    text = json.dumps(twice_document(), separators=(",", ":"))
    assert text.count(once) >= 1
    parse(text.encode())
    text = text.replace(once, twice, 1)
    if layout == "indented":
        text = text.replace(",", ",\n ")
    elif layout == "with unknown keys":
        text = text.replace('"manifest-list"', '"mine":1,"manifest-list"')
    found = problem(text.encode())
    assert found.path == path
    assert "twice" in str(found)


@pytest.mark.parametrize("place", [0, 1, 4, 29])
@pytest.mark.parametrize("twice", ["snapshot", "log"])
def test_a_key_given_twice_is_refused_in_any_order_of_keys(place: int, twice: str) -> None:
    """PyIceberg writes the keys of snapshots in another order than Java."""
    pairs = [(n, n - 1 if n > 1 else None) for n in range(1, 31)]
    log = [{"timestamp-ms": NOW + n, "snapshot-id": n} for n, _ in pairs]
    document = v2_document(snapshots=history(*pairs), snapshot_log=log)
    text = TableMetadataUtil.parse_raw(json.dumps(document)).model_dump_json()
    snapshots, entries = text.split('"snapshot-log":')
    assert snapshots.count('"snapshot-id":') == len(pairs)
    assert not snapshots.partition('"snapshots":')[2].startswith('[{"sequence-number"')
    assert parse(text.encode()).snapshots == read(document).snapshots

    def doubled(part: str) -> str:
        pieces = part.split('"snapshot-id":')
        pieces[place + 1] = f'{place + 1},"snapshot-id":' + pieces[place + 1]
        return '"snapshot-id":'.join(pieces)

    parts = (doubled(snapshots), entries) if twice == "snapshot" else (snapshots, doubled(entries))
    found = problem('"snapshot-log":'.join(parts).encode())
    assert found.path == f"$.{'snapshots' if twice == 'snapshot' else 'snapshot-log'}[{place}].snapshot-id"


def test_a_copy_of_the_snapshots_hides_no_key_given_twice() -> None:
    """The list of snapshots is known by its bytes; another list of the same bytes elsewhere is not taken for it."""
    text = json.dumps(twice_document(), separators=(",", ":"))
    whole = text[text.index('"snapshots":') : text.index('],"statistics"') + 1]
    decoy = text.replace('"name":"x"', f'"name":"x",{whole}', 1)
    start, end = decoy.rsplit('"snapshot-id":2,"p', 1)
    parse(decoy.encode())
    assert problem(f'{start}"snapshot-id":1,"snapshot-id":2,"p{end}'.encode()).path == "$.snapshots[1].snapshot-id"


def test_a_key_given_twice_in_a_summary_is_found_when_it_is_looked_at() -> None:
    text = json.dumps(twice_document(), separators=(",", ":"))
    twice = text.replace('"summary":{', '"summary":{"operation":"delete",', 1)
    metadata = parse(twice.encode())
    with pytest.raises(InvalidMetadata, match=r"operation.*twice") as caught:
        _ = metadata.snapshots[0].summary
    assert caught.value.path == "$.summary.operation"
    assert metadata.snapshots[1].summary is not None


def metadata_or_none(data: bytes) -> TableMetadata | None:
    """The metadata with all its summaries looked at, or None if it is invalid; any other error goes through."""
    try:
        metadata = parse(data)
        _ = [s.summary for s in metadata.snapshots]
    except (InvalidMetadata, UnsupportedFeature):
        return None
    return metadata


# anything at all ------------------------------------------------------------------------------------------------


@given(st.binary(max_size=200))
def test_any_bytes_give_metadata_or_invalid_metadata(data: bytes) -> None:
    with pytest.raises((InvalidMetadata, UnsupportedFeature)):
        parse(data)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FULL = v3_document(
    snapshots=history((1, None), (2, 1)),
    current_snapshot_id=2,
    refs={"main": {"snapshot-id": 2, "type": "branch"}, "t": {"snapshot-id": 1, "type": "tag"}},
    snapshot_log=[{"timestamp-ms": 1, "snapshot-id": 1}],
    metadata_log=[{"timestamp-ms": 1, "metadata-file": "f"}],
    statistics=[],
    properties={"a": "b"},
)


def places(value: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for key, child in items for deeper in places(child, (*path, key)))]


def replaced(value: object, path: tuple[object, ...], new: object) -> object:
    if not path:
        return new
    head, *rest = path
    if isinstance(value, dict):
        return value | {head: replaced(value[head], tuple(rest), new)}
    assert isinstance(value, list)
    return [replaced(v, tuple(rest), new) if n == head else v for n, v in enumerate(value)]


@given(st.sampled_from(places(FULL)), JSON)
def test_any_value_in_any_place_gives_metadata_or_invalid_metadata(path: tuple[object, ...], new: object) -> None:
    data = json.dumps(replaced(FULL, path, new)).encode()
    metadata = metadata_or_none(data)
    if metadata is not None:
        assert parse(serialize(metadata)) == metadata


def test_flipped_bytes_give_metadata_or_invalid_metadata() -> None:
    chance = random.Random(7)
    original = json.dumps(FULL).encode()
    for _ in range(1500):
        data = bytearray(original)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        metadata_or_none(bytes(data))


def test_document_text_leaves_plain_text_alone() -> None:
    assert document_text(VALID, Limits()) is VALID


def test_the_smallest_string_limit_refuses_every_string_beyond_it() -> None:
    assert "longer than the limit of 1" in problem_of(v2_document(), Limits(max_string=1)).message
