"""Work that comes to a bad end in executors."""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext


class Faulty:
    """Work that comes to a bad end in an executor, when all is written and nothing is told yet."""

    def __init__(self, work: Callable[..., Any], how: str, folder: str) -> None:
        self.work, self.how, self.folder = work, how, Path(folder)

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        made = list(self.work(batches))
        context: Any = TaskContext.get()
        if context.partitionId() == 0:
            if context.attemptNumber() == 0:
                (self.folder / "first").touch()
                getattr(self, self.how)()
            else:
                (self.folder / "second").touch()
        yield from made

    def worker_dies(self) -> None:
        os._exit(1)

    def executor_dies(self) -> None:
        os.kill(_parent(os.getppid()), signal.SIGKILL)  # the parent is PySpark's daemon, and its parent the executor
        threading.Event().wait()

    def is_overtaken(self) -> None:
        waiting = threading.Event()
        for _ in range(1200):
            if (self.folder / "second").exists():
                return
            waiting.wait(0.1)
        raise AssertionError("no second attempt came")


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
