"""Everything that the paper reports, computed from the user's own run: one HTML page that needs nothing else."""
