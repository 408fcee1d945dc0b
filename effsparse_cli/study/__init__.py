"""Studies: experiments that prune, train and measure a network, each described by one task."""
