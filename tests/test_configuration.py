"""Every setting on Iceberg's pages of configuration works, is warned of or is refused; docs say which."""

import re
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

import pytest

import floe
from floe import Lake, errors
from floe.formats.avro_data.options import avro_codec
from floe.formats.metrics_config import parse_mode
from floe.formats.orc.options import orc_options
from floe.formats.parquet.options import parquet_options
from floe.spec.metadata.known_properties import TABLE_PROPERTIES, Known, check_properties, find
from helpers import iceberg_configuration as iceberg

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
try:
    import configuration as docs
finally:
    sys.path.pop(0)

SECTIONS: Mapping[str, Mapping[str, Known]] = {title: known for title, (_, known) in docs.SECTIONS.items()}
PAGES = {
    "Table properties": iceberg.TABLE_PROPERTIES,
    "Catalogs in Spark": iceberg.CATALOG_SETTINGS,
    "Settings of a Spark session": iceberg.SESSION_SETTINGS,
    "Read options": iceberg.READ_OPTIONS,
    "Write options": iceberg.WRITE_OPTIONS,
    "Hadoop": iceberg.HADOOP_SETTINGS,
}


@pytest.mark.parametrize("title", SECTIONS)
def test_every_name_of_icebergs_pages_is_known(title: str) -> None:
    assert [name for name in PAGES[title] if find(SECTIONS[title], name) is None] == []
    for known in SECTIONS[title].values():
        assert known.note or known.state == "works", known.name
        assert all(known.values.accepts(value) for value in known.harmless), known.name


def test_the_page_says_what_the_code_goes_by() -> None:
    assert docs.PAGE.read_text() == docs.page(), "run scripts/configuration.py"


def test_every_property_that_the_code_names_is_known() -> None:
    named = re.compile(r'"((?:read|write|commit|history|gc)(?:\.[a-z][a-z0-9-]*)+)"')
    own = [path for path in (ROOT / "src/floe").rglob("*.py") if path.parent.name not in ("testing", "interfaces")]
    lines = (line for path in own for line in path.read_text().splitlines() if ">>>" not in line)
    found = {name for line in lines for name in named.findall(line)} - {"commit.retry", "commit.status-check"}
    found -= {name.removeprefix("spark.sql.iceberg.") for name in SECTIONS["Settings of a Spark session"]}
    assert len(found) > 40
    assert sorted(name for name in found if find(TABLE_PROPERTIES, name) is None) == []


def test_each_name_that_works_has_a_test() -> None:
    """That is, some test other than these uses it; settings also stand behind a prefix of their own."""
    own = {Path(__file__), Path(iceberg.__file__)}
    texts = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py") if path not in own)
    texts += "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.sql"))
    texts += "\n".join(path.read_text() for path in (ROOT / "src/floe/testing").glob("*.py"))
    missing = [
        name
        for known in SECTIONS.values()
        for name, one in known.items()
        if one.state == "works" and not any(spelling in texts for spelling in _spellings(name))
    ]
    assert missing == []


def _spellings(name: str) -> list[str]:
    """How tests write a name: also without a prefix, as a keyword, and of one for each of several statements."""
    plain = name.removesuffix("*").removesuffix(".column.").replace("mergeschema", "mergeSchema")
    found = [plain, plain.removeprefix("spark.sql.iceberg."), plain.replace("-", "_").replace(".", "__")]
    if name.startswith(("write.delete.", "write.update.", "write.merge.")) and name.count(".") == 2:
        found.append("}." + name.rpartition(".")[2])
    return found


@pytest.fixture
def lake() -> Lake:
    lake = floe.connect("memory:")
    lake.create_namespace("db")
    return lake


WRONG = {
    "write.format.default": "csv",
    "write.delete.mode": "fast",
    "write.merge.isolation-level": "chaos",
    "write.distribution-mode": "random",
    "write.parquet.compression-codec": "lzo",
    "write.orc.compression-codec": "lzo",
    "write.target-file-size-bytes": "512MB",
    "write.object-storage.enabled": "yes",
    "write.metadata.metrics.column.a": "some",
    "write.parquet.bloom-filter-fpp.column.a": "2",
    "commit.retry.num-retries": "-1",
    "history.expire.min-snapshots-to-keep": "a few",
    "gc.enabled": "on",
}


@pytest.mark.parametrize(("name", "value"), WRONG.items())
def test_a_value_that_cannot_be_is_refused_when_it_is_set(lake: Lake, name: str, value: str) -> None:
    told = f"{name} is .*, found '{value}'"
    with pytest.raises(errors.InvalidUpdate, match=told):
        lake.create_table("db.t", "a bigint", properties={name: value})
    assert lake.tables() == []
    table = lake.create_table("db.t", "a bigint")
    with pytest.raises(errors.InvalidUpdate, match=told):
        table.set_properties({name: value})
    with pytest.raises(errors.InvalidUpdate, match=told), table.transaction() as transaction:
        transaction.set_properties({name: value})
    assert table.refresh().properties.get(name) != value


IGNORED = [one for one in TABLE_PROPERTIES.values() if one.state == "warns"]


@pytest.mark.parametrize("known", IGNORED, ids=lambda known: known.name)
def test_what_is_not_acted_on_is_told_once(lake: Lake, known: Known) -> None:
    candidates = [text for text in ("true", "false", "7", "distributed") if text not in known.harmless]
    value = next(text for text in candidates if known.values.accepts(text))
    with pytest.warns(errors.IgnoredSetting) as told:
        table = lake.create_table("db.t", "a bigint", properties={known.name: value})
    assert [str(one.message) for one in told] == [
        f"{known.name}={value} is kept in the table, and Floe does not act on it: {known.note}"
    ]
    assert table.properties[known.name] == value
    table.append([{"a": 1}])  # which tells no more
    with pytest.warns(errors.IgnoredSetting) as told:
        table.set_properties({known.name: value})
    assert len(told) == 1
    for harmless in known.harmless:
        table.set_properties({known.name: harmless})


def test_misspelt_properties_are_told() -> None:
    with pytest.warns(errors.IgnoredSetting, match=r"did you mean write\.target-file-size-bytes\?"):
        check_properties({"write.target-file-size": "1"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_properties({"owner": "me", "write.my.own": "x", "team.write.format.default": "csv"})


def test_what_may_be_set_can_be_written() -> None:
    """What the table of properties lets pass, the writers take: the two must not drift apart."""
    codecs = {kind: TABLE_PROPERTIES[f"write.{kind}.compression-codec"].values for kind in ("parquet", "avro", "orc")}
    for codec in _words(codecs["parquet"].described):
        parquet_options({"write.parquet.compression-codec": codec}, {}, deletes=False)
    for codec in _words(codecs["avro"].described):
        avro_codec({"write.avro.compression-codec": codec}, deletes=False)
    for codec in _words(codecs["orc"].described):
        orc_options({"write.orc.compression-codec": codec}, {}, deletes=False)
    for version in _words(TABLE_PROPERTIES["write.parquet.page-version"].values.described):
        parquet_options({"write.parquet.page-version": version}, {}, deletes=False)
    metrics = TABLE_PROPERTIES["write.metadata.metrics.default"].values
    for mode in ("none", "COUNTS", "full", "truncate(16)", " truncate( 8 ) "):
        assert metrics.accepts(mode)
        parse_mode(mode)
    for mode in ("truncate(0)", "truncate", "some"):
        assert not metrics.accepts(mode)
        with pytest.raises(errors.InvalidUpdate):
            parse_mode(mode)


def _words(described: str) -> list[str]:
    return described.removeprefix("one of ").split(", ")
