import type { BuiltInRule } from './types.ts';

/**
 * Prefixes of the tags that a master fires itself [salt.utils.event tagify, and its older tags].
 */
const reservedPrefixes: readonly string[] = [
  'salt/auth',
  'salt/batch',
  'salt/beacon',
  'salt/cloud',
  'salt/event',
  'salt/fileserver',
  'salt/job',
  'salt/key',
  'salt/minion',
  'salt/netapi',
  'salt/presence',
  'salt/queue',
  'salt/run',
  'salt/stats',
  'salt/syndic',
  'salt/wheel',
  'saltbridge',
  'cluster',
  'minion/refresh',
  'resource/refresh',
];

/**
 * One regular expression for all prefixes, which is faster than a test of each prefix. It is
 * evaluated for every signal that needs a rule.
 */
const reservedBeginning = new RegExp(`^(?:${reservedPrefixes.join('|')})(?:/|$)`);
const reservedTags: ReadonlySet<string> = new Set(['auth', 'key', 'new_job', 'salt_error']);
const jidTag = /^\d{20}(_|$)/;
const stateResult = /^salt\/state_result\/([^/]+)\//;

/** Whether only the master may fire this tag, so that no rule can allow it. */
export function isReservedTag(tag: string): boolean {
  return reservedBeginning.test(tag) || reservedTags.has(tag) || jidTag.test(tag);
}

/** Built-in limits on signals. They override rules of the operator that allow a signal. */
export const signalLimits: readonly BuiltInRule<'signal'>[] = [
  {
    name: 'masters-own-tags',
    effect: 'deny',
    judge: ({ resource }) =>
      isReservedTag(resource.tag) ? 'the tag is reserved for the master' : undefined,
  },
  {
    /**
     * Denies tags of the form `salt/state_result/ID/…`, unless ID is the minion that sends the
     * signal. A state with `fire_event` creates these tags [salt.state State.event].
     */
    name: 'own-state-results',
    effect: 'deny',
    judge: ({ subject, resource }) => {
      const id = stateResult.exec(resource.tag)?.[1];
      return id === undefined || (subject.kind === 'minion' && id === subject.id)
        ? undefined
        : 'a minion may only report results of its own states';
    },
  },
];
