"""What ``ragstream dev`` starts: a broker, a cache, a database and a vector endpoint.

Real servers from packages, on 127.0.0.1, for one developer. Nothing here prints: progress goes to a
callback, and what the user can mend is a ``ConfigurationError`` of one line.
"""
