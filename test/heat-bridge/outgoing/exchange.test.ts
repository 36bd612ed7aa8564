import { once } from 'node:events';
import { copyFileSync, readFileSync, rmSync } from 'node:fs';
import { createServer as createPlainServer } from 'node:http';
import { createServer } from 'node:https';
import { type AddressInfo, createServer as createNetServer } from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import { BridgeError, secretsOf } from '#heat-bridge';
import { parseSignalsOptions } from '#heat-bridge/signals/signals-options.ts';
import { parseDestination, type Transport } from '#heat-bridge/transports/transports.ts';
import { createHttpClient, type HttpResult } from '#runtime';
import { type EndpointOptions, parseAllowedEndpoints } from '#runtime/allowed-endpoints.ts';
import { within } from '../../helpers/deadline.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { always, recorderFor, startRecorder } from '../signals/recorder.ts';

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

test('the address is sent byte for byte, including the signature', async (t) => {
  const { origin, heard } = await recorderFor(t, always(200));
  const path = '/v1/arn%3Aopenstack%3a/../x/./y?a=%2F&Signature=HM%2Bx%3D&b=~!*()';
  await ask([{ url: origin }], `${origin}${path}`);
  const [request] = await heard(1);
  t.is(request?.path, path);
  t.is(request?.headers['content-type'], 'application/json');
  t.is(`http://${request?.headers.host}`, origin);
});

test('a host that is not listed gets no request', async (t) => {
  const { origin, requests } = await recorderFor(t, always(200));
  const exchange = await ask([{ url: 'https://heat.example.org:8004' }], `${origin}/x`);
  t.is(exchange.kind, 'forbidden');
  t.is(requests.length, 0);
});

test('a URL whose text names another host than its parsed form gets no request', async (t) => {
  const { origin, requests } = await recorderFor(t, always(200));
  const host = origin.slice('http://'.length);
  const urls = [
    `http:/${host}/other.example/x`,
    `http:${host}/a/b//other.example`,
    `http:\\\\${host}/a/other.example/x`,
    `http://other.example@${host}/x`,
    `http://${host}\\other.example/x`,
    `http://${host}#/other.example`,
    ` http://${host}/x`,
  ];
  for (const url of urls) t.is((await ask([{ url: origin }], url)).kind, 'forbidden', url);
  t.is(requests.length, 0);
  t.is((await ask([{ url: origin }], `HTTP://${host}?q`)).kind, 'answer');
  t.is(requests[0]?.path, '/?q');
});

