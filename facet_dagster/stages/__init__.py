"""One pure module (or package) per transformation; none knows another; ports come as keyword arguments."""
