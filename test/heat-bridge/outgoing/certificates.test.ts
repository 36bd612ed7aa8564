/** Whom an endpoint's certificate must be signed by: read with the configuration, and not again. */
import { once } from 'node:events';
import { copyFileSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import { createHttpClient, type HttpResult } from '../../../heat-bridge/http-client.ts';
import { BridgeError } from '../../../heat-bridge/index.ts';
import { parseSignalsOptions } from '../../../heat-bridge/signals/open-signals.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

const fixture = (name: string): string =>
  fileURLToPath(new URL(`../../../../test/fixtures/tls/${name}`, import.meta.url));

async function startService(t: ExecutionContext, name: 'master' | 'stranger'): Promise<string> {
  const cert = readFileSync(fixture(`${name}.pem`));
  const server = createServer({ cert, key: readFileSync(fixture(`${name}.key`)) }, (_, response) =>
    response.end('null'),
  );
  t.teardown(() => server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // it listens on a port
  return `https://127.0.0.1:${port}`;
}

/** A section of one endpoint, whose file is gone once the section was read. */
async function askOf(t: ExecutionContext, url: string): Promise<() => Promise<HttpResult>> {
  const file = path.join(temporaryDirectory(t), 'ca.pem');
  copyFileSync(fixture('ca.pem'), file);
  const { endpoints } = parseSignalsOptions({ endpoints: [{ url, ca_file: file }] });
  rmSync(file);
  const ask = createHttpClient({ endpoints, timeoutMs: 5_000, resolve: async () => [] });
  return () => ask({ method: 'PUT', url, body: '{}' }, new AbortController().signal);
}

test('a service whose certificate the file vouches for is asked, with the file gone', async (t) => {
  const ask = await askOf(t, await startService(t, 'master'));
  t.like(await ask(), { kind: 'answer', status: 200 });
  t.like(await ask(), { kind: 'answer', status: 200 });
});

test('a service that somebody else vouches for is not', async (t) => {
  const ask = await askOf(t, await startService(t, 'stranger'));
  t.is((await ask()).kind, 'unreachable');
});

test('a file that cannot be read ends the start, and the key is named', (t) => {
  const given = { endpoints: [{ url: 'https://heat.example.org', ca_file: '/none/ca.pem' }] };
  const error = t.throws(() => parseSignalsOptions(given), {
    instanceOf: BridgeError,
    code: 'ERR_BRIDGE_OPTIONS',
  });
  t.regex(error.message, /saltbridge:bridge:handles:endpoints: .*\/none\/ca\.pem/);
});
