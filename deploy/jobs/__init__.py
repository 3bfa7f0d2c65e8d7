"""Ad-hoc jobs: releases in a process of their own that outlives the terminal."""
