"""The outside world as Dagster resources; imported by ``facet_dagster.definitions`` alone."""
