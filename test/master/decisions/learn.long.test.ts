/** A learned policy permits the requests that were recorded, and no others. */

import { setImmediate } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import {
  allow,
  deny,
  explain,
  isGrantable,
  lintPolicy,
  type Policy,
  type PolicyRule,
  type RuleAction,
} from '#acl';
import { learnedText } from '#cli/output/learned-text.ts';
import { type MasterOptions, resolveMasterConfig, rulesOf } from '#config';
import { completeSettings } from '#config/read-config.ts';
import { parseConfigFile } from '#config/read-files.ts';
import type { MinionQuestion } from '#master/users/decision-samples.ts';
import { learnPolicy } from '#master/users/learn.ts';
import { replay } from '#master/users/replay-decisions.ts';
import { shapeOf } from '#master/users/shapes.ts';
import type { WireValue } from '#minion-protocol';
import { waitMs } from '../../helpers/deadline.ts';
import { tries } from '../../helpers/effort.ts';
import { policyOf } from '../../helpers/policies.ts';
import { directories, startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, openReply, recorded } from '../../helpers/vector-requests.ts';
import { keys } from '../../helpers/vectors.ts';
import { type JournalOptions, openJournal, signal } from './helpers.ts';

/** Records requests, and returns the file that is learned from them and its policy. */
async function learnFrom(
  t: ExecutionContext,
  questions: readonly MinionQuestion[],
  { generalise = false, ...options }: JournalOptions & { readonly generalise?: boolean } = {},
): Promise<{ readonly text: string; readonly policy: Policy }> {
  const { gate, recorder } = await openJournal(t, options);
  for (const question of questions) gate.decide(question);
  const text = learnedText(learnPolicy(recorder.list(), { generalise }));
  return { text, policy: read(text) };
}

function read(text: string): Policy {
  const { config } = completeSettings(parseConfigFile(text, 'learned.conf'), 'master');
  return policyOf(rulesOf(config).filter(({ name }) => name.startsWith('learned')));
}

function effectOf(question: MinionQuestion, policy: Policy): string {
  return explain(question, policy).decision.effect;
}

const sender = '$'.concat('{minion.id}');
const ids = fc.constantFrom('web1', 'db[1]', 'a*', `x-${sender}`);
const tags = fc.oneof(
  fc.constantFrom(
    'my/tag',
    'my/*',
    'deploy/web1/done',
    `a${sender}`,
    '[x]',
    '$'.concat('{pillar:a}b'),
  ),
  fc.string({ unit: 'binary', minLength: 1, maxLength: 12 }).filter((tag) => /[a-z]/i.test(tag)),
);
const values: fc.Arbitrary<WireValue> = fc.letrec<{ value: WireValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom<WireValue>(null, true, 0, 1.5, 'text', ''),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom('a', 'b', 'c d', '"'), tie('value'), { maxKeys: 3 }),
  ),
})).value;
const asked = fc.record({ id: ids, tag: tags, data: values });

test('learned rules permit only the observed requests, minions, tags and shapes of data', async (t) => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(asked, { minLength: 1, maxLength: 12 }),
      asked,
      async (seen, other) => {
        const questions = seen.map(({ id, tag, data }) => signal(id, tag, data));
        const { policy, text } = await learnFrom(t, questions);
        for (const question of questions) {
          t.is(effectOf(question, policy), isGrantable(question) ? 'allow' : 'deny', text);
        }
        const all = [...seen, other].flatMap(({ id }) =>
          [...seen, other].map(({ tag, data }) => ({ id, tag, data })),
        );
        for (const { id, tag, data } of all) {
          const shapes = seen
            .filter((it) => it.id === id && it.tag === tag)
            .map((it) => shapeOf(it.data));
          const isNew = shapes.length === 0 || (shapes.length <= 8 && !isSeen(shapes, data));
          if (isNew) t.is(effectOf(signal(id, tag, data), policy), 'deny', text);
        }
      },
    ),
    tries(37),
  );
});

