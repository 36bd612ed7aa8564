/** Commands for each client of Salt's API, and their responses. */

import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { until } from '../helpers/deadline.ts';
import { layOut } from '../helpers/file-tree.ts';
import { type ApiAnswer, json, password, startApi } from '../helpers/salt-api.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { pem } from '../helpers/vectors.ts';

function returned(answer: ApiAnswer): unknown[] {
  return (answer.json as { readonly return: unknown[] }).return;
}

const ping = { client: 'local', tgt: '*', fun: 'test.ping' };

test('local returns a value for each minion, and false for silent minions', async (t) => {
  const { run, login } = await startApi(t, {
    silent: ['old1'],
    config: { timeout: 1, gatherJobTimeout: 1 },
  });
  const token = await login();
  t.deepEqual(returned(await run(token, [ping])), [{ web1: true, db1: true, old1: false }]);
  t.deepEqual(returned(await run(token, { ...ping, tgt: 'nobody*' })), [{}]);
  t.deepEqual(returned(await run(token, [])), []);
});

test('a name without a key returns false, or a warning if the response has no values', async (t) => {
  const { run, login } = await startApi(t, { minions: ['web1'] });
  const token = await login();
  const low = { tgt: ['web1', 'gone'], tgt_type: 'list', fun: 'test.ping' };
  const local = await run(token, { ...low, client: 'local' });
  t.deepEqual(local.json, { return: [{ web1: true, gone: false }] });
  const started = await run(token, { ...low, client: 'local_async' });
  t.like(started.json, {
    return: [{ minions: ['web1'] }],
    warnings: ['not addressed, because they have no accepted key: gone'],
  });
  const batch = await run(token, { ...low, client: 'local_batch', batch: 1 });
  t.deepEqual(batch.json, {
    return: [{ web1: true }],
    warnings: ['not in the batch, because they did not respond: gone'],
  });
});

test('a response reports that rights narrowed the target, without names', async (t) => {
  const { run, ask, login } = await startApi(t);
  const token = await login('scoped');
  const warnings = ['the job was sent only to the minions that the rights of the caller permit'];
  const batch = { batch: 1 };
  for (const client of ['local', 'local_async', 'local_batch', 'local_subset']) {
    const answer = await run(token, { client, tgt: '*', fun: 'test.ping', ...batch });
    t.deepEqual((answer.json as { warnings?: unknown }).warnings, warnings, client);
    t.notRegex(answer.text, /db1/);
    const own = await run(token, { client, tgt: 'web1', fun: 'test.ping', ...batch });
    t.deepEqual(Object.keys(own.json as object), ['return'], client);
  }
  const limited = json(await login('limited'));
  const all = await ask({ path: '/minions', headers: limited });
  t.deepEqual(Object.keys(all.json as object), ['return']);
});

test('local with full_return includes jid and retcode', async (t) => {
  const { run, login } = await startApi(t, { minions: ['web1'] });
  const answer = await run(await login(), { ...ping, full_return: true });
  const [{ web1 }] = returned(answer) as [{ web1: Record<string, unknown> }];
  t.regex(String(web1.jid), /^\d{20}$/);
  t.deepEqual(web1, { ret: true, retcode: 0, jid: web1.jid });
});

test('arguments arrive with their intended types', async (t) => {
  const { run, login } = await startApi(t, { minions: ['web1'] });
  const token = await login();
  const arg = ['a', 2, { x: [1] }, 'k=3', 'b==c', '2'];
  const low = { client: 'local', tgt: 'web1', fun: 'test.arg', arg, kwarg: { l: 'v' } };
  const [{ web1 }] = returned(await run(token, low)) as [
    { web1: { args: unknown; kwargs: object } },
  ];
  t.deepEqual(web1.args, ['a', 2, { x: [1] }, 'b==c', '2']);
  t.like(web1.kwargs, { k: 3, l: 'v' });
  const solo = { client: 'local', tgt: 'web1', fun: 'test.echo', arg: 'solo' };
  t.deepEqual(returned(await run(token, solo)), [{ web1: 'solo' }]);
});

