"""What this process may use of the machine: cores, memory, GPUs."""
