"""Every setting on Iceberg's pages of configuration is supported, ignored with a warning or refused; docs say which."""

import ast
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import floe
from floe import Lake, errors
from floe.formats.avro.writer import avro_codec
from floe.formats.metrics import parse_mode
from floe.formats.orc.writer import orc_options
from floe.formats.parquet.writer_options import parquet_options
from floe.spec import properties
from floe.spec.manifests.entries import add_file_format
from floe.spec.properties import TABLE_PROPERTIES, VIEW_PROPERTIES, check_properties
from floe.spec.setting_types import Setting, Settings
from helpers import iceberg_configuration as iceberg

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
try:
    import configuration as docs
finally:
    sys.path.pop(0)

SECTIONS: Mapping[str, Settings] = {
    title: settings
    for title, (_, settings) in {**docs.PROPERTY_SECTIONS, **docs.SETTING_SECTIONS}.items()
    if settings is not VIEW_PROPERTIES
}
PAGES = {
    "Properties of tables": iceberg.TABLE_PROPERTIES,
    "Catalog settings": iceberg.CATALOG_SETTINGS,
    "Session settings": iceberg.SESSION_SETTINGS,
    "Read options": iceberg.READ_OPTIONS,
    "Write options": iceberg.WRITE_OPTIONS,
    "Hadoop settings": iceberg.HADOOP_SETTINGS,
}


@pytest.mark.parametrize("title", SECTIONS)
def test_every_name_of_icebergs_pages_is_known(title: str) -> None:
    assert [name for name in PAGES[title] if SECTIONS[title].find(name) is None] == []
    for setting in SECTIONS[title].values():
        assert setting.note or setting.state == "supported", setting.name
        assert all(setting.values.accepts(value) for value in setting.no_effect), setting.name


def test_the_pages_show_the_lists_of_the_code() -> None:
    for path, text in docs.pages().items():
        assert path.read_text() == text, "run scripts/configuration.py"


MODULES = {path: ast.parse(path.read_text()) for path in (ROOT / "src/floe").rglob("*.py")}
LISTS = {ROOT / "src/floe/spec/properties.py", ROOT / "src/floe/spark/settings.py"}
PROPERTY = re.compile(r"(?:write|read|commit|history|gc|schema|encryption|compatibility)\.[a-z0-9.*-]*")
SETTING = re.compile(r"spark\.(?:sql|wap|hadoop|api|remote|pyspark)\.[A-Za-z0-9.*-]*")
PROPERTY_NAMES = {*TABLE_PROPERTIES, *VIEW_PROPERTIES} - {"comment"}
OPTION_NAMES = {
    name.removesuffix("*")
    for settings in SECTIONS.values()
    for name in settings
    if settings is not TABLE_PROPERTIES and any(mark in name for mark in "-.*")  # others are words: branch, type
}
OTHER_MEANINGS = {
    "spec/codecs/manifest_schemas.py": {"format-version"},  # keys of Avro metadata and of JSON
    "spec/metadata/table_metadata_json.py": {"format-version"},
    "spec/metadata/updates.py": {"format-version"},
    "spec/views/view_metadata.py": {"format-version"},
    "spark/streaming/sink.py": {"spark.sql.streaming.queryId", "spark.sql.streaming.epochId"},  # of snapshot summaries
}


def _constants(module: ast.Module) -> Iterator[str]:
    """The string constants of a module that are not docstrings."""
    texts = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
            yield node.value


def _is_named(path: Path, text: str) -> bool:
    """Whether a constant of a module is the name of a property, a setting or an option, or the beginning of one."""
    if text in PROPERTY_NAMES or PROPERTY.fullmatch(text):
        return path.parent.name != "interfaces"  # there, names of Spark's packages: read.ScanBuilder
    in_spark = path.is_relative_to(ROOT / "src/floe/spark")
    return in_spark and (bool(SETTING.fullmatch(text)) or text.lower() in OPTION_NAMES)


def test_only_the_lists_name_properties_and_settings() -> None:
    named = {
        f"{path.relative_to(ROOT)}: {text}"
        for path, module in MODULES.items()
        if path not in LISTS and path.parent.name != "testing" and path.name != "__init__.py"
        for text in _constants(module)
        if _is_named(path, text) and text not in OTHER_MEANINGS.get(path.relative_to(ROOT / "src/floe").as_posix(), ())
    }
    assert sorted(named) == []


def test_each_supported_property_is_used_by_the_packages_that_the_list_names() -> None:
    used: dict[str, set[str]] = {}
    for path, module in MODULES.items():
        package = path.relative_to(ROOT / "src/floe").parts[0]
        names = {
            alias.name
            for node in ast.walk(module)
            if isinstance(node, ast.ImportFrom) and node.module == "floe.spec.properties"
            for alias in node.names
        } | {
            node.attr
            for node in ast.walk(module)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "properties"
        }
        if package not in ("cli", "testing"):
            for name in names:
                for setting in _settings_of(getattr(properties, name, None)):
                    used.setdefault(setting.name, set()).add(package)
    supported = [
        setting for settings in (TABLE_PROPERTIES, VIEW_PROPERTIES) for setting in settings.values()
        if setting.state == "supported"
    ]  # fmt: skip
    for setting in supported:
        assert set(setting.used_by.split(", ")) <= used.get(setting.name, set()), setting.name


