"""Backup and restore of ledger and artifacts, and what may go: everything about keeping an installation."""
