/** A program that serves minions and the HTTP API. It is run with a low limit of open files. */

import type { Master } from '#master';
import { createZeromqListener } from '#minion-protocol';
import { createSaltApi } from '#salt-api';

const transport = createZeromqListener({ host: '127.0.0.1', requestPort: 0, publishPort: 0 });
const { requestPort } = await transport.listen(async (request) => request);
// The HTTP API needs no working master, because the clients only connect.
const master = {} as Master;
const api = await createSaltApi(master, { host: '127.0.0.1', statusPage: false });
const { port } = await api.listen();
process.stdout.write(`${JSON.stringify({ http: port, requests: requestPort })}\n`);