test('another port or scheme of a listed host counts as not listed', async (t) => {
  const { origin, requests } = await recorderFor(t, always(200));
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
  test(`a listed name that resolves to ${address} gets no request`, async (t) => {
    const { origin, requests } = await recorderFor(t, always(200));
    const url = origin.replace('127.0.0.1', 'heat.example');
    const exchange = await ask([{ url }], `${url}/x`, ['192.0.2.7', address]);
    t.is(exchange.kind, 'forbidden');
    t.is(requests.length, 0);
  });
}

test('a name may resolve to any network that its endpoint lists', async (t) => {
  const { origin, requests } = await recorderFor(t, always(200));
  const url = origin.replace('127.0.0.1', 'heat.example');
  const listed = [{ url, addresses: ['127.0.0.0/8'] }];
  t.is((await ask(listed, `${url}/x`, ['127.0.0.1'])).kind, 'answer');
  t.is((await ask(listed, `${url}/x`, ['192.0.2.7'])).kind, 'forbidden');
  t.is(requests.length, 1);
});

test('the connection uses the address that was checked', async (t) => {
  const { origin, requests } = await recorderFor(t, always(200));
  const url = origin.replace('127.0.0.1', 'no-such-name.invalid');
  const exchange = await ask([{ url, addresses: ['127.0.0.1'] }], `${url}/x`, ['127.0.0.1']);
  t.is(exchange.kind, 'answer');
  t.is(requests[0]?.headers.host, url.slice('http://'.length));
});

test('a redirection is returned and not followed', async (t) => {
  const other = await recorderFor(t, always(200));
  const { origin } = await recorderFor(t, always(307, '', { location: `${other.origin}/x` }));
  const exchange = await ask([{ url: origin }, { url: other.origin }], `${origin}/x`);
  t.is(exchange.kind === 'answer' ? exchange.status : 0, 307);
  t.is(other.requests.length, 0);
});

test('a server that does not respond in time is unreachable', async (t) => {
  const { origin } = await recorderFor(t, () => {});
  const exchange = await ask([{ url: origin }], `${origin}/x`, [], 50);
  t.deepEqual(exchange, { kind: 'unreachable', reason: 'no answer within 50 ms' });
});

test('a server that does not complete a response is unreachable', async (t) => {
  const { origin } = await recorderFor(t, (_request, response) => {
    response.writeHead(200).write('x');
  });
  t.is((await ask([{ url: origin }], `${origin}/x`, [], 100)).kind, 'unreachable');
});

test('a server that switches to another protocol is unreachable', async (t) => {
  const server = createNetServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n');
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  const exchange = await within('the result', ask([{ url }], `${url}/x`), 10_000);
  t.is(exchange.kind, 'unreachable');
});

test('the beginning of a long response is returned', async (t) => {
  const { origin } = await recorderFor(t, always(400, 'x'.repeat(1_000_000)));
  const exchange = await ask([{ url: origin }], `${origin}/x`);
  t.is(exchange.kind === 'answer' ? exchange.body.length : 0, 65_536);
});

test('a closed port is unreachable, and the reason contains no address', async (t) => {
  const service = await startRecorder(always(200));
  await service.close();
  const exchange = await ask([{ url: service.origin }], `${service.origin}/x?sig=secret`);
  t.is(exchange.kind, 'unreachable');
  t.false(JSON.stringify(exchange).includes('secret'));
});

// The CA that must have signed an endpoint's certificate is read with the configuration, and not
// again.

const fixture = (name: string): string =>
  fileURLToPath(new URL(`../../../test/fixtures/tls/${name}`, import.meta.url));

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

function clientOf(origin: string, mayRepeat: boolean) {
  const send = createHttpClient({
    endpoints: parseAllowedEndpoints([{ url: origin }]),
    timeoutMs: 5_000,
    resolve: async () => [],
    mayRepeat,
  });
  return (path: string) =>
    send({ method: 'POST', url: `${origin}${path}`, body: '{}' }, new AbortController().signal);
}

test('repeatable requests share a connection, and each other request opens its own', async (t) => {
  for (const [mayRepeat, connections] of [
    [true, 1],
    [false, 3],
  ] as const) {
    let count = 0;
    const server = createPlainServer((request, response) => {
      request.resume().on('end', () => response.end('{}'));
    });
    server.on('connection', () => {
      count += 1;
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.teardown(() => server.close());
    const post = clientOf(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, mayRepeat);
    for (const path of ['/1', '/2', '/3']) t.is((await post(path)).kind, 'answer');
    t.is(count, connections);
  }
});

test('a request is repeated on a new connection if the service closed a reused one', async (t) => {
  let connections = 0;
  const server = createNetServer((socket) => {
    connections += 1;
    let isUsed = false;
    socket.on('data', () => {
      if (isUsed) socket.resetAndDestroy();
      else socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}');
      isUsed = true;
    });
    socket.on('error', () => {});
    t.teardown(() => socket.destroy());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const post = clientOf(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, true);
  for (const path of ['/1', '/2', '/3']) t.is((await post(path)).kind, 'answer');
  t.is(connections, 3);
});

/** Returns a function that calls an endpoint. The CA file is removed after the section was read. */
async function askOf(t: ExecutionContext, url: string): Promise<() => Promise<HttpResult>> {
  const file = path.join(temporaryDirectory(t), 'ca.pem');
  copyFileSync(fixture('ca.pem'), file);
  const { endpoints } = parseSignalsOptions({ endpoints: [{ url, ca_file: file }] });
  rmSync(file);
  const ask = createHttpClient({ endpoints, timeoutMs: 5_000, resolve: async () => [] });
  return () => ask({ method: 'PUT', url, body: '{}' }, new AbortController().signal);
}

test('a service whose certificate is signed by the configured file is trusted, even after its deletion', async (t) => {
  const ask = await askOf(t, await startService(t, 'master'));
  t.like(await ask(), { kind: 'answer', status: 200 });
  t.like(await ask(), { kind: 'answer', status: 200 });
});

test('a service with another authority is not trusted', async (t) => {
  const ask = await askOf(t, await startService(t, 'stranger'));
  t.is((await ask()).kind, 'unreachable');
});

test('an unreadable file ends the start, and the key is named', (t) => {
  const given = { endpoints: [{ url: 'https://heat.example.org', ca_file: '/none/ca.pem' }] };
  const error = t.throws(() => parseSignalsOptions(given), {
    instanceOf: BridgeError,
    code: 'ERR_BRIDGE_OPTIONS',
  });
  t.regex(error.message, /saltbridge:bridge:handles:endpoints\[0\]: .*\/none\/ca\.pem/);
});

const cfnUrl =
  'http://127.0.0.1:15202/v1/waitcondition/arn%3Aopenstack%3Aheat%3A%3Addf2%3Astacks/w/0131/resources/handle?SignatureMethod=HmacSHA256&SignatureVersion=2&AWSAccessKeyId=d5fadf587f7746b39e69df868e869211&Timestamp=2026-11-21T11%3A25%3A30Z&Signature=HMfn4ys1uvOH%2Fzj6RDLYldFrOsNw%2BT7D0Vy38W8ob30%3D';
const tempUrl =
  'http://127.0.0.1:15229/v1/AUTH_1fff/e904/wait-handle-lpuyx3smvydt?temp_url_sig=f839d7e807c367e4ce403906e3d5dd7c8f9df594801cfe26c9164e1628faeb44&temp_url_expires=2147483586';
const endpoint = 'http://127.0.0.1:15201/v1/8365/stacks/w/4bc3/resources/handle/signal';
const login = {
  auth_url: 'http://127.0.0.1:15200/v3/',
  username: 'wait-heat-9502dd-handle-vx7mvycnsnv2',
  user_id: 'c1b54829b8754c379bfc6d28933d8e46',
  password: 'S8BPtZFw6yzyuF#dgyOxP&jM2LBJnzq!',
  project_id: '81763427c2664f13808bfef91a286a2f',
  domain_id: 'd1e17ad2fd9042598513072e786befac',
  region_name: 'RegionOne',
};
const key = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;

const forms: readonly (readonly [string, unknown, Transport])[] = [
  ['the text of CFN_SIGNAL', JSON.stringify({ alarm_url: cfnUrl }), 'CFN_SIGNAL'],
  ['the text of TEMP_URL_SIGNAL', JSON.stringify({ alarm_url: tempUrl }), 'TEMP_URL_SIGNAL'],
  ['the text of HEAT_SIGNAL', JSON.stringify({ ...login, alarm_url: endpoint }), 'HEAT_SIGNAL'],
  ['the text of ZAQAR_SIGNAL', JSON.stringify({ ...login, queue_id: 'q-1' }), 'ZAQAR_SIGNAL'],
  ['endpoint and token', { endpoint, token: 'gAAAA' }, 'TOKEN_SIGNAL'],
  [
    'curl_cli',
    `curl -i -X POST -H 'X-Auth-Token: gAAAA' -H 'Content-Type: application/json' -H 'Accept: application/json' ${endpoint}\n`,
    'TOKEN_SIGNAL',
  ],
  ['the reference of an AWS handle', `${cfnUrl}\n`, 'AWS_SIGNAL'],
  ['a webhook', { url: 'https://receiver.example/hook', key }, 'WEBHOOK'],
];

for (const [what, form, transport] of forms) {
  test(`${what} is parsed as ${transport}`, (t) => {
    t.is(parseDestination(form).transport, transport);
  });

  test(`${what} is parsed from the output of a stack too`, (t) => {
    const output = JSON.stringify({ output_key: 'signal', output_value: form });
    t.deepEqual(parseDestination(output), parseDestination(form));
  });
}

test('a pre-signed address is preserved byte for byte', (t) => {
  const destination = parseDestination({ alarm_url: cfnUrl });
  t.is('url' in destination ? destination.url : '', cfnUrl);
});

const refused: readonly (readonly [string, unknown])[] = [
  ['nothing', undefined],
  ['a number', 7],
  ['an empty map', {}],
  ['text that is broken JSON', '{"alarm_url": '],
  ['another scheme', { endpoint: 'file:///etc/passwd', token: 't' }],
  ['a user in the address', { endpoint: endpoint.replace('//', '//root:pw@'), token: 't' }],
  ['an empty user in the address', { endpoint: endpoint.replace('//', '//@'), token: 't' }],
  ['a line break in the address', { endpoint: `${endpoint}\r\nX-Evil: 1`, token: 't' }],
  ['a backslash in the address', { endpoint: 'http://heat\\@evil/', token: 't' }],
  ['a line break in the token', { endpoint, token: 'a\r\nX-Evil: 1' }],
  ['an alarm_url of nothing known', { alarm_url: 'http://127.0.0.1/x' }],
  ['the bare address of something else', 'http://127.0.0.1/x'],
  ['a webhook without a key', { url: 'https://receiver.example/hook' }],
  ['a webhook with three keys', { url: 'https://receiver.example/hook', keys: [key, key, key] }],
  ['a webhook with a short key', { url: 'https://receiver.example/hook', key: 'whsec_YWJj' }],
];

for (const [what, form] of refused) {
  test(`${what} is refused as a handle`, (t) => {
    t.throws(() => parseDestination(form), { instanceOf: BridgeError, code: 'ERR_HANDLE_FORM' });
  });
}

test('any input is parsed or refused, and errors repeat none of it', (t) => {
  fc.assert(
    fc.property(
      fc.oneof(fc.string(), fc.json(), fc.dictionary(fc.string(), fc.anything())),
      (it) => {
        try {
          parseDestination(it);
        } catch (error) {
          t.true(error instanceof BridgeError);
        }
      },
    ),
  );
  const error = t.throws(() => parseDestination('{"password": "hunter2"'));
  t.false(error.message.includes('hunter2'));
  t.is(error.cause, undefined);
});

test('the signature of a pre-signed address is also secret by itself', (t) => {
  const secrets = secretsOf(parseDestination({ alarm_url: cfnUrl }));
  t.true(secrets.includes('HMfn4ys1uvOH%2Fzj6RDLYldFrOsNw%2BT7D0Vy38W8ob30%3D'));
});
