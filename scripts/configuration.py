"""Write docs/properties.md and docs/configuration.md from the lists of settings that the code reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from floe.spark.settings import CATALOG_SETTINGS, HADOOP_SETTINGS, READ_OPTIONS, SESSION_SETTINGS, WRITE_OPTIONS
from floe.spec.properties import TABLE_PROPERTIES, VIEW_PROPERTIES
from floe.spec.setting_types import Setting, Settings

DOCS = Path(__file__).parent.parent / "docs"

STATES = """| state | meaning |
|---|---|
| supported | works as documented by Iceberg |
| ignored | has no effect; setting it gives the Python warning `floe.errors.IgnoredSetting` |
| refused | setting it is an error, because ignoring it would be wrong |
| stored | is for other engines; Floe only stores it |
"""
MADE_BY = """\
`warnings.filterwarnings("error", category=floe.errors.IgnoredSetting)` turns the warnings into errors.
`scripts/configuration.py` generates this page from {module}; a test fails when it is out of date.
"""
PROPERTIES = f"""# Table properties

This page lists the properties in Iceberg's documentation, undocumented ones of Java Iceberg, and Floe's own:

{STATES}
`used by` lists the packages of Floe that read the property; `*` stands for the name of a column. Set properties with
`table.set_properties({{…}})` or `ALTER TABLE … SET TBLPROPERTIES`, or for one write with
`table.append(rows, options={{…}})`. Values are checked when they are set. An unknown name with a prefix of Iceberg
(`write.`, `read.`, `commit.`, `history.`, …) gives a warning; all other names are free for your own properties.
{MADE_BY.format(module="`floe/spec/properties.py`")}"""
CONFIGURATION = f"""# Spark configuration

This page lists the settings and options in Iceberg's documentation of Spark and catalogs, undocumented ones of Java
Iceberg, and Floe's own. Properties of tables are on a [separate page](properties.md).

{STATES}
Values are checked when they are used. A name that is similar to one of these gives a warning, and so does every unknown
setting that starts with `spark.sql.iceberg.`.
{MADE_BY.format(module="`floe/spark/settings.py`")}"""

PROPERTY_SECTIONS: Mapping[str, tuple[str, Settings]] = {
    "Properties of tables": ("", TABLE_PROPERTIES),
    "Properties of views": ("", VIEW_PROPERTIES),
}
SETTING_SECTIONS: Mapping[str, tuple[str, Settings]] = {
    "Session settings": ("", SESSION_SETTINGS),
    "Read options": ("", READ_OPTIONS),
    "Write options": ("", WRITE_OPTIONS),
    "Catalog settings": ("Names after the prefix `spark.sql.catalog.<name>.`", CATALOG_SETTINGS),
    "Hadoop settings": ("Names after the prefix `spark.hadoop.`", HADOOP_SETTINGS),
}


def row(setting: Setting[Any], *, with_use: bool) -> str:
    """The row of a setting in a Markdown table."""
    same = f" ({', '.join(setting.no_effect)}: Floe's behaviour, no warning)" if setting.no_effect else ""
    use = f" {setting.used_by} |" if with_use else ""
    return (
        f"| `{setting.name}` | {setting.state} | {setting.values.description} | {_default(setting.default)} |"
        f"{use} {setting.note}{same} |"
    )


def _default(value: object) -> str:
    if value is None or value == "":
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def page(head: str, sections: Mapping[str, tuple[str, Settings]], *, with_use: bool) -> str:
    """The text of a page."""
    columns = ["name", "state", "values", "default", *(["used by"] if with_use else []), "note"]
    lines = [head]
    for title, (introduction, settings) in sections.items():
        lines.append(f"## {title}\n" + (introduction and f"\n{introduction}\n"))
        lines.append(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
        lines.extend(row(setting, with_use=with_use) for setting in settings.values())
        lines.append("")
    return "\n".join(lines)


def pages() -> dict[Path, str]:
    """The text of each page, by its file."""
    return {
        DOCS / "properties.md": page(PROPERTIES, PROPERTY_SECTIONS, with_use=True),
        DOCS / "configuration.md": page(CONFIGURATION, SETTING_SECTIONS, with_use=False),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
