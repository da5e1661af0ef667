"""What a server asks meanwhile: of the person at the terminal, or of a model.

Everything a server sends is shown with a mark before each line, so that none of it can
pass for a question of ours. Nothing is sent, run or opened that was not agreed to.
"""
