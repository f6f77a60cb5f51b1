"""The log as clients follow it: its commits in the words of the REST document, and a feed of what comes."""
