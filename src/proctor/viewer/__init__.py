"""`proctor view`: a folder of runs in the browser. It reads, and writes nothing."""