for (const client of [
  'local',
  'local_async',
  'local_batch',
  'local_subset',
  'runner',
  'runner_async',
  'wheel',
  'wheel_async',
]) {
  test(`${client} refuses the keywords that Salt reserves`, async (t) => {
    const { run, login, eventsDuring } = await startApi(t, { minions: ['web1'] });
    const token = await login();
    const toMinions = client.startsWith('local') ? { tgt: '*', batch: 1 } : {};
    const low = { client, fun: 'test.arg', ...toMinions };
    const events = await eventsDuring(async () => {
      for (const more of [
        { kwarg: { a: 1, __kwarg__: false } },
        { kwarg: { a: 1, __kwarg__: true } },
        { arg: [{ a: 1, __kwarg__: false }] },
        { arg: [{ a: 1, __kwarg__: true }, 'x'] },
        { arg: ['a=1', '__kwarg__=False'] },
        { kwarg: { __pub_user: 'root' } },
      ]) {
        t.is((await run(token, { ...low, ...more })).status, 400, JSON.stringify(more));
      }
    });
    t.deepEqual(
      events.filter(({ tag }) => tag.endsWith('/new')),
      [],
    );
  });
}

test("keywords may be the last argument, with Salt's marker", async (t) => {
  const { run, login } = await startApi(t, { minions: ['web1'] });
  const arg = ['x', { __kwarg__: true, a: 1 }];
  const token = await login();
  const local = { client: 'local', tgt: 'web1', fun: 'test.arg', arg };
  const [{ web1 }] = returned(await run(token, local)) as [{ web1: object }];
  t.like(web1, { args: ['x'], kwargs: { a: 1 } });
  const runner = { client: 'runner', fun: 'test.arg', arg };
  t.deepEqual(returned(await run(token, runner)), [{ args: ['x'], kwargs: { a: 1 } }]);
});

test('several functions run in one job, each with its own arguments', async (t) => {
  const { run, login, eventsDuring } = await startApi(t, { minions: ['web1'] });
  const token = await login();
  const fun = ['test.ping', 'test.echo'];
  const low = { client: 'local_async', tgt: 'web1', fun, arg: [[], ['hi', 'k=1']] };
  const events = await eventsDuring(async () => {
    t.is((await run(token, low)).status, 200);
  });
  const job = events.find(({ tag }) => tag.endsWith('/new'))?.data;
  t.like(job, { fun, arg: [[], ['hi', { k: 1, __kwarg__: true }]] });
});

test('local_async returns only jid and minions', async (t) => {
  const { run, login } = await startApi(t);
  const token = await login();
  const low = { ...ping, client: 'local_async' };
  const [started] = returned(await run(token, low)) as [Record<string, unknown>];
  t.deepEqual(started, { jid: started.jid, minions: ['db1', 'web1'] });
  t.deepEqual(returned(await run(token, { ...low, tgt: 'nobody' })), [{}]);
});

test('local_batch returns one element for each minion', async (t) => {
  const { run, login } = await startApi(t);
  const answer = await run(await login(), { ...ping, client: 'local_batch', batch: '1' });
  t.deepEqual(returned(answer), [{ db1: true }, { web1: true }]);
});

test('local_subset runs on the given number of minions that have the function', async (t) => {
  const functions = { 'sys.list_functions': () => ['test.ping'] };
  const { run, login } = await startApi(t, { functions });
  const low = { ...ping, client: 'local_subset', subset: 1 };
  const [values] = returned(await run(await login(), low)) as [Record<string, unknown>];
  t.deepEqual(Object.values(values), [true]);
});

test('a runner accepts arguments from four places, and ignores unknown ones', async (t) => {
  const { run, login } = await startApi(t, { minions: ['web1'] });
  const token = await login();
  const [started] = returned(await run(token, ping)) as [Record<string, unknown>];
  t.truthy(started);
  const found = returned(await run(token, { client: 'runner', fun: 'jobs.list_jobs' }))[0];
  const [jid = ''] = Object.keys(found as object);
  const look = { client: 'runner', fun: 'jobs.lookup_jid' };
  const forms = [{ jid }, { kwarg: { jid } }, { arg: [jid] }, { arg: [`jid=${jid}`] }];
  for (const form of forms) {
    const answer = await run(token, { ...look, ...form, args: ['x'], batch: null });
    t.deepEqual(returned(answer), [{ web1: true }]);
  }
});

