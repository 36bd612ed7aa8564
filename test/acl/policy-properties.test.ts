/** What holds for every policy: the fast decision is the plain one, and denying never widens. */
import test from 'ava';
import fc from 'fast-check';
import {
  allow,
  type Call,
  decide,
  deny,
  type KeystoneEntity,
  type PolicyRule,
  type ProjectSubject,
  type Question,
  type Subject,
  type TextPatterns,
} from '../../acl/index.ts';
import { compileGlob, compileWholePattern } from '../../minion-protocol/index.ts';
import { policyOf } from '../helpers/policies.ts';

const names = ['web1', 'web2', 'db1', 'w', ''];
const funs = ['test.ping', 'test.echo', 'cmd.run', 'state.apply', 'testXping'];
const tags = [
  'my/tag',
  'my/other',
  'my',
  'infra/web1/done',
  'infra/web2/done',
  'infra/web1/app17/failed',
  'infra/web2/app18/failed',
  'x',
  'm[y/tag',
];

const roles = ['member', 'admin'];
const domains = ['Default', 'web1'];

const name = fc.constantFrom(...names);
const somePatterns = (texts: readonly string[]): fc.Arbitrary<TextPatterns> => {
  const one = fc.oneof(
    fc.constantFrom(...texts),
    fc.constantFrom('*', 'w*', 't*', 'test.*', '*.run', 'my/*', '*1', 'te?t.ping', '[cs]*'),
    fc.constantFrom('.*', 'test\\..*', 'test.ping', 'w.*|db1', 'x').map((regex) => ({ regex })),
  );
  return fc.oneof(one, fc.array(one, { minLength: 1, maxLength: 3 }));
};

const subjectPattern = fc.oneof(
  fc.record({ minion: somePatterns(names) }),
  fc.record({ minion: somePatterns(names), except: somePatterns(names) }),
  fc.record({ user: somePatterns(names) }),
  fc.record({ group: somePatterns(['ops', 'dev']) }),
  fc.record({ service: somePatterns(names) }),
  fc.record(
    {
      project: somePatterns(names),
      role: somePatterns(roles),
      domain: somePatterns(domains),
      user: somePatterns(names),
      except: somePatterns(names),
    },
    { requiredKeys: ['role'] },
  ),
);

const argumentPattern = fc.record({
  args: fc.array(fc.constantFrom(null, 'a', '*', { regex: 'a|b' }), { maxLength: 2 }),
});

const publishRule = fc
  .record({
    effect: fc.constantFrom('allow', 'deny'),
    subject: subjectPattern,
    fun: somePatterns(funs),
    conditions: fc.option(fc.array(argumentPattern, { minLength: 1, maxLength: 2 })),
    within: fc.option(fc.constantFrom('web*', 'db*')),
  })
  .map(({ effect, subject, fun, conditions, within }): PolicyRule => {
    const resource = {
      fun,
      ...(conditions === null ? {} : { arguments: conditions }),
      ...(within === null ? {} : { within }),
    };
    const rule = { subject, action: 'publish', resource } as const;
    return effect === 'allow' ? allow('a', rule) : deny('d', rule);
  });

const signalRule = fc
  .record({
    effect: fc.constantFrom('allow', 'deny'),
    subject: subjectPattern,
    tag: fc.constantFrom(
      ...tags.filter((tag) => !tag.includes('[')),
      ...['my/*', 'm*', '*a*', '*/done', '*app1?*', '*[/]app17/*', '*/app17/failed', 'm[!/]/*'],
      ...['m[y/*', 'm[[]y*', 'm[]]y/tag', 'm[y]/t*', '?nfra/*/*/*', '*infra*failed*'],
      ...[`infra/\${minion.id}/*`, `\${minion.id}x`, `infra/\${minion.id}/app17/*`],
      ...[`infra/\${minion.id}/app1[78]/failed`, `infra/\${minion.id}/done`],
    ),
  })
  .map(({ effect, subject, tag }): PolicyRule => {
    const rule = { subject, action: 'signal', resource: { tag } } as const;
    return effect === 'allow' ? allow('a', rule) : deny('d', rule);
  });

const rules = fc.array(fc.oneof(publishRule, signalRule), { maxLength: 12 });

/** Ids are nobody's names here, but for what patterns make of them. */
const entity: fc.Arbitrary<KeystoneEntity> = fc
  .record({ id: fc.constantFrom('0a', 'x'), name, domain: fc.constantFrom(...domains) })
  .map(({ domain, ...it }) => ({ ...it, domain: { id: domain.toLowerCase(), name: domain } }));

const subject: fc.Arbitrary<Subject> = fc.oneof(
  name.map((id): Subject => ({ kind: 'minion', id })),
  fc
    .record({ name, groups: fc.subarray(['ops', 'dev']) })
    .map((user): Subject => ({ kind: 'user', ...user })),
  name.map((it): Subject => ({ kind: 'service', name: it })),
  fc
    .record({ project: entity, user: entity, roles: fc.subarray(roles) })
    .map((it): Subject => ({ kind: 'project', ...it })),
);

const call: fc.Arbitrary<Call> = fc
  .record({
    fun: fc.constantFrom(...funs),
    args: fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 2 }),
  })
  .map((it) => ({ ...it, kwargs: new Map() }));

const question: fc.Arbitrary<Question> = fc.oneof(
  fc
    .record({
      subject,
      calls: fc.array(call, { maxLength: 3 }),
      minions: fc.subarray(['web1', 'db1', 'x1']),
    })
    .map(
      ({ calls, minions, ...it }): Question => ({
        ...it,
        action: 'publish',
        resource: { calls, minions },
      }),
    ),
  fc.record({ subject, tag: fc.constantFrom(...tags) }).map(
    ({ tag, ...it }): Question => ({
      ...it,
      action: 'signal',
      resource: { tag, wasPublishedToSubject: () => false },
    }),
  ),
);

