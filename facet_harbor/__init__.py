"""What runs inside Harbor's own virtual environment (Python >= 3.12); imports nothing of the platform.

Harbor finds it when the checkout's root is on PYTHONPATH:

    PYTHONPATH=<checkout> harbor run -p <task> -a oracle -e facet_harbor.offline:OfflineDockerEnvironment
"""
