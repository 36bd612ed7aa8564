import { createPolicy, hasRules, type RuleAction } from '../../acl/index.ts';
import { rulesOf } from '../config/policy-rules.ts';
import { policySyntax } from '../policy/syntax.ts';
import { serviceOf } from '../reactions/reaction.ts';
import type { Patient } from './patient.ts';
import type { DoctorFinding } from './report.ts';

const actions: readonly RuleAction[] = ['publish', 'runner', 'wheel'];

/** Files of the reactor that no rule permits anything: every run of theirs is denied. */
export async function checkReactions({ config: survey, world }: Patient): Promise<DoctorFinding[]> {
  const { config } = survey;
  const references = new Set(config.reactor.flatMap(({ sls }) => sls));
  if (references.size === 0) return [];
  const nobody = (): boolean => false;
  const policy = createPolicy(rulesOf(config), {
    ...policySyntax,
    // Whom a rule means is another question than whether there is one.
    target: () => ({ isEntitled: nobody, claims: nobody, mayMean: nobody }),
    pillarOf: () => undefined,
    now: world.now,
  });
  return [...references]
    .filter((reference) => !actions.some((it) => hasRules(serviceOf(reference), it, policy)))
    .map((reference) => ({
      code: 'reaction-powerless',
      severity: 'warning',
      subject: reference,
      problem: 'No rule permits this file of the reactor anything, so every run of it is denied.',
      remedy:
        'Give service: reaction:<file> a rule; saltbridge migrate check derives those it can.',
    }));
}
