"""Data sets that look like those of real tables, the same in every run."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

COUNTRIES = ["Germany", "France", "United States", "China", "India", "Brazil", "Japan", "Nigeria", "Chile", "Iceland"]
WORDS = [f"{a}{b}" for a in ("red", "blue", "small", "large", "old", "new") for b in ("box", "lamp", "table", "chair")]
DAY = 86_400_000_000
START = 1_700_000_000_000_000


def integers(rows: int, random: np.random.Generator) -> dict[str, pa.Array]:
    return {
        "id": pa.array(np.arange(rows, dtype=np.int64)),
        "shop": pa.array(random.integers(0, 500, rows, dtype=np.int32)),
        "quantity": pa.array(random.geometric(0.2, rows).astype(np.int32)),
        "account": pa.array(random.integers(0, 2**40, rows)),
        "status": pa.array(random.integers(200, 204, rows, dtype=np.int32), mask=random.random(rows) < 0.05),
        "done": pa.array(random.random(rows) < 0.7),
    }


def few_strings(rows: int, random: np.random.Generator) -> dict[str, pa.Array]:
    return {
        "country": pa.array(COUNTRIES).take(pa.array(random.zipf(1.7, rows) % len(COUNTRIES))),
        "product": pa.array([f"{a} {b}" for a in WORDS for b in WORDS]).take(
            pa.array(random.integers(0, len(WORDS) ** 2, rows))
        ),
        "state": pa.array(["new", "paid", "sent", None]).take(pa.array(np.sort(random.integers(0, 4, rows)))),
    }


def many_strings(rows: int, random: np.random.Generator) -> dict[str, pa.Array]:
    numbers = pa.array(random.integers(0, 2**62, rows)).cast(pa.string())
    pages = pa.array(random.zipf(1.3, rows) % 100_000).cast(pa.string())
    first, second = (pa.array(WORDS).take(pa.array(random.integers(0, len(WORDS), rows))) for _ in range(2))
    return {
        "key": pc.binary_join_element_wise("order", numbers, "-"),
        "url": pc.binary_join_element_wise(pa.scalar("https://shop.example.com/products"), first, pages, "/"),
        "comment": pc.binary_join_element_wise("the", first, "stands by the", second, pages, " "),
    }


def decimals(rows: int, random: np.random.Generator) -> dict[str, pa.Array]:
    cents = random.integers(0, 100_000, rows)
    return {
        "price": _decimals(cents, 9, 2),
        "total": _decimals(cents * random.integers(1, 40, rows) * 100, 18, 4),
        "balance": _decimals(random.integers(-(2**60), 2**60, rows), 38, 10),
    }


def _decimals(unscaled: np.ndarray, precision: int, scale: int) -> pa.Array:
    words = np.empty((len(unscaled), 2), np.int64)
    words[:, 0], words[:, 1] = unscaled, unscaled >> 63
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(unscaled), [None, pa.py_buffer(words)])


def timestamps(rows: int, random: np.random.Generator) -> dict[str, pa.Array]:
    steps = np.cumsum(random.exponential(200_000, rows)).astype(np.int64)
    return {
        "at": pa.array(START + steps, pa.timestamp("us", tz="UTC")),
        "seen": pa.array(START // 1000 * 1000 + random.integers(0, 365 * 86_400_000, rows) * 1000, pa.timestamp("us")),
        "day": pa.array((19_700 + steps // DAY).astype(np.int32)).cast(pa.date32()),
        "birthday": pa.array(random.integers(-10_000, 13_000, rows, dtype=np.int32)).cast(pa.date32()),
    }


def floats(rows: int, random: np.random.Generator) -> dict[str, pa.Array]:
    return {
        "temperature": pa.array(np.round(15 + 10 * random.standard_normal(rows), 1)),
        "share": pa.array(random.random(rows)),
        "weight": pa.array(random.gamma(2.0, 3.0, rows).astype(np.float32), mask=random.random(rows) < 0.1),
    }


def nested(rows: int, random: np.random.Generator) -> dict[str, pa.Array]:
    counts = random.poisson(3, rows)
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    items = int(counts.sum())
    lists = pa.ListArray.from_arrays(offsets, pa.array(random.integers(0, 10_000, items)))
    values = pa.array(random.integers(0, 100, items, dtype=np.int32))
    small = np.minimum(counts, 4)
    map_offsets = pa.array(np.concatenate([[0], np.cumsum(small)]).astype(np.int32))
    held = int(small.sum())
    maps = pa.MapArray.from_arrays(map_offsets, _distinct_keys(small), values[:held])
    point = pa.StructArray.from_arrays(
        [pa.array(np.round(random.uniform(-90, 90, rows), 5)), pa.array(np.round(random.uniform(-180, 180, rows), 5))],
        names=["latitude", "longitude"],
    )
    return {"place": point, "items": lists, "tags": maps}


def _distinct_keys(counts: np.ndarray) -> pa.Array:
    """Keys of maps, distinct within each map: the first words of the list."""
    ends = np.cumsum(counts)
    indexes = np.arange(int(ends[-1])) - np.repeat(ends - counts, counts)
    return pa.array(WORDS).take(pa.array(indexes))


def orders(rows: int, random: np.random.Generator) -> dict[str, pa.Array]:
    """Columns of all kinds, as in most tables."""
    return {
        **{name: integers(rows, random)[name] for name in ("id", "shop", "quantity")},
        **{name: few_strings(rows, random)[name] for name in ("country", "product")},
        **{name: many_strings(rows, random)[name] for name in ("key", "comment")},
        **{name: decimals(rows, random)[name] for name in ("price",)},
        **{name: timestamps(rows, random)[name] for name in ("at", "day")},
        **{name: floats(rows, random)[name] for name in ("weight",)},
    }


DATA_SETS = {
    "integers": integers,
    "few strings": few_strings,
    "many strings": many_strings,
    "decimals": decimals,
    "timestamps": timestamps,
    "floats": floats,
    "nested": nested,
    "orders": orders,
}


def data_set(name: str, rows: int) -> pa.Table:
    """A data set with a number of rows."""
    return pa.table(DATA_SETS[name](rows, np.random.default_rng(sum(map(ord, name)))))
