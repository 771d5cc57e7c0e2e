"""DELETE, UPDATE and MERGE: what they read, what tasks write of it, and the commit."""
