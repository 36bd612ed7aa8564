/**
 * What an operator lets minions emit beyond their own lifecycle. No grant, however wide, reaches
 * the tags that the master itself fires: reactors and other readers trust those.
 */
import type { QuestionOf, Rule } from './types.ts';

type SignalQuestion = QuestionOf<'signal'>;

/** A tag, or tags, that minions may emit. */
export interface SignalGrant {
  /** What the grant is called where a decision is explained. */
  readonly name: string;
  /** Whether it is about this tag. */
  readonly coversTag: (tag: string) => boolean;
  /** Whether it is about this minion. */
  readonly coversMinion: (id: string) => boolean;
}

/** The rules of an operator, in the order in which they are asked. */
export interface SignalPolicy {
  readonly rules: readonly Rule<SignalQuestion>[];
}

/** Where a master fires events of its own [salt.utils.event tagify, and its older tags]. */
const mastersPrefixes: readonly string[] = [
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
  'cluster',
  'minion/refresh',
];

const mastersTags: ReadonlySet<string> = new Set(['auth', 'key', 'new_job', 'salt_error']);
const jidTag = /^\d{20}(_|$)/;
const stateResult = /^salt\/state_result\/([^/]+)\//;

/** Whether only the master fires this tag, so that no grant can be about it. */
export function isMastersTag(tag: string): boolean {
  return (
    mastersTags.has(tag) ||
    jidTag.test(tag) ||
    mastersPrefixes.some((prefix) => tag === prefix || tag.startsWith(`${prefix}/`))
  );
}

/** The policy that these grants make; without grants nothing is added to what minions may do. */
export function createSignalPolicy(grants: readonly SignalGrant[]): SignalPolicy {
  if (grants.length === 0) return { rules: [] };
  return { rules: [mastersOwnTags, othersStateResults, ...grants.map(grantRule)] };
}

const mastersOwnTags: Rule<SignalQuestion> = {
  name: 'masters-own-tags',
  effect: 'deny',
  judge: ({ resource }) =>
    isMastersTag(resource.tag) ? 'the tag is one that only the master fires' : undefined,
};

/** `fire_event` of a state puts the id into the tag. [salt.state State.event] */
const othersStateResults: Rule<SignalQuestion> = {
  name: 'own-state-results',
  effect: 'deny',
  judge: ({ subject, resource }) => {
    const id = stateResult.exec(resource.tag)?.[1];
    return id === undefined || id === subject.id
      ? undefined
      : 'a minion may report results of its own states alone';
  },
};

function grantRule({ name, coversTag, coversMinion }: SignalGrant): Rule<SignalQuestion> {
  return {
    name,
    effect: 'allow',
    judge: ({ subject, resource }) =>
      coversTag(resource.tag) && coversMinion(subject.id)
        ? 'the operator lets this minion emit the tag'
        : undefined,
  };
}
