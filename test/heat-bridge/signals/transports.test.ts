import { createHmac, hash } from 'node:crypto';
import test, { type ExecutionContext } from 'ava';
import { openTestSignals, type SignalsUnderTest } from './open-signals.ts';
import { type Answerer, always, type Recorder, startRecorder } from './recorder.ts';

/** What Heat writes into Swift when it has taken a signal. */
const taken = '9214b4e4460fcdb9f3a369941400e71e';

async function recorder(t: ExecutionContext, answer: Answerer): Promise<Recorder> {
  const service = await startRecorder(answer);
  t.teardown(() => service.close());
  return service;
}

/** With a handle `ready` for m1 and m2. */
async function open(
  t: ExecutionContext,
  origin: string,
  signal: unknown,
): Promise<SignalsUnderTest> {
  const signals = await openTestSignals(t, [origin]);
  await signals.handles.add({ alias: 'ready', minions: ['m1', 'm2'], signal });
  return signals;
}

function credentials(origin: string) {
  return {
    auth_url: `${origin}/v3/`,
    user_id: 'u1',
    password: 'pa$$word',
    project_id: 'p1',
    region_name: 'RegionOne',
  };
}

function lines({ requests }: Recorder): string[] {
  return requests.map(({ method, path }) => `${method} ${path}`);
}

test('CFN_SIGNAL puts the signal to the address', async (t) => {
  const service = await recorder(t, always(200, '<resource>handle</resource>'));
  const path = '/v1/waitcondition/arn%3Aopenstack/resources/handle?Signature=HM%2F';
  const { signal, told } = await open(t, service.origin, { alarm_url: `${service.origin}${path}` });
  await signal('m1', 'heat/ready', { status: 'FAILURE', reason: 'disk full' });
  await told('signal/delivered');
  t.deepEqual(lines(service), [`PUT ${path}`]);
  t.deepEqual(JSON.parse(service.requests[0]?.body ?? ''), {
    status: 'FAILURE',
    reason: 'disk full',
    id: 'm1',
  });
});

test('heat-api-cfn that answers 500 is asked four times, not for ever', async (t) => {
  const service = await recorder(t, always(500));
  const url = `${service.origin}/v1/waitcondition/x?Signature=HM`;
  const { signal, told } = await open(t, service.origin, { alarm_url: url });
  await signal('m1', 'heat/ready');
  await told('signal/failed');
  t.is(service.requests.length, 4);
});

test('an AWS handle gets all four of its fields, as text', async (t) => {
  const service = await recorder(t, always(200));
  const url = `${service.origin}/v1/waitcondition/x?Signature=HM`;
  const { signal, told } = await open(t, service.origin, url);
  await signal('m1', 'heat/ready');
  await signal('m2', 'heat/ready', { reason: 'up', data: { ip: '::1' } });
  await told('signal/delivered', 2);
  t.deepEqual(
    service.requests.map(({ body }) => JSON.parse(body)),
    [
      { Status: 'SUCCESS', Reason: 'signal received', Data: '', UniqueId: 'm1' },
      { Status: 'SUCCESS', Reason: 'up', Data: '{"ip":"::1"}', UniqueId: 'm2' },
    ],
  );
});

test('HEAT_SIGNAL logs in once, and again when its token is refused', async (t) => {
  let logins = 0;
  let good = '';
  const service = await recorder(t, ({ path, headers }, response) => {
    if (path === '/v3/auth/tokens') {
      logins += 1;
      good = `token-${logins}`;
      response.writeHead(201, { 'x-subject-token': good }).end('{}');
    } else response.writeHead(headers['x-auth-token'] === good ? 200 : 401).end('null');
  });
  const form = { ...credentials(service.origin), alarm_url: `${service.origin}/signal` };
  const { signal, told } = await open(t, service.origin, form);
  await signal('m1', 'heat/ready');
  await signal('m2', 'heat/ready');
  await told('signal/delivered', 2);
  good = 'another';
  await signal('m1', 'heat/ready');
  await told('signal/delivered', 3);
  const [login, post] = ['POST /v3/auth/tokens', 'POST /signal'];
  t.deepEqual(lines(service), [login, post, post, post, login, post]);
  t.deepEqual(JSON.parse(service.requests[0]?.body ?? '').auth.identity.password.user, {
    id: 'u1',
    password: 'pa$$word',
  });
});

