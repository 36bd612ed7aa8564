/** Tests of calls that move from one master of a cluster to the next, over HTTP. */
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { createLocalMaster } from '#cli/local-master.ts';
import { connectMaster } from '#client';
import type { MasterApi } from '#master';
import { createSaltApi, type SaltApi } from '#salt-api';
import { freePort } from '../../bench/free-port.ts';
import { type ClusterMaster, ClusterMasters } from '../helpers/cluster-masters.ts';
import { until, within } from '../helpers/deadline.ts';
import { TcpProxy } from '../helpers/tcp-proxy.ts';

const directory = mkdtempSync(path.join(tmpdir(), 'saltbridge-fail-over-'));
const password = 'of-the-test';
const masters = new ClusterMasters(directory, {
  keysize: 2048,
  timeout: 20,
  eventRing: { entries: 1000, bytes: 1_000_000 },
  externalAuth: { sharedsecret: { ann: ['.*', '@jobs', '@runner', '@wheel'], bob: ['test.*'] } },
  eauth: { sharedsecret: password },
});
let a: ClusterMaster;
let b: ClusterMaster;
let urlB = '';

async function serve(api: MasterApi): Promise<{ readonly served: SaltApi; readonly port: number }> {
  const served = await createSaltApi(api, { host: '127.0.0.1' });
  const { port } = await served.listen();
  return { served, port };
}

test.before(async () => {
  a = await masters.first('a');
  b = await masters.join('b', a);
  const { served, port } = await serve(b.master);
  urlB = `http://127.0.0.1:${port}`;
  apiOfB = served;
});

let apiOfB: SaltApi | undefined;

test.after.always(async () => {
  await apiOfB?.close();
  await b?.master.close();
  await a?.master.close();
  rmSync(directory, { recursive: true, force: true });
});

async function tokenOf(username: string): Promise<string> {
  return (await a.master.logins.login({ username, password, eauth: 'sharedsecret' })).token;
}

/** Proxy in front of the API of the first master. The test can cut its connections. */
class Line {
  readonly url: string;
  readonly #sockets = new Set<Socket>();
  /** Called with each request of a client. If it returns false, the response is lost. */
  onRequest: (text: string) => boolean = () => true;

  private constructor(port: number) {
    this.url = `http://127.0.0.1:${port}`;
  }