test('a runner reports a missing argument, and an unknown runner is an error', async (t) => {
  const { run, login } = await startApi(t, { minions: [] });
  const token = await login();
  const lacking = await run(token, { client: 'runner', fun: 'jobs.lookup_jid' });
  t.is(lacking.status, 200);
  t.regex(String(returned(lacking)[0]), /^Passed invalid arguments: the argument jid is missing/);
  for (const fun of ['nope.nope', 'constructor', '__proto__']) {
    const unknown = await run(token, { client: 'runner', fun });
    t.is(unknown.status, 500);
    t.deepEqual(unknown.json, { status: 500, return: 'An unexpected error occurred' });
  }
});

test('the API stops waiting for a slow runner', async (t) => {
  const functions = {
    'test.ping': (_call: unknown, { signal }: { signal: AbortSignal }) => untilEnd(signal),
  };
  const { run, login } = await startApi(t, {
    functions,
    config: { timeout: 30 },
    options: { runnerTimeoutSeconds: 0.01 },
  });
  const token = await login();
  t.is((await run(token, { client: 'runner', fun: 'manage.up' })).status, 504);
});

test('permitted users can show and run orchestrations', async (t) => {
  const files = temporaryDirectory(t);
  layOut(files, { 'site.sls': 'one: test.nop\n' });
  const { run, login } = await startApi(t, {
    minions: [],
    config: { id: 'north_master', fileRoots: { base: [files] } },
  });
  const show = { client: 'runner', fun: 'state.orchestrate_show_sls', arg: ['*'] };
  const one = { __sls__: 'site', __env__: 'base', test: ['nop', { order: 10_000 }] };
  t.deepEqual(returned(await run(await login(), show)), [{ north_master: { one } }]);
  const orchestrate = { client: 'runner', fun: 'state.orchestrate', mods: 'site' };
  const [result] = returned(await run(await login(), orchestrate));
  t.like(result, { outputter: 'highstate', retcode: 0 });
  t.is((await run(await login('limited'), show)).status, 401);
  t.is((await run(await login('limited'), orchestrate)).status, 401);
});

test('runner_async and wheel_async return tag and jid', async (t) => {
  const { run, login } = await startApi(t, { minions: [] });
  const token = await login();
  const [runner] = returned(await run(token, { client: 'runner_async', fun: 'jobs.list_jobs' }));
  const [wheel] = returned(await run(token, { client: 'wheel_async', fun: 'key.list_all' }));
  for (const [started, kind] of [
    [runner, 'run'],
    [wheel, 'wheel'],
  ] as const) {
    const { jid } = started as { jid: string };
    t.deepEqual(started, { tag: `salt/${kind}/${jid}`, jid });
  }
});

test('a wheel response is the event, also for failures', async (t) => {
  const { run, login } = await startApi(t, { minions: ['web1'] });
  const token = await login();
  const low = { client: 'wheel', fun: 'key.list_all', match: '*', full_return: true };
  const [{ tag, data }] = returned(await run(token, low)) as [
    { tag: string; data: Record<string, unknown> },
  ];
  t.is(tag, `salt/wheel/${data.jid}`);
  t.like(data, { fun: 'wheel.key.list_all', tag, user: 'admin', success: true });
  t.like(data.return, { minions: ['web1'], minions_pre: [], local: ['master.pem', 'master.pub'] });
  t.regex(String(data._stamp), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$/);
  for (const wrong of [{ fun: 'nope.nope' }, { fun: 'key.accept' }]) {
    const answer = await run(token, { client: 'wheel', ...wrong });
    const [failed] = returned(answer) as [{ data: Record<string, unknown> }];
    t.is(answer.status, 200);
    t.false(failed.data.success);
    t.regex(String(failed.data.return), /^Exception occurred in wheel /);
  }
});

test('a denied key is deleted from its folder, and the accepted key of the same id remains', async (t) => {
  const { run, login, directory, master } = await startApi(t, { minions: [], silent: ['web1'] });
  const token = await login();
  writeFileSync(path.join(directory, 'pki', 'minions_denied', 'web1'), pem('minion2').publicPem);
  let states: string[] = [];
  await until('the denied key', () => {
    master.keys.list().then((keys) => {
      states = keys.map(({ state }) => state);
    }, t.fail);
    return states.length === 2;
  });
  const low = { client: 'wheel', fun: 'key.delete_dict', match: { minions_denied: ['web1'] } };
  const [{ data }] = returned(await run(token, low)) as [{ data: Record<string, unknown> }];
  t.like(data, { success: true, return: { minions: ['web1'] } });
  const left = (await master.keys.list()).map(({ state }) => state);
  t.deepEqual(left, ['accepted']);
});

