"""Stored episodes, run again from their actions: without their policy, and compared with what is stored."""
