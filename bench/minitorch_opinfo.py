"""The table of agreement with PyTorch on all its OpInfo samples: value, gradient, second gradient.

Run: python bench/minitorch_opinfo.py [samples an operator]
"""

import importlib.util
import sys
import warnings
from pathlib import Path


def main() -> None:
    path = Path(__file__).parent.parent / "tests" / "minitorch" / "opinfo_agreement.py"
    spec = importlib.util.spec_from_file_location("opinfo_agreement", path)
    assert spec is not None
    assert spec.loader is not None
    agreement = importlib.util.module_from_spec(spec)
    sys.modules["opinfo_agreement"] = agreement
    spec.loader.exec_module(agreement)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db

    agreement.table(op_db, int(sys.argv[1]) if len(sys.argv) > 1 else None)


if __name__ == "__main__":
    main()
