"""Changes to tables: what each operation does, what it conflicts with, and the loop that publishes it."""
