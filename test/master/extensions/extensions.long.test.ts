/** The interface of an extension to its master, and the limits of it. */

import test from 'ava';
import Type from 'typebox';
import { allow } from '#acl';
import { connectExtension, connectMaster } from '#client';
import {
  AuthenticationError,
  anyLoad,
  defineRequestType,
  defineService,
  type ExtensionHost,
  extensionMethod,
  extensionStream,
  MasterError,
  type MasterExtension,
  type MasterFunction,
  type OpenExtension,
  type TriggerEvent,
} from '#master';
import { StoreError } from '#store';
import { collect } from '../../helpers/fleet.ts';
import { slicesOf } from '../../helpers/slices.ts';
import { directories, startVectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, openReply, recorded } from '../../helpers/vector-requests.ts';
import { keys } from '../../helpers/vectors.ts';

const startEvent = recorded('minion_event', 'start event v3');
const tag = 'app/ready';
const signalRule = {
  signals: [],
  rules: [allow('ready', { subject: { minion: '*' }, action: 'signal', resource: { tag } })],
  mode: 'enforce',
  learnActions: [],
  recordData: false,
} as const;

/** Returns an extension, and its host after it was opened. */
function extension(
  parts: Partial<OpenExtension> = {},
  name = 'probe',
): { readonly one: MasterExtension; host(): ExtensionHost; readonly calls: string[] } {
  const calls: string[] = [];
  let opened: ExtensionHost | undefined;
  const one: MasterExtension = {
    name,
    open: async (host) => {
      opened = host;
      calls.push('open');
      return {
        ...parts,
        start: () => {
          calls.push('start');
        },
        close: async () => {
          calls.push(host.closing.aborted ? 'close' : 'close before the signal');
        },
      };
    },
  };
  return {
    one,
    calls,
    host: () => {
      if (opened === undefined) throw new TypeError('not opened');
      return opened;
    },
  };
}

test('an extension is opened, started and closed with its master', async (t) => {
  const { one, calls } = extension();
  const { master } = await startVectorMaster(t, { extensions: [one] });
  t.deepEqual(calls, ['open', 'start']);
  await master.close();
  t.deepEqual(calls, ['open', 'start', 'close']);
});

test('a failure to open an extension ends the start, and opened ones are closed', async (t) => {
  const { one, calls } = extension();
  const broken: MasterExtension = {
    name: 'broken',
    open: async () => {
      throw new MasterError('ERR_ARGS', 'cannot');
    },
  };
  await t.throwsAsync(startVectorMaster(t, { extensions: [one, broken] }), { code: 'ERR_ARGS' });
  t.is(calls.length, 2);
});

for (const names of [['two words'], ['__proto__']]) {
  test(`extensions cannot have the names ${names.join(' and ')}`, async (t) => {
    const extensions = names.map((name) => extension({}, name).one);
    await t.throwsAsync(startVectorMaster(t, { extensions }), { instanceOf: TypeError });
  });
}

test("the master's interface is available from the start of the master", async (t) => {
  const early: MasterExtension = {
    name: 'early',
    open: async (host) => {
      t.throws(() => host.master(), { code: 'ERR_MASTER_STOPPED' });
      return { close: async () => {} };
    },
  };
  const { one, host } = extension();
  await startVectorMaster(t, { extensions: [early, one] });
  t.truthy((await host().master().status()).id);
});

test('an extension cannot reach rows of another one or of the master', async (t) => {
  const a = extension({}, 'a');
  const b = extension({}, 'b');
  const { store } = await startVectorMaster(t, { extensions: [a.one, b.one] });
  const value = Buffer.from('value');
  await a.host().state.write([{ op: 'put', key: ['row', '1'], value }]);
  t.deepEqual((await a.host().state.get(['row', '1']))?.key, ['row', '1']);
  t.is(await b.host().state.get(['row', '1']), undefined);
  t.deepEqual(await collect(b.host().state.list([])), []);
  await b.host().state.write([{ op: 'delete-prefix', prefix: [] }]);
  t.deepEqual(
    (await collect(a.host().state.list(['row']))).map(({ key }) => key),
    [['row', '1']],
  );
  t.truthy(await store.get(['state', 'a', 'row', '1']));
});

