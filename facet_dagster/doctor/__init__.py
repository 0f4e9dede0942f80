"""Looks at every part of an installation and says how to mend it; starts, makes and changes nothing.

``examine.examine`` runs the checks side by side, each for a bounded time. A check is a function from a ``Patient``
to one ``Finding``.
"""
