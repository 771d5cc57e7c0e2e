"""What bench_planning.py runs, each planner in a process of its own."""
