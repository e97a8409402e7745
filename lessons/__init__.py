"""What the labs' notebooks take that needs no reading: clocks, figures, small systems to work on.

Labs import from the modules by name, and learners open what they like with `name??`. Nothing here
answers a question of a lab: where a piece needs what learners write, it takes that as an argument.
May import minitorch and ddp_lab; labs alone import this.

    timing                  00 01 02 03 04 05 06 07 08 11 18  functions in turns, the least
    figures                 01 04 05 10 11    curves, and one that grows with training
    device_note             01 02 03 04 05 06 08 09 10  what a lab shows of CUDA, or would
    machine                 00 07 08 16       work of each kind that a machine does
    machine_figures         00                a roofline with tasks on it, the years
    gradient_figures        01                formulas, steps, batches; ResNet-50's shapes
    training_figures        03                signals, optimizers, a race of three ways
    convolution_by_hand     03                the network in NumPy, derived on paper
    torch_reference         03                the network in PyTorch
    graphs.variable_updates 03                ways to change a variable of a graph
    graphs.nodes            04                nodes that assign, groups, what is behind one
    graphs.digits_network   04                a network of tensors or of nodes
    graphs.graph_figures    04                what running a graph costs
    graphs.graph_programs   04                programs as printed, 200 operators launched
    graphs.tokens           04 05             graphs with branches and loops, and their run
    graphs.token_stacks     05                stacks and rows as values of such graphs
    graphs.token_figures    05                where tokens were; what structure costs
    graphs.sentences        05                sequences of many lengths
    graphs.trees            05                trees of NAND, alone and in batches
    graphs.programs         06                programs as lists of steps, and their run
    graphs.program_examples 06                programs to try passes on, gradients
    graphs.program_orders   06                chains of products, reordered
    graphs.program_memory   06                runs in an arena or a heap, poisoned ones too
    graphs.program_device   06                runs over tensors, on a GPU too
    graphs.program_figures  06                programs, plans and what was measured
    deployed                07                a network tuned, compiled, saved as a file
    run_deployed            07                that file run without the compiler
    ranks.rank_timing       08 09 10          functions of ranks, in turns; broadcasts
    flat_network            08 17             a network whose parameters are one array
    ranks.messages_only     08 09             a communicator without collectives
    ranks.message_figures   08                messages, round by round
    ranks.wires             10 11 13          communicators that note, or are slow
    ranks.placed_jobs       14                a placed graph, run by two ranks
    ranks.pretended_device  13                a stage that takes its time
    ranks.readiness         10 11             when gradients are ready in a backward pass
    ranks.distribution      10                ways to train beside each other; a shared tensor
    ranks.step_figures      10 11             steps taken apart, launches of buckets
    ranks.steps             10                training steps of two ranks, taken apart
    ranks.compressing       11                averages of gradients with fewer bytes
    ranks.misbehaving       11                ranks that fail, a training that goes wrong
    stores                  17                results that never change, machines that die
    data_figures            17                bytes of a step, lineage, slots
    real_spark              17                Spark itself, where it is installed
    language.data           18                text, digits to sort, batches and their score
    language.modules        03 18             the course's modules, an optimizer's state
    language.torch_gpt      18                the GPT in PyTorch
    language.ranks          18                products shared out, blocks in two stages
    language.figures        18                a profile, batches in slots, a stack
    language.serving        18                readers of a real server
    language.stack          03 18             spans, lines, and a page of the stack
"""
