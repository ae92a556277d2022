"""Models and formats of the RIoTBench apps, one idea a file, none of them aware of streams."""
