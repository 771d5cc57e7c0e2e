"""What became of a swap whose answer was lost, when the table went on without us: its history tells, or nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from floe.catalog.sql.catalog import SqlCatalog, connect_sql
from floe.commit.pointer import Outcome, Proposal
from floe.storage.local import LocalStorage
from helpers.sql_catalogs import (
    DATABASES,
    TABLE,
    change,
    commit,
    create,
    database,
    proposal_to_create,
    sql,
    view,
)

OTHER = ("db", "other")


@pytest.fixture(params=DATABASES)
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with database(request.param, tmp_path) as uri:
        yield uri


@pytest.fixture
def catalog(uri: str, tmp_path: Path) -> Iterator[SqlCatalog]:
    storage = LocalStorage(durable=False)
    catalog = connect_sql(uri, warehouse=str(tmp_path / "warehouse"), storage=storage)
    catalog.create_namespace(("db",))
    yield catalog
    catalog.close()


@pytest.fixture(params=[True, False], ids=["published", "absent"])
def lost(request: pytest.FixtureRequest, catalog: SqlCatalog) -> tuple[Proposal, Outcome]:
    """An update whose answer was lost, and what became of it: somebody else came after it, or before."""
    pointer = create(catalog)
    proposal = change(pointer, colour="red")
    if request.param:
        pointer.swap(proposal)
    return proposal, Outcome.PUBLISHED if request.param else Outcome.ABSENT


def settle(catalog: SqlCatalog, proposal: Proposal) -> Outcome:
    return catalog.pointer(proposal.pointer.identifier).settle(proposal)  # type: ignore[attr-defined]


def go_on(catalog: SqlCatalog, times: int, identifier: tuple[str, ...] = TABLE, **properties: str) -> None:
    for number in range(times):
        commit(catalog.pointer(identifier), **{**properties, "number": str(number)})


@pytest.mark.parametrize("times", [0, 1, 2, 7])
def test_the_history_tells(catalog: SqlCatalog, lost: tuple[Proposal, Outcome], times: int) -> None:
    proposal, outcome = lost
    go_on(catalog, times)
    assert settle(catalog, proposal) is outcome


def keep_two_files(catalog: SqlCatalog, *, delete: bool) -> None:
    """Lets the table's log keep two earlier metadata files."""
    wanted = {"write.metadata.previous-versions-max": "2", "write.metadata.delete-after-commit.enabled": str(delete)}
    commit(catalog.pointer(TABLE), **wanted)


def test_a_short_log_is_followed_from_file_to_file(catalog: SqlCatalog, lost: tuple[Proposal, Outcome]) -> None:
    proposal, outcome = lost
    keep_two_files(catalog, delete=False)
    go_on(catalog, 9)
    assert settle(catalog, proposal) is outcome


def test_history_that_was_deleted_tells_nothing(catalog: SqlCatalog, lost: tuple[Proposal, Outcome]) -> None:
    proposal, _ = lost
    keep_two_files(catalog, delete=True)
    for number in range(6):
        pointer = catalog.pointer(TABLE)
        pointer.finish(commit(pointer, number=str(number)))
    assert settle(catalog, proposal) is Outcome.UNKNOWN


@pytest.mark.parametrize("times", [0, 4])
def test_a_table_that_was_renamed_is_found(catalog: SqlCatalog, lost: tuple[Proposal, Outcome], times: int) -> None:
    proposal, outcome = lost
    catalog.rename_table(TABLE, OTHER)
    go_on(catalog, times, OTHER)
    assert settle(catalog, proposal) is outcome


def test_a_name_that_was_taken_by_another_table(catalog: SqlCatalog, lost: tuple[Proposal, Outcome]) -> None:
    proposal, outcome = lost
    catalog.rename_table(TABLE, OTHER)
    go_on(catalog, 2, OTHER)
    create(catalog, TABLE)
    go_on(catalog, 2, TABLE)
    assert settle(catalog, proposal) is outcome


def test_a_table_that_was_dropped_cannot_tell(catalog: SqlCatalog, lost: tuple[Proposal, Outcome]) -> None:
    """Its last metadata file may be registered again, so no file of ours may be deleted."""
    proposal, _ = lost
    catalog.drop_table(TABLE)
    assert settle(catalog, proposal) is Outcome.UNKNOWN
    create(catalog, TABLE)
    assert settle(catalog, proposal) is Outcome.UNKNOWN


def test_a_view_in_the_place_of_the_table(catalog: SqlCatalog, lost: tuple[Proposal, Outcome], tmp_path: Path) -> None:
    proposal, outcome = lost
    catalog.rename_table(TABLE, OTHER)
    catalog.create_view(TABLE, view(str(tmp_path / "view")))
    assert settle(catalog, proposal) is outcome


def test_metadata_that_cannot_be_read_tells_nothing(
    catalog: SqlCatalog, lost: tuple[Proposal, Outcome], uri: str
) -> None:
    proposal, _ = lost
    go_on(catalog, 3)
    state = catalog.pointer(TABLE).load()
    assert state is not None
    Path(state.location).write_bytes(b"{")
    assert settle(catalog, proposal) is Outcome.UNKNOWN


def test_a_database_that_cannot_be_read_tells_nothing(
    catalog: SqlCatalog, lost: tuple[Proposal, Outcome], uri: str
) -> None:
    proposal, _ = lost
    sql(uri, "ALTER TABLE iceberg_tables RENAME TO gone")
    assert settle(catalog, proposal) is Outcome.UNKNOWN


@pytest.mark.parametrize("times", [0, 3])
def test_a_creation_that_went_on(catalog: SqlCatalog, times: int) -> None:
    proposal = proposal_to_create(catalog)
    proposal.pointer.swap(proposal)
    go_on(catalog, times)
    assert settle(catalog, proposal) is Outcome.PUBLISHED
    catalog.rename_table(TABLE, OTHER)
    assert settle(catalog, proposal) is Outcome.PUBLISHED


@pytest.mark.parametrize("times", [0, 3])
def test_a_creation_that_somebody_else_won(catalog: SqlCatalog, times: int) -> None:
    proposal = proposal_to_create(catalog)
    assert settle(catalog, proposal) is Outcome.ABSENT
    assert not catalog.table_exists(TABLE), "settling must not publish"
    create(catalog)
    go_on(catalog, times)
    assert settle(catalog, proposal) is Outcome.ABSENT


def test_a_log_that_leads_round_in_a_circle_ends(catalog: SqlCatalog, tmp_path: Path) -> None:
    pointer = create(catalog)
    proposal = change(pointer, colour="red")
    state = commit(pointer, colour="blue").state
    text = Path(state.location).read_text()
    # A hostile file whose log names only itself.
    Path(state.location).write_text(text.replace(proposal.base.location, state.location))  # type: ignore[union-attr]
    assert settle(catalog, proposal) is Outcome.UNKNOWN


def test_several_tables_share_one_answer(catalog: SqlCatalog) -> None:
    one, other = create(catalog, ("db", "a")), create(catalog, ("db", "b"))
    proposals = [change(one, colour="red"), change(other, colour="red")]
    catalog.shared.swap_all(proposals)
    # The first table cannot tell any more; the second still can.
    catalog.drop_table(("db", "a"))
    assert catalog.shared.settle_all(proposals) is Outcome.PUBLISHED
    go_on(catalog, 3, ("db", "b"))
    assert catalog.shared.settle_all(proposals[::-1]) is Outcome.PUBLISHED
