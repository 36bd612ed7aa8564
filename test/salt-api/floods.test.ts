/** Many at once: nobody else is held up, and nothing is left behind [THREATS ]. */
import { connect, type Socket } from 'node:net';
import test from 'ava';
import { json, password, startApi } from '../helpers/salt-api.ts';

const ping = { client: 'local', tgt: 'web1', fun: 'test.ping' };

test('a thousand log-ins at once are let in, or told to come later', async (t) => {
  const { ask, master, login, run } = await startApi(t, { minions: ['web1'] });
  const token = await login();
  const body = { username: 'limited', password, eauth: 'sharedsecret' };
  const request = { method: 'POST', path: '/login', headers: json(), body };
  const statuses: number[] = [];
  const flood = async (): Promise<void> => {
    for (let count = 0; count < 50; count += 1) statuses.push((await ask(request)).status);
  };
  const floods = Array.from({ length: 20 }, flood);
  t.is((await run(token, ping)).status, 200);
  await Promise.all(floods);
  t.is(statuses.length, 1000);
  const accepted = statuses.filter((status) => status === 200).length;
  t.true(accepted > 0);
  t.deepEqual(
    [...new Set(statuses)].filter((status) => status !== 200 && status !== 429),
    [],
  );
  t.is((await master.logins.list()).filter(({ user }) => user === 'limited').length, accepted);
});

test('three hundred readers that never read cost nobody anything', async (t) => {
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