  static async start(t: ExecutionContext): Promise<Line> {
    const { served, port: target } = await serve(a.master);
    const port = await freePort();
    const line = new Line(port);
    const server = createServer((client) => line.#pass(client, connect(target, '127.0.0.1')));
    server.listen(port, '127.0.0.1');
    t.teardown(async () => {
      server.close();
      line.cut();
      await served.close();
    });
    return line;
  }

  /** Closes all connections. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #pass(client: Socket, upstream: Socket): void {
    let isLost = false;
    client.on('data', (bytes) => {
      if (!this.onRequest(bytes.toString())) isLost = true;
      upstream.write(bytes);
    });
    upstream.on('data', (bytes) => {
      if (isLost) client.destroy();
      else client.write(bytes);
    });
    for (const socket of [client, upstream]) {
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        this.#sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
  }
}

interface Both {
  readonly line: Line;
  readonly api: MasterApi;
}

async function both(t: ExecutionContext, username = 'ann'): Promise<Both> {
  const line = await Line.start(t);
  const token = await tokenOf(username);
  return { line, api: connectMaster({ urls: [line.url, urlB], token }) };
}

/** Makes the first master carry out a method, but lose its responses. */
function loseAnswers({ line }: Both, method: string): void {
  line.onRequest = (text) => {
    if (text.includes(`/rpc/${method} `)) return false;
    return !text.includes('/rpc/users.describeMaster') || isFirst();
  };
  let asked = 0;
  const isFirst = (): boolean => {
    asked += 1;
    return asked === 1;
  };
}

test.serial('a call goes to the next master if the first is unreachable', async (t) => {
  const token = await tokenOf('ann');
  const urls = [`http://127.0.0.1:${await freePort()}`, urlB];
  const api = connectMaster({ urls, token });
  t.is((await api.cluster.status())?.member, 'b');
  await a.master.keys.create({ id: 'any', force: true });
  const { jid } = await api.jobs.publish({ tgt: 'any', fun: 'test.ping' });
  t.is((await api.jobs.show(jid)).jid, jid);
});

test.serial(
  'commands reach the masters in the environment, and read no configuration',
  async (t) => {
    const { openApi, openKeys, commandDefaults } = createLocalMaster({
      SALTBRIDGE_URL: `http://127.0.0.1:${await freePort()}, ${urlB}`,
      SALTBRIDGE_TOKEN: await tokenOf('ann'),
    });
    const none = path.join(directory, 'none');
    t.is((await (await openApi(none)).cluster.status())?.member, 'b');
    t.deepEqual(await (await openKeys(none)).keys.list(), await b.master.keys.list());
    t.is(typeof (await commandDefaults(none)), 'object');
    const clear = createLocalMaster({ SALTBRIDGE_URL: 'http://master.example:8000' });
    await t.throwsAsync(clear.openApi(none), { code: 'ERR_ARGS', message: /https/ });
    const missing = createLocalMaster({ SALTBRIDGE_URL: urlB, SALTBRIDGE_CA: none });
    await t.throwsAsync(missing.openApi(none), { code: 'ERR_ARGS' });
  },
);

test.serial('an address that would send a token in the clear is refused', (t) => {
  const urls = [urlB, 'http://master.example:8000'];
  t.throws(() => connectMaster({ urls, token: 'x' }), { instanceOf: TypeError });
  t.throws(() => connectMaster({ urls: [], token: 'x' }), { instanceOf: TypeError });
});

test('if no master can be reached, the error names each', async (t) => {
  const urls = [await freePort(), await freePort()].map((port) => `http://127.0.0.1:${port}`);
  const error = await t.throwsAsync(connectMaster({ urls, token: 'x' }).status(), {
    code: 'ERR_SOCKET',
  });
  for (const url of urls) t.true(error?.message.includes(url));
});

test.serial('a read-only call is repeated at the next master', async (t) => {
  const reached = await both(t);
  loseAnswers(reached, 'keys.list');
  t.deepEqual(await reached.api.keys.list(), await b.master.keys.list());
});

test.serial(
  'a job without an answer is looked up at the next master, and not published twice',
  async (t) => {
    const reached = await both(t);
    loseAnswers(reached, 'jobs.publish');
    await a.master.keys.create({ id: 'once', force: true });
    const published: string[] = [];
    const end = new AbortController();
    const events = await a.master.events.subscribe({ match: 'salt/job/*/new' }, end.signal);
    const reading = (async () => {
      for await (const { data } of events) published.push(String(data.jid));
    })();
    const { jid, minions } = await reached.api.jobs.publish({ tgt: 'once', fun: 'test.ping' });
    t.deepEqual(minions, ['once']);
    t.is((await reached.api.cluster.status())?.member, 'b');
    await until('its event', () => published.includes(jid));
    end.abort();
    await reading;
    t.deepEqual(published, [jid]);
  },
);

test.serial(
  'a job of a user with fewer rights is looked up as well, but its runners are not',
  async (t) => {
    await a.master.keys.create({ id: 'once', force: true });
    const reached = await both(t, 'bob');
    loseAnswers(reached, 'jobs.publish');
    const before = (await a.master.jobs.list()).length;
    const { jid, minions } = await reached.api.jobs.publish({ tgt: 'once', fun: 'test.ping' });
    t.deepEqual(minions, ['once']);
    const jobs = await b.master.jobs.list();
    t.is(jobs.length, before + 1);
    t.like(await b.master.jobs.show(jid), { jid, user: 'bob' });
    // Call as the user of a token that is not the connection's own.
    const other = await both(t);
    loseAnswers(other, 'jobs.publish');
    const asBob = other.api.asUser(await tokenOf('bob'));
    await t.throwsAsync(asBob.jobs.publish({ tgt: 'once', fun: 'test.ping' }), {
      code: 'ERR_OUTCOME_UNKNOWN',
    });
    const calling = await both(t, 'bob');
    loseAnswers(calling, 'runners.run');
    await t.throwsAsync(calling.api.runners.run({ fun: 'test.arg' }), {
      code: 'ERR_OUTCOME_UNKNOWN',
    });
  },
);

test.serial('a runner without an answer is not called again', async (t) => {
  const reached = await both(t);
  loseAnswers(reached, 'runners.run');
  await t.throwsAsync(reached.api.runners.run({ fun: 'jobs.list_jobs' }), {
    code: 'ERR_OUTCOME_UNKNOWN',
  });
});

/** Minion of the second master. Its jobs last until the test ends them. */
class HeldMinion {
  calls = 0;
  #finish = (): void => {};
  /** Resolves when the minion has received its first job. */
  readonly isAsked: Promise<void>;
  #asked = (): void => {};

  constructor() {
    this.isAsked = new Promise((resolve) => {
      this.#asked = resolve;
    });
  }

  async connect(t: ExecutionContext): Promise<void> {
    const functions = {
      'test.held': () => {
        this.calls += 1;
        this.#asked();
        return new Promise<string>((resolve) => {
          this.#finish = () => resolve('done');
        });
      },
    };
    let isConnected = false;
    const connecting = b.connect(t, 'held', functions).then(() => {
      isConnected = true;
    });
    while (!isConnected) {
      await b.master.keys.accept({ match: 'held' });
      await new Promise((resolve) => setImmediate(resolve));
    }
    await connecting;
  }

  goOn(): void {
    this.#finish();
  }
}

test.serial('a run is followed further at the next master', async (t) => {
  const held = new HeldMinion();
  await held.connect(t);
  const { api, line } = await both(t);
  const types: string[] = [];
  const run = (async () => {
    for await (const update of api.jobs.run({ tgt: 'held', fun: 'test.held' })) {
      types.push(update.type === 'return' ? String(update.return) : update.type);
    }
  })();
  await within('the job', held.isAsked);
  await until('its first update', () => types.includes('published'));
  line.onRequest = () => false;
  line.cut();
  held.goOn();
  await within('the run', run);
  t.deepEqual(types, ['published', 'done', 'finished']);
  t.is(held.calls, 1);
});

test.serial('a drained member accepts no new calls, and completes those in progress', async (t) => {
  await new HeldMinion().connect(t);
  await a.master.keys.create({ id: 'any', force: true });
  const { api, line } = await both(t);
  const token = await tokenOf('ann');
  const alone = connectMaster({ url: line.url, token });
  const run = api.jobs.run({ tgt: 'held', fun: 'test.held' })[Symbol.asyncIterator]();
  t.like(await run.next(), { value: { type: 'published' } });
  t.deepEqual(await a.master.cluster.drain({ seconds: 0 }), { active: 1 });
  const request = { tgt: 'any', fun: 'test.ping' };
  await t.throwsAsync(alone.jobs.publish(request), { code: 'ERR_MASTER_DRAINING' });
  const headers = { 'x-auth-token': token, 'content-type': 'application/json' };
  const body = JSON.stringify([{ client: 'local', ...request }]);
  const { status } = await fetch(line.url, { method: 'POST', headers, body });
  t.is(status, 503);
  t.is((await fetch(`${line.url}/ready`)).status, 503);
  t.true((await alone.cluster.status())?.isDraining);
  const { jid } = await api.jobs.publish(request);
  t.is((await api.jobs.show(jid)).jid, jid);
  const drained = a.master.cluster.drain();
  await run.return?.();
  t.deepEqual(await within('the end of the run', drained), { active: 0 });
  await a.master.cluster.resume();
  t.truthy(await alone.jobs.publish(request));
});

test.serial(
  'a stream of events continues at the next master, and delivers each event once',
  async (t) => {
    const { api, line } = await both(t);
    const end = new AbortController();
    const tags: string[] = [];
    const events = await api.events.subscribe({ match: 'my/*' }, end.signal);
    const reading = (async () => {
      for await (const { tag } of events) tags.push(tag);
    })();
    const seen = (tag: string): Promise<void> => until(tag, () => tags.includes(tag));
    await a.master.events.fire('my/a1', {});
    await b.master.events.fire('my/b1', {});
    await seen('my/a1');
    await seen('my/b1');
    // From now on, no client reads the events that are fired.
    line.onRequest = () => false;
    line.cut();
    await a.master.events.fire('my/a2', {});
    await b.master.events.fire('my/b2', {});
    await seen('my/a2');
    await a.master.events.fire('my/a3', {});
    await seen('my/a3');
    await seen('my/b2');
    end.abort();
    await within('the end', reading);
    t.deepEqual([...tags].sort(), ['my/a1', 'my/a2', 'my/a3', 'my/b1', 'my/b2']);
  },
);

test.serial('the client leaves an unresponsive master, and the call continues', async (t) => {
  const { served, port } = await serve(a.master);
  const proxy = await TcpProxy.start(port);
  t.teardown(async () => {
    proxy.close();
    await served.close();
  });
  const urls = [`http://127.0.0.1:${proxy.port}`, urlB];
  const api = connectMaster({ urls, token: await tokenOf('ann') });
  const end = new AbortController();
  const events = await api.events.subscribe({ match: 'my/*' }, end.signal);
  proxy.cut();
  await a.master.events.fire('my/late', {});
  for await (const { tag } of events) {
    t.is(tag, 'saltbridge/events/missed');
    break;
  }
  t.is((await api.cluster.status())?.member, 'b');
});
