"""``ls assets`` is the funnel: one file a stage of the method, ``_dagster`` the only translator."""
