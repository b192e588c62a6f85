"""The trainer of compact policies: behaviour cloning with PyTorch, short enough to be read."""
