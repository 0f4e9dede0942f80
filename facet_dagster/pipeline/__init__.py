"""The funnel as data (``graph``) and each stage bound to its ports (``skills``, ``tasks``)."""
