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
| supported | Floe does what it says |
| ignored | Floe does something else, and warns when it is set: `floe.errors.IgnoredSetting`, a Python warning |
| refused | setting it is an error, because doing something else would be wrong |
| stored | it concerns other engines only; Floe stores it |
"""
MADE_BY = """\
`warnings.filterwarnings("error", category=floe.errors.IgnoredSetting)` turns the warnings into errors. This page is
made by `scripts/configuration.py` from {module}, and a test fails when it is out of date.
"""
PROPERTIES = f"""# Table properties

Every property on Iceberg's configuration page, those that Java Iceberg has besides, and Floe's:

{STATES}
`used by` names the packages of Floe that read the property; `*` stands for the name of a column. Set properties with
`table.set_properties({{…}})` or `ALTER TABLE … SET TBLPROPERTIES`, and for one write with
`table.append(rows, options={{…}})`. Values are checked when they are set. A name that begins like Iceberg's
(`write.`, `read.`, `commit.`, `history.`, …) and is not listed here gets a warning; other names are yours.
{MADE_BY.format(module="`floe/spec/properties.py`")}"""
CONFIGURATION = f"""# Spark configuration

Every setting and option on Iceberg's pages of Spark and catalog configuration, those that Java Iceberg has besides, and
Floe's. The properties of tables are on [their own page](properties.md).

{STATES}
Values are checked when they are used. A name that is similar to one of these gets a warning, and so does every unknown
setting that begins with `spark.sql.iceberg.`.
{MADE_BY.format(module="`floe/spark/settings.py`")}"""

PROPERTY_SECTIONS: Mapping[str, tuple[str, Settings]] = {
    "Properties of tables": ("", TABLE_PROPERTIES),
    "Properties of views": ("", VIEW_PROPERTIES),
}
SETTING_SECTIONS: Mapping[str, tuple[str, Settings]] = {
    "Session settings": ("", SESSION_SETTINGS),
    "Read options": ("", READ_OPTIONS),
    "Write options": ("", WRITE_OPTIONS),
    "Catalog settings": ("What follows `spark.sql.catalog.<name>.`", CATALOG_SETTINGS),
    "Hadoop settings": ("What follows `spark.hadoop.`", HADOOP_SETTINGS),
}


def row(setting: Setting[Any], *, with_use: bool) -> str:
    """A line of a table."""
    same = f" ({', '.join(setting.no_effect)}: what Floe does anyway)" if setting.no_effect else ""
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
