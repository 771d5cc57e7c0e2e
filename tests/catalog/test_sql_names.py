"""Names that look like SQL, like patterns or like each other: bound as values, compared exactly, kept to the letter."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from floe.catalog.identifiers import Namespace
from floe.catalog.sql.catalog import SqlCatalog, connect_sql
from floe.errors import InvalidName, NamespaceAlreadyExists, NoSuchNamespace
from floe.storage.local import LocalStorage
from helpers.sql_catalogs import DATABASES, create, database, properties_of, sql

HOSTILE = [
    "'; DROP TABLE iceberg_tables; --",
    '" OR "1"="1',
    "x' OR '1'='1",
    "%",
    "_",
    "%%s %(name)s {0} ? $1 :name",
    "!%!_",
    "back\u00adhyphen",
    "e\u0301",  # not the same letter as é, for a database
    "é",
    "ＡＢＣ",
    "\U0001f409" * 20,
    "x" * 255,
    "NULL",
    "exists",
    "a b",
    "iceberg_tables",
]


@pytest.fixture(params=DATABASES)
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with database(request.param, tmp_path) as uri:
        yield uri


@pytest.fixture(params=["lake", 'it\'s 100% "mine"; --'])
def catalog(request: pytest.FixtureRequest, uri: str, tmp_path: Path) -> Iterator[SqlCatalog]:
    storage = LocalStorage(durable=False)
    catalog = connect_sql(uri, name=request.param, warehouse=str(tmp_path / "warehouse"), storage=storage)
    yield catalog
    catalog.close()


def test_hostile_names(catalog: SqlCatalog, uri: str) -> None:
    names = [name for name in HOSTILE if len(name.encode()) < 200]
    for name in names:
        catalog.create_namespace((name,), {name: name} if name != "exists" else {})
    assert catalog.namespaces() == sorted((name,) for name in names)
    for name in names:
        assert catalog.namespace_properties((name,)) == ({name: name} if name != "exists" else {})
        create(catalog, (names[0], name), me=name)
    assert catalog.tables((names[0],)) == sorted((names[0], name) for name in names)
    for name in names:
        assert properties_of(catalog, (names[0], name)) == {"me": name}
        catalog.rename_table((names[0], name), (name, "t"))
        assert properties_of(catalog, (name, "t")) == {"me": name}
    assert sql(uri, "SELECT count(*) FROM iceberg_tables") == [(len(names),)]
    for name in names:
        catalog.drop_table((name, "t"), purge=True)
        catalog.drop_namespace((name,))
    assert catalog.namespaces() == []


def test_the_longest_name(catalog: SqlCatalog) -> None:
    create(catalog, ("n" * 255, "short"))
    catalog.rename_table(("n" * 255, "short"), ("n" * 255, "t" * 255))
    assert catalog.tables(("n" * 255,)) == [("n" * 255, "t" * 255)]


def test_a_dot_separates_levels_so_no_level_may_have_one(catalog: SqlCatalog) -> None:
    with pytest.raises(InvalidName, match=r"must not have a '\.'"):
        catalog.create_namespace(("2024.01",))
    with pytest.raises(InvalidName, match=r"must not have a '\.'"):
        catalog.pointer(("2024.01", "t"))
    create(catalog, ("db", "2024.01"))
    assert catalog.tables(("db",)) == [("db", "2024.01")]
    assert catalog.namespaces(("db",)) == []


# Letters that mean something to SQL, to LIKE, to drivers or to the joining of levels.
LETTERS = st.sampled_from("ab%_!'\"\\?$é-")
LEVELS = st.lists(st.text(LETTERS.filter(lambda c: c != "\\"), min_size=1, max_size=3), min_size=1, max_size=3).map(
    tuple
)


@given(made=st.lists(LEVELS, max_size=8), asked=LEVELS)
def test_namespaces_are_a_tree(made: list[Namespace], asked: Namespace) -> None:
    catalog = connect_sql("sqlite://")
    tree: set[Namespace] = set()
    for namespace in made:
        if namespace in tree:
            with pytest.raises(NamespaceAlreadyExists):
                catalog.create_namespace(namespace)
        else:
            catalog.create_namespace(namespace)
        tree |= {namespace[:depth] for depth in range(1, len(namespace) + 1)}
    for parent in [(), asked, *made]:
        children = sorted(namespace for namespace in tree if namespace[:-1] == parent)
        assert catalog.namespace_exists(parent) == (not parent or parent in tree)
        if not parent or parent in tree:
            assert catalog.namespaces(parent) == children
        else:
            with pytest.raises(NoSuchNamespace):
                catalog.namespaces(parent)
    for namespace in sorted(tree, key=len, reverse=True):
        catalog.drop_namespace(namespace)
    assert catalog.namespaces() == []
    catalog.close()