test('a list of rows continues after a key', async (t) => {
  const { one, host } = extension();
  await startVectorMaster(t, { extensions: [one] });
  const { state } = host();
  const rows = ['1', '2', '3'].map(
    (n) => ({ op: 'put', key: ['r', n], value: Buffer.of(1) }) as const,
  );
  await state.write(rows);
  const rest = await collect(state.list(['r'], { after: ['r', '1'], limit: 1 }));
  t.deepEqual(
    rest.map(({ key }) => key),
    [['r', '2']],
  );
});

test('a write is atomic and conditional', async (t) => {
  const { one, host } = extension();
  await startVectorMaster(t, { extensions: [one] });
  const { state } = host();
  const put = (key: string, ifRevision?: number) =>
    ({
      op: 'put',
      key: [key],
      value: Buffer.of(1),
      ...(ifRevision === undefined ? {} : { ifRevision }),
    }) as const;
  const revision = await state.write([put('x', 0)]);
  await t.throwsAsync(state.write([put('y'), put('x', 0)]), {
    instanceOf: StoreError,
    code: 'ERR_REVISION',
  });
  t.is(await state.get(['y']), undefined);
  await state.write([put('y'), put('x', revision)]);
  t.truthy(await state.get(['y']));
});

test('one extension cannot open the sealed data of another', async (t) => {
  const a = extension({}, 'a');
  const b = extension({}, 'b');
  await startVectorMaster(t, { extensions: [a.one, b.one] });
  const sealed = a.host().state.seal(Buffer.from('secret'));
  t.is(Buffer.from(a.host().state.unseal(sealed)).toString(), 'secret');
  t.false(Buffer.from(sealed).includes('secret'));
  t.throws(() => b.host().state.unseal(sealed), { code: 'ERR_SEAL' });
});

test('a signal for an extension is accepted before its reply, and once', async (t) => {
  const taken: TriggerEvent[] = [];
  const { one } = extension({
    intake: {
      isWanted: (wanted, sender) => wanted === tag && sender === keys.minionId,
      take: async (occurrence) => {
        taken.push(occurrence);
      },
    },
  });
  const { ask } = await startVectorMaster(t, { config: { acl: signalRule }, extensions: [one] });
  const nonce = freshNonce();
  const request = altered(startEvent, { load: { tag, data: { n: 1 }, nonce } });
  t.is(openReply(startEvent, await ask(request), nonce), null);
  t.is(taken.length, 1);
  const [{ tag: firedTag, sender, data, rule, request: mark } = {}] = taken;
  t.deepEqual(
    [firedTag, sender, { ...(data as object) }, rule],
    [tag, keys.minionId, { n: 1 }, 'ready'],
  );
  t.is(mark?.place, 0);
  const other = freshNonce();
  await ask(altered(startEvent, { load: { tag: 'app/other', data: {}, nonce: other } }));
  t.is(taken.length, 1);
});

test('a signal that no rule permits is not passed to an extension', async (t) => {
  const taken: TriggerEvent[] = [];
  const { one } = extension({
    intake: {
      isWanted: () => true,
      take: async (occurrence) => {
        taken.push(occurrence);
      },
    },
  });
  const { ask } = await startVectorMaster(t, { extensions: [one] });
  const nonce = freshNonce();
  await ask(altered(startEvent, { load: { tag, data: {}, nonce } }));
  t.deepEqual(taken, []);
});

test('methods of an extension are served under its name, and their parameters are checked', async (t) => {
  const { one } = extension({
    rpc: {
      double: extensionMethod({
        parameters: Type.Object({ n: Type.Number() }, { additionalProperties: false }),
        call: async (_api, { n }) => 2 * n,
      }),
      count: extensionStream({
        parameters: Type.Object({}),
        call: async function* () {
          yield 1;
          yield 2;
        },
      }),
    },
  });
  const { directory } = await startVectorMaster(t, { extensions: [one] });
  const probe = connectExtension({ socketPath: directories(directory).socket ?? '' }, 'probe');
  t.is(await probe.call('double', { n: 4 }), 8);
  t.deepEqual(await collect(probe.stream('count')), [1, 2]);
  await t.throwsAsync(probe.call('double', { n: 'x' }), { code: 'ERR_ARGS' });
  await t.throwsAsync(probe.call('triple'), { code: 'ERR_RPC_UNKNOWN_METHOD' });
});

test('pillar of an extension takes precedence over all other pillar', async (t) => {
  const { one } = extension({
    pillar: { name: 'probe', provide: async ({ id }) => ({ role: `of ${id}` }) },
  });
  const { directory } = await startVectorMaster(t, {
    extensions: [one],
    pillar: async () => ({ role: 'base', other: 1 }),
  });
  const master = connectMaster({ socketPath: directories(directory).socket ?? '' });
  t.like(await master.pillar.show({ minion: keys.minionId }), { role: `of ${keys.minionId}` });
});