test('a user that is refused everywhere is given up after four requests', async (t) => {
  let isGood = true;
  const service = await recorder(t, ({ path }, response) => {
    if (path === '/v3/auth/tokens') response.writeHead(201, { 'x-subject-token': 't' }).end('{}');
    else response.writeHead(isGood ? 200 : 401).end('{"error": {"message": "No."}}');
  });
  const form = { ...credentials(service.origin), alarm_url: `${service.origin}/signal` };
  const { signal, told, outbox } = await open(t, service.origin, form);
  await signal('m1', 'heat/ready');
  await told('signal/delivered');
  isGood = false;
  const before = service.requests.length;
  await signal('m1', 'heat/ready');
  await told('signal/failed');
  t.is(service.requests.length - before, 3);
  t.is((await outbox.list())[0]?.reason, 'answered 401: No.');
});

test('a log-in that is refused is final, with the words of Keystone', async (t) => {
  const body =
    '{"error":{"code":401,"message":"The request you have made requires authentication.","title":"Unauthorized"}}';
  const service = await recorder(t, always(401, body));
  const form = { ...credentials(service.origin), alarm_url: `${service.origin}/signal` };
  const { signal, told, outbox } = await open(t, service.origin, form);
  await signal('m1', 'heat/ready');
  await told('signal/failed');
  t.is(service.requests.length, 1);
  t.is(
    (await outbox.list())[0]?.reason,
    'log-in answered 401: The request you have made requires authentication.',
  );
});

/** A Keystone with a catalog, and a Zaqar, at one address. */
function zaqar(origin: () => string): Answerer {
  return ({ path }, response) => {
    if (path !== '/v3/auth/tokens') return response.writeHead(201).end('{"resources": ["/x"]}');
    const endpoint = (face: string, region: string, url: string) => ({
      interface: face,
      region,
      url,
    });
    const endpoints = [
      endpoint('admin', 'RegionOne', `${origin()}/admin`),
      endpoint('public', 'RegionTwo', `${origin()}/two`),
      endpoint('public', 'RegionOne', origin()),
    ];
    const body = JSON.stringify({ token: { catalog: [{ type: 'messaging', endpoints }] } });
    return response.writeHead(201, { 'x-subject-token': 't' }).end(body);
  };
}

