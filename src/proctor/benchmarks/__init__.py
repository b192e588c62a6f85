"""What can be evaluated on: the protocols, and a folder per benchmark."""
