import {
  allow,
  createPolicy,
  decide,
  deny,
  type Policy,
  type PolicyRule,
  type Question,
} from '#acl';
import { policySyntax } from '#config';

const rounds = 200_000;

const never = (): boolean => false;
const world = {
  ...policySyntax,
  target: () => ({ isEntitled: never, claims: never, mayMean: never }),
  pillarOf: () => undefined,
  now: () => 0,
};

/**
 * Returns the policy of a large site: tags and functions of many teams. Some rules apply to all
 * minions, others only to a few.
 */
function rulesOfASite(count: number): PolicyRule[] {
  return Array.from({ length: count }, (_, index): PolicyRule => {
    const name = `rule ${index}`;
    const subject = { minion: index % 3 === 0 ? '*' : `team${index % 50}-*` };
    const resource = { tag: index % 2 === 0 ? `team${index}/*` : `team${index}/done` };
    const rule = { subject, action: 'signal', resource } as const;
    return index % 10 === 9 ? deny(name, rule) : allow(name, rule);
  });
}

/**
 * Returns the most expensive kind of policy: every rule applies to the sender, and all patterns are
 * similar.
 */
function alikeRules(tagOf: (index: number) => string): PolicyRule[] {
  return Array.from({ length: 1000 }, (_, index) =>
    allow(`rule ${index}`, {
      subject: { minion: 'team*' },
      action: 'signal',
      resource: { tag: tagOf(index) },
    }),
  );
}

const alike: Readonly<Record<string, (index: number) => string>> = {
  'end in the same way': (index) => `*/app${index}/failed`,
  'begin with a wildcard': (index) => `*x${index}`,
  'have wildcards around': (index) => `*/app${index}/*`,
  'begin in the same way': (index) => `forbidden/app${index}/*`,
  'hold the id': (index) => `forbidden/\${minion.id}/app${index}/*`,
};

function signal(id: string, tag: string): Question {
  return {
    subject: { kind: 'minion', id },
    action: 'signal',
    resource: { tag, wasPublishedToSubject: () => false },
  };
}

function microseconds(policy: Policy | undefined, questions: readonly Question[]): number {
  const work = (count: number): void => {
    for (let round = 0; round < count; round += 1) {
      const question = questions[round % questions.length];
      if (question !== undefined) decide(question, policy);
    }
  };
  work(rounds / 10);
  const before = process.cpuUsage();
  work(rounds);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / rounds;
}

/** Measures the processor time of a policy decision, in microseconds, for different policies. */
export function benchAcl(): Record<string, number> {
  const minions = Array.from({ length: 1000 }, (_, index) => `team${index % 50}-web${index}`);
  const site = createPolicy(rulesOfASite(1000), world);
  const own = minions.map((id) => signal(id, `salt/beacon/${id}/load/`));
  const allowed = minions.map((id, index) => signal(id, `team${(index * 6) % 1000}/done`));
  const refused = minions.map((id, index) => signal(id, `forbidden/${id}/app/${index}/failed`));
  return {
    'no rules, own beacon': microseconds(undefined, own),
    'no rules, refused': microseconds(undefined, refused),
    '1,000 rules, own beacon': microseconds(site, own),
    '1,000 rules, permitted': microseconds(site, allowed),
    '1,000 rules, refused': microseconds(site, refused),
    ...Object.fromEntries(
      Object.entries(alike).map(([what, tagOf]) => [
        `1,000 rules that ${what}, denied`,
        microseconds(createPolicy(alikeRules(tagOf), world), refused),
      ]),
    ),
  };
}
