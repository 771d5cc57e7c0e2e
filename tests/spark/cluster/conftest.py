"""Clusters are started by the tests that need them."""

import shutil

if shutil.which("java") is None:
    collect_ignore_glob = ["test_*.py"]