/**
 * Whether data fits one of the recorded shapes. An empty list fits any list, and whole numbers are
 * numbers.
 */
function isSeen(shapes: readonly (string | undefined)[], data: WireValue): boolean {
  const shape = shapeOf(data);
  return shapes.includes(shape) || /\[|integer/.test(shape ?? '');
}

test('learned rules pass the check of a policy', async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.array(asked, { maxLength: 12 }), async (seen) => {
      const questions = seen.map(({ id, tag, data }) => signal(id, tag, data));
      const { policy, text } = await learnFrom(t, questions);
      const accepted = seen.map(({ id }) => id);
      t.deepEqual(lintPolicy(policy, accepted), [], text);
    }),
    {
      ...tries(40),
      // Cases that random data rarely contains: tags that no rule may name.
      examples: [
        [[{ id: 'web1', tag: 'salt/auth', data: null }]],
        [[{ id: 'web1', tag: 'bad\ntag: x', data: null }]],
      ],
    },
  );
});

test('requests that no rule can permit are named, and not learned', async (t) => {
  const { text, policy } = await learnFrom(t, [
    signal('web1', 'salt/auth'),
    signal('web1', 'salt/job/20240102030405678000/ret/web2'),
    signal('web1', 'salt/state_result/web2/x'),
    signal('web1', '///'),
    signal('web1', 'bad\ntag: x'),
  ]);
  t.is(policy.rules.length, 0);
  const named = text
    .split('\n')
    .filter((line) => line.startsWith('# no rule can permit this request'));
  t.is(named.length, 5);
});

