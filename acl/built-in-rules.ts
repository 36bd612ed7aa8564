/**
 * What an unmodified minion says of itself without being asked, under its own id. It works
 * without any policy; everything else that a minion may emit needs a rule of the operator's.
 */

import type { BuiltInRule, Decision, Subject } from './types.ts';

const plainTags: ReadonlySet<string> = new Set(['minion_start', 'minion_ping', '_salt_error']);
const progressTag = /^salt\/job\/(\d{20}(?:_\w{1,64})?)\/prog\/(.+)\/\d{1,10}$/s;
const jobStartTag = /^salt\/job\/(\d{20}(?:_\w{1,64})?)\/start\/(.+)$/s;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it finds
const forbiddenCharacters = /[\u0000-\u001f\u007f]/;
const maxTagLength = 512;

function isMalformed(tag: string): boolean {
  return tag === '' || tag.length > maxTagLength || forbiddenCharacters.test(tag);
}

/** Asked before anything else. */
export const signalGuards: readonly BuiltInRule<'signal'>[] = [
  {
    name: 'well-formed-tag',
    effect: 'deny',
    judge: ({ resource }) =>
      isMalformed(resource.tag)
        ? `a tag has 1 to ${maxTagLength} characters and no control characters`
        : undefined,
  },
];

/** What minions may without a rule of the operator's. */
export const lifecycleSignals: readonly BuiltInRule<'signal'>[] = [
  {
    name: 'own-lifecycle',
    effect: 'allow',
    judge: ({ subject, resource }) =>
      subject.kind === 'minion' &&
      (plainTags.has(resource.tag) || resource.tag === `salt/minion/${subject.id}/start`)
        ? 'a minion may say that it started, lives, or failed'
        : undefined,
  },
  {
    name: 'own-beacons',
    effect: 'allow',
    judge: ({ subject, resource }) => {
      const id = idOf(subject);
      if (id === undefined) return undefined;
      const prefix = `salt/beacon/${id}/`;
      return resource.tag.startsWith(prefix) && resource.tag.length > prefix.length
        ? 'a minion may report its own beacons'
        : undefined;
    },
  },
  ownJobSignal(
    'own-progress',
    progressTag,
    'a minion may report the progress of a job that was published to it',
  ),
  // `start_event` of 3008 and later.
  ownJobSignal(
    'own-job-start',
    jobStartTag,
    'a minion may report that it begins a job that was published to it',
  ),
];

const lifecycleRuleNames: ReadonlySet<string> = new Set(lifecycleSignals.map(({ name }) => name));

/** Whether a minion may do so without a rule of the operator's. */
export function isLifecycleDecision({ rule, origin }: Decision): boolean {
  return origin === undefined && lifecycleRuleNames.has(rule);
}

/** @param form - of tags; its groups are the jid and the id of the minion */
function ownJobSignal(name: string, form: RegExp, reason: string): BuiltInRule<'signal'> {
  return {
    name,
    effect: 'allow',
    judge: ({ subject, resource }) => {
      const [, jid, id] = form.exec(resource.tag) ?? [];
      const isOwn = jid !== undefined && id === idOf(subject);
      return isOwn && resource.wasPublishedToSubject(jid) ? reason : undefined;
    },
  };
}

function idOf(subject: Subject): string | undefined {
  return subject.kind === 'minion' ? subject.id : undefined;
}

// Reserved tags: the master fires them itself, and reactors trust them. No rule permits minions to
// emit them.

/** Where a master fires events of its own [salt.utils.event tagify, and its older tags]. */
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

/** One look at a tag, because every signal that needs a rule is asked about it. */
const reservedBeginning = new RegExp(`^(?:${reservedPrefixes.join('|')})(?:/|$)`);
const reservedTags: ReadonlySet<string> = new Set(['auth', 'key', 'new_job', 'salt_error']);
const jidTag = /^\d{20}(_|$)/;
const stateResult = /^salt\/state_result\/([^/]+)\//;

/** Whether only the master fires this tag, so that no grant can be about it. */
export function isReservedTag(tag: string): boolean {
  return reservedBeginning.test(tag) || reservedTags.has(tag) || jidTag.test(tag);
}

/** Asked before the operator's rules that permit. */
export const signalLimits: readonly BuiltInRule<'signal'>[] = [
  {
    name: 'masters-own-tags',
    effect: 'deny',
    // protection: masters-tags
    judge: ({ resource }) =>
      isReservedTag(resource.tag) ? 'the tag is one that only the master fires' : undefined,
  },
  {
    /** `fire_event` of a state puts the id into the tag. [salt.state State.event] */
    name: 'own-state-results',
    effect: 'deny',
    judge: ({ subject, resource }) => {
      const id = stateResult.exec(resource.tag)?.[1];
      return id === undefined || (subject.kind === 'minion' && id === subject.id)
        ? undefined
        : 'a minion may report results of its own states alone';
    },
  },
];

// Guards: denied whatever rules grant.

export const publishGuards: readonly BuiltInRule<'publish'>[] = [
  {
    name: 'no-publishing-of-publishing',
    effect: 'deny',
    judge: ({ subject, resource }) =>
      subject.kind === 'minion' && resource.calls.some(({ fun }) => fun.startsWith('publish.'))
        ? 'a published job may not publish another'
        : undefined,
  },
];

export const mineGuards: readonly BuiltInRule<'mine'>[] = [
  {
    name: 'allow_tgt',
    effect: 'deny',
    judge: ({ resource }) =>
      resource.isAllowedByOwner?.() === false ? 'its owner keeps it for others' : undefined,
  },
];

// Returns: accepted for jobs that were published to the sender, and for its self-made jobs.

type Fun = string | readonly string[];

function isSameFun(published: Fun, returned: Fun): boolean {
  if (published === returned) return true;
  const [left, right] = [[published].flat(), [returned].flat()];
  // protection: another-function
  return left.length === right.length && left.every((fun, index) => fun === right[index]);
}

export const returnRules: readonly BuiltInRule<'return'>[] = [
  {
    name: 'own-resource',
    effect: 'deny',
    judge: ({ subject, resource: { managed } }) =>
      managed === undefined || managed.isOwn
        ? undefined
        : `${subject.id} has not registered the resource ${managed.id}`,
  },
  {
    name: 'self-made-job',
    effect: 'allow',
    judge: ({ resource }) =>
      resource.jid === 'req' ? 'a minion may report a job that it started itself' : undefined,
  },
  {
    name: 'known-job',
    effect: 'deny',
    judge: ({ resource }) =>
      resource.job === undefined ? `no job ${resource.jid} was published` : undefined,
  },
  {
    name: 'addressee-only',
    effect: 'deny',
    // protection: returns-for-others
    judge: ({ subject, resource }) =>
      resource.job?.minions.has(subject.id)
        ? undefined
        : `job ${resource.jid} was not published to ${subject.id}`,
  },
  {
    name: 'published-function',
    effect: 'deny',
    judge: ({ resource }) =>
      resource.job !== undefined && !isSameFun(resource.job.fun, resource.fun)
        ? `job ${resource.jid} was published for another function`
        : undefined,
  },
  {
    name: 'published-to-sender',
    effect: 'allow',
    judge: () => 'the job was published to this minion',
  },
];
