/**
 * Many requests at once do not delay other callers, and leave nothing behind [THREATS ].
 */

import { connect, type Socket } from 'node:net';
import test from 'ava';
import { codeOf } from '#runtime';
import { json, startApi } from '../helpers/salt-api.ts';

const ping = { client: 'local', tgt: 'web1', fun: 'test.ping' };

test('a thousand concurrent log-ins are processed a few at a time, and do not delay others', async (t) => {
  const { ask, login, run, master } = await startApi(t, { minions: ['web1'] });
  const token = await login();
  // A wrong password takes a quarter of a second.
  const flood = Array.from({ length: 1000 }, async (_, index) => {
    const body = { username: `user${index}`, password: 'wrong', eauth: 'sharedsecret' };
    const request = { method: 'POST', path: '/login', headers: json(), body };
    return ask(request).then(
      ({ status }) => status,
      (error: unknown) => {
        // The operating system resets connections beyond its queue of 511.
        if (codeOf(error) === 'ECONNRESET') return 429;
        throw error;
      },
    );
  });
  t.is((await run(token, ping)).status, 200);
  const statuses = await Promise.all(flood);
  t.deepEqual([...new Set(statuses)].sort(), [401, 429]);
  t.is((await master.logins.list()).length, 1);
  t.is((await run(await login('limited'), ping)).status, 200);
});

test('three hundred readers that never read do not affect others', async (t) => {
  const { master, login, run, port } = await startApi(t, {
    minions: ['web1'],
    options: { streamsPerToken: 300 },
  });
  const token = await login();
  const sockets: Socket[] = [];
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
  const opened = Array.from({ length: 300 }, async () => {
    const socket = connect(port, '127.0.0.1');
    sockets.push(socket);
    socket.on('error', () => {});
    socket.write(`GET /events HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: ${token}\r\n\r\n`);
    await new Promise<void>((resolve) => socket.once('readable', () => resolve()));
  });
  await Promise.all(opened);
  const text = 'x'.repeat(10_000);
  for (let count = 0; count < 50; count += 1) await master.events.fire('my/tag', { text });
  t.is((await run(token, ping)).status, 200);
});
