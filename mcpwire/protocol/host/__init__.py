"""What a server asks of its client, and how the client answers.

Sampling (an answer of the client's model), elicitation (an answer of its user) and
roots (the folders a server may work in). Whether such a question comes as a request of
a session or inside an input-required result, `features.HostFeatures` says who answers
it, and checks the answer.
"""
