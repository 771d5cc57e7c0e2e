"""Tables like those of the TPC-H benchmark: customers who order parts from suppliers. Made with NumPy, from a seed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

NATIONS = [
    ("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0), ("FRANCE", 3),
    ("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2), ("JORDAN", 4), ("KENYA", 0),
    ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3), ("SAUDI ARABIA", 4), ("VIETNAM", 2),
    ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("UNITED STATES", 1),
]  # fmt: skip
REGIONS = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"]
PRIORITIES = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]
MODES = ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"]
INSTRUCTIONS = ["COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN"]
COLOURS = ["almond", "azure", "blue", "coral", "forest", "green", "ivory", "lemon", "plum", "red", "steel", "white"]
SIZES = ["ECONOMY", "LARGE", "MEDIUM", "PROMO", "SMALL", "STANDARD"]
COATINGS = ["ANODIZED", "BRUSHED", "BURNISHED", "PLATED", "POLISHED"]
METALS = ["BRASS", "COPPER", "NICKEL", "STEEL", "TIN"]
BOXES = ["BAG", "BOX", "CAN", "CASE", "DRUM", "JAR", "PACK", "PKG"]
WIDTHS = ["JUMBO", "LG", "MED", "SM", "WRAP"]
WORDS = ["accounts", "bold", "Complaints", "Customer", "deposits", "even", "foxes", "ideas", "packages", "requests",
         "slyly", "special"]  # fmt: skip
FIRST_DAY = np.datetime64("1992-01-01")
LAST_ORDER = 2405
TODAY = np.datetime64("1995-06-17")


class Maker:
    """Columns at random."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def whole(self, low: int, high: int, count: int) -> Any:
        return self._random.integers(low, high + 1, count)

    def one_of(self, words: Sequence[str], count: int) -> Any:
        return pa.array(words).take(pa.array(self._random.integers(0, len(words), count)))

    def text(self, count: int, words: int = 4) -> Any:
        return joined([self.one_of(WORDS, count) for _ in range(words)], " ")

    def money(self, low: int, high: int, count: int) -> Any:
        return money(self.whole(low, high, count))


def money(cents: Any) -> Any:
    """Cents as exact numbers: 128 bits each, the lower half first."""
    whole = np.asarray(cents, dtype=np.int64)
    halves = np.stack([whole, np.where(whole < 0, -1, 0)], axis=1)
    return pa.Array.from_buffers(pa.decimal128(15, 2), len(whole), [None, pa.py_buffer(halves.tobytes())])


def joined(parts: Sequence[Any], between: str) -> Any:
    return pc.binary_join_element_wise(*parts, between)


def numbered(prefix: str, numbers: Any) -> Any:
    return pa.array([f"{prefix}{number:09d}" for number in numbers])


def phones(nations: Any, make: Maker) -> Any:
    rest = make.whole(1_000_000, 9_999_999, len(nations))
    return pa.array([f"{10 + nation}-{one}" for nation, one in zip(nations, rest, strict=True)])


def days(numbers: Any) -> Any:
    """Dates, so many days after the first."""
    return pa.array(FIRST_DAY + np.asarray(numbers).astype("timedelta64[D]"))


def tables(scale: float, seed: int = 7) -> dict[str, pa.Table]:
    """The eight tables; at scale 1 there are six million lines of orders."""
    make = Maker(seed)
    suppliers, parts, customers = (max(1, int(scale * count)) for count in (10_000, 200_000, 150_000))
    orders, dates, priced = _orders(make, int(scale * 1_500_000), customers)
    prices = 90_000 + (np.arange(parts) % 200_001) // 10 + 100 * (np.arange(parts) % 1000)
    supply = _supply(make, parts, suppliers)
    lines = _lines(make, dates, prices, supply, suppliers)
    totals = np.zeros(len(dates), dtype=np.int64)
    np.add.at(totals, priced(lines), np.asarray(lines["cents"]))
    return {
        "region": pa.table({"r_regionkey": range(5), "r_name": REGIONS, "r_comment": make.text(5)}),
        "nation": pa.table(
            {
                "n_nationkey": range(25),
                "n_name": [name for name, _ in NATIONS],
                "n_regionkey": [region for _, region in NATIONS],
                "n_comment": make.text(25),
            }
        ),
        "supplier": _supplier(make, suppliers),
        "customer": _customer(make, customers),
        "part": _part(make, parts, prices),
        "partsupp": supply,
        "orders": orders.append_column("o_totalprice", money(totals)),
        "lineitem": lines.drop_columns(["cents"]),
    }


def _supplier(make: Maker, count: int) -> pa.Table:
    nations = make.whole(0, 24, count)
    return pa.table(
        {
            "s_suppkey": np.arange(1, count + 1),
            "s_name": numbered("Supplier#", range(1, count + 1)),
            "s_address": make.text(count, 2),
            "s_nationkey": nations,
            "s_phone": phones(nations, make),
            "s_acctbal": make.money(-99_999, 999_999, count),
            "s_comment": make.text(count),
        }
    )


