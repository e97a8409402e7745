"""Where a learner's code runs: a process that holds nothing worth taking, behind a wall.

    inside the wall    worker   runs statements and answers requests
                       endpoint one rank's end of the network, a ddp_lab transport
                       zygote   a warm worker that forks one for each submission
    on the wire        wire     frames of plain data; never pickle
    outside            host     `Sandbox`, the student that checks see
                       network  the judge as the network between ranks
                       supply   hands out workers: process (one by one), warm (from a zygote)
                       launch   starts processes; layout says what they see, seccomp, cgroup
                                and watch what they may do
                       channel  frames and output, never blocking, always bounded
                       doctor   what this machine can do, and what to do about the rest

The judge's side never unpickles, never evaluates and never imports what came from the inside.
"""