test('unknown and missing clients are refused before any command runs', async (t) => {
  const { run, login, eventsDuring } = await startApi(t);
  const token = await login();
  const events = await eventsDuring(async () => {
    for (const client of ['nope', 'ssh', undefined, null, ['local'], 'constructor']) {
      t.is((await run(token, [ping, { ...ping, client }])).status, 400);
    }
    const many = Array.from({ length: 65 }, () => ping);
    t.is((await run(token, many)).status, 400);
  });
  t.deepEqual(events, []);
});

test('malformed commands are refused with the expected form', async (t) => {
  const { run, login } = await startApi(t, { minions: [] });
  const token = await login();
  const ping = { client: 'local', tgt: '*', fun: 'test.ping' };
  const wrong: [low: object, expected: RegExp][] = [
    [{ client: 'local', tgt: '*' }, /^fun: must be the name of a function/],
    [{ client: 'local', fun: 'test.ping' }, /^tgt: must be a text or a list of texts/],
    [{ ...ping, tgt: null }, /^tgt: must be a text/],
    [{ ...ping, tgt: 5 }, /^tgt: must be a text/],
    [{ ...ping, tgt: { a: 1 } }, /^tgt: must be a text/],
    [{ ...ping, tgt: [['web1']] }, /^tgt: must be a text/],
    [{ ...ping, tgt: ['web1'], tgt_type: 'glob' }, /a target of type glob must be text/],
    [{ ...ping, fun: 5 }, /^fun: must be the name/],
    [{ ...ping, fun: 'ping' }, /the form module\.function/],
    [{ ...ping, fun: [] }, /it must have 1 to 1000/],
    [{ ...ping, tgt_type: 5 }, /^tgt_type: must be a text/],
    [{ ...ping, tgt_type: 'telepathy' }, /tgt_type "telepathy" is not supported; use glob/],
    [{ ...ping, tgt_type: 'range' }, /tgt_type "range" is not supported; use list or nodegroup;/],
    [{ ...ping, tgt_type: 'compound', tgt: 'R@x' }, /^tgt: "R@x": this type of target/],
    [{ ...ping, tgt_type: 'compound', tgt: 'a and (' }, /^tgt: /],
    [{ ...ping, tgt_type: 'pcre', tgt: '(' }, /./],
    [{ ...ping, kwarg: [1] }, /^kwarg: must be a map/],
    [{ ...ping, timeout: 'soon' }, /^timeout: must be a number of seconds/],
    [{ ...ping, jid: 'x' }, /jid/],
    [{ ...ping, client: 'local_batch' }, /^batch: must be a number of minions/],
    [{ ...ping, client: 'local_batch', batch: {} }, /^batch: must be a number of minions/],
    [{ ...ping, client: 'local_subset', subset: 'few' }, /^subset: must be a number of minions/],
    [{ client: 'runner' }, /^fun: must be the name/],
    [{ client: 'runner', fun: ['a.b'] }, /^fun: must be the name/],
    [{ client: 'wheel' }, /^fun: must be the name/],
    [{ client: 'wheel', fun: 5 }, /^fun: must be the name/],
    [{ client: 'telepathy' }, /^client: must name a client that is served/],
    [{ client: ['local'] }, /^client: must name a client that is served/],
    [{ fun: 'test.ping' }, /^client: must name a client that is served/],
  ];
  for (const [low, expected] of wrong) {
    const note = JSON.stringify(low);
    const answer = await run(token, low);
    t.is(answer.status, 400, note);
    t.regex(String(Object(answer.json).message), expected, note);
  }
});

test('an unknown nodegroup is an unexpected error, as clients expect', async (t) => {
  const { run, login } = await startApi(t, { minions: [] });
  const token = await login();
  const ping = { client: 'local', fun: 'test.ping' };
  const targets = [
    { tgt: 'nosuch', tgt_type: 'nodegroup' },
    { tgt: 'N@nosuch', tgt_type: 'compound' },
  ];
  for (const client of ['local', 'local_async']) {
    for (const target of targets) {
      const { status, json: body } = await run(token, { ...ping, ...target, client });
      t.is(status, 500);
      t.deepEqual(body, { status: 500, return: 'An unexpected error occurred' });
    }
  }
});

