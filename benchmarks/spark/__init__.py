"""What the Spark benchmarks share: sessions, inputs, workloads, and processes that are measured in turn."""
