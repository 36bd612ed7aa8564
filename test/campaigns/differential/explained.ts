/** Differences that docs/compatibility/differential.md explains, by the id of their row. */

import type { Question } from './cases.ts';
import type { Answer } from './ours.ts';

interface Explanation {
  /** Id of the row in docs/compatibility/differential.md. */
  readonly id: string;
  readonly covers: (it: Question, mine: Answer, theirs: Answer) => boolean;
}

const explanations: readonly Explanation[] = [
  // Salt publishes an invalid target, which matches no minion. Here it is rejected.
  {
    id: 'unreadable-target',
    covers: ({ kind }, { error }) => kind === 'target' && error === 'ERR_BAD_TGT',
  },
  // Salt fails to compile a pillar with such a target in its top file. Here the pillar contains an
  // error.
  {
    id: 'unreadable-target',
    covers: ({ kind }, { value }, { error }) =>
      kind === 'pillar' && value?.endsWith(' with errors') === true && error === 'error',
  },
  // Here an invalid target in a top file is an error of the pillar. In Salt it matches no minion.
  {
    id: 'unreadable-target',
    covers: (it, { value }, theirs) =>
      it.kind === 'pillar' &&
      value === `${theirs.value} with errors` &&
      Object.entries(it.files).some(
        ([name, text]) => name.endsWith('top.sls') && text.includes('('),
      ),
  },
  // Salt's packages include timelib, which parses dates in texts. The Salt of the campaign does not
  // have it.
  {
    id: 'timelib',
    covers: (_, __, { message }) => message?.includes('installing timelib') === true,
  },
  // The document consists only of an end marker.
  {
    id: 'yaml-lone-end',
    covers: (it) => it.kind === 'yaml' && /^(?:\s|#.*\n)*\.\.\.\s*$/.test(it.text),
  },
  // YAML 1.1 treats U+0085, U+2028 and U+2029 as line breaks.
  {
    id: 'yaml-line-breaks',
    covers: (it) => 'text' in it && it.kind === 'yaml' && /[\u0085\u2028\u2029]/.test(it.text),
  },
  // A single dash precedes a comma or a bracket.
  {
    id: 'yaml-flow-dash',
    covers: (_, { message }) => message?.startsWith('Block collections are not allowed') === true,
  },
  // An included file that is not a map has no value here. Salt stores its value under the key, in
  // addition to the error.
  {
    id: 'pillar-include-value',
    covers: (it, { value }, theirs) =>
      it.kind === 'pillar' &&
      value?.endsWith(' with errors') === true &&
      theirs.value?.endsWith(' with errors') === true &&
      Object.values(it.files).some((text) => text.includes('key: sub')),
  },
  // The texts contain memory addresses of Python objects.
  {
    id: 'object-address',
    covers: (it, mine, theirs) =>
      withoutAddresses(mine) === withoutAddresses(theirs) ||
      (it.kind === 'template' &&
        /\b(?:map|select|reject|batch|slice|items)\b/.test(it.text) &&
        it.text.includes('| wordcount')),
  },
  { id: 'not-served', covers: (_, { error }) => error === 'ERR_TEMPLATE_UNSUPPORTED' },
];

/** Ids of the explained differences. */
export const explanationIds: readonly string[] = [...new Set(explanations.map(({ id }) => id))];

function withoutAddresses({ value }: Answer): string | undefined {
  return value?.replaceAll(/<[^<>]* at 0x[0-9a-f]+>/g, '<object>');
}

/** Returns the id of the documented reason why the answers differ, if there is one. */
export function explanationOf(it: Question, mine: Answer, theirs: Answer): string | undefined {
  const found = explanations.find(({ covers }) => covers(it, mine, theirs));
  return found === undefined ? undefined : `explained by ${found.id}`;
}
