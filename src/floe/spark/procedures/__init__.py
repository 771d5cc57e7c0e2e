"""Procedures: `CALL lake.system.…`, SHOW PROCEDURES, DESCRIBE PROCEDURE.

| module | what it has |
|---|---|
| `procedure` | `Procedure` and its parameters and columns, `register`, and how Spark loads and calls procedures |
| `iceberg` | the procedures of Iceberg: rollback, cherry-pick, fast-forward, changelog views, statistics, … |

docs/add-a-spark-procedure.md shows how to add one.
"""

from floe.spark.procedures import iceberg as iceberg
from floe.spark.procedures.procedure import Column, Context, Parameter, Procedure, register, required_text

__all__ = ["Column", "Context", "Parameter", "Procedure", "register", "required_text"]
