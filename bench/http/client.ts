/**
 * Program that sends the HTTP requests. It runs in a process of its own, so that its work is not
 * measured.
 */
import { request } from 'node:http';

/** Order from the benchmark. */
type Order =
  | { readonly do: 'kinds' }
  | {
      readonly do: 'send';
      readonly kind: string;
      readonly port: number;
      readonly password: string;
      readonly seconds: number;
    };

interface Sent {
  readonly path: string;
  readonly type: string;
  readonly body: string;
}

/** Number of concurrent requests. */
const lanes = 4;

const run = (type: string, body: string): Sent => ({ path: '/run', type, body });
const test = (argument: unknown): string =>
  JSON.stringify({ client: 'runner', fun: 'test.arg', arg: [argument] });
const manyKeys = Array.from({ length: 15_000 }, (_, index) => `k${index}: 1\n`).join('');

const kinds: Readonly<Record<string, Sent>> = {
  'small commands': { path: '/', type: 'application/json', body: test('x') },
  'strings of 15 MiB': {
    path: '/',
    type: 'application/json',
    body: test('x'.repeat(15 * 1_048_576)),
  },
  '90,000 values': { path: '/', type: 'application/json', body: test(Array(90_000).fill(1)) },
  'YAML of 130 kB': run('application/x-yaml', manyKeys),
  'errors in YAML': run('application/x-yaml', 'a: b: c\n'.repeat(16_000)),
  'escapes of 1 MB': run('application/json', `["${'\\"'.repeat(500_000)}"]`),
  'forms of 1 MB': run('application/x-www-form-urlencoded', 'a=%41&'.repeat(99_000)),
};

process.on('message', async (order: Order) => {
  process.send?.(order.do === 'kinds' ? Object.keys(kinds) : await send(order));
});

async function send({
  kind,
  port,
  password,
  seconds,
}: Extract<Order, { do: 'send' }>): Promise<number> {
  const sent = kinds[kind];
  if (sent === undefined) throw new Error(`unknown kind of body: ${kind}`);
  const login = JSON.stringify({ username: 'bench', password, eauth: 'sharedsecret' });
  const token = await post(port, { path: '/login', type: 'application/json', body: login }, '');
  const end = performance.now() + seconds * 1000;
  let requests = 0;
  const lane = async (): Promise<void> => {
    while (performance.now() < end) {
      await post(port, sent, token);
      requests += 1;
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return requests;
}

/**
 * Sends a request.
 * @returns the session token in the response, if there is one
 */
function post(port: number, { path, type, body }: Sent, token: string): Promise<string> {
  const headers = { 'content-type': type, ...(token === '' ? {} : { 'x-auth-token': token }) };
  return new Promise((resolve) => {
    const options = { host: '127.0.0.1', port, path, method: 'POST', headers };
    const outgoing = request(options, (response) => {
      response.resume();
      response.on('close', () => resolve(String(response.headers['x-auth-token'] ?? '')));
    });
    outgoing.on('error', () => resolve(''));
    outgoing.end(body);
  });
}
