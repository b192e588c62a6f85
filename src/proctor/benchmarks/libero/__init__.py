"""LIBERO: five suites of language-conditioned manipulation tasks for one robot arm."""
