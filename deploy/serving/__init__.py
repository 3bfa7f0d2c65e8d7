"""`crowdblend serve`: the schedule, its times, the processes that run releases, and who is told of failures."""
