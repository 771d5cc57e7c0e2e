"""The `floe` command.

`commands/` says what can be typed, and is light; `work/` does it, and is loaded when a command runs.
"""
