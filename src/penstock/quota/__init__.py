"""Windows, rates and limits: how much passed lately, and when more may."""
