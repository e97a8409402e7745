"""Write the demo as a page that computes without a kernel or a network.

python labs/demos/pipeline_schedules/build.py            writes pipeline_schedules.html beside this file
python labs/demos/pipeline_schedules/build.py PATH       writes it there
"""

import sys
from pathlib import Path

from ddp_lab.show import PipelineSchedules

PAGE = Path(__file__).with_name("pipeline_schedules.html")


def main(arguments: list[str]) -> None:
    print(
        PipelineSchedules(schedule="1f1b", ranks=4, microbatches=8, room=4).save(
            Path(arguments[0]) if arguments else PAGE
        )
    )


if __name__ == "__main__":
    main(sys.argv[1:])
