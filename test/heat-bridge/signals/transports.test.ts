/**
 * Rows of the table of transports: their declarations, and input that is rejected because no row
 * declares it.
 */

import test from 'ava';
import { deliverResult, parseResultDestination, secretsOf } from '#heat-bridge';
import type { Ask, SecrecyOf } from '#heat-bridge/transports/transport.ts';
import { deliverSignal, parseDestination } from '#heat-bridge/transports/transports.ts';

const login = { auth_url: 'http://k/v3', user_id: 'u', password: 'hunter22', project_id: 'p' };

test('the password of every log-in is a secret', (t) => {
  for (const form of [
    { ...login, alarm_url: 'http://heat/signal' },
    { ...login, queue_id: 'q' },
  ]) {
    t.deepEqual(secretsOf(parseDestination(form)), ['hunter22']);
  }
  const inputs = new Map(Object.entries({ ...login, signal_transport: 'HEAT_SIGNAL' }));
  const destination = parseResultDestination((name) => inputs.get(name));
  t.deepEqual(destination && secretsOf(destination), ['hunter22']);
});

test('a row without the secrecy of a field does not compile', (t) => {
  // @ts-expect-error The password has no secrecy.
  const row: SecrecyOf<{ transport: 'X'; url: string; password: string }> = { url: 'open' };
  t.truthy(row);
});

test('a template cannot choose a transport that is unknown, or chosen by the bridge', (t) => {
  for (const transport of ['HANDLE', 'STATUS', 'TOKEN_SIGNAL', 'WEBHOOK', 'UNKNOWN', 'toString']) {
    const input = (name: string) => (name === 'signal_transport' ? transport : 'http://x/y');
    t.is(parseResultDestination(input), undefined, transport);
  }
});

test('a stored destination of an unknown transport is not delivered, and all of it is secret', async (t) => {
  const destination = { transport: 'UNKNOWN', loft: 'roof', keys: ['a', 'b'] } as never;
  const refused = {
    kind: 'final',
    reason: 'this version of saltbridge does not support the transport of the stored destination',
  } as const;
  t.deepEqual(await deliverSignal({ destination } as never), refused);
  t.deepEqual(await deliverResult({ destination } as never), refused);
  t.deepEqual(secretsOf(destination), ['roof', 'a', 'b']);
});

const tempUrl = 'http://swift/v1/AUTH_p/c/o?temp_url_sig=0123456789abcdef&temp_url_expires=1';

test('a form without a prototype, as callers send it, is accepted', (t) => {
  const form = Object.assign(Object.create(null), { endpoint: 'http://heat/signal', token: 'x' });
  t.is(parseDestination(form).transport, 'TOKEN_SIGNAL');
});

test('every form of a SwiftSignalHandle is parsed as the address of its object', (t) => {
  for (const form of [
    tempUrl,
    `curl -i -X PUT '${tempUrl}'`,
    { endpoint: tempUrl },
    { endpoint: tempUrl, token: '' },
    { output_key: 'endpoint', output_value: tempUrl },
  ]) {
    t.deepEqual(parseDestination(form), { transport: 'SWIFT_SIGNAL', url: tempUrl });
  }
  t.true(secretsOf(parseDestination(tempUrl)).includes('0123456789abcdef'));
  t.is(parseDestination({ alarm_url: tempUrl }).transport, 'TEMP_URL_SIGNAL');
});

const policy = 'http://cfn/v1/signal/arn%3Aopenstack%3Aheat%3A%3Ap?Signature=0123456789abcdef';

test('alarm_url of a scaling policy is accepted as text, and signal_url is refused with its form', (t) => {
  for (const form of [policy, { alarm_url: policy }]) {
    t.deepEqual(parseDestination(form), { transport: 'ALARM_URL', url: policy });
  }
  t.true(secretsOf(parseDestination(policy)).includes('0123456789abcdef'));
  const signalUrl = 'http://heat/v1/p/stacks/s/1/resources/policy/signal';
  t.throws(() => parseDestination(signalUrl), {
    message: /use the `alarm_url` of the scaling policy/,
  });
  const withLogin = parseDestination({ ...login, alarm_url: signalUrl });
  t.is(withLogin.transport, 'HEAT_SIGNAL');
});

