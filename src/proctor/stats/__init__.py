"""Statistics: pure functions on counts and outcomes, which import nothing else of Proctor.

What a run shows of itself needs no scipy: `intervals.wilson`, `macro`, `steps`, `separation`, `sequential`. What
compares runs does (`intervals.clopper_pearson`, `paired`, `unpaired`, `planning`); imported where it is used.
"""
