"""How sessions over HTTP begin that take their time, and begin again."""
