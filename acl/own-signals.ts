/**
 * Signals that an unmodified minion emits about itself under its own id. They are allowed without a
 * policy. All other signals need a rule of the operator.
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

/** Limits on signals. They are checked before all rules. */
export const signalGuards: readonly BuiltInRule<'signal'>[] = [
  {
    name: 'well-formed-tag',
    effect: 'deny',
    judge: ({ resource }) =>
      isMalformed(resource.tag)
        ? `a tag must have 1 to ${maxTagLength} characters and no control characters`
        : undefined,
  },
];

/** Signals that minions may emit without a rule of the operator. */
export const lifecycleSignals: readonly BuiltInRule<'signal'>[] = [
  {
    name: 'own-lifecycle',
    effect: 'allow',
    judge: ({ subject, resource }) =>
      subject.kind === 'minion' &&
      (plainTags.has(resource.tag) || resource.tag === `salt/minion/${subject.id}/start`)
        ? 'a minion may report that it started, is alive, or failed'
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
  // Salt 3008 and later emit this signal with `start_event`.
  ownJobSignal(
    'own-job-start',
    jobStartTag,
    'a minion may report the start of a job that was published to it',
  ),
];

const lifecycleRuleNames: ReadonlySet<string> = new Set(lifecycleSignals.map(({ name }) => name));

/** Whether a built-in rule for lifecycle signals made the decision. */
export function isLifecycleDecision({ rule, origin }: Decision): boolean {
  return origin === undefined && lifecycleRuleNames.has(rule);
}

/**
 * Creates a rule for signals of a minion about its own jobs.
 * @param form - pattern of the tags; its groups are the jid and the id of the minion
 */
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
