"""Meta-World: fifty manipulation tasks."""