test('netapi_enable_clients disables other clients', async (t) => {
  const { run, login, ask } = await startApi(t, { minions: [], options: { clients: ['runner'] } });
  const token = await login();
  t.is((await run(token, { client: 'wheel', fun: 'key.list_all' })).status, 400);
  t.is((await run(token, { client: 'runner', fun: 'jobs.list_jobs' })).status, 200);
  const { json: welcome } = await ask({ path: '/' });
  t.deepEqual(welcome, { return: 'Welcome', clients: ['runner'] });
});

test('netapi_enable_clients applies to all addresses that call the functions of a client', async (t) => {
  const options = { clients: ['runner_async'] };
  const { login, ask, master } = await startApi(t, { minions: ['web1'], options });
  const headers = json(await login());
  const credentials = { username: 'admin', password, eauth: 'sharedsecret' };
  const { token } = await master.logins.login(credentials);
  const codeOf = async (method: string, path: string, body: unknown = {}): Promise<unknown> => {
    const asked = { method, path, headers, ...(method === 'GET' ? {} : { body }) };
    const { status, json: told } = await ask(asked);
    return path.startsWith('/rpc') ? Object(Object(told).error).code : status;
  };
  for (const path of ['/minions', '/minions/web1', '/jobs', '/jobs/1', '/keys', '/keys/web1']) {
    t.is(await codeOf('GET', path), 400, path);
  }
  t.is(await codeOf('POST', '/keys', { ...credentials, mid: 'web2' }), 400);
  const job = { token, tgt: '*', fun: 'test.ping' };
  for (const [name, body] of [
    ['jobs.publish', job],
    ['jobs.run', job],
    ['jobs.batch', { ...job, size: 1 }],
    ['runners.run', { token, fun: 'jobs.list_jobs' }],
    ['wheel.run', { token, fun: 'key.list_all' }],
    ['wheel.start', { token, fun: 'key.list_all' }],
    ['keys.create', { token, id: 'web2' }],
  ] as const) {
    t.is(await codeOf('POST', `/rpc/${name}`, body), 'ERR_HTTP_CLIENT', name);
  }
  const started = await codeOf('POST', '/rpc/runners.start', { token, fun: 'jobs.list_jobs' });
  t.is(started, undefined);
  t.is(await codeOf('POST', '/rpc/keys.list'), undefined);
});

test('minions, jobs and keys have their own paths', async (t) => {
  const { ask, login } = await startApi(t, { minions: ['web1'] });
  const headers = json(await login());
  const get = async (path: string): Promise<unknown> => (await ask({ path, headers })).json;
  const grains = { id: 'web1', os: 'Debian' };
  t.deepEqual(await get('/minions'), { return: [{ web1: grains }] });
  t.deepEqual(await get('/minions/web1'), { return: [{ web1: grains }] });
  t.deepEqual(await get('/minions?mid=web1'), { return: [{ web1: grains }] });
  t.deepEqual(await get('/minions/nobody'), { return: [{}] });
  const body = [{ tgt: '*', fun: 'test.ping' }];
  const posted = await ask({ method: 'POST', path: '/minions', headers, body });
  t.is(posted.status, 202);
  const {
    return: [{ jid }],
    _links: links,
  } = posted.json as { return: [{ jid: string }]; _links: unknown };
  t.deepEqual(links, { jobs: [{ href: `/jobs/${jid}` }] });
  t.like(await get(`/jobs/${jid}`), { info: [{ jid, Function: 'test.ping' }] });
  t.like(await get('/jobs/20200101000000000000'), { return: [{}] });
  const { return: keys } = (await get('/keys')) as { return: { minions: string[] } };
  t.deepEqual(keys.minions, ['web1']);
  t.deepEqual(await get('/keys/nobody'), { return: {} });
  const stats = (await get('/stats')) as Record<string, unknown>;
  for (const value of Object.values(stats)) t.is(typeof value, 'object');
});

