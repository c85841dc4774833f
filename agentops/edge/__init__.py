"""Between the network and the pages: what a request may be, where it comes from, what is refused."""
