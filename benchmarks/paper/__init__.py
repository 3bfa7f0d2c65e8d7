"""The tables and figures of LQS (arXiv:1101.2604v2), computed anew."""
