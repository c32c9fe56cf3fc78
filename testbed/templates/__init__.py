"""What `testbed new` starts from: real files, checked like all others, in which only the name is replaced."""
