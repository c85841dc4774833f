"""Models: providers, requests and streams, prices, and the endpoints where they answer."""