test('a URL with the parts of a signal_url in another order is not one', (t) => {
  for (const [url, isOne] of [
    ['http://heat/v1/p/stacks/s/1/resources/a/signal', true],
    ['https://heat/stacks/s/resources/a/signal', true],
    ['http://heat/resources/a/stacks/s/resources/b/signal', true],
    ['http://stacks/s/resources/a/signal', false],
    ['http://heat/stacks/resources/a/signal', false],
    ['http://heat/stacks/s/resources/signal', false],
    ['http://heat/stacks/s/resources//signal', false],
    ['http://heat/stacks/s/resources/a/b/signal', false],
    ['http://heat/stacks/s/resources/a/signal?x', false],
  ] as const) {
    const message = isOne ? /a `signal_url` requires a login/ : /the form of the handle is unknown/;
    t.throws(() => parseDestination(url), { code: 'ERR_HANDLE_FORM', message }, url);
  }
});

test('an alarm_url has its path before the query', (t) => {
  for (const url of [
    'http://cfn/v1/signal/x',
    'http://cfn/v1/signal?x',
    'http://cfn/x?/v1/signal/x?',
    'ftp://cfn/v1/signal/x?y',
  ]) {
    t.throws(() => parseDestination(url), { code: 'ERR_HANDLE_FORM' }, url);
  }
});

test('a destination is a text of at most 8,192 characters, and a longer one is not examined', (t) => {
  const longest = policy.padEnd(8_192, 'x');
  t.is(parseDestination(longest).transport, 'ALARM_URL');
  const refused = { code: 'ERR_HANDLE_FORM', message: /has 8193 characters, more than 8192/ };
  t.throws(() => parseDestination(`${longest}x`), refused);
  t.throws(() => parseDestination(JSON.stringify({ output_value: `${longest}x` })), refused);
});

const delivery = {
  ...{ signalId: 'm1', failures: 0, expiresAt: 0, now: () => 0, tokens: new Map() },
  record: { id: '1', alias: 'a', minion: 'm1', signal: { status: 'SUCCESS' } },
} as const;

test('a scaling policy gets no FAILURE, which Heat would take for an alarm', async (t) => {
  const asked: string[] = [];
  const ask: Ask = async ({ method, url }) => {
    asked.push(`${method} ${url}`);
    return { kind: 'answer', status: 200, headers: {}, body: '' };
  };
  const destination = parseDestination(policy);
  t.like(await deliverSignal({ ...delivery, destination, ask }), { kind: 'delivered' });
  const record = { ...delivery.record, signal: { status: 'FAILURE' } } as const;
  t.like(await deliverSignal({ ...delivery, record, destination, ask }), { kind: 'final' });
  t.deepEqual(asked, [`POST ${policy}`]);
});

/** Delivers a signal to an object that has held another signal for some time. */
async function replaceAfter(ageMs: number, form: string | object): Promise<string> {
  const at = (ms: number): string => new Date(Date.UTC(2026, 0, 1) + ms).toUTCString();
  const headers = { etag: '"other"', date: at(ageMs), 'last-modified': at(0) };
  const ask: Ask = async ({ method }) => ({
    ...{ kind: 'answer', status: method === 'PUT' ? 201 : 200, headers, body: '' },
  });
  const destination = parseDestination(form);
  return (await deliverSignal({ ...delivery, destination, ask })).kind;
}

test('an object of a wait condition is replaced when Heat has had 30 s to read it', async (t) => {
  t.is(await replaceAfter(0, { alarm_url: tempUrl }), 'again');
  t.is(await replaceAfter(29_000, { alarm_url: tempUrl }), 'again');
  t.is(await replaceAfter(30_000, { alarm_url: tempUrl }), 'delivered');
});

test('an object of a SwiftSignal is replaced at once', async (t) => {
  t.is(await replaceAfter(0, tempUrl), 'delivered');
});