test('a denial by an extension is written to the audit log', async (t) => {
  const { one, host } = extension();
  const { master } = await startVectorMaster(t, { extensions: [one] });
  const question = {
    subject: { kind: 'service', name: 'trove' },
    action: 'command',
    resource: {
      call: { fun: 'a.b', args: [], kwargs: new Map() },
      minions: ['web1'],
    },
  } as const;
  t.is(host().decide(question).effect, 'deny');
  t.truthy(await master.audit.flush());
});

test('a target means certain matches, and the attributes that entitle them are named', async (t) => {
  const { one, host } = extension();
  await startVectorMaster(t, { extensions: [one] });
  t.deepEqual((await host().resolveTarget({ tgt: '*' })).minions, [keys.minionId]);
  t.deepEqual((await host().resolveTarget({ tgt: 'role:x', tgtType: 'pillar' })).minions, []);
  t.true(host().isWithin([keys.minionId], keys.minionId));
  t.false(host().isWithin([keys.minionId], 'other*'));
});

test.serial('targets of one requester delay those of another requester by one turn', async (t) => {
  const { one, host } = extension();
  await startVectorMaster(t, { extensions: [one] });
  const request = { tgt: Array.from({ length: 6000 }, (_, at) => `a${at}*b`).join(' or ') };
  const resolve = (name: string, hasSecrets = false): Promise<unknown> => {
    const who = { kind: 'user', name, eauth: 'pam' } as const;
    return host().resolveTarget({ ...request, tgtType: 'compound' }, { who, hasSecrets });
  };
  for (const hasSecrets of [false, true]) {
    const alone = await slicesOf(() => resolve('alone', hasSecrets));
    let others: Promise<unknown> = Promise.resolve();
    const slices = await slicesOf(async () => {
      others = Promise.all(Array.from({ length: 20 }, () => resolve('alice', hasSecrets)));
      await resolve('bob', hasSecrets);
    });
    await others;
    // Each target runs its first slice at once. After that, the requesters take turns.
    const isFair = alone.length >= 2 && slices.length <= 20 + 3 * alone.length;
    t.true(isFair, `${slices.length} slices, ${alone.length} alone`);
  }
});

test('an unknown token belongs to no user', async (t) => {
  const { one, host } = extension();
  await startVectorMaster(t, { extensions: [one] });
  await t.throwsAsync(host().holdToken('0'.repeat(64)), { instanceOf: AuthenticationError });
});

test('events of an extension contain its name', async (t) => {
  const { one, host } = extension();
  const { master } = await startVectorMaster(t, { extensions: [one] });
  const events = (await master.events.subscribe({ match: 'saltbridge/*' }))[Symbol.asyncIterator]();
  host().fire('run/new', { n: 1 });
  const { value } = await events.next();
  await events.return?.();
  t.like(value, { tag: 'saltbridge/probe/run/new', data: { n: 1 } });
});

test('extensions are opened after those that they require, and otherwise in the given order', async (t) => {
  const opened: string[] = [];
  const named = (name: string, order: Partial<MasterExtension> = {}): MasterExtension => ({
    ...order,
    name,
    open: async () => {
      opened.push(name);
      return {};
    },
  });
  const extensions = [
    named('last', { requires: ['first'], after: ['second', 'absent'] }),
    named('second'),
    named('first'),
  ];
  await startVectorMaster(t, { extensions });
  t.deepEqual(opened, ['first', 'second', 'last']);
});

const number = defineService<{ readonly value: number }>('number');

test('a service reaches the extensions that use it, with its wrappers', async (t) => {
  let used = 0;
  const provider: MasterExtension = {
    name: 'provider',
    open: async (host) => {
      host.provide(number, { value: 1 });
      return {};
    },
  };
  const wrapper: MasterExtension = {
    name: 'wrapper',
    requires: ['provider'],
    open: async (host) => {
      host.decorate(number, ({ value }) => ({ value: value + 1 }));
      return {};
    },
  };
  const user: MasterExtension = {
    name: 'user',
    requires: ['wrapper'],
    open: async (host) => {
      used = host.use(number).value;
      return {};
    },
  };
  await startVectorMaster(t, { extensions: [user, wrapper, provider] });
  t.is(used, 2);
});

