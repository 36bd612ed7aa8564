import test, { type ExecutionContext } from 'ava';
import {
  createHttpClient,
  type EndpointOptions,
  type HttpResult,
  parseAllowedEndpoints,
} from '../../../heat-bridge/http-client.ts';
import { type Answerer, always, type Recorder, startRecorder } from '../signals/recorder.ts';

async function recorder(t: ExecutionContext, answer: Answerer): Promise<Recorder> {
  const service = await startRecorder(answer);
  t.teardown(() => service.close());
  return service;
}

function ask(
  endpoints: readonly EndpointOptions[],
  url: string,
  addresses: readonly string[] = [],
  timeoutMs = 5_000,
): Promise<HttpResult> {
  const resolve = async (): Promise<readonly string[]> => addresses;
  const send = createHttpClient({
    endpoints: parseAllowedEndpoints(endpoints),
    timeoutMs,
    resolve,
  });
  return send({ method: 'PUT', url, body: '{}' }, new AbortController().signal);
}

test('the address goes out byte for byte, signature and all', async (t) => {
  const { origin, heard } = await recorder(t, always(200));
  const path = '/v1/arn%3Aopenstack%3a/../x/./y?a=%2F&Signature=HM%2Bx%3D&b=~!*()';
  await ask([{ url: origin }], `${origin}${path}`);
  const [request] = await heard(1);
  t.is(request?.path, path);
  t.is(request?.headers['content-type'], 'application/json');
  t.is(`http://${request?.headers.host}`, origin);
});

test('what is not listed is not asked', async (t) => {
  const { origin, requests } = await recorder(t, always(200));
  const exchange = await ask([{ url: 'https://heat.example.org:8004' }], `${origin}/x`);
  t.is(exchange.kind, 'forbidden');
  t.is(requests.length, 0);
});

test('another port or scheme of a listed host is not listed', async (t) => {
  const { origin, requests } = await recorder(t, always(200));
  for (const url of ['http://127.0.0.1:1', origin.replace('http:', 'https:')]) {
    t.is((await ask([{ url }], `${origin}/x`)).kind, 'forbidden');
  }
  t.is(requests.length, 0);
});

const inward = [
  '127.0.0.1',
  '127.9.9.9',
  '169.254.169.254',
  '0.0.0.0',
  '10.0.0.1',
  '172.31.0.1',
  '192.168.1.1',
  '100.64.0.1',
  '224.0.0.1',
  '255.255.255.255',
  '::1',
  '::',
  'fe80::1',
  'fd00::1',
  'ff02::1',
  '::ffff:127.0.0.1',
  '::ffff:169.254.169.254',
  '64:ff9b::a9fe:a9fe',
];

for (const address of inward) {
  test(`a listed name that leads to ${address} is not asked`, async (t) => {
    const { origin, requests } = await recorder(t, always(200));
    const url = origin.replace('127.0.0.1', 'heat.example');
    const exchange = await ask([{ url }], `${url}/x`, ['192.0.2.7', address]);
    t.is(exchange.kind, 'forbidden');
    t.is(requests.length, 0);
  });
}

test('a name leads where its endpoint lists', async (t) => {
  const { origin, requests } = await recorder(t, always(200));
  const url = origin.replace('127.0.0.1', 'heat.example');
  const listed = [{ url, addresses: ['127.0.0.0/8'] }];
  t.is((await ask(listed, `${url}/x`, ['127.0.0.1'])).kind, 'answer');
  t.is((await ask(listed, `${url}/x`, ['192.0.2.7'])).kind, 'forbidden');
  t.is(requests.length, 1);
});

test('the address that was checked is the one that is connected to', async (t) => {
  const { origin, requests } = await recorder(t, always(200));
  const url = origin.replace('127.0.0.1', 'no-such-name.invalid');
  const exchange = await ask([{ url, addresses: ['127.0.0.1'] }], `${url}/x`, ['127.0.0.1']);
  t.is(exchange.kind, 'answer');
  t.is(requests[0]?.headers.host, url.slice('http://'.length));
});

test('a redirection is an answer, and is not followed', async (t) => {
  const other = await recorder(t, always(200));
  const { origin } = await recorder(t, always(307, '', { location: `${other.origin}/x` }));
  const exchange = await ask([{ url: origin }, { url: other.origin }], `${origin}/x`);
  t.is(exchange.kind === 'answer' ? exchange.status : 0, 307);
  t.is(other.requests.length, 0);
});

test('who does not answer in time is unreachable', async (t) => {
  const { origin } = await recorder(t, () => {});
  const exchange = await ask([{ url: origin }], `${origin}/x`, [], 50);
  t.deepEqual(exchange, { kind: 'unreachable', reason: 'no answer within 50 ms' });
});

test('who begins an answer and does not end it is unreachable', async (t) => {
  const { origin } = await recorder(t, (_request, response) => {
    response.writeHead(200).write('x');
  });
  t.is((await ask([{ url: origin }], `${origin}/x`, [], 100)).kind, 'unreachable');
});

test('of a long answer the beginning is read', async (t) => {
  const { origin } = await recorder(t, always(400, 'x'.repeat(1_000_000)));
  const exchange = await ask([{ url: origin }], `${origin}/x`);
  t.is(exchange.kind === 'answer' ? exchange.body.length : 0, 65_536);
});

test('nobody there is unreachable, and the reason has no address in it', async (t) => {
  const service = await startRecorder(always(200));
  await service.close();
  const exchange = await ask([{ url: service.origin }], `${service.origin}/x?sig=secret`);
  t.is(exchange.kind, 'unreachable');
  t.false(JSON.stringify(exchange).includes('secret'));
});
