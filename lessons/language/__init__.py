"""What lab 18 takes: text and its score, the course's pieces, ranks, a server's readers, the stack.

May import minitorch and ddp_lab.
"""