test('a request that a rule denies stays denied while learning', async (t) => {
  const rule = { subject: { minion: '*' }, action: 'signal', resource: { tag: 'no/*' } } as const;
  const policy = policyOf([deny('not that', rule)]);
  const learned = await learnFrom(t, [signal('web1', 'no/x')], { policy });
  t.is(learned.policy.rules.length, 0);
  t.regex(learned.text, /^# denied by the rule not that/m);
});

test('the sender in a tag becomes a placeholder on request', async (t) => {
  const questions = ['web1', 'web2'].map((id) => signal(id, `deploy/${id}/done`, { ok: true }));
  const { policy } = await learnFrom(t, questions, { generalise: true });
  t.is(policy.rules.length, 1);
  for (const question of questions) t.is(effectOf(question, policy), 'allow');
  t.is(effectOf(signal('web1', 'deploy/web2/done', { ok: true }), policy), 'deny');
  t.is((await learnFrom(t, questions)).policy.rules.length, 2);
});

test('jobs are learned with their minions, and marked', async (t) => {
  const { gate, recorder } = await openJournal(t);
  const call = { fun: 'test.ping', args: [], kwargs: new Map<string, string>() };
  const question = (...minions: readonly string[]): MinionQuestion => ({
    subject: { kind: 'minion', id: 'web1' },
    action: 'publish',
    resource: { calls: [call], minions },
  });
  gate.decide(question('db2', 'db1'));
  const text = learnedText(learnPolicy(recorder.list(), { generalise: false }));
  t.regex(text, /grants rights over other minions or the master/);
  const policy = read(text);
  t.is(effectOf(question('db2', 'db1'), policy), 'allow');
  t.is(effectOf(question('db1', 'db3'), policy), 'deny');
});

for (const [action, resource] of [
  ['file-send', { path: 'logs/[a].txt' }],
  ['key', { operation: 'revoke' }],
  ['mine', { fun: 'network.ip_addrs' }],
  ['runner', { call: { fun: 'jobs.list_jobs', args: ['x'], kwargs: new Map() } }],
] as const satisfies readonly (readonly [RuleAction, object])[]) {
  test(`a refused ${action} is learned`, async (t) => {
    const ask = (id: string): MinionQuestion =>
      // Each resource belongs to its action.
      ({ subject: { kind: 'minion', id }, action, resource }) as MinionQuestion;
    const { policy } = await learnFrom(t, [ask('web1')]);
    t.is(effectOf(ask('web1'), policy), 'allow');
    t.is(effectOf(ask('web2'), policy), 'deny');
  });
}

test('a learned rule names the owner of the mine, not all minions', async (t) => {
  const ask = (owner?: string): MinionQuestion => ({
    subject: { kind: 'minion', id: 'web1' },
    action: 'mine',
    resource: { fun: 'test.id', ...(owner === undefined ? {} : { owner }) },
  });
  const { policy } = await learnFrom(t, [ask(), ask('db1')]);
  t.deepEqual(
    [ask(), ask('db1'), ask('db2')].map((question) => effectOf(question, policy)),
    ['allow', 'allow', 'deny'],
  );
});

// In learning mode, a master permits only what a rule could permit.

const startEvent = recorded('minion_event', 'start event v3');
const id = keys.minionId;

async function start(t: ExecutionContext, acl: MasterOptions['acl']): Promise<VectorMaster> {
  return startVectorMaster(t, { config: { acl } });
}

async function isFired(master: VectorMaster, tag: string): Promise<boolean> {
  const request = altered(startEvent, { load: { tag, data: { ok: 1 }, nonce: freshNonce() } });
  return (await master.eventsDuring(() => master.ask(request))).some((event) => event.tag === tag);
}

test('an unowned tag is fired while learning, and refused otherwise', async (t) => {
  t.true(await isFired(await start(t, { mode: 'learn' }), 'my/tag'));
  t.false(await isFired(await start(t, {}), 'my/tag'));
});

for (const tag of [
  'salt/auth',
  'salt/key',
  'salt/job/20240102030405678000/ret/web2',
  'salt/minion/web2/start',
  'salt/beacon/web2/load/',
  'salt/state_result/web2/x',
  'saltbridge/denied/web2',
  'minion/refresh/web2',
  '///',
  'two\nlines',
]) {
  test(`${JSON.stringify(tag)} cannot be permitted by learning`, async (t) => {
    const master = await start(t, { mode: 'learn' });
    t.false(await isFired(master, tag));
    t.is((await master.master.acl.learn()).rules.length, 0);
  });
}

test('a rule that denies remains effective while learning', async (t) => {
  const rule = { subject: { minion: '*' }, action: 'signal', resource: { tag: 'no/*' } } as const;
  const master = await start(t, { mode: 'learn', rules: [deny('not that', rule)] });
  t.false(await isFired(master, 'no/x'));
  t.true(await isFired(master, 'yes/x'));
});

test('requests with power over others are recorded, and permitted only if the action is named', async (t) => {
  const revocation = recorded('aes_functions', 'revoke_auth disabled v3');
  const request = (): Buffer => altered(revocation, { load: { nonce: freshNonce() } });
  const careful = await start(t, { mode: 'learn' });
  await careful.ask(request());
  t.is((await careful.master.keys.list())[0]?.id, id);
  t.is((await careful.master.acl.learn()).rules[0]?.rule.action, 'key');
  const bold = await start(t, { mode: 'learn', learnActions: ['key'] });
  const minion = bold.dial(id);
  // The connection ends with the key, so there is no reply.
  const unanswered = t.throwsAsync(minion.request(request(), waitMs), { code: 'ERR_CLOSED' });
  const isGone = async (): Promise<boolean> => (await bold.master.keys.list()).length === 0;
  while (!(await isGone())) await setImmediate();
  await minion.close();
  await unanswered;
  t.deepEqual(await bold.master.keys.list(), []);
  t.false(await isFired(await start(t, { mode: 'learn', learnActions: ['key'] }), 'my/tag'));
});

test('a job requested by a minion while learning is recorded with its target', async (t) => {
  const options = recorded('aes_functions', '_master_opts v3');
  const master = await start(t, { mode: 'learn' });
  const nonce = freshNonce();
  const load = { cmd: 'minion_pub', nonce, id, tgt: '*', fun: 'test.ping', arg: [], ret: '' };
  const reply = await master.ask(altered(options, { load }));
  t.deepEqual({ ...Object(openReply(options, reply, nonce)) }, {});
  const [learned] = (await master.master.acl.learn()).rules;
  t.like(learned?.rule, { action: 'publish', resource: { within: `L@${id}` } });
});

test('active learned rules permit the same requests without learning', async (t) => {
  const master = await start(t, { mode: 'learn' });
  t.is((await master.master.status()).aclMode, 'learn');
  t.true(await isFired(master, 'my/tag'));
  const rules = (await master.master.acl.learn()).rules.map(({ rule }) => rule);
  const config = resolveMasterConfig({ ...directories(master.directory), acl: { rules } });
  await master.master.reload(config);
  t.is((await master.master.status()).aclMode, 'enforce');
  t.true(await isFired(master, 'my/tag'));
  t.false(await isFired(master, 'my/other'));
});

// Decisions are counted in memory, within limits, and the counts survive a restart.

const rule = { subject: { minion: '*' }, action: 'signal', resource: { tag: 'ok/*' } } as const;

test('repeated decisions are one record with times and a count', async (t) => {
  const { gate, recorder, clock } = await openJournal(t, { policy: policyOf([allow('ok', rule)]) });
  for (let index = 0; index < 1000; index += 1) gate.decide(signal('web1', 'ok/a', { n: index }));
  clock.now += 5000;
  gate.decide(signal('web1', 'ok/a', { n: 'text' }));
  gate.decide(signal('web1', 'no/a', null));
  t.like(recorder.list()[0], {
    minion: 'web1',
    texts: ['ok/a'],
    samples: [{ n: 0 }, { n: 'text' }],
    isWhole: true,
    effect: 'allow',
    rule: 'ok',
    count: 1001,
    firstAt: clock.now - 5000,
    lastAt: clock.now,
  });
  t.is(recorder.list().length, 2);
  t.is(recorder.list(clock.now + 1).length, 0);
});

test('requests that need no rule are not recorded', async (t) => {
  const { gate, recorder } = await openJournal(t);
  gate.decide(signal('web1', 'salt/beacon/web1/load/', {}));
  gate.decide(signal('web1', 'salt/minion/web1/start', {}));
  t.deepEqual(recorder.list(), []);
});

test('records survive, and continue to be counted; the store contains no readable data', async (t) => {
  const first = await openJournal(t);
  first.gate.decide(signal('web1', 'my/tag', { password: 'hunter2' }));
  await first.recorder.close();
  const { store } = first;
  for await (const { value } of store.list(['decisions'])) {
    const bytes = Buffer.from(value).toString('latin1');
    t.false(bytes.includes('hunter2') || bytes.includes('my/tag'));
  }
  const second = await openJournal(t, { store });
  second.gate.decide(signal('web1', 'my/tag', { password: 'other' }));
  t.like(second.recorder.list()[0], { count: 2, samples: [{ password: 'hunter2' }] });
  await second.recorder.clear();
  t.deepEqual((await openJournal(t, { store })).recorder.list(), []);
});

test('without record_data, shapes are stored without values', async (t) => {
  const { gate, recorder } = await openJournal(t, { storesValues: false });
  gate.decide(signal('web1', 'my/tag', { a: 'secret', b: [1.5, true], c: null }));
  t.deepEqual(recorder.list()[0]?.samples, [{ a: '', b: [0.5, false], c: null }]);
});

test('a minion that invents tags does not evict records of others', async (t) => {
  const { gate, recorder, clock } = await openJournal(t);
  gate.decide(signal('web1', 'my/tag'));
  for (let index = 0; index < 20_000; index += 1) {
    clock.now += 100;
    gate.decide(signal('bad', `tag/${index}`));
  }
  const records = recorder.list();
  t.is(records.length, 201);
  t.is(records[0]?.minion, 'web1');
  t.is(recorder.missed, 19_800);
});

test('the records of many minions that invent tags are limited together', async (t) => {
  const { gate, recorder, clock } = await openJournal(t);
  for (let index = 0; index < 6000; index += 1) {
    clock.now += 1;
    gate.decide(signal(`m${index}`, 'x'));
  }
  t.is(recorder.list().length, 5000);
  t.false(recorder.list().some(({ minion }) => minion === 'm0'));
  t.is(recorder.missed, 1000);
});

test('too many, too large or unserializable data are reported as missing', async (t) => {
  const { gate, recorder } = await openJournal(t);
  for (let index = 0; index < 9; index += 1) {
    gate.decide(signal('web1', 'many', { [`name${index}`]: 1 }));
  }
  gate.decide(signal('web1', 'large', { text: 'x'.repeat(3000) }));
  gate.decide(signal('web1', 'bytes', new Uint8Array(3)));
  gate.decide(signal('web1', 'nothing'));
  for (const { texts, isWhole } of recorder.list()) t.false(isWhole, texts[0]);
});

// Past decisions are evaluated with another policy.

function signalGrant(tag: string, schema?: unknown): Parameters<typeof allow<'signal'>>[1] {
  const resource = schema === undefined ? { tag } : { tag, schema };
  return { subject: { minion: '*' }, action: 'signal', resource };
}

const inForce = [
  allow('site', signalGrant('site/*')),
  deny('not that', signalGrant('site/secret')),
];

test('exactly the decisions that would change are named', async (t) => {
  const { gate, recorder } = await openJournal(t, { policy: policyOf(inForce) });
  for (const tag of ['site/a', 'site/b', 'site/c', 'site/secret', 'new/x', 'salt/auth']) {
    gate.decide(signal('web1', tag, { tag }));
  }
  const next: PolicyRule[] = [
    allow('only a', signalGrant('site/a')),
    allow('site', signalGrant('site/c')),
    allow('new', signalGrant('new/*')),
    deny('not that', signalGrant('site/secret')),
  ];
  const report = replay(recorder.list(), policyOf(next), 0);
  t.deepEqual(
    report.changes.map(({ kind, recorded: { texts }, decision }) => [
      kind,
      texts[0],
      decision.rule,
    ]),
    [
      ['other-rule', 'site/a', 'only a'],
      ['denied', 'site/b', 'default-deny'],
      ['allowed', 'new/x', 'new'],
    ],
  );
  t.like(report, { decisions: 6, requests: 6, uncertain: 0 });
  t.deepEqual(replay(recorder.list(), policyOf(inForce), 0).changes, []);
});

test('a schema is checked with recorded data, and one example that fails is enough', async (t) => {
  const { gate, recorder } = await openJournal(t, { policy: policyOf(inForce) });
  gate.decide(signal('web1', 'site/a', { env: 'test' }));
  gate.decide(signal('web1', 'site/a', { env: 'test', more: 1 }));
  const schema = { type: 'object', maxProperties: 1 };
  const next = policyOf([allow('site', signalGrant('site/*', schema))]);
  const report = replay(recorder.list(), next, 0);
  t.is(report.changes[0]?.kind, 'denied');
});

test("a running master replays its minions' requests without using up limits", async (t) => {
  const signals = [{ tag: 'site/*', minions: '*', rate: '1/day' }];
  const master = await startVectorMaster(t, { config: { acl: { signals } } });
  const event = recorded('minion_event', 'start event v3');
  await master.ask(altered(event, { load: { tag: 'site/a', nonce: freshNonce() } }));
  const rules = [allow('once', { ...signalGrant('site/a'), rate: '1/day' })];
  for (let round = 0; round < 3; round += 1) {
    const { changes } = await master.master.acl.replay({ rules });
    t.deepEqual(
      changes.map(({ kind }) => kind),
      ['other-rule'],
    );
  }
  const broken = [{ ...rules[0], resource: {} }] as never;
  await t.throwsAsync(master.master.acl.replay({ rules: broken }), { code: 'ERR_POLICY_FORM' });
  await master.master.acl.forget();
  t.is((await master.master.acl.replay({ rules })).decisions, 0);
});
