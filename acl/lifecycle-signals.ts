/**
 * What an unmodified minion says of itself without being asked, under its own id. It works
 * without any policy; everything else that a minion may emit needs a rule of the operator's.
 */
import type { QuestionOf, Rule } from './types.ts';

type SignalQuestion = QuestionOf<'signal'>;

const plainTags: ReadonlySet<string> = new Set(['minion_start', 'minion_ping', '_salt_error']);
const progressTag = /^salt\/job\/(\d{20})\/prog\/(.+)\/\d{1,10}$/s;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it finds
const forbiddenCharacters = /[\u0000-\u001f\u007f]/;
const maxTagLength = 512;

function isMalformed(tag: string): boolean {
  return tag === '' || tag.length > maxTagLength || forbiddenCharacters.test(tag);
}

export const signalRules: readonly Rule<SignalQuestion>[] = [
  {
    name: 'well-formed-tag',
    effect: 'deny',
    judge: ({ resource }) =>
      isMalformed(resource.tag)
        ? `a tag has 1 to ${maxTagLength} characters and no control characters`
        : undefined,
  },
  {
    name: 'own-lifecycle',
    effect: 'allow',
    judge: ({ subject, resource }) =>
      plainTags.has(resource.tag) || resource.tag === `salt/minion/${subject.id}/start`
        ? 'a minion may say that it started, lives, or failed'
        : undefined,
  },
  {
    name: 'own-beacons',
    effect: 'allow',
    judge: ({ subject, resource }) => {
      const prefix = `salt/beacon/${subject.id}/`;
      return resource.tag.startsWith(prefix) && resource.tag.length > prefix.length
        ? 'a minion may report its own beacons'
        : undefined;
    },
  },
  {
    name: 'own-progress',
    effect: 'allow',
    judge: ({ subject, resource }) => {
      const [, jid, id] = progressTag.exec(resource.tag) ?? [];
      return jid !== undefined && id === subject.id && resource.wasPublishedToSubject(jid)
        ? 'a minion may report the progress of a job that was published to it'
        : undefined;
    },
  },
];
