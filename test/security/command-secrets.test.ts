/** A secret parameter of a named command: where it is, and the places in which it is looked for. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { Writable } from 'node:stream';
import test, { type ExecutionContext } from 'ava';
import { allow } from '../../acl/index.ts';
import { type CommandDefinition, createBridge } from '../../heat-bridge/index.ts';
import { createLogger, type MasterEvent } from '../../master/index.ts';
import {
  openPublication,
  packWire,
  parsePublicKey,
  type WireValue,
} from '../../minion-protocol/index.ts';
import { createSaltApi } from '../../salt-api/index.ts';
import { type ApiAnswer, json, password, send } from '../helpers/salt-api.ts';
import type { VectorMaster } from '../helpers/vector-master.ts';
import { aesKey, freshNonce } from '../helpers/vector-requests.ts';
import { pem } from '../helpers/vectors.ts';
import { listen } from './doors.ts';
import {
  askAs,
  HOSTILE,
  hostile,
  openPillarOf,
  requestBy,
  type Site,
  startSite,
  VICTIM,
  victim,
} from './site.ts';

/** Found nowhere else, in whatever form it might be written down. */
const canary = 'CANARY7b1f93e2secret';

const command: CommandDefinition = {
  name: 'demo.user',
  description: 'Makes a user.',
  state: 'user',
  reviewed: 'made for this test alone',
  parameters: {
    type: 'object',
    required: ['name', 'password'],
    properties: {
      name: { type: 'string', maxLength: 10 },
      password: { type: 'string', minLength: 12, maxLength: 40 },
    },
  },
  secret: ['password'],
  returns: { type: 'object' },
};

interface Stage extends Site {
  /** What the log, events and publications said, as text. */
  readonly told: string[];
  /** Calls the command over HTTP. */
  call(params: unknown, more?: object): Promise<ApiAnswer>;
}

async function open(t: ExecutionContext): Promise<Stage> {
  const told: string[] = [];
  const log = new Writable({
    write(chunk, _encoding, done) {
      told.push(String(chunk));
      done();
    },
  });
  const rule = allow('users', {
    subject: { user: 'trove' },
    action: 'command',
    resource: { fun: 'demo.*', within: VICTIM },
  });
  const bridge = createBridge({ commands: [command] });
  const site = await startSite(t, 'zeromq', {
    logger: createLogger('trace', log),
    extensions: [bridge],
    config: {
      externalAuth: { sharedsecret: { trove: ['test.*'] } },
      eauth: { sharedsecret: password },
      acl: { rules: [rule] },
      keepJobsSeconds: 3600,
    },
  });
  const { master } = site.operator;
  const api = await createSaltApi(master, { host: '127.0.0.1', plugins: [bridge.http] });
  t.teardown(() => api.close());
  const { port } = await api.listen();
  const login = { username: 'trove', password, eauth: 'sharedsecret' };
  const { token } = await master.logins.login(login);
  const call: Stage['call'] = (params, more = {}) =>
    send(port, {
      method: 'POST',
      path: '/bridge/v1/commands/demo.user/run',
      headers: json(token),
      body: { target: [VICTIM], params, ...more },
    });
  return { ...site, told, call };
}

/** What an accepted minion reads of a publication, with the key that all of them are given. */
function readAsHostile(publication: WireValue): string {
  const job = openPublication(packWire(publication), {
    key: aesKey,
    masterPublic: parsePublicKey(pem('master').publicPem),
    requireSignature: true,
  });
  return JSON.stringify(job);
}

/** Everything that lies on the disk or in the store, as bytes. */
async function kept({ directory, store, master }: VectorMaster): Promise<Buffer> {
  await master.audit.flush();
  const parts: Uint8Array[] = [];
  for (const name of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
    const file = path.join(directory, name);
    if (statSync(file).isFile()) parts.push(readFileSync(file));
  }
  for await (const { key, value } of store.list([])) parts.push(Buffer.from(key.join('/')), value);
  return Buffer.concat(parts);
}

async function pillarOf(actor: typeof hostile, { door }: Site): Promise<string> {
  const nonce = freshNonce();
  const asked = requestBy(actor, { cmd: '_pillar', grains: {}, ver: '2' }, nonce);
  return JSON.stringify(openPillarOf(actor.id, await door.ask(asked), nonce));
}

test('a secret parameter is in the pillar of the minion that it is for, and nowhere else', async (t) => {
  const site = await open(t);
  const { operator, told, call, door } = site;
  const next = await listen(t, 'zeromq', site.publishPort);
  const end = new AbortController();
  const events: MasterEvent[] = [];
  const following = (async () => {
    for await (const event of operator.master.events.subscribe({}, end.signal)) events.push(event);
  })();

  const running = call({ name: 'fred', password: canary }, { idempotencyKey: 'k' });
  // Where the test ends before it does.
  running.catch(() => {});
  const publication = readAsHostile(await next());
  t.regex(publication, /saltbridge_secrets/);
  t.true((await pillarOf(victim, site)).includes(canary), 'whom it is for has it');
  t.false((await pillarOf(hostile, site)).includes(canary));
  const { jid } = JSON.parse(publication);
  const answer = { cmd: '_return', jid, fun: 'state.apply', return: { a: true }, retcode: 0 };
  await askAs(victim, door, answer);
  const outcome = await running;
  t.regex(outcome.text, /"status":"succeeded"/);
  t.false((await pillarOf(victim, site)).includes(canary), 'it is over');

  // Whatever is wrong with a call, the refusal does not repeat what is secret in it.
  const refused = [
    await call({ name: 'fred', password: `${canary}x` }, { idempotencyKey: 'k' }),
    await call({ name: 'fred', password: `-${canary}` }),
    await call({ name: 'fred', password: `${canary}\n` }),
    await call({ name: 'fred', password: canary.repeat(3) }),
    await call({ name: 'fred', password: [canary] }),
    await call({ name: canary, password: canary }),
    await call({ name: 'fred', password: canary, [canary]: 1 }),
    await call({ name: 'fred', password: canary }, { target: [HOSTILE] }),
    await call({ name: 'fred', password: canary }, { [canary]: canary }),
    await call(canary),
  ];
  for (const { status, text } of refused) {
    t.true(status >= 400 && status < 500, text);
    t.false(text.includes(canary), text);
  }
  end.abort();
  await following;

  t.true(events.some(({ tag }) => tag === `salt/job/${jid}/ret/${VICTIM}`));
  const { jobs } = operator.master;
  const history = [await jobs.show(jid), await jobs.list(), await operator.master.status()];
  const places: Readonly<Record<string, string>> = {
    publication,
    outcome: outcome.text,
    log: told.join(''),
    events: JSON.stringify(events),
    jobs: JSON.stringify(history),
    store: (await kept(operator)).toString('latin1'),
  };
  t.true(places.log?.includes('logged in'));
  t.true(places.store?.includes(jid));
  for (const [place, text] of Object.entries(places)) {
    for (const form of [canary, Buffer.from(canary).toString('base64').slice(0, 24)]) {
      t.false(text.includes(form), place);
    }
  }
});
