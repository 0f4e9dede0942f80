"""Vendors live here and nowhere else: one class a file, named <Vendor><Port>."""
