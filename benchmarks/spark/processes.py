"""Processes that are measured in turn, and the tables of what they took."""

import json
import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, Self

BENCHMARKS = Path(__file__).parents[1]
PYTHON = BENCHMARKS.parent / ".venv-interop" / "bin" / "python"


class Process:
    """A process of one side, which answers."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [str(PYTHON), "-W", "ignore", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if os.environ.get("FLOE_BENCH_QUIET", "1") == "1" else None,
            text=True,
            cwd=BENCHMARKS,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def ask(self, **what: Any) -> dict[str, Any]:
        """Tell it to do something, and wait for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The next answer."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("ANSWER "):
                found: dict[str, Any] = json.loads(line.removeprefix("ANSWER "))
                return found
        raise RuntimeError(f"a side ended: {' '.join(map(str, self._process.args))}")  # type: ignore[arg-type]


@dataclass
class Figures:
    """What one side took for one workload."""

    clock: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    files: int = 0
    size: int = 0

    def add(self, found: dict[str, Any]) -> None:
        self.clock.append(found["clock"])
        self.cpu.append(found["cpu"])


def first_row(side: str, folder: Path) -> dict[str, Any]:
    """What a new process takes to the first row."""
    begin = time.perf_counter()
    with Process("spark.first_row", side, str(folder)) as process:
        found = process.answer()
        return {"clock": time.perf_counter() - begin, "cpu": found["cpu"]}


def line(name: str, found: dict[str, Figures]) -> str:
    """A line of the table: seconds by the clock and of CPU, ratios of CPU seconds, sizes."""
    ours, cells = found["floe"], []
    for side in ("floe", "java", "parquet"):
        one = found.get(side)
        cells.append("" if one is None or not one.clock else f"{median(one.clock):.2f} ({median(one.cpu):.2f})")
    for side in ("java", "parquet"):
        one = found.get(side)
        if one is None or not one.clock:
            cells.append("")
        else:
            cells.append(f"{median(ours.clock) / median(one.clock):.2f} ({median(ours.cpu) / median(one.cpu):.2f})")
    sizes = [one for side in ("floe", "java") if (one := found.get(side)) is not None and one.size]
    cells.append(" / ".join(f"{one.size / 1e6:.1f} MB in {one.files}" for one in sizes))
    return f"| {name} | " + " | ".join(cells) + " |"


HEAD = (
    "| seconds by the clock (of CPU), median | Floe | Java | plain Parquet | Floe / Java | Floe / Parquet | "
    "files, Floe / Java |\n|---|---|---|---|---|---|---|"
)
