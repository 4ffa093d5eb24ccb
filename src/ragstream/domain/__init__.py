"""What flows between the stages, where it flows, and what a stage needs from outside.

Nothing here imports anything else of the package.
"""
