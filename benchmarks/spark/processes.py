"""Processes that are measured in turn, and the table of the results."""

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
    """The process of one side, which receives requests and sends responses as lines of JSON."""

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

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and wait for the response."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """Wait for the next response."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("ANSWER "):
                response: dict[str, Any] = json.loads(line.removeprefix("ANSWER "))
                return response
        raise RuntimeError(f"a side ended: {' '.join(map(str, self._process.args))}")  # type: ignore[arg-type]


@dataclass
class Figures:
    """The measurements of one side for one workload."""

    clock: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    files: int = 0
    size: int = 0

    def add(self, measurement: dict[str, Any]) -> None:
        self.clock.append(measurement["clock"])
        self.cpu.append(measurement["cpu"])


def first_row(side: str, folder: Path) -> dict[str, Any]:
    """Measure the time from the start of a process to the first row."""
    begin = time.perf_counter()
    with Process("spark.first_row", side, str(folder)) as process:
        response = process.answer()
        return {"clock": time.perf_counter() - begin, "cpu": response["cpu"]}


def line(name: str, figures: dict[str, Figures]) -> str:
    """A row of the table: wall-clock and CPU seconds, their ratios, sizes of files."""
    ours, cells = figures["floe"], []
    for side in ("floe", "java", "parquet"):
        theirs = figures.get(side)
        cells.append(
            "" if theirs is None or not theirs.clock else f"{median(theirs.clock):.2f} ({median(theirs.cpu):.2f})"
        )
    for side in ("java", "parquet"):
        theirs = figures.get(side)
        if theirs is None or not theirs.clock:
            cells.append("")
        else:
            cells.append(
                f"{median(ours.clock) / median(theirs.clock):.2f} ({median(ours.cpu) / median(theirs.cpu):.2f})"
            )
    sizes = [theirs for side in ("floe", "java") if (theirs := figures.get(side)) is not None and theirs.size]
    cells.append(" / ".join(f"{theirs.size / 1e6:.1f} MB in {theirs.files}" for theirs in sizes))
    return f"| {name} | " + " | ".join(cells) + " |"


HEAD = (
    "| wall-clock seconds (CPU seconds), median | Floe | Java | plain Parquet | Floe / Java | Floe / Parquet | "
    "files, Floe / Java |\n|---|---|---|---|---|---|---|"
)