test('requests of one session run concurrently', async (t) => {
  let end = (): void => {};
  let begin = (): void => {};
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const ended = new Promise<boolean>((resolve) => {
    end = () => resolve(true);
  });
  const functions = {
    'test.wait': () => {
      begin();
      return ended;
    },
  };
  const { run, login } = await startApi(t, {
    minions: ['web1'],
    functions,
    config: { timeout: 30 },
  });
  const token = await login();
  const slow = run(token, { client: 'local', tgt: 'web1', fun: 'test.wait' });
  await begun;
  t.deepEqual(returned(await run(token, { ...ping, tgt: 'web1' })), [{ web1: true }]);
  end();
  t.deepEqual(returned(await slow), [{ web1: true }]);
});

async function untilEnd(signal: AbortSignal): Promise<boolean> {
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
  return false;
}

test('runner and wheel functions appear in the list of jobs with their results', async (t) => {
  const { run, login } = await startApi(t, { minions: [] });
  const token = await login();
  await run(token, { client: 'runner', fun: 'test.arg', arg: ['one'], kwarg: { k: 'v' } });
  await run(token, { client: 'wheel', fun: 'key.list_all' });
  const [jobs] = returned(await run(token, { client: 'runner', fun: 'jobs.list_jobs' }));
  const entries = Object.entries(Object(jobs)).map(([jid, job]) => ({ jid, ...Object(job) }));
  const found = (name: string) => entries.find((job) => job.Function === name);
  for (const name of ['runner.test.arg', 'wheel.key.list_all']) {
    t.like(found(name), { 'Target-type': 'list', Arguments: [], User: 'admin' }, name);
    t.regex(found(name)?.Target, /_master$/);
  }
  const look = async (fun: string, jid: string): Promise<unknown> =>
    returned(await run(token, { client: 'runner', fun, jid }))[0];
  const { jid, Target: id } = found('runner.test.arg') ?? {};
  const event = { fun: 'runner.test.arg', jid, user: 'admin', success: true };
  const fun_args = ['one', { k: 'v' }];
  t.like(await look('jobs.list_job', jid), {
    Result: { [id]: { return: { ...event, fun_args } } },
  });
  t.like(Object(await look('jobs.lookup_jid', jid))[id], {
    ...event,
    return: { args: ['one'], kwargs: { k: 'v' } },
  });
});

test('a list of jobs does not include the results of earlier lists', async (t) => {
  const { run, login } = await startApi(t, { minions: [] });
  const token = await login();
  const text = 'x'.repeat(100_000);
  const { json: asked } = await run(token, {
    client: 'runner',
    fun: 'test.arg',
    arg: [text],
    full_return: true,
  });
  const { jid } = Object(Object(asked).return[0]).data;
  const [job] = returned(await run(token, { client: 'runner', fun: 'jobs.list_job', jid }));
  t.true(JSON.stringify(job).length < 70_000);
  t.regex(JSON.stringify(job), /VALUE_TRIMMED/);
});

test('accepted minions that never connected are listed as down and offline', async (t) => {
  const config = { timeout: 0.2, gatherJobTimeout: 0.2 };
  const { run, login } = await startApi(t, { silent: ['quiet'], config });
  const token = await login();
  const [down] = returned(await run(token, { client: 'runner', fun: 'manage.down' }));
  t.deepEqual(down, ['quiet']);
  const [versions] = returned(await run(token, { client: 'runner', fun: 'manage.versions' }));
  t.like(versions, { 'Minion offline': { quiet: false } });
});

test('config.values contains who may log in by each backend, and no secret', async (t) => {
  const { run, login } = await startApi(t, {
    minions: [],
    config: {
      externalAuth: {
        sharedsecret: { admin: ['@wheel'], 'ops%': ['test.*'] },
        file: { '^filename': '/etc/secret-users', fred: ['.*'] },
      },
    },
  });
  const [answer] = returned(await run(await login(), { client: 'wheel', fun: 'config.values' }));
  t.deepEqual(Object(answer).data.return.external_auth, {
    sharedsecret: { admin: [], 'ops%': [] },
    file: { fred: [] },
  });
  t.notRegex(JSON.stringify(answer), /secret-users|s3cret/);
});

// Routes that plugins add to the server.

