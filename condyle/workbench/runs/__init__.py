"""Runs kept in files: recorded as they happen, read back, and repeated bit for bit."""
