"""Calls methods of BridgeEngine: a JSON array [cluster, method, job execution] on each line.

``cluster`` has ``master``, ``workers`` and ``callback``. Answers each with a line: ``{"return": …}`` or
``{"error": [code, message]}``. SALTBRIDGE_URL, SALTBRIDGE_CA, SALTBRIDGE_USER and SALTBRIDGE_PASSWORD
say whom to ask and as whom.
"""

import json
import os
import sys

from sahara_engine import BridgeEngine
from saltbridge_bridge import Bridge, BridgeError


def main() -> None:
    bridge = Bridge(os.environ['SALTBRIDGE_URL'], os.environ['SALTBRIDGE_USER'],
                    os.environ['SALTBRIDGE_PASSWORD'], eauth='file',
                    ca_file=os.environ['SALTBRIDGE_CA'], retries=3, timeout=300)
    for line in sys.stdin:
        cluster, method, execution = json.loads(line)
        try:
            answer = {'return': getattr(BridgeEngine(bridge, **cluster), method)(execution)}
        except BridgeError as error:
            answer = {'error': [error.code, str(error)]}
        print(json.dumps(answer), flush=True)


if __name__ == '__main__':
    main()
