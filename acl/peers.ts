/** What a minion may have from beyond itself: others' mine, jobs on others, runners. */
import { type FunctionGrant, type Grant, namesCall } from './grants.ts';
import type { Call, QuestionOf, Rule } from './types.ts';

interface Found {
  readonly grant: Grant;
  readonly entry: FunctionGrant;
}

function findGrant(
  grants: readonly Grant[],
  minionId: string,
  call: Call,
  isWithin: (target: string) => boolean,
): Found | undefined {
  for (const grant of grants) {
    if (!grant.minion.matches(minionId)) continue;
    const entry = grant.functions.find(
      (one) => namesCall(one, call) && (one.within === undefined || isWithin(one.within)),
    );
    if (entry !== undefined) return { grant, entry };
  }
  return undefined;
}

function explain(found: readonly (Found | undefined)[]): string | undefined {
  if (found.length === 0) return undefined;
  const reasons: string[] = [];
  for (const one of found) {
    if (one === undefined) return undefined;
    reasons.push(`"${one.grant.minion.source}" has "${one.entry.fun.source}"`);
  }
  return [...new Set(reasons)].join('; ');
}

export const publishRules: readonly Rule<QuestionOf<'publish'>>[] = [
  {
    name: 'no-publishing-of-publishing',
    effect: 'deny',
    judge: ({ resource }) =>
      resource.calls.some(({ fun }) => fun.startsWith('publish.'))
        ? 'a published job may not publish another'
        : undefined,
  },
  {
    name: 'peer',
    effect: 'allow',
    // Every function of a list, each with its arguments.
    judge: ({ subject, grants, resource }) =>
      explain(resource.calls.map((call) => findGrant(grants, subject.id, call, resource.isWithin))),
  },
];

export const runnerRules: readonly Rule<QuestionOf<'runner'>>[] = [
  {
    name: 'peer_run',
    effect: 'allow',
    judge: ({ subject, grants, resource }) =>
      explain([findGrant(grants, subject.id, resource.call, () => false)]),
  },
];

export const mineRules: readonly Rule<QuestionOf<'mine'>>[] = [
  {
    name: 'mine',
    effect: 'allow',
    judge: ({ grants }) => (grants === undefined ? 'the option mine_get limits nobody' : undefined),
  },
  {
    name: 'mine_get',
    effect: 'allow',
    judge: ({ subject, grants = [], resource }) => {
      const call = { fun: resource.fun, args: [], kwargs: new Map() };
      return explain([findGrant(grants, subject.id, call, () => false)]);
    },
  },
];
