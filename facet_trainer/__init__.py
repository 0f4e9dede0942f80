"""What runs in the trainer's own environment: Table 9 for TRL, and a check of an export without a GPU."""
