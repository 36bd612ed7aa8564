/** Differences that docs/compatibility.md explains, by the id of their row. */

import type { Case } from './cases.ts';
import type { Answer } from './ours.ts';

interface Explanation {
  /** Id of the row in docs/compatibility.md. */
  readonly id: string;
  readonly covers: (it: Case, mine: Answer, theirs: Answer) => boolean;
}

const explanations: readonly Explanation[] = [
  { id: 'not-served', covers: (_, { error }) => error === 'ERR_TEMPLATE_UNSUPPORTED' },
];

/** Returns why the answers differ, if the documentation says so. */
export function explanationOf(it: Case, mine: Answer, theirs: Answer): string | undefined {
  const found = explanations.find(({ covers }) => covers(it, mine, theirs));
  return found === undefined ? undefined : `explained by ${found.id}`;
}