/** The same decision without any index or memory. */
function plainEffect(all: readonly PolicyRule[], asked: Question): 'allow' | 'deny' {
  const applies = (rule: PolicyRule, one: Call | string, on: string | undefined): boolean =>
    rule.action === asked.action && isAbout(rule, asked.subject) && meets(rule, asked, one, on);
  const things: readonly (Call | string)[] =
    asked.action === 'publish'
      ? asked.resource.calls
      : asked.action === 'signal'
        ? [asked.resource.tag]
        : [];
  const minions = asked.action === 'publish' ? (asked.resource.minions ?? []) : [undefined];
  const has = (effect: string, one: Call | string, on: string | undefined): boolean =>
    all.some((rule) => rule.effect === effect && applies(rule, one, on));
  const isPermitted = things.every((one) =>
    minions.every((on) => !has('deny', one, on) && has('allow', one, on)),
  );
  return things.length > 0 && minions.length > 0 && isPermitted ? 'allow' : 'deny';
}

function isAbout({ effect, subject: pattern }: PolicyRule, asked: Subject): boolean {
  const { minion, user, group, service, except } = pattern;
  if (asked.kind === 'project') return isAboutProject(effect, pattern, asked);
  const own = asked.kind === 'minion' ? asked.id : asked.name;
  if (except !== undefined && matches(except, own)) return false;
  if (asked.kind === 'minion') return minion !== undefined && matches(minion, own);
  if (asked.kind === 'service') return service !== undefined && matches(service, own);
  if (asked.kind !== 'user' || pattern.role !== undefined) return false;
  if (user !== undefined) return matches(user, own);
  return group !== undefined && asked.groups.some((it) => matches(group, it));
}

function isAboutProject(
  effect: PolicyRule['effect'],
  { project = '*', role, user, domain, except = [] }: PolicyRule['subject'],
  asked: ProjectSubject,
): boolean {
  const domains = domain ?? (effect === 'deny' ? '*' : 'Default');
  const means = (patterns: TextPatterns, it: { readonly id: string; readonly name: string }) =>
    matches(patterns, it.id) || matches(patterns, it.name);
  const isUser = (patterns: TextPatterns): boolean =>
    means(patterns, asked.user) && means(domains, asked.user.domain);
  return (
    role !== undefined &&
    asked.roles.some((it) => matches(role, it)) &&
    means(project, asked.project) &&
    means(domains, asked.project.domain) &&
    (user === undefined || isUser(user)) &&
    !means(except, asked.project)
  );
}

function meets(
  rule: PolicyRule,
  asked: Question,
  one: Call | string,
  on: string | undefined,
): boolean {
  if (rule.action === 'signal' && typeof one === 'string') {
    const { tag } = rule.resource;
    if (!tag.includes('$')) return matches(tag, one);
    if (asked.subject.kind !== 'minion' || asked.subject.id === '') return false;
    // The ids of this test have no wildcards.
    return matches(tag.replaceAll(`\${minion.id}`, asked.subject.id), one);
  }
  if (rule.action !== 'publish' || asked.action !== 'publish' || typeof one === 'string')
    return false;
  const { fun, within, arguments: conditions } = rule.resource;
  const isMet = ({ args = [] }: { readonly args?: readonly unknown[] }): boolean =>
    args.every((pattern, index) => {
      const given = one.args[index];
      return given !== undefined && (pattern === null || matches(pattern as TextPatterns, given));
    });
  return (
    matches(fun, one.fun) &&
    (within === undefined || matches(within, on ?? '')) &&
    (conditions === undefined || conditions.some(isMet))
  );
}

function matches(patterns: TextPatterns, text: string): boolean {
  return [patterns]
    .flat()
    .some((pattern) =>
      typeof pattern === 'string'
        ? compileGlob(pattern)(text)
        : compileWholePattern((pattern as { readonly regex: string }).regex)(text),
    );
}

const runs = { numRuns: 3000 };

test('the fast decision equals the plain one', (t) => {
  const property = fc.property(rules, fc.array(question, { maxLength: 4 }), (all, questions) => {
    const policy = policyOf(all);
    for (const asked of questions) t.is(decide(asked, policy).effect, plainEffect(all, asked));
  });
  fc.assert(property, runs);
});

test('adding a rule that denies, or removing one that allows, never widens', (t) => {
  const property = fc.property(rules, fc.nat(), question, (all, at, asked) => {
    const full = decide(asked, policyOf(all)).effect;
    const chosen = all[at % Math.max(1, all.length)];
    const without = policyOf(all.filter((rule) => rule !== chosen));
    const fewer = decide(asked, without).effect;
    if (chosen?.effect === 'allow' && full === 'deny') t.is(fewer, 'deny');
    if (chosen?.effect === 'deny' && full === 'allow') t.is(fewer, 'allow');
  });
  fc.assert(property, runs);
});

test('decisions are the same in whatever order rules stand, and whoever was asked about before', (t) => {
  const property = fc.property(rules, fc.array(question, { maxLength: 6 }), (all, questions) => {
    const [forwards, backwards] = [policyOf(all), policyOf([...all].reverse())];
    for (const asked of [...questions, ...questions.reverse()]) {
      t.is(decide(asked, forwards).effect, decide(asked, backwards).effect);
    }
  });
  fc.assert(property, { numRuns: 1000 });
});
