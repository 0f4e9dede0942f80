"""Programs that use what is exported, each in an environment of its own."""
