"""`proctor parallel`: one plan in several processes, watched as one, restarted if they die, merged at the end."""
