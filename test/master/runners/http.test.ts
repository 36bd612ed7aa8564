/** The runner `http.query` with a real service. */

import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import test, { type ExecutionContext } from 'ava';
import { ConfigError, resolveMasterConfig } from '#config';
import { emptyWireMap, type WireMap } from '#minion-protocol';
import { until } from '../../helpers/deadline.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/**
 * Starts a service on the loopback interface.
 * @returns its port and its requests
 */
async function serve(
  t: ExecutionContext,
  answer: Answer,
): Promise<{ readonly port: number; readonly heard: string[] }> {
  const heard: string[] = [];
  const server = createServer((request, response) => {
    text(request).then((body) => {
      const { method, url, headers } = request;
      const { authorization = '', 'content-type': type = '', 'x-a': own = '' } = headers;
      heard.push([method, url, authorization, type, own, body].join(' ').trimEnd());
      answer(request, response);
    });
  }).listen(0, '127.0.0.1');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  return { port: (server.address() as AddressInfo).port, heard };
}

test('only listed hosts get requests, like in Salt, within limits', async (t) => {
  const { port, heard } = await serve(t, ({ url = '' }, response) => {
    if (url.startsWith('/large')) return response.end('x'.repeat(1001));
    if (url === '/moved') return response.writeHead(302, { location: '/' }).end('elsewhere');
    if (url === '/none') return response.writeHead(404).end('no such page');
    if (url === '/deep') return response.end(`${'['.repeat(101)}1${']'.repeat(101)}`);
    if (url === '/nested') return response.end(`${'['.repeat(100)}1${']'.repeat(100)}`);
    const type = url === '/yaml' ? 'text/yaml' : 'application/json';
    response.writeHead(200, { 'content-type': type, 'x-b': '1' });
    return response.end(url === '/broken' ? '{"secret' : '{"a": [1, "b"]}');
  });
  const origin = `http://127.0.0.1:${port}`;
  const named = `http://localhost:${port}`;
  const { master, eventsDuring } = await startVectorMaster(t, {
    config: {
      httpQuery: { hosts: [{ url: origin }, { url: named }], timeout: 60, maxBytes: 1000 },
    },
  });
  const query = async (url: string, kwarg: WireMap = {}): Promise<unknown> =>
    (await master.runners.run({ fun: 'http.query', arg: [url], kwarg })).return;

  t.deepEqual(await query(`${origin}/`), { body: '{"a": [1, "b"]}' });
  t.deepEqual(heard.splice(0), ['GET /']);
  t.like(await query(`${origin}/`, { status: true, headers: true, decode: true, text: true }), {
    status: 200,
    headers: { 'x-b': '1' },
    dict: { a: [1, 'b'] },
    text: '{"a": [1, "b"]}',
  });
  t.like(await query(`${origin}/yaml`, { decode: true }), { dict: { a: [1, 'b'] } });
  t.like(await query(`${origin}/`, { decode: true, decode_type: 'xml' }), {
    error: 'cannot decode xml; supported types: json, yaml, plain',
  });
  t.like(await query(`${origin}/broken`, { decode: true }), {
    error: 'the response is not valid json',
  });
  t.like(await query(`${origin}/deep`, { decode: true, decode_type: 'json' }), {
    error: 'the response is not valid json',
  });
  const nested = await query(`${origin}/nested`, { decode: true, decode_type: 'json' });
  t.false('error' in Object(nested));
  heard.length = 0;
  await query(`${origin}/a?x=1`, {
    method: 'post',
    params: { y: 'a&b' },
    data: { k: 'v w' },
    header_dict: { 'X-A': 'one' },
    username: 'u',
    password: 'p',
  });
  await query(`${origin}/b`, {
    method: 'PUT',
    data: '{}',
    header_list: ['Content-Type: application/json'],
  });
  t.deepEqual(heard.splice(0), [
    'POST /a?x=1&y=a%26b Basic dTpw application/x-www-form-urlencoded one k=v+w',
    'PUT /b  application/json  {}',
  ]);
  t.deepEqual(await query(`${origin}/none`), {
    status: 404,
    error: 'HTTP 404',
    body: 'no such page',
  });
  t.deepEqual(await query(`${origin}/none`, { raise_error: false, status: true }), {
    status: 404,
    body: 'no such page',
  });
  // The redirection is not followed.
  t.like(await query(`${origin}/moved`), { status: 302, error: 'HTTP 302' });
  t.like(await query(`${origin}/large`), { error: 'the response exceeds 1000 bytes' });

  heard.length = 0;
  const refused: readonly (readonly [string, WireMap, RegExp])[] = [
    ['http://127.0.0.1:1/', {}, /127\.0\.0\.1:1 is not listed under saltbridge: http_query: hosts/],
    // The list does not contain the host's address, and the address is not public.
    [
      `${named}/`,
      {},
      /localhost resolves to .*, which is outside the networks permitted for this endpoint/,
    ],
    [`http://u:secret-1@127.0.0.1:${port}/`, {}, /use the arguments `username` and `password`/],
    ['file:///etc/passwd', {}, /must be an http/],
    [`${origin}/`, { method: 'TRACE' }, /`method` must be one of/],
    [`${origin}/`, { data: 'x' }, /`data` is not allowed with the method GET/],
    [`${origin}/`, { method: 'POST', data: 'x'.repeat(1001) }, /`data` exceeds 1000 bytes/],
    [`${origin}/`, { header_dict: { Host: 'other' } }, /header Host is not allowed/],
    [`${origin}/`, { header_dict: { 'X-A': 'a\r\nX-B: b' } }, /header X-A is not allowed/],
    [
      `${origin}/`,
      { header_list: ['Transfer-Encoding: chunked'] },
      /Transfer-Encoding is not allowed/,
    ],
    [`${origin}/`, { header_list: [emptyWireMap()] }, /`header_list` must be a text or a list/],
  ];
  for (const [url, kwarg, problem] of refused) {
    const answer = String(await query(url, kwarg));
    t.regex(answer, problem);
    t.notRegex(answer, /secret-1/);
  }
  t.deepEqual(heard, []);

  const events = await eventsDuring(() => query(`${origin}/?token=secret-1`));
  t.notRegex(JSON.stringify(events), /secret-1|"b"/);
});

