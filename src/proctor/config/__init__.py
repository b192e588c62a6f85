"""The typed settings, and how flags, YAML and Python values become them."""