test('extensions that require each other end the start', async (t) => {
  const extensions: readonly MasterExtension[] = [
    { name: 'one', after: ['two'], open: async () => ({}) },
    { name: 'two', requires: ['one'], open: async () => ({}) },
  ];
  await t.throwsAsync(startVectorMaster(t, { extensions }), {
    code: 'ERR_EXTENSION_CYCLE',
    message: /one → two → one/,
  });
});

test('a missing extension or service ends the start', async (t) => {
  const extensions: readonly MasterExtension[] = [
    { name: 'one', requires: ['absent'], open: async () => ({}) },
  ];
  const code = 'ERR_EXTENSION_MISSING';
  await t.throwsAsync(startVectorMaster(t, { extensions }), { code, message: /one.*absent/ });
  const user: MasterExtension = {
    name: 'user',
    open: async (host) => {
      host.use(number);
      return {};
    },
  };
  await t.throwsAsync(startVectorMaster(t, { extensions: [user] }), {
    code,
    message: /number.*user/,
  });
});

const runner: MasterFunction = {
  summary: 'Does nothing.',
  signature: '',
  takes: () => false,
  declares: () => false,
  isConfidential: false,
  succeeds: () => true,
  bind: () => async () => true,
};
const answer = defineRequestType({
  kind: 'read',
  needsToken: false,
  rate: 'requests',
  load: anyLoad,
  handle: () => ({ kind: 'send', value: true }),
});
const family = {
  type: 'gauge',
  name: 'saltbridge_probe',
  help: 'Probe.',
  labels: [],
  samples: [],
} as const;
const method = extensionMethod({ parameters: Type.Object({}), call: async () => true });
const routes = [{ prefix: '/probe', register: () => {} }];

const claims: readonly (readonly [string, Partial<OpenExtension>])[] = [
  ['request type _probe', { requests: { _probe: answer } }],
  ['runner probe.run', { runners: { 'probe.run': runner } }],
  ['wheel function probe.run', { wheel: { 'probe.run': runner } }],
  ['runner for minions probe.run', { minionRunners: { 'probe.run': async () => true } }],
  ['metric saltbridge_probe', { metrics: () => [family] }],
  ['HTTP routes /probe', { routes }],
  ['contribution commands', { commands: { run: async () => ({ outcome: 'succeeded' }) } }],
  ['contribution tops', { tops: async () => ({}) }],
];

for (const [thing, parts] of claims) {
  test(`two extensions that claim the ${thing} end the start`, async (t) => {
    const extensions = [extension(parts, 'one').one, extension(parts, 'two').one];
    await t.throwsAsync(startVectorMaster(t, { extensions }), {
      code: 'ERR_EXTENSION_CONFLICT',
      message: `${thing}: both one and two define it; remove one of them`,
    });
  });
}

test('two extensions with one name end the start', async (t) => {
  const extensions = [extension({}, 'one').one, extension({}, 'one').one];
  await t.throwsAsync(startVectorMaster(t, { extensions }), {
    code: 'ERR_EXTENSION_CONFLICT',
    message: 'two extensions have the name one; rename or remove one of them',
  });
});

test('an extension cannot claim names of the master or its services', async (t) => {
  const taken: readonly Partial<OpenExtension>[] = [
    { requests: { _return: answer } },
    { requests: { _pillar: answer } },
    { runners: { 'test.arg': runner } },
  ];
  for (const parts of taken) {
    const { one } = extension(parts);
    await t.throwsAsync(startVectorMaster(t, { extensions: [one] }), {
      code: 'ERR_EXTENSION_CONFLICT',
    });
  }
  const { one } = extension({ rpc: { list: method } }, 'keys');
  await t.throwsAsync(startVectorMaster(t, { extensions: [one] }), {
    code: 'ERR_EXTENSION_CONFLICT',
    message: /method keys\.list/,
  });
});

test('extensions of one namespace share its methods, rows and events, if all of them say so', async (t) => {
  const inOne = (name: string, namespace?: string): MasterExtension => ({
    ...extension({ rpc: { [name]: method } }, name).one,
    ...(namespace === undefined ? {} : { namespace }),
  });
  await startVectorMaster(t, { extensions: [inOne('one', 'shared'), inOne('two', 'shared')] });
  await t.throwsAsync(startVectorMaster(t, { extensions: [inOne('one', 'two'), inOne('two')] }), {
    code: 'ERR_EXTENSION_CONFLICT',
    message: /namespace two/,
  });
});