test('queries of one user leave places for others', async (t) => {
  const open: ServerResponse[] = [];
  const { port, heard } = await serve(t, (_request, response) => void open.push(response));
  const origin = `http://127.0.0.1:${port}`;
  const { master } = await startVectorMaster(t, {
    config: { httpQuery: { hosts: [{ url: origin }], timeout: 60, maxBytes: 1000 } },
  });
  const query = (name: string): Promise<unknown> => {
    const by = { who: { kind: 'user', name }, rule: 'test' } as const;
    const call = { fun: 'http.query', arg: [`${origin}/${name}`], by };
    return master.runners.run(call);
  };
  const queries = Array.from({ length: 8 }, () => query('a'));
  await until('the queries of the first user', () => heard.length === 6);
  queries.push(query('b'), query('c'));
  await until('the queries of the others', () => heard.length === 8);
  t.deepEqual(heard.slice(6).sort(), ['GET /b', 'GET /c']);
  const answer = setInterval(() => {
    for (const response of open.splice(0)) response.end('{}');
  }, 10);
  await Promise.all(queries);
  clearInterval(answer);
  t.is(heard.length, 10);
});

test('a host that does not answer within the time limit is an error', async (t) => {
  const { port } = await serve(t, () => {});
  const url = `http://127.0.0.1:${port}`;
  const { master } = await startVectorMaster(t, {
    config: { httpQuery: { hosts: [{ url }], timeout: 0.3, maxBytes: 1000 } },
  });
  const run = { fun: 'http.query', arg: [`${url}/`], kwarg: { status: true } };
  const { return: answer } = await master.runners.run(run);
  t.like(answer, { status: 0, error: 'no answer within 300 ms' });
});

test('http.query is off until hosts are listed, and the error says so', async (t) => {
  const { master } = await startVectorMaster(t);
  const { return: answer } = await master.runners.run({
    fun: 'http.query',
    arg: ['http://127.0.0.1/'],
  });
  t.regex(String(answer), /list the permitted hosts in saltbridge: http_query: hosts/);
});

for (const [what, hosts] of [
  ['an address with a path', [{ url: 'https://a.test/path' }]],
  ['an address with a user', [{ url: 'https://u:p@a.test' }]],
  ['an address of another scheme', [{ url: 'ftp://a.test' }]],
  ['a network that is none', [{ url: 'https://a.test', addresses: ['10.0.0.0/99'] }]],
] as const) {
  test(`${what} is not a valid host of http_query`, (t) => {
    t.throws(() => resolveMasterConfig({ httpQuery: { hosts, timeout: 1, maxBytes: 1 } }), {
      instanceOf: ConfigError,
      message: /hosts\[0\]: .*an address without a path/,
    });
  });
}

test('unreadable certificate authorities of a host are named at the start', async (t) => {
  const hosts = [{ url: 'https://a.test', caFile: '/nowhere/ca.pem' }];
  await t.throwsAsync(
    startVectorMaster(t, { config: { httpQuery: { hosts, timeout: 1, maxBytes: 1 } } }),
    { instanceOf: ConfigError, code: 'ERR_CONFIG_READ', message: /ca_file of https:\/\/a\.test/ },
  );
});
