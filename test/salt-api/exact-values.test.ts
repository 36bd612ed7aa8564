/** Values of the HTTP API have the same types as in Salt, in both directions. */

import test from 'ava';
import type { WireValue } from '#minion-protocol';
import { Float } from '#template/python/values.ts';
import { startApi } from '../helpers/salt-api.ts';

/** Output of `salt.utils.yaml.safe_dump` of Salt 3007.13. */
const typesInYaml = `return:
- web1:
    binary: !!binary |
      /wA=
    list:
    - - 1
    - {}
    none:
      null: x
    text: 'yes'
`;

test('a float without a fraction stays a float over salt-api and in the job cache', async (t) => {
  const { ask, run, login } = await startApi(t, {
    minions: ['web1'],
    functions: {
      'test.load': () => ({ whole: new Float(2), list: [1, new Float(-3)], half: 0.5 }),
    },
  });
  const token = await login();
  const bodies: [type: string, body: string][] = [
    [
      'application/json',
      '{"client":"local","tgt":"web1","fun":"test.arg","arg":[1.0,{"a":[-2.0]},1e3,3]}',
    ],
    [
      'application/x-yaml',
      '{client: local, tgt: web1, fun: test.arg, arg: [1.0, {a: [-2.0]}, 1.0e+3, 3]}',
    ],
    [
      'application/x-www-form-urlencoded',
      'client=local&tgt=web1&fun=test.arg&arg=1.0&arg={a: [-2.0]}&arg=1.0e%2B3&arg=3',
    ],
  ];
  for (const [type, body] of bodies) {
    const headers = { 'x-auth-token': token, 'content-type': type };
    const answer = await ask({ method: 'POST', path: '/', headers, body });
    t.true(answer.text.includes('[1.0, {"a": [-2.0]}, 1000.0, 3]'), `${type} ${answer.text}`);
    const yaml = { ...headers, accept: 'application/x-yaml' };
    const { text } = await ask({ method: 'POST', path: '/', headers: yaml, body });
    t.true(text.includes('- 1.0\n    - a:\n      - -2.0\n    - 1000.0\n    - 3\n'), text);
  }
  const load = '{"whole": 2.0, "list": [1, -3.0], "half": 0.5}';
  const now = await run(token, { client: 'local', tgt: 'web1', fun: 'test.load' });
  t.is(now.text, `{"return": [{"web1": ${load}}]}`);
  const begun = await run(token, { client: 'local_async', tgt: 'web1', fun: 'test.load' });
  const [, jid = ''] = /"jid": "(\d+)"/.exec(begun.text) ?? [];
  const path = `/jobs/${jid}`;
  const headers = { 'x-auth-token': token };
  let stored = '';
  while (!stored.includes(load)) stored = (await ask({ method: 'GET', path, headers })).text;
  t.pass();
});

test('YAML of salt-api has the types and the layout of Salt', async (t) => {
  const { ask, login } = await startApi(t, {
    minions: ['web1'],
    functions: {
      'test.types': () => ({
        none: new Map<WireValue, WireValue>([[null, 'x']]),
        binary: new Uint8Array([0xff, 0x00]),
        text: 'yes',
        list: [[1], {}],
      }),
    },
  });
  const headers = { 'x-auth-token': await login(), accept: 'application/x-yaml' };
  const body = 'client=local&tgt=web1&fun=test.types';
  const type = 'application/x-www-form-urlencoded';
  const { text } = await ask({
    method: 'POST',
    path: '/',
    headers: { ...headers, 'content-type': type },
    body,
  });
  t.is(text, typesInYaml);
});
