/** What `salt --summary` prints below the returns [salt cli/salt.py _print_returns_summary]. */
import { escapeName } from './escape.ts';

/** Who did what. */
export interface JobSummaryFacts {
  readonly returned: readonly string[];
  /** Minions that did not return. */
  readonly silent: readonly string[];
  /** Those of `returned` that failed. */
  readonly failed: readonly string[];
}

const rule = '-'.repeat(43);

/** Begins with two empty lines. */
export function formatSummary(facts: JobSummaryFacts, isVerbose: boolean): string {
  const { returned, silent, failed } = facts;
  const names = (title: string, minions: readonly string[]): string[] =>
    isVerbose && minions.length > 0 ? [`${title}: ${minions.map(escapeName).join(' ')}`] : [];
  return [
    '\n',
    rule,
    'Summary',
    rule,
    `# of minions targeted: ${returned.length + silent.length}`,
    `# of minions returned: ${returned.length}`,
    `# of minions that did not return: ${silent.length}`,
    `# of minions with errors: ${failed.length}`,
    ...names('Minions not responding', silent),
    ...names('Minions with failures', failed),
    rule,
  ].join('\n');
}
