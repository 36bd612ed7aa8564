/** What is learned permits what was asked for, and nothing else. */
import type { ExecutionContext } from 'ava';
import { type Policy, type RuleAction, deny, explain, isGrantable, lintPolicy } from '../../../acl/index.ts';
import { completeSettings } from '../../../master/config/load.ts';
import { parseConfigFile } from '../../../master/config/read-files.ts';
import { rulesOf } from '../../../master/config/policy-rules.ts';
import { shapeOf } from '../../../master/users/decisions.ts';
import { learnPolicy, learnedText } from '../../../master/users/learn.ts';
import type { MinionQuestion } from '../../../master/users/policy.ts';
import type { WireValue } from '../../../minion-protocol/index.ts';
import { policyOf } from '../../helpers/policies.ts';
import { type JournalOptions, openJournal, signal } from './helpers.ts';
import test, {} from 'ava';
import fc from 'fast-check';

/** What was asked, as the file that is learned from it, and that file as a policy. */
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
  const config = completeSettings(parseConfigFile(text, 'learned.conf'), 'master');
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

test('what was seen is permitted, and no other minion, tag or shape of data is', async (t) => {
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
    { numRuns: 150 },
  );
});

/** A list of none fits wherever a list of some does, and whole numbers are numbers. */
function isSeen(shapes: readonly (string | undefined)[], data: WireValue): boolean {
  const shape = shapeOf(data);
  return shapes.includes(shape) || /\[|integer/.test(shape ?? '');
}

test('what is learned passes the check of a policy', async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.array(asked, { maxLength: 12 }), async (seen) => {
      const questions = seen.map(({ id, tag, data }) => signal(id, tag, data));
      const { policy, text } = await learnFrom(t, questions);
      const accepted = seen.map(({ id }) => id);
      t.deepEqual(lintPolicy(policy, accepted), [], text);
    }),
    {
      numRuns: 80,
      // What chance seldom brings: tags that no rule may name.
      examples: [
        [[{ id: 'web1', tag: 'salt/auth', data: null }]],
        [[{ id: 'web1', tag: 'bad\ntag: x', data: null }]],
      ],
    },
  );
});

test('what no rule can permit is named and not learned', async (t) => {
  const { text, policy } = await learnFrom(t, [
    signal('web1', 'salt/auth'),
    signal('web1', 'salt/job/20240102030405678000/ret/web2'),
    signal('web1', 'salt/state_result/web2/x'),
    signal('web1', '///'),
    signal('web1', 'bad\ntag: x'),
  ]);
  t.is(policy.rules.length, 0);
  t.is(text.split('\n').filter((line) => line.startsWith('# no rule can permit it')).length, 5);
});

test('what a rule denies stays denied', async (t) => {
  const rule = { subject: { minion: '*' }, action: 'signal', resource: { tag: 'no/*' } } as const;
  const policy = policyOf([deny('not that', rule)]);
  const learned = await learnFrom(t, [signal('web1', 'no/x')], { policy });
  t.is(learned.policy.rules.length, 0);
  t.regex(learned.text, /^# denied by not that/m);
});

test('the sender in a tag becomes a placeholder where that is asked for', async (t) => {
  const questions = ['web1', 'web2'].map((id) => signal(id, `deploy/${id}/done`, { ok: true }));
  const { policy } = await learnFrom(t, questions, { generalise: true });
  t.is(policy.rules.length, 1);
  for (const question of questions) t.is(effectOf(question, policy), 'allow');
  t.is(effectOf(signal('web1', 'deploy/web2/done', { ok: true }), policy), 'deny');
  t.is((await learnFrom(t, questions)).policy.rules.length, 2);
});

test('jobs are learned with the minions that they were for, and marked', async (t) => {
  const { gate, recorder } = await openJournal(t);
  const call = { fun: 'test.ping', args: [], kwargs: new Map<string, string>() };
  const question = (...minions: readonly string[]): MinionQuestion => ({
    subject: { kind: 'minion', id: 'web1' },
    action: 'publish',
    resource: { calls: [call], minions },
  });
  gate.decide(question('db2', 'db1'));
  const text = learnedText(learnPolicy(recorder.list(), { generalise: false }));
  t.regex(text, /gives power beyond the minion itself/);
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
      // Each resource is of its action.
      ({ subject: { kind: 'minion', id }, action, resource }) as MinionQuestion;
    const { policy } = await learnFrom(t, [ask('web1')]);
    t.is(effectOf(ask('web1'), policy), 'allow');
    t.is(effectOf(ask('web2'), policy), 'deny');
  });
}

test('whose mine was read is what is learned, not that of all', async (t) => {
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
