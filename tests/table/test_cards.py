"""What a table says about itself when it is printed."""

from dataclasses import replace

from floe.spec.metadata.creation import new_table_metadata
from floe.spec.metadata.snapshots import Snapshot, SnapshotRef
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.transform_terms import build_spec
from floe.spec.sort_order import build_order
from floe.sql.columns import parse_columns
from floe.sql.printer import partition_terms, sort_terms
from floe.table.display import Card, table_card

SCHEMA = parse_columns("id bigint not null, name string comment 'who', ts timestamptz, primary key (id)")


def table(**properties: str) -> TableMetadata:
    return new_table_metadata(
        SCHEMA,
        build_spec(SCHEMA, ["day(ts)", "bucket(16, id) as shard"]),
        build_order(SCHEMA, ["ts desc", "name nulls last"]),
        location="s3://bucket/db/t",
        uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
        now_ms=0,
        properties=properties,
    )


def with_snapshot(metadata: TableMetadata, **summary: str) -> TableMetadata:
    snapshot = Snapshot(
        snapshot_id=77,
        sequence_number=1,
        timestamp_ms=1_715_947_200_000,
        manifest_list="x",
        summary={"operation": "append", **{key.replace("_", "-"): value for key, value in summary.items()}},
    )
    refs = {
        "main": SnapshotRef(snapshot_id=77, type="branch"),
        "audit": SnapshotRef(snapshot_id=77, type="branch"),
        "eoy": SnapshotRef(snapshot_id=77, type="tag"),
    }
    return replace(metadata, snapshots=(snapshot,), current_snapshot_id=77, refs=refs)


def test_the_card_of_an_empty_table() -> None:
    assert table_card("db.t", table()).text().splitlines() == [
        "db.t (table, format version 2)",
        "  location    s3://bucket/db/t",
        "  columns     id    long not null",
        "              name  string  -- who",
        "              ts    timestamptz",
        "  key         id",
        "  partitions  day(ts), bucket(16, id) as shard",
        "  sorted by   ts desc, name nulls last",
        "  snapshot    none yet",
    ]


def test_the_card_of_a_table_with_data() -> None:
    metadata = with_snapshot(
        table(owner="me"),
        total_records="1234567",
        total_data_files="1",
        total_files_size="3456789",
        total_delete_files="2",
    )
    text = table_card("db.t", metadata).text()
    assert "snapshot    77, append at 2024-05-17 12:00:00 UTC" in text
    assert "1,234,567 rows, 1 data file, 2 delete files, 3.5 MB (rows that delete files remove are counted)" in text
    assert "branches    audit, main" in text
    assert "tags        eoy" in text
    assert "properties  owner = me" in text


def test_counts_that_are_no_numbers_are_left_out() -> None:
    text = table_card("db.t", with_snapshot(table(), total_records="many", total_data_files="-3")).text()
    assert "holds" not in text


def test_html_escapes_what_comes_from_the_table() -> None:
    schema = parse_columns("`<script>` int comment '<b>&'")
    metadata = new_table_metadata(
        schema, location="s3://b/<i>", uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1", now_ms=0, properties={"a": "<x>"}
    )
    html = table_card("db.<t>", metadata).html()
    for hostile in ("<script>", "/<i>", "<x>", "<t>"):
        assert hostile not in html
    assert "&lt;script&gt;" in html


def test_control_characters_do_not_reach_the_terminal() -> None:
    card = Card("t\x1b[2J", "table", (("a", "x\r\ny\x07"),))
    assert not set(card.text()) & {"\x1b", "\r", "\x07"}
    assert "\x1b" not in card.html()


def test_secrets_in_properties_are_hidden() -> None:
    metadata = table(password="hunter2", uri="x://me:hunter2@h/db")
    assert "hunter2" not in table_card("db.t", metadata).text()
    assert "hunter2" not in table_card("db.t", metadata).html()


def test_wide_tables_and_long_lines_are_cut() -> None:
    schema = parse_columns(", ".join(f"c{n} int" for n in range(500)))
    metadata = new_table_metadata(
        schema, location="s3://b/" + "x" * 500, uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1", now_ms=0
    )
    lines = table_card("db.t", metadata).text().splitlines()
    assert len(lines) < 60
    assert max(map(len, lines)) < 200
    assert any("and 461 more" in line for line in lines)


def test_terms_are_what_a_user_would_type() -> None:
    terms = ["day(ts)", "bucket(4, id)", "truncate(3, name)", "id as copy"]
    spec = build_spec(SCHEMA, terms)
    assert partition_terms(spec, SCHEMA) == tuple(terms)
    assert build_spec(SCHEMA, partition_terms(spec, SCHEMA)) == spec
    order_terms = ["ts desc nulls first", "bucket(4, id)", "name nulls last"]
    order = build_order(SCHEMA, order_terms)
    assert sort_terms(order, SCHEMA) == tuple(order_terms)
    assert build_order(SCHEMA, sort_terms(order, SCHEMA)) == order