def _settings_of(value: object) -> list[Setting[Any]]:
    """The settings that a constant of the list stands for."""
    match value:
        case Setting():
            return [value]
        case Settings():
            return []
        case properties.FileProperty():
            return [value.data, value.deletes]
        case properties.RetryProperties() | tuple():
            return [setting for setting in value if isinstance(setting, Setting)]
        case Mapping():
            return [setting for setting in value.values() if isinstance(setting, Setting)]
        case _:
            return []


def test_each_supported_name_has_a_test() -> None:
    """That is, some test other than these uses it; settings also stand behind a prefix of their own."""
    own = {Path(__file__), Path(iceberg.__file__)}
    texts = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py") if path not in own)
    texts += "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.sql"))
    texts += "\n".join(path.read_text() for path in (ROOT / "src/floe/testing").glob("*.py"))
    missing = [
        name
        for settings in SECTIONS.values()
        for name, setting in settings.items()
        if setting.state == "supported" and not any(spelling in texts for spelling in _spellings(name))
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
    told = f"{name} must be .*, found '{value}'"
    with pytest.raises(errors.InvalidUpdate, match=told):
        lake.create_table("db.t", "a bigint", properties={name: value})
    assert lake.tables() == []
    table = lake.create_table("db.t", "a bigint")
    with pytest.raises(errors.InvalidUpdate, match=told):
        table.set_properties({name: value})
    with pytest.raises(errors.InvalidUpdate, match=told), table.transaction() as transaction:
        transaction.set_properties({name: value})
    assert table.refresh().properties.get(name) != value


IGNORED = [setting for setting in TABLE_PROPERTIES.values() if setting.state == "ignored"]


@pytest.mark.parametrize("setting", IGNORED, ids=str)
def test_an_ignored_property_warns_once(lake: Lake, setting: Setting[Any]) -> None:
    candidates = [text for text in ("true", "false", "7", "distributed") if text not in setting.no_effect]
    value = next(text for text in candidates if setting.values.accepts(text))
    with pytest.warns(errors.IgnoredSetting) as caught:
        table = lake.create_table("db.t", "a bigint", properties={setting.name: value})
    assert [str(warning.message) for warning in caught] == [
        f"the property {setting.name}={value} has no effect: {setting.note}"
    ]
    assert table.properties[setting.name] == value
    table.append([{"a": 1}])  # without another warning, which would be an error here
    with pytest.warns(errors.IgnoredSetting) as caught:
        table.set_properties({setting.name: value})
    assert len(caught) == 1
    for same in setting.no_effect:
        table.set_properties({setting.name: same})


def test_unknown_properties_of_iceberg_warn() -> None:
    with pytest.warns(errors.IgnoredSetting, match=r"did you mean write\.target-file-size-bytes\?"):
        check_properties({"write.target-file-size": "1"})
    for name in ("write.my.own", "read.nothing", "commit.by", "history.x", "gc.y", "compatibility.z"):
        with pytest.warns(errors.IgnoredSetting, match=name) as caught:
            check_properties({name: "x"})
        assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_properties({"owner": "me", "team.write.format.default": "csv", "schema.owner": "me"})
        add_file_format("toy")
        check_properties({"write.delete.toy.page": "1", "write.toy.x": "y", "write.format.default": "TOY"})


def test_what_may_be_set_can_be_written() -> None:
    """What the table of properties lets pass, the writers take: the two must not drift apart."""
    codecs = {kind: TABLE_PROPERTIES[f"write.{kind}.compression-codec"].values for kind in ("parquet", "avro", "orc")}
    for codec in _words(codecs["parquet"].description):
        parquet_options({"write.parquet.compression-codec": codec}, {}, deletes=False)
    for codec in _words(codecs["avro"].description):
        avro_codec({"write.avro.compression-codec": codec}, deletes=False)
    for codec in _words(codecs["orc"].description):
        orc_options({"write.orc.compression-codec": codec}, {}, deletes=False)
    for version in _words(TABLE_PROPERTIES["write.parquet.page-version"].values.description):
        parquet_options({"write.parquet.page-version": version}, {}, deletes=False)
    metrics = TABLE_PROPERTIES["write.metadata.metrics.default"].values
    for mode in ("none", "COUNTS", "full", "truncate(16)", " truncate( 8 ) "):
        assert metrics.accepts(mode)
        parse_mode(mode)
    for mode in ("truncate(0)", "truncate", "some"):
        assert not metrics.accepts(mode)
        with pytest.raises(errors.InvalidUpdate):
            parse_mode(mode)


def _words(description: str) -> list[str]:
    return description.removeprefix("one of ").split(", ")
