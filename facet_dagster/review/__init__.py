"""The review page: every seed and its story in a browser, read-only."""
