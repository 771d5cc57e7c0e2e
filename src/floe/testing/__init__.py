"""Tools that prove things: conformance suites that others can run on their own storages, and fault injection."""
