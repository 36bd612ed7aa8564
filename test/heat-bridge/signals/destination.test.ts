import test from 'ava';
import fc from 'fast-check';
import { BridgeError } from '../../../heat-bridge/errors.ts';
import {
  parseDestination,
  secretsOf,
  type Transport,
} from '../../../heat-bridge/signals/destination.ts';

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
  test(`${what} is read as ${transport}`, (t) => {
    t.is(parseDestination(form).transport, transport);
  });

  test(`${what} is read from a stack's output as well`, (t) => {
    const output = JSON.stringify({ output_key: 'signal', output_value: form });
    t.deepEqual(parseDestination(output), parseDestination(form));
  });
}

test('a pre-signed address is kept byte for byte', (t) => {
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

test('whatever is given is read or refused, and a refusal repeats none of it', (t) => {
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

test('the signature alone is a secret of a pre-signed address too', (t) => {
  const secrets = secretsOf(parseDestination({ alarm_url: cfnUrl }));
  t.true(secrets.includes('HMfn4ys1uvOH%2Fzj6RDLYldFrOsNw%2BT7D0Vy38W8ob30%3D'));
});