test('a plugin adds paths, parsers and errors, and reads the token of a session', async (t) => {
  const tokens: (string | undefined)[] = [];
  const { ask, login, master } = await startApi(t, {
    options: {
      rootPrefix: '/salt',
      plugins: [
        {
          prefix: '/more/v1',
          register: (app, doors) => {
            app.get('/who', async (request) => {
              tokens.push(doors.tokenOf(request));
              return { ok: true };
            });
            app.get('/broken', async () => {
              throw new Error('here');
            });
            app.setErrorHandler((_error, _request, reply) => reply.code(418).send({ own: true }));
          },
        },
      ],
    },
    login: '/salt/login',
  });
  const session = await login();
  const headers = json(session);
  t.deepEqual((await ask({ path: '/salt/more/v1/who', headers })).json, { ok: true });
  t.not(tokens[0], session);
  t.is((await master.logins.identify(tokens[0] ?? '')).user, 'admin');
  await ask({ path: '/salt/more/v1/who', headers: json('unknown') });
  await ask({ path: '/salt/more/v1/who' });
  t.deepEqual(tokens.slice(1), ['unknown', undefined]);
  const broken = await ask({ path: '/salt/more/v1/broken' });
  t.deepEqual([broken.status, broken.json], [418, { own: true }]);
  t.is((await ask({ path: '/salt/more/v1/nothing' })).status, 404);
});

test('a right to a runner that runs jobs gives no right to the functions of these jobs', async (t) => {
  const called: string[] = [];
  const functions = { 'cmd.run': () => called.push('cmd.run'), 'mine.update': () => 'updated' };
  const right = [{ web1: ['test.*'] }, '@runner'];
  const { run, login } = await startApi(t, {
    functions,
    config: { externalAuth: { sharedsecret: { eve: right } } },
  });
  const token = await login('eve');
  const runner = async (fun: string, ...arg: unknown[]): Promise<unknown> =>
    returned(await run(token, { client: 'runner', fun, arg }))[0];
  const denial = /Authorization error occurred/;
  for (const fun of ['salt.execute', 'survey.hash', 'survey.diff']) {
    t.regex(
      String(await runner(fun, '*', 'cmd.run', ...(fun === 'salt.execute' ? [['id']] : ['id']))),
      denial,
      fun,
    );
    t.regex(String(await runner(fun, 'db1', 'test.ping')), denial, fun);
  }
  t.regex(String(await runner('mine.update', '*', 'glob', false, { 'cmd.run': ['id'] })), denial);
  t.deepEqual(called, []);
  t.deepEqual(await runner('salt.execute', '*', 'test.ping'), { web1: true });
  t.deepEqual(await runner('survey.hash', '*', 'test.ping'), [{ pool: ['web1'], result: 'True' }]);
  t.deepEqual(await runner('mine.update', '*'), { web1: 'updated', db1: 'updated' });
});

test('manage.down removes only keys that the user may delete', async (t) => {
  const one = [{ 'key.delete': { kwargs: { match: 'gone1' } } }];
  const { run, login, master } = await startApi(t, {
    silent: ['gone1', 'gone2'],
    config: {
      externalAuth: {
        sharedsecret: {
          eve: ['.*', '@runner'],
          bob: ['@runner', { '@wheel': one }],
          root: ['.*', '@runner', '@wheel'],
        },
      },
    },
  });
  const remove = async (user: string, tgt: readonly string[]): Promise<unknown> => {
    const asked = { tgt, tgt_type: 'list', timeout: 0.1, gather_job_timeout: 0.1 };
    const call = { client: 'runner', fun: 'manage.down', kwarg: { ...asked, removekeys: true } };
    return returned(await run(await login(user), call))[0];
  };
  const accepted = async (): Promise<readonly string[]> =>
    (await master.keys.list()).flatMap(({ id, state }) => (state === 'accepted' ? [id] : []));
  const denial = /did not delete any key: .*key\.delete with match=gone/;
  t.regex(String(await remove('eve', ['gone1'])), denial);
  t.regex(String(await remove('bob', ['gone1', 'gone2'])), denial);
  t.true((await accepted()).includes('gone1'));
  t.deepEqual(await remove('bob', ['gone1']), ['gone1']);
  t.deepEqual(await remove('root', ['gone2']), ['gone2']);
  t.deepEqual(
    (await accepted()).filter((id) => id.startsWith('gone')),
    [],
  );
});
