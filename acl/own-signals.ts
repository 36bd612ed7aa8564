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
