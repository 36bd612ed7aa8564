/** Requests of components that have no other test with a hostile server. */

import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { postJson } from '#edge/identity/post-json.ts';
import { startMetadataAgent } from '#guests/metadata-agent/metadata-agent.ts';
import { createSilentLogger } from '#master';
import { send } from '../campaigns/http-fuzz.ts';
import { within } from '../helpers/deadline.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

/** Starts a server, and returns its URL. */
async function startServer(t: ExecutionContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
}

/** Responds to a request with the status 101. */
const switching: RequestListener = (_request, { socket }) => {
  socket?.write('HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n');
};

test('a site that joins does not wait for a centre that switches to another protocol', async (t) => {
  const url = await startServer(t, switching);
  await t.throwsAsync(within('the error', postJson(url, {}, undefined)), {
    code: 'ERR_SITE_LINK',
    message: /another protocol/,
  });
});

test('a site that joins does not wait for a centre whose reply never ends', async (t) => {
  const url = await startServer(t, (_request, response) => {
    const timer = setInterval(() => response.write(' '), 20);
    response.once('close', () => clearInterval(timer));
  });
  const posted = postJson(url, {}, undefined, { timeMs: 500 });
  await t.throwsAsync(within('the error', posted), {
    code: 'ERR_SITE_LINK',
    message: /no complete reply within 0\.5 s/,
  });
});

test('the metadata agent does not wait for a service that switches to another protocol', async (t) => {
  const url = await startServer(t, switching);
  const socket = path.join(temporaryDirectory(t), 'agent.sock');
  const agent = await startMetadataAgent({
    socket,
    nova: { url, secret: 'guest-secret' },
    master: { url, name: 'net-1', secret: 'the secret of the agent of these networks' },
    find: async () => ({ instance: 'a', project: 'p' }),
    now: Date.now,
    log: createSilentLogger(),
  });
  t.teardown(() => agent.close());
  const headers = { 'x-neutron-network-id': 'net-A', 'x-forwarded-for': '10.0.0.5' };
  const asked = send(socket, { method: 'GET', path: '/openstack', headers }, Buffer.of(), 1e6);
  t.is((await within('the answer', asked))?.status, 503);
});
