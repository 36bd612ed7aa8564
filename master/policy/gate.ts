/** What minions ask for meets the policy here: decided, and told to who keeps account of it. */
import {
  type Decision,
  decide,
  hasRules,
  isOwnLifecycle,
  type MinionSubject,
  type Policy,
  type Question,
  type RuleAction,
  textOf,
} from '../../acl/index.ts';
import type { RuledDecisions } from '../audit/ruled-decisions.ts';

/** What a minion asks for that rules are about. */
export type MinionQuestion = Exclude<Question, { action: 'return' }> & {
  readonly subject: MinionSubject;
};

/** What {@link PolicyGate} needs. */
export interface PolicyGateOptions {
  readonly policy: () => Policy;
  readonly ruled: RuledDecisions;
}

/** Asked by every handler of minions' requests. */
export class PolicyGate {
  readonly #options: PolicyGateOptions;

  constructor(options: PolicyGateOptions) {
    this.#options = options;
  }

  /** Whether it is worth to read what a minion wants: some rule may permit it. */
  mayPermit(subject: MinionSubject, action: RuleAction): boolean {
    return hasRules(subject, action, this.#options.policy());
  }

  decide(question: MinionQuestion): Decision {
    const decision = decide(question, this.#options.policy());
    if (!isOwnLifecycle(decision)) this.#tell(question, decision);
    return decision;
  }

  #tell(question: MinionQuestion, decision: Decision): void {
    const { subject, action } = question;
    if (isToldElsewhere(question, decision)) return;
    const asked = { minion: subject.id, action, what: textOf(question) };
    this.#options.ruled.note(asked, decision);
  }
}

/** Jobs and runners are audited where they are run; mines are read all the time. */
function isToldElsewhere({ action }: MinionQuestion, { effect }: Decision): boolean {
  return effect === 'allow' && (action === 'publish' || action === 'runner' || action === 'mine');
}
