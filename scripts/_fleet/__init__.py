"""Many minions on many hosts, and a database whose nodes are lost under them."""
