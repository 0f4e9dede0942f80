"""What starts runs without a person."""