def _customer(make: Maker, count: int) -> pa.Table:
    nations = make.whole(0, 24, count)
    return pa.table(
        {
            "c_custkey": np.arange(1, count + 1),
            "c_name": numbered("Customer#", range(1, count + 1)),
            "c_address": make.text(count, 2),
            "c_nationkey": nations,
            "c_phone": phones(nations, make),
            "c_acctbal": make.money(-99_999, 999_999, count),
            "c_mktsegment": make.one_of(SEGMENTS, count),
            "c_comment": make.text(count),
        }
    )


def _part(make: Maker, count: int, prices: Any) -> pa.Table:
    makers = make.whole(1, 5, count)
    brands = makers * 10 + make.whole(1, 5, count)
    return pa.table(
        {
            "p_partkey": np.arange(1, count + 1),
            "p_name": joined([make.one_of(COLOURS, count) for _ in range(3)], " "),
            "p_mfgr": pa.array([f"Manufacturer#{one}" for one in makers]),
            "p_brand": pa.array([f"Brand#{one}" for one in brands]),
            "p_type": joined([make.one_of(words, count) for words in (SIZES, COATINGS, METALS)], " "),
            "p_size": make.whole(1, 50, count).astype(np.int32),
            "p_container": joined([make.one_of(WIDTHS, count), make.one_of(BOXES, count)], " "),
            "p_retailprice": money(prices),
            "p_comment": make.text(count, 2),
        }
    )


def _supply(make: Maker, parts: int, suppliers: int) -> pa.Table:
    keys = np.repeat(np.arange(1, parts + 1), 4)
    count = len(keys)
    return pa.table(
        {
            "ps_partkey": keys,
            "ps_suppkey": (keys + np.tile(np.arange(4), parts) * (suppliers // 4 + 1)) % suppliers + 1,
            "ps_availqty": make.whole(1, 9999, count).astype(np.int32),
            "ps_supplycost": make.money(100, 100_000, count),
            "ps_comment": make.text(count, 6),
        }
    )


def _orders(make: Maker, count: int, customers: int) -> tuple[pa.Table, Any, Any]:
    ordered = make.whole(0, LAST_ORDER, count)
    buyers = make.whole(1, customers, count)
    buyers += (buyers % 3 == 0) & (buyers < customers)  # a third of the customers order nothing
    table = pa.table(
        {
            "o_orderkey": np.arange(count) * 4 + 1,
            "o_custkey": buyers,
            "o_orderstatus": make.one_of(["F", "O", "P"], count),
            "o_orderdate": days(ordered),
            "o_orderpriority": make.one_of(PRIORITIES, count),
            "o_clerk": numbered("Clerk#", make.whole(1, 1000, count)),
            "o_shippriority": np.zeros(count, dtype=np.int32),
            "o_comment": make.text(count),
        }
    )
    return table, ordered, lambda lines: (np.asarray(lines["l_orderkey"]) - 1) // 4


def _lines(make: Maker, ordered: Any, prices: Any, supply: pa.Table, suppliers: int) -> pa.Table:
    each = make.whole(1, 7, len(ordered))
    order = np.repeat(np.arange(len(ordered)), each)
    count = len(order)
    numbers = np.arange(count) - np.repeat(np.cumsum(each) - each, each) + 1
    pairs = make.whole(0, supply.num_rows - 1, count)  # a part with one of those who supply it
    part = np.asarray(supply["ps_partkey"])[pairs]
    quantity = make.whole(1, 50, count)
    cents = quantity * prices[part - 1]
    shipped = ordered[order] + make.whole(1, 121, count)
    received = shipped + make.whole(1, 30, count)
    today = int((TODAY - FIRST_DAY).astype(int))
    returned = np.where(received <= today, np.where(make.whole(0, 1, count) == 0, "R", "A"), "N")
    return pa.table(
        {
            "l_orderkey": order * 4 + 1,
            "l_partkey": part,
            "l_suppkey": np.asarray(supply["ps_suppkey"])[pairs],
            "l_linenumber": numbers.astype(np.int32),
            "l_quantity": money(quantity * 100),
            "l_extendedprice": money(cents),
            "l_discount": make.money(0, 10, count),
            "l_tax": make.money(0, 8, count),
            "l_returnflag": pa.array(returned),
            "l_linestatus": pa.array(np.where(shipped > today, "O", "F")),
            "l_shipdate": days(shipped),
            "l_commitdate": days(ordered[order] + make.whole(30, 90, count)),
            "l_receiptdate": days(received),
            "l_shipinstruct": make.one_of(INSTRUCTIONS, count),
            "l_shipmode": make.one_of(MODES, count),
            "l_comment": make.text(count, 2),
            "cents": cents,
        }
    )


def write(folder: Path, scale: float, seed: int = 7) -> list[str]:
    """The tables as Parquet, a folder with some files for each; their names."""
    for name, table in tables(scale, seed).items():
        target = folder / name
        target.mkdir(parents=True)
        size = max(1, table.num_rows // 3 + 1)
        for number, start in enumerate(range(0, table.num_rows, size)):
            pq.write_table(table.slice(start, size), target / f"{number}.parquet")
    return sorted(path.name for path in folder.iterdir())
