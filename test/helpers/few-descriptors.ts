/** A program: a port for minions and the HTTP API, to be run where few files may be open. */

import type { Master } from '#master';
import { createZeromqListener } from '#minion-protocol';
import { createSaltApi } from '#salt-api';

const transport = createZeromqListener({ host: '127.0.0.1', requestPort: 0, publishPort: 0 });
const { requestPort } = await transport.listen(async (request) => request);
// Who only connects asks nothing of a master.
const master = {} as Master;
const api = await createSaltApi(master, { host: '127.0.0.1', statusPage: false });
const { port } = await api.listen();
process.stdout.write(`${JSON.stringify({ http: port, requests: requestPort })}\n`);
