/** What those do who have no business here, or have none any more. */
import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { resolveMasterConfig } from '../../master/index.ts';
import { within } from '../helpers/deadline.ts';
import { json, startApi } from '../helpers/salt-api.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const ping = { client: 'local', tgt: 'web1', fun: 'test.ping' };

/** What comes back for a beginning; the rest is never sent. */
function beginningOf(t: ExecutionContext, port: number, text: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  const answer = new Promise<string>((resolve, reject) => {
    socket.once('data', (chunk: Buffer) => resolve(chunk.toString('latin1')));
    socket.once('error', reject);
  });
  socket.write(text);
  return within('an answer', answer);
}

test('a user who was deleted has neither session nor token when it is looked again', async (t) => {
  const file = path.join(temporaryDirectory(t), 'users');
  writeFileSync(file, 'fred:word\n');
  const externalAuth = { file: { '^filename': file, fred: ['.*', '@runner'] } };
  const { ask, run, master } = await startApi(t, { minions: ['web1'], config: { externalAuth } });
  const form = { username: 'fred', password: 'word', eauth: 'file' };
  const { headers } = await ask({ method: 'POST', path: '/login', headers: json(), body: form });
  const session = String(headers['x-auth-token']);
  const tokens = await ask({ method: 'POST', path: '/token', headers: json(), body: form });
  const [own] = Array.isArray(tokens.json) ? tokens.json : [];
  // What is known of users holds for half a minute, or until a reload.
  const lookAgain = (): Promise<unknown> => master.reload(resolveMasterConfig({ externalAuth }));
  await lookAgain();
  t.is((await run(session, ping)).status, 200);
  writeFileSync(file, '');
  await lookAgain();
  t.is((await run(session, ping)).status, 401);
  const byToken = [{ ...ping, token: own.token }];
  t.is((await ask({ method: 'POST', path: '/run', headers: json(), body: byToken })).status, 401);
  t.is((await ask({ path: `/events?salt_token=${own.token}` })).status, 401);
  t.is((await ask({ method: 'POST', path: '/login', headers: json(), body: form })).status, 401);
});

test('twenty megabytes are refused by their size, before they are sent', async (t) => {
  const { port, run, login } = await startApi(t, { minions: ['web1'] });
  const token = await login();
  const paths = ['/', '/run', '/login', '/token', '/minions', '/hook/x', '/status/login'];
  for (const place of paths) {
    const head = `POST ${place} HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: ${token}\r\n`;
    const type = 'Content-Type: application/json\r\n';
    const text = `${head}${type}Content-Length: 20000000\r\n\r\n[`;
    t.regex(await beginningOf(t, port, text), /^HTTP\/1\.1 413 /, place);
  }
  t.is((await run(token, ping)).status, 200);
});

test('a body without a length is read as far as it may go, and no further', async (t) => {
  const { port, run, login } = await startApi(t, {
    minions: ['web1'],
    options: { maxRequestBodySize: 1_048_576 },
  });
  const token = await login();
  const head = `POST / HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: ${token}\r\n`;
  const type = 'Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n';
  const chunk = `10000\r\n${'x'.repeat(65_536)}\r\n`;
  const text = `${head}${type}${chunk.repeat(17)}`;
  t.regex(await beginningOf(t, port, text), /^HTTP\/1\.1 413 /);
  t.is((await run(token, ping)).status, 200);
});

test('streams of the status page count as streams', async (t) => {
  const { port, login, run } = await startApi(t, {
    minions: ['web1'],
    options: { streamsPerToken: 8 },
  });
  const token = await login();
  const request = `GET /status/stream HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: ${token}\r\n\r\n`;
  for (let count = 0; count < 8; count += 1) {
    t.regex(await beginningOf(t, port, request), /^HTTP\/1\.1 200 /);
  }
  t.regex(await beginningOf(t, port, request), /^HTTP\/1\.1 429 /);
  t.is((await run(token, ping)).status, 200);
});
