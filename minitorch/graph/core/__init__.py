"""Node, graph, variables, feeds, fetches, gradients, order, and the session that runs them."""