test('ZAQAR_SIGNAL logs in for each signal and posts to the queue of its region', async (t) => {
  const service = await recorder(t, (request, response) =>
    zaqar(() => service.origin)(request, response),
  );
  const form = { ...credentials(service.origin), queue_id: 'a/b' };
  const { signal, told } = await open(t, service.origin, form);
  await signal('m1', 'heat/ready', { data: 7 });
  await signal('m2', 'heat/ready');
  await told('signal/delivered', 2);
  const [login, post] = ['POST /v3/auth/tokens', 'POST /v2/queues/a%2Fb/messages'];
  t.deepEqual(lines(service), [login, post, login, post]);
  const [, message] = service.requests;
  t.regex(String(message?.headers['client-id']), /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  const [first] = JSON.parse(message?.body ?? '').messages;
  t.deepEqual(first.body, { status: 'SUCCESS', data: 7, id: 'm1' });
  // What is left of the handle's 12 hours.
  t.true(first.ttl > 43_100 && first.ttl <= 43_200);
});

test('a catalog leads nowhere that is not listed', async (t) => {
  const service = await recorder(t, (request, response) =>
    zaqar(() => 'http://169.254.169.254')(request, response),
  );
  const form = { ...credentials(service.origin), queue_id: 'q' };
  const { signal, told, outbox } = await open(t, service.origin, form);
  await signal('m1', 'heat/ready');
  await told('signal/failed');
  t.is(
    (await outbox.list())[0]?.reason,
    'http://169.254.169.254 is not listed under handles: endpoints',
  );
  t.is(service.requests.length, 1);
});

test('TEMP_URL_SIGNAL waits until Heat has taken the signal before', async (t) => {
  let etag = taken;
  const service = await recorder(t, ({ method, body }, response) => {
    if (method === 'PUT') etag = hash('md5', body);
    response.writeHead(method === 'PUT' ? 201 : 200, { etag: `"${etag}"` }).end();
  });
  const { signal, told, outbox } = await open(t, service.origin, {
    alarm_url: `${service.origin}/v1/AUTH_p/c/o?temp_url_sig=f8&temp_url_expires=2147483586`,
  });
  await signal('m1', 'heat/ready');
  await told('signal/delivered');
  await signal('m2', 'heat/ready');
  await service.heard(3);
  // Between the answer and the entry of its reason lies one turn of the event loop, and more.
  while ((await outbox.list())[0]?.reason === undefined) await new Promise(setImmediate);
  t.deepEqual(
    service.requests.map(({ method }) => method),
    ['HEAD', 'PUT', 'HEAD'],
  );
  t.is((await outbox.list())[0]?.reason, 'Heat has not taken the signal before this one');
  etag = taken;
  await told('signal/delivered', 2);
  t.deepEqual(
    service.requests.map(({ method }) => method),
    ['HEAD', 'PUT', 'HEAD', 'HEAD', 'PUT'],
  );
});

test('TEMP_URL_SIGNAL whose answer was lost is not put again where it lies', async (t) => {
  let etag = taken;
  const service = await recorder(t, ({ method, body }, response) => {
    if (method === 'HEAD') response.writeHead(200, { etag }).end();
    else {
      etag = hash('md5', body);
      response.destroy();
    }
  });
  const { signal, told } = await open(t, service.origin, {
    alarm_url: `${service.origin}/v1/AUTH_p/c/o?temp_url_sig=f8&temp_url_expires=2147483586`,
  });
  await signal('m1', 'heat/ready');
  await told('signal/delivered');
  t.deepEqual(
    service.requests.map(({ method }) => method),
    ['HEAD', 'PUT', 'HEAD'],
  );
});

test('TEMP_URL_SIGNAL that is refused ends with the words of Swift', async (t) => {
  const service = await recorder(t, always(401, '401 Unauthorized: Temp URL invalid\n'));
  const { signal, told, outbox } = await open(t, service.origin, {
    alarm_url: `${service.origin}/v1/AUTH_p/c/o?temp_url_sig=f8&temp_url_expires=2147483586`,
  });
  await signal('m1', 'heat/ready');
  await told('signal/failed');
  t.is((await outbox.list())[0]?.reason, 'answered 401: 401 Unauthorized: Temp URL invalid');
  t.is(service.requests.length, 2);
});

test('a webhook is signed with each of its keys, and keeps its id from try to try', async (t) => {
  const keys = [1, 2].map((fill) => Buffer.alloc(32, fill));
  const service = await recorder(t, always(503));
  const { signal, told } = await open(t, service.origin, {
    url: `${service.origin}/hook`,
    keys: keys.map((key) => `whsec_${key.toString('base64')}`),
  });
  await signal('m1', 'heat/ready', { data: 'ß' });
  await service.heard(1);
  service.answer = always(204);
  await told('signal/delivered');
  for (const { headers, body } of service.requests) {
    const text = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
    const signatures = keys.map((key) => createHmac('sha256', key).update(text).digest('base64'));
    t.is(headers['webhook-signature'], signatures.map((it) => `v1,${it}`).join(' '));
  }
  const ids = new Set(service.requests.map(({ headers }) => headers['webhook-id']));
  t.is(ids.size, 1);
  t.deepEqual(JSON.parse(service.requests.at(-1)?.body ?? '').data, {
    handle: 'ready',
    id: 'm1',
    minion: 'm1',
    status: 'SUCCESS',
    data: 'ß',
  });
});

test('integers of 64 bits reach Heat as they are', async (t) => {
  const data = { most: 2n ** 64n - 1n, least: -(2n ** 63n), list: [9_007_199_254_740_993n] };
  const digits = ['18446744073709551615', '-9223372036854775808', '9007199254740993'];
  const service = await recorder(t, always(200, taken));
  const path = '/v1/waitcondition/x?Signature=HM';
  const { signal, told } = await open(t, service.origin, { alarm_url: `${service.origin}${path}` });
  await signal('m1', 'heat/ready', { data });
  await told('signal/delivered');
  const body = service.requests[0]?.body ?? '';
  for (const number of digits) t.regex(body, new RegExp(`[:[]${number}[,}\\]]`));
});
