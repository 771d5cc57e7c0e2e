"""Streams.

| module | contents |
|---|---|
| `source` | a table as the source of a stream: offsets, planning of micro-batches, Spark's `MicroBatchStream` |
| `sink` | a table as the sink of a stream: epochs that are written exactly once, Spark's `StreamingWrite` |
"""
