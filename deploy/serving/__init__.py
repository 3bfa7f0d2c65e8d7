"""`crowdblend serve`: the schedule, its times, the processes that run releases, and reports of failures."""
