/** Differences that docs/compatibility.md explains, by the id of their row. */

import type { Case } from './cases.ts';
import type { Answer } from './ours.ts';

interface Explanation {
  /** Id of the row in docs/compatibility.md. */
  readonly id: string;
  readonly covers: (it: Case, mine: Answer, theirs: Answer) => boolean;
}

const explanations: readonly Explanation[] = [
  // Salt publishes a target that it cannot read to nobody; here it is refused.
  {
    id: 'unreadable-target',
    covers: ({ kind }, { error }) => kind === 'target' && error === 'ERR_BAD_TGT',
  },
  // Salt ends a pillar with such a target in its top file; here it has an error.
  {
    id: 'unreadable-target',
    covers: ({ kind }, { value }, { error }) =>
      kind === 'pillar' && value?.endsWith(' with errors') === true && error === 'error',
  },
  // YAML 1.1 takes U+0085, U+2028 and U+2029 for line breaks.
  {
    id: 'yaml-line-breaks',
    covers: (it) => 'text' in it && it.kind === 'yaml' && /[\u0085\u2028\u2029]/.test(it.text),
  },
  // A lone dash before a comma or a bracket.
  {
    id: 'yaml-flow-dash',
    covers: (_, { message }) => message?.startsWith('Block collections are not allowed') === true,
  },
  // Python's addresses of objects.
  {
    id: 'object-address',
    covers: (_, mine, theirs) => withoutAddresses(mine) === withoutAddresses(theirs),
  },
  { id: 'not-served', covers: (_, { error }) => error === 'ERR_TEMPLATE_UNSUPPORTED' },
];

function withoutAddresses({ value }: Answer): string | undefined {
  return value?.replaceAll(/<[^<>]* at 0x[0-9a-f]+>/g, '<object>');
}

/** Returns why the answers differ, if the documentation says so. */
export function explanationOf(it: Case, mine: Answer, theirs: Answer): string | undefined {
  const found = explanations.find(({ covers }) => covers(it, mine, theirs));
  return found === undefined ? undefined : `explained by ${found.id}`;
}
