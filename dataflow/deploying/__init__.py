"""From a launch to running instances: what peers ask of each other, and the one machine that leads a launch.

    requests    the questions and answers, as messages
    launch      one launch from offers to open sources, or to nothing at all: pure
    scheduling  the questions and answers about schedulers
    charter     what a host is handed: assignment, addresses, sealed bundle

Nothing here outlives a launch: once its sources are open, an app needs nobody who led it.
"""
